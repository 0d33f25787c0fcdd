"""Has a streamed answer ended, and its run as well?

A call that streams returns at once, and its answer is written down by another thread or task,
which may begin and end before or after. The run has ended when both have.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Ended", "Streams"]


@dataclass
class Ended:
    """How a stream ended: what the call had returned, the text in all, the error if any."""

    result: Any = None
    text: str = ""
    error: BaseException | None = None


@dataclass
class _Stream(Ended):
    returned: bool = False
    written: bool = False
    writers: set[str] = field(default_factory=set)

    @property
    def over(self) -> bool:
        return self.returned and self.written and not self.writers


class Streams:
    """The streams of runs that are going on. Safe from any thread.

    Args:
        most: Runs kept; the oldest is let go, as one that never ends.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._of: OrderedDict[str, _Stream] = OrderedDict()

    def __len__(self) -> int:
        with self._lock:
            return len(self._of)

    def opened(self, run: str, writer: str) -> None:
        """Take note that somebody writes an answer down."""
        with self._lock:
            self._stream(run).writers.add(writer)

    def ended(self, run: str, writer: str, text: str, error: BaseException | None) -> Ended | None:
        """Take note that it is written; return how, if the run has returned as well."""
        with self._lock:
            stream = self._stream(run)
            stream.writers.discard(writer)
            stream.written, stream.text = True, text
            stream.error = stream.error or error
            return self._over(run, stream)

    def returned(self, run: str, result: Any) -> Ended | None:
        """Take note that the call has returned; return how it ended, if it is written as well."""
        with self._lock:
            stream = self._stream(run)
            stream.returned, stream.result = True, result
            return self._over(run, stream)

    def forget(self, run: str) -> None:
        """Drop what is known of a run's streams."""
        with self._lock:
            self._of.pop(run, None)

    def _stream(self, run: str) -> _Stream:
        stream = self._of.setdefault(run, _Stream())
        while len(self._of) > self._most:
            self._of.popitem(last=False)
        return stream

    def _over(self, run: str, stream: _Stream) -> Ended | None:
        if not stream.over:
            return None
        self._of.pop(run, None)
        return stream
