"""Search without approximation: every vector is compared, in memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from recall_echo_core.ports import VectorIndex
from recall_echo_core.stores.vectors import best_first, checked_query, checked_rows

if TYPE_CHECKING:
    from recall_echo_core.ports import Vectors

__all__ = ["ExactIndex"]

_SLACK = 1e-5  # more than two float32 products of the same unit vectors can differ by
_CHUNK = 8192  # rows compared again in float64 at a time, to bound the memory


class ExactIndex(VectorIndex):
    """An index that answers exactly, and forgets everything when the process ends.

    Raising `dimension` makes each search and each vector cost proportionally more.

    >>> index = ExactIndex(2)
    >>> index.upsert(["east", "north"], np.array([[1, 0], [0, 2]], dtype=np.float32))
    >>> index.search(np.array([3, 0], dtype=np.float32), 1)
    [('east', 1.0)]
    """

    def __init__(self, dimension: int) -> None:
        if dimension < 1:
            raise ValueError(f"dimension must be at least 1, not {dimension}")
        self._dimension = dimension
        self._lock = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self._position = 0
        self._keys: list[str] = []
        self._places: dict[str, int] = {}
        self._rows: Vectors = np.zeros((0, self._dimension), dtype=np.float32)

    @property
    def position(self) -> int:
        """The log position up to which this index holds everything; 0 when new."""
        return self._position

    def advance(self, position: int) -> None:
        """Record that everything up to `position` is held."""
        if position < 0:
            raise ValueError(f"position must not be negative, not {position}")
        with self._lock:
            self._position = position

    def upsert(self, keys: Sequence[str], vectors: Vectors) -> None:
        """Add vectors, replacing those of keys already held."""
        unique, rows = checked_rows(keys, vectors, self._dimension)
        with self._lock:
            for key in unique:
                if key not in self._places:
                    self._places[key] = len(self._keys)
                    self._keys.append(key)
            self._grow(len(self._keys))
            self._rows[[self._places[key] for key in unique]] = rows

    def delete(self, keys: Sequence[str]) -> None:
        """Remove keys; keys that are not held are ignored."""
        with self._lock:
            for key in keys:
                place = self._places.pop(key, None)
                if place is None:
                    continue
                last = self._keys.pop()
                if last != key:  # the last row moves into the hole
                    self._keys[place], self._places[last] = last, place
                    self._rows[place] = self._rows[len(self._keys)]

    def search(self, vector: Vectors, limit: int) -> list[tuple[str, float]]:
        """At most `limit` (key, cosine similarity) pairs, best first, ties by key.

        Raising `limit` costs little until it nears the number of vectors held.
        """
        query = checked_query(vector, limit, self._dimension)
        with self._lock:
            held = self._rows[: len(self._keys)]
            if not limit or not len(held):
                return []
            places = _candidates(held @ query, limit)
            keys = [self._keys[place] for place in places]
            similarities = _similarities(held, places, query)
        return best_first(list(zip(keys, similarities, strict=True)), limit)

    def count(self) -> int:
        """How many vectors are held."""
        return len(self._keys)

    def keys(self) -> list[str]:
        """Every key held, sorted."""
        with self._lock:
            return sorted(self._keys)

    def clear(self) -> None:
        """Drop every vector and go back to position 0."""
        with self._lock:
            self._reset()

    def _grow(self, needed: int) -> None:
        if needed > len(self._rows):
            room = np.zeros((max(needed, 2 * len(self._rows), 64), self._dimension), np.float32)
            room[: len(self._rows)] = self._rows
            self._rows = room


def _candidates(scores: Vectors, limit: int) -> list[int]:
    """Places that may be among the `limit` best once ties are looked at closely."""
    if limit >= len(scores):
        return list(range(len(scores)))
    cut = len(scores) - limit
    worst = np.partition(scores, cut)[cut]
    return np.flatnonzero(scores >= worst - _SLACK).tolist()


def _similarities(rows: Vectors, places: list[int], query: Vectors) -> list[float]:
    """Cosines in float64, summed row by row: equal rows get equal numbers.

    A matrix product does not promise that: it sums rows differently by their place in memory.
    """
    found: list[float] = []
    for start in range(0, len(places), _CHUNK):
        chunk = rows[places[start : start + _CHUNK]].astype(np.float64)
        found += np.clip((chunk * query).sum(axis=1), -1.0, 1.0).tolist()
    return found
