"""What does a recall give back?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from recall_echo_core.model import Entity, Episode, Path, Relation
from recall_echo_core.render import (
    CountTokens,
    approximate_tokens,
    fenced,
    fitting,
    line,
    neutralised,
    note,
)
from recall_echo_core.texts import Kind
from recall_echo_core.usage import UsageMethod
from recall_echo_core.words import shortened

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
        room: Most characters of its line, if there was no room for all of it.
        unsure: Whether a relation is believed too little to be told as a fact; its line says so.
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
    room: int | None = None
    unsure: bool = False

    @property
    def quoted(self) -> str:
        """The text on one line, in which nothing can close a fence or pose as a citation."""
        return neutralised(self.text)

    @property
    def note(self) -> str:
        """How far it is believed and from whom it is, for a reader; empty if there is nothing."""
        return note(self.item, confidence=self.confidence, unsure=self.unsure, via=self._via)

    @property
    def line(self) -> str:
        """Mark, text and note on one line, as they stand in a prompt."""
        whole = line(
            self.alias, self.item, confidence=self.confidence, unsure=self.unsure, via=self._via
        )
        return whole if self.room is None else shortened(whole, self.room)

    @property
    def _via(self) -> tuple[Relation, ...]:
        return self.path.relations if self.path else ()


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

    def as_text(
        self, max_tokens: int | None = None, *, count_tokens: CountTokens = approximate_tokens
    ) -> str:
        """Return the hits as fenced lines for a prompt; empty when nothing was found.

        Args:
            max_tokens: Most tokens of the whole; raising it keeps more of the last lines. Give
                it to `recall` too, so that the receipt holds what was shown and nothing else.
            count_tokens: How many tokens a text has; by default about one for three bytes.
        """
        lines = [hit.line for hit in self.hits]
        if max_tokens is not None:
            lines = fitting(lines, max_tokens, count_tokens)
        return fenced(lines)

    def within(
        self, max_tokens: int, *, count_tokens: CountTokens = approximate_tokens
    ) -> tuple[Hit, ...]:
        """Return the hits that `as_text` shows under the same limit, as it shows them."""
        whole = [hit.line for hit in self.hits]
        lines = fitting(whole, max_tokens, count_tokens)
        return tuple(
            hit if shown == full else msgspec.structs.replace(hit, room=len(shown))
            for hit, shown, full in zip(self.hits, lines, whole, strict=False)
        )


class UsageReceipt(msgspec.Struct, frozen=True):
    """Which hits of a recall were used, and what the answer made of them.

    Attributes:
        recall_id: Of the recall.
        used: Ids, in the order shown.
        method: How that was decided: ids, citations, overlap or unknown.
        echo: Whether the answer says little that the question and the hits do not: it would be
            remembered for having been remembered.
    """

    recall_id: str
    used: tuple[str, ...]
    method: UsageMethod
    echo: bool = False
