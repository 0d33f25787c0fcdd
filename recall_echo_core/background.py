"""What is done behind the turn, so that no caller waits for it?"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

__all__ = ["Background"]

log = logging.getLogger(__name__)


class Background:
    """One thread that does one job of each key, in the order the keys were given.

    A job that fails is logged and dropped: everything done here is also done, and its error
    raised, by the next call that needs it.
    """

    def __init__(self, *, active: bool = True) -> None:
        self._active = active
        self._jobs: OrderedDict[Hashable, Callable[[], None]] = OrderedDict()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopping = False

    def submit(self, key: Hashable, job: Callable[[], None]) -> None:
        """Have a job done soon, unless one of its key waits already."""
        if not self._active:
            return
        with self._changed:
            if self._stopping:
                return
            self._jobs.setdefault(key, job)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="recall-echo-background", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    @property
    def stopping(self) -> bool:
        """Whether the job in hand should come to an end."""
        return self._stopping

    def stop(self) -> None:
        """Wait for the job in hand, drop the others, and end the thread."""
        with self._changed:
            self._stopping = True
            self._jobs.clear()
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._jobs and not self._stopping:
                    self._changed.wait()
                if self._stopping:
                    return
                _, job = self._jobs.popitem(last=False)
            try:
                job()
            except Exception:
                log.exception("work behind the turn failed; the next call that needs it retries")
