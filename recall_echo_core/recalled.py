"""What does a recall give back?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from recall_echo_core.model import Entity, Episode, Path, Relation
from recall_echo_core.render import fenced, line
from recall_echo_core.texts import Kind
from recall_echo_core.usage import UsageMethod

__all__ = ["Hit", "Recall", "UsageReceipt"]


class Hit(msgspec.Struct, frozen=True):
    """One memory found.

    Attributes:
        kind: entity, relation or episode.
        id: Full id, the same in every process.
        alias: Short mark, unique in its recall: `M1`, `M2`, ...
        text: What was found, as text.
        score: What it was ranked by.
        parts: What the score was made of, before weights.
        confidence: Effective confidence of a relation, or of the path to a reached entity.
        path: How an entity was reached through the graph, if it was not found by its own text.
        item: The entity, relation or episode itself.
    """

    kind: Kind
    id: str
    alias: str
    text: str
    score: float
    parts: Mapping[str, float]
    confidence: float | None
    path: Path | None
    item: Entity | Relation | Episode


class Recall(msgspec.Struct, frozen=True):
    """A question answered: the hits, best first, and the receipt's id.

    Attributes:
        id: What `mark_used` and `feedback` take; `None` when no access was recorded.
        hits: Best first.
        now: The moment it was answered at.
    """

    id: str | None
    hits: tuple[Hit, ...]
    now: datetime

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __str__(self) -> str:
        return self.as_text() or "nothing found"

    def as_text(self) -> str:
        """Return the hits as fenced lines for a prompt; empty when nothing was found."""
        return fenced(
            line(
                hit.alias,
                hit.item,
                confidence=hit.confidence,
                via=hit.path.relations if hit.path else (),
            )
            for hit in self.hits
        )


class UsageReceipt(msgspec.Struct, frozen=True):
    """Which hits of a recall were used, by id, and how that was decided."""

    recall_id: str
    used: tuple[str, ...]
    method: UsageMethod
