"""What was recalled and is not yet in the log?

Receipts are written behind the turn: they wait here until something makes them durable. What the
question said is kept in memory only, for as long as the answer may still have to be told from it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from recall_echo_core.events import RecallServed
from recall_echo_core.picture import Activity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recall_echo_core.events import Stored

__all__ = ["Receipts"]

QUESTIONS_KEPT: Final = 1_000


class Receipts:
    """The waiting receipts of one namespace. Safe from any thread."""

    def __init__(self) -> None:
        self.saving = threading.Lock()  # held while waiting receipts go to the log
        self._lock = threading.Lock()
        self._waiting: dict[bytes, RecallServed] = {}
        self._questions: OrderedDict[bytes, frozenset[str]] = OrderedDict()

    def add(self, served: RecallServed, question: frozenset[str]) -> None:
        """Let a receipt wait, and remember the content words of its question."""
        with self._lock:
            self._waiting[served.id] = served
            self._questions[served.id] = question
            while len(self._questions) > QUESTIONS_KEPT:
                self._questions.popitem(last=False)

    def question(self, recall: bytes) -> frozenset[str] | None:
        """Return the content words of a question asked lately in this process."""
        with self._lock:
            return self._questions.get(recall)

    def waiting(self) -> list[RecallServed]:
        """Return the receipts that are not in the log yet, oldest first."""
        with self._lock:
            return list(self._waiting.values())

    def settle(self, stored: Sequence[Stored]) -> None:
        """Let go of the receipts among events that are in the graph now."""
        with self._lock:
            for item in stored:
                if isinstance(item.event, RecallServed):
                    self._waiting.pop(item.event.id, None)

    def thin_out(self, known: Callable[[bytes], bool]) -> None:
        """Drop the hits that are not known any more, since they were forgotten.

        Questions go, too: some may name what was.
        """
        with self._lock:
            self._questions.clear()
            for id, receipt in self._waiting.items():
                self._waiting[id] = receipt.without(lambda item: not known(item))

    def clear(self) -> None:
        """Let go of everything, since some of it may be about what was forgotten."""
        with self._lock:
            self._waiting.clear()
            self._questions.clear()

    def accesses(self) -> dict[bytes, Activity]:
        """Return the accesses of each item that are not in the graph yet."""
        found: dict[bytes, Activity] = {}
        for receipt in self.waiting():
            for item in receipt.items():
                activity = found.setdefault(item, Activity())
                activity.accesses += 1
                activity.at = receipt.at if activity.at is None else max(activity.at, receipt.at)
        return found
