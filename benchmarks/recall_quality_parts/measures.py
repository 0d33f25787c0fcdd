"""How good is a ranking, and how sure are we? Recall and nDCG, with bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

DEPTH = 10
RESAMPLES = 2_000
SEED = 0


def recall(found: Sequence[str], gold: Collection[str], k: int) -> float:
    """Return the share of gold among the first `k`.

    >>> recall(["a", "b", "c"], {"a", "c"}, 2)
    0.5
    """
    return len(set(found[:k]) & set(gold)) / len(gold)


def ndcg(found: Sequence[str], gold: Collection[str], k: int = DEPTH) -> float:
    """Return the discounted gain of gold among the first `k`, beside the best order.

    >>> ndcg(["a", "b"], {"a"}), round(ndcg(["b", "a"], {"a"}), 3)
    (1.0, 0.631)
    """
    gain = sum(1 / math.log2(place + 2) for place, id in enumerate(found[:k]) if id in gold)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(k, len(gold))))


@dataclass(frozen=True, slots=True)
class Measured:
    """Means over questions in %: recall@5, recall@10, nDCG@10, with 95 % intervals."""

    count: int
    means: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def __str__(self) -> str:
        return " / ".join(f"{mean:.1f}" for mean in self.means)

    @property
    def intervals(self) -> str:
        """All three, as `mean [low, high]`."""
        every = zip(self.means, self.low, self.high, strict=True)
        return "  ".join(f"{mean:.1f} [{low:.1f}, {high:.1f}]" for mean, low, high in every)


def scores(found: Sequence[str], gold: Collection[str]) -> tuple[float, float, float]:
    return recall(found, gold, 5), recall(found, gold, 10), ndcg(found, gold)


def measured(each: Sequence[tuple[float, ...]]) -> Measured:
    """Return the means over questions; intervals are of resampled questions, seed fixed."""
    table: np.ndarray[Any, Any] = 100.0 * np.asarray(each)
    picks = np.random.default_rng(SEED).integers(len(table), size=(RESAMPLES, len(table)))
    low, high = np.percentile(table[picks].mean(axis=1), [2.5, 97.5], axis=0)
    return Measured(len(table), *(tuple(row.tolist()) for row in (table.mean(axis=0), low, high)))
