"""Which memories does an outcome credit?

A receipt says what was shown, a usage mark which of it was used; a verdict resolves to both lists
before it is logged, so that folding it needs nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from recall_echo_core.errors import NotAllowed, UnknownRecall
from recall_echo_core.events import FeedbackGiven, RecallServed, Stored, UsageMarked
from recall_echo_core.times import DAY

__all__ = ["Receipt", "receipt_of"]


class Receipt(msgspec.Struct, frozen=True):
    """What the log says about one recall."""

    served: RecallServed
    usage: UsageMarked | None
    verdicts: tuple[tuple[int, FeedbackGiven], ...]

    def marked(self, used: Sequence[bytes], method: str) -> list[UsageMarked]:
        """Return the event of a usage mark; none if it says what is known already.

        Raises:
            NotAllowed: a verdict has been given, and was resolved with the usage known then.
        """
        shown = set(self.served.items())
        mark = UsageMarked(self.served.id, [item for item in used if item in shown], method)
        if mark == self.usage:
            return []
        if self.verdicts:
            raise NotAllowed(
                f"Recall {self.served.id.hex()!r} has feedback already; mark_used() comes before"
                " feedback()."
            )
        return [mark]

    def judged(self, reward: float, source: str) -> list[FeedbackGiven]:
        """Return the event of a verdict; none if the source has said the same already."""
        shown = self.served.items()
        unknown = self.usage is None or self.usage.method == "unknown"
        used = shown if unknown or self.usage is None else self.usage.used
        unused = [item for item in shown if item not in used]
        own = [(position, event) for position, event in self.verdicts if event.source == source]
        if own and own[-1][1].reward == reward:
            return []
        replaces = own[-1][0] if own else None
        return [FeedbackGiven(self.served.id, source, reward, list(used), unused, replaces)]


def receipt_of(recall: bytes, about: Iterable[Stored], now: int, days: float) -> Receipt:
    """Return the receipt of a recall from the events about it.

    Raises:
        UnknownRecall: there is none, or it is older than `days`.
    """
    events = list(about)
    served = [stored for stored in events if isinstance(stored.event, RecallServed)]
    if not served:
        raise UnknownRecall(recall.hex())
    first = served[0]
    assert isinstance(first.event, RecallServed)
    if now - first.recorded_at > days * DAY:
        raise UnknownRecall(recall.hex(), f"its receipt expired after {days:g} days")
    marks = [stored.event for stored in events if isinstance(stored.event, UsageMarked)]
    verdicts = tuple(
        (stored.position, stored.event)
        for stored in events
        if isinstance(stored.event, FeedbackGiven)
    )
    return Receipt(first.event, marks[-1] if marks else None, verdicts)
