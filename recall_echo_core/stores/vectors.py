"""What counts as a legal vector, the same for every index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from recall_echo_core.ports import Vectors

__all__ = ["best_first", "checked_query", "checked_rows"]


def checked_rows(
    keys: Sequence[str], vectors: Vectors, dimension: int
) -> tuple[list[str], Vectors]:
    """Give each key once, with its vector at length 1; of a repeated key the last vector stays.

    A vector of zeros stays as it is. Raises `ValueError` when the numbers of keys and vectors
    differ, a vector has another length than `dimension`, or one holds NaN or an infinity.

    >>> keys, rows = checked_rows(["a", "a"], np.array([[1.0, 0.0], [3.0, 4.0]]), 2)
    >>> keys, rows.round(2).tolist()
    (['a'], [[0.6000000238418579, 0.800000011920929]])
    """
    rows = np.asarray(vectors, dtype=np.float64)
    if not len(keys) and not rows.size:
        return [], np.zeros((0, dimension), dtype=np.float32)
    if rows.ndim != 2 or rows.shape[1] != dimension:
        raise ValueError(
            f"vectors of shape {rows.shape} were given to an index of dimension {dimension};"
            f" expected ({len(keys)}, {dimension})"
        )
    if len(rows) != len(keys):
        raise ValueError(f"{len(keys)} keys were given with {len(rows)} vectors")
    if not np.isfinite(rows).all():
        raise ValueError("a vector holds NaN or an infinity")
    last = {key: number for number, key in enumerate(keys)}
    if len(last) < len(keys):
        rows = rows[list(last.values())]
    return list(last), _unit(rows)


def checked_query(vector: Vectors, limit: int, dimension: int) -> Vectors:
    """Give the one vector searched for, at length 1, or raise `ValueError` as `checked_rows`."""
    if limit < 0:
        raise ValueError(f"limit must not be negative, not {limit}")
    row = np.asarray(vector, dtype=np.float64)
    if row.shape != (dimension,):
        raise ValueError(
            f"a query of shape {row.shape} was given to an index of dimension {dimension};"
            f" expected ({dimension},)"
        )
    if not np.isfinite(row).all():
        raise ValueError("the query vector holds NaN or an infinity")
    return _unit(row[np.newaxis]).reshape(dimension)


def best_first(found: Sequence[tuple[str, float]], limit: int) -> list[tuple[str, float]]:
    """Sort (key, similarity) pairs by falling similarity, then key, and keep `limit` of them.

    >>> best_first([("b", 0.5), ("c", 0.9), ("a", 0.5)], 2)
    [('c', 0.9), ('a', 0.5)]
    """
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:limit]


def _unit(rows: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Vectors:
    # Scaled by the largest component first, or the squares of huge and tiny numbers are lost.
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    scaled = rows / np.where(largest > 0, largest, 1.0)
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    return (scaled / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
