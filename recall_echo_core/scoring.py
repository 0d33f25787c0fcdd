"""How one candidate is weighed: relevance, hotness and utility, kept apart in the result."""

from __future__ import annotations

import math
from typing import Final

import msgspec

__all__ = ["HOTNESS_HALF_LIFE_DAYS", "Score", "Weights", "hotness", "reached", "weighed"]

HOTNESS_HALF_LIFE_DAYS: Final = 7.0


class Weights(msgspec.Struct, frozen=True):
    """How much each signal counts; raising one lets it reorder hits the others would not.

    Raises:
        ValueError: a weight is negative or not finite, or all are 0.
    """

    semantic: float = 0.45
    hotness: float = 0.30
    utility: float = 0.25

    def __post_init__(self) -> None:
        values = (self.semantic, self.hotness, self.utility)
        if not all(0.0 <= value < math.inf for value in values) or sum(values) == 0.0:
            raise ValueError(f"weights must be finite, at least 0, and not all 0: {values}")


class Score(msgspec.Struct, frozen=True, gc=False):
    """A number to rank by, and what it was made of, each before its weight.

    Of a candidate found by its text: relevance and what that was made of, hotness, utility, and
    confidence where it scaled the sum. Of one reached through the graph: parent (the score it
    started from) and confidence (of the path).
    """

    value: float
    relevance: float | None = None
    similarity: float | None = None
    words: float | None = None
    hotness: float | None = None
    utility: float | None = None
    parent: float | None = None
    confidence: float | None = None

    @property
    def parts(self) -> dict[str, float]:
        """What the value was made of, by name."""
        parts = msgspec.structs.asdict(self)
        del parts["value"]
        return {name: part for name, part in parts.items() if part is not None}


def hotness(accesses: int, days: float) -> float:
    """Return how recently and how often a memory was active, in [0, 1).

    `sigmoid(ln(1 + accesses))`, halved every 7 days since the last activity. More accesses raise
    it with falling returns; an activity in the future counts as now.

    >>> hotness(0, days=0), hotness(1, days=0), hotness(0, days=7)
    (0.5, 0.6666666666666666, 0.25)
    """
    level = (1.0 + accesses) / (2.0 + accesses)  # sigmoid(ln(1 + n)), simplified
    return level * math.exp2(-max(0.0, days) / HOTNESS_HALF_LIFE_DAYS)


def weighed(
    relevance: float,
    heat: float,
    utility: float,
    weights: Weights,
    confidence: float | None = None,
    *,
    similarity: float | None = None,
    words: float | None = None,
) -> Score:
    """Return the score of a candidate found by its text.

    Args:
        relevance: How well it matches the question, in [0, 1]; below 0 counts as 0.
        heat: `hotness` of the candidate.
        utility: Its utility, in [0, 1].
        weights: How much each of the three counts.
        confidence: Effective confidence of a relation; scales the whole sum.
        similarity: Part of the relevance, to be shown: by meaning.
        words: The same, by words.

    >>> weighed(0.8, 0.5, 0.5, Weights()).value
    0.635
    """
    relevance = max(0.0, relevance)
    value = weights.semantic * relevance + weights.hotness * heat + weights.utility * utility
    if confidence is not None:
        value *= confidence
    return Score(value, relevance, similarity, words, heat, utility, confidence=confidence)


def reached(parent: float, confidence: float) -> Score:
    """Return the score of a candidate reached through the graph: parent times path confidence.

    >>> [round(reached(*hop).value, 3) for hop in [(0.84, 0.9), (0.84, 0.6), (0.71, 0.4)]]
    [0.756, 0.504, 0.284]
    """
    return Score(parent * confidence, parent=parent, confidence=confidence)
