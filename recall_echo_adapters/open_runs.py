"""Which runs are going on, and what has happened in them so far?

Frameworks tell of runs and steps by id and parent. Recalls and errors of any step count for the
outermost run. Everything about a run is dropped at its end, and the number of open runs is
bounded, so that runs which never end cannot fill the memory.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from recall_echo_adapters.verdicts import Recalled, Run

__all__ = ["OpenRuns"]


STEPS: Final = 4  # of runs that were let go, remembered for each that may be open


@dataclass
class _Open:
    steps: set[str] = field(default_factory=set)
    recalls: dict[Recalled, bool] = field(default_factory=dict)  # whether its turn was closed
    tool_errors: list[str] = field(default_factory=list)
    neutral: bool = False


class OpenRuns:
    """The bookkeeping of one handler. Safe from any thread.

    Args:
        most: Open runs kept; when there are more, the oldest is let go without a verdict.
    """

    def __init__(self, most: int = 4_096) -> None:
        if most < 1:
            raise ValueError(f"at least one open run has to be kept, not {most!r}")
        self.most = most
        self._lock = threading.Lock()
        self._roots: dict[str, str] = {}  # step -> outermost run
        self._lost: OrderedDict[str, None] = OrderedDict()  # steps of runs that were let go
        self._open: OrderedDict[str, _Open] = OrderedDict()

    def __len__(self) -> int:
        with self._lock:
            return len(self._open)

    def start(self, step: str, parent: str | None) -> None:
        """Take note of a step; one whose parent is not known is an outermost run."""
        with self._lock:
            if parent in self._lost:
                self._lose([step])
                return
            root = self._roots.get(parent, step) if parent is not None else step
            self._roots[step] = root
            self._open.setdefault(root, _Open()).steps.add(step)
            while len(self._open) > self.most:
                _, lost = self._open.popitem(last=False)
                self._drop(lost)
                self._lose(lost.steps)

    def root_of(self, step: str) -> str | None:
        """Return the outermost run of a step; `None` if it is not going on."""
        with self._lock:
            return self._roots.get(step)

    def recalled(self, step: str, receipt: Recalled, *, closed: bool = True) -> None:
        """Take note of a recall; each counts once.

        Args:
            step: In which it was made.
            receipt: Its receipt.
            closed: Whether its turn has come to an end.
        """

        def note(run: _Open) -> None:
            run.recalls[receipt] = closed or run.recalls.get(receipt, False)

        self._note(step, note)

    def tool_failed(self, step: str, error: str) -> None:
        """Take note of an error of a tool."""
        self._note(step, lambda run: run.tool_errors.append(error))

    def neutral(self, step: str) -> None:
        """Take note that the run was paused, cancelled or abandoned."""

        def mark(run: _Open) -> None:
            run.neutral = True

        self._note(step, mark)

    def end(
        self,
        step: str,
        *,
        outputs: Any = None,
        text: str = "",
        error: BaseException | None = None,
        stopped: bool = False,
        answered: bool = True,
    ) -> Run | None:
        """Drop a step; return the run if it was an outermost one.

        Args:
            step: Its id.
            outputs: What it returned.
            text: The same as text.
            error: What it failed with.
            stopped: Whether it was paused, cancelled or abandoned; of an inner step that says
                nothing about the run.
            answered: Whether it came to an answer; at a breakpoint it has not, and turns that were
                not closed are not judged.
        """
        with self._lock:
            root = self._roots.pop(step, None)
            found = None if root is None else self._open.get(root)
            if found is None or root != step:
                if found is not None:
                    found.steps.discard(step)
                return None
            del self._open[step]
            self._drop(found)
        judged = answered or error is not None
        recalls = [one for one, closed in found.recalls.items() if closed or judged]
        open_turn = bool(found.recalls) and not recalls
        return Run(
            step,
            outputs,
            text,
            error,
            tuple(found.tool_errors),
            tuple(recalls),
            found.neutral or stopped or open_turn,
        )

    def _note(self, step: str, change: Callable[[_Open], object]) -> None:
        with self._lock:
            root = self._roots.get(step)
            found = None if root is None else self._open.get(root)
            if found is not None:
                change(found)

    def _lose(self, steps: Iterable[str]) -> None:
        """Remember steps of a run that was let go, lest what follows be taken for a run."""
        self._lost.update(dict.fromkeys(steps))
        while len(self._lost) > STEPS * self.most:
            self._lost.popitem(last=False)

    def _drop(self, run: _Open) -> None:
        for step in run.steps:
            self._roots.pop(step, None)
