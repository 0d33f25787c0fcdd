"""Every vector index keeps the promises of the port."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_echo_core.stores.chroma import ChromaFolder
from recall_echo_core.stores.exact import ExactIndex
from recall_echo_core.testing import INDEX_DIMENSION, check_vector_index

if TYPE_CHECKING:
    from pathlib import Path

    from recall_echo_core.ports import VectorIndex


def test_the_exact_index_keeps_the_contract() -> None:
    """The twin in memory passes every check."""
    check_vector_index(lambda: ExactIndex(INDEX_DIMENSION))


@pytest.mark.parametrize("exact_up_to", [0, 3, 4_096])
def test_a_chroma_index_keeps_the_contract(tmp_path: Path, exact_up_to: int) -> None:
    """Each kind in one Chroma folder is an index of its own that passes every check.

    Whether Chroma's graph is searched, or what it holds is compared in memory.
    """
    folder = ChromaFolder(
        tmp_path / "vectors", INDEX_DIMENSION, identity="log 1", exact_up_to=exact_up_to
    )
    kinds = (f"kind{number}" for number in range(100))

    check_vector_index(lambda: folder.index(next(kinds)))
    folder.close()


def test_a_broken_index_is_caught() -> None:
    """An index that orders ties by arrival fails the suite."""

    class ByArrival(ExactIndex):
        def search(self, vector: np.ndarray, limit: int) -> list[tuple[str, float]]:
            return sorted(super().search(vector, 10**6), key=lambda pair: -pair[1])[::-1][:limit]

    with pytest.raises(AssertionError):
        check_vector_index(lambda: ByArrival(INDEX_DIMENSION))


@pytest.mark.parametrize("dimension", [0, -1])
def test_a_dimension_is_at_least_1(dimension: int, tmp_path: Path) -> None:
    """No index has vectors without numbers."""
    with pytest.raises(ValueError, match="dimension"):
        ExactIndex(dimension)
    with pytest.raises(ValueError, match="dimension"):
        ChromaFolder(tmp_path, dimension, identity="log 1")


def test_a_wrong_length_names_both_numbers() -> None:
    """The message says what came and what was expected."""
    index = ExactIndex(4)

    with pytest.raises(ValueError, match=r"\(2, 3\).*dimension 4"):
        index.upsert(["a", "b"], np.ones((2, 3), dtype=np.float32))


def test_arguments_below_zero_are_refused(tmp_path: Path) -> None:
    """Neither a position nor a limit is ever negative."""
    folder = ChromaFolder(tmp_path / "vectors", 2, identity="log 1")
    indexes: list[VectorIndex] = [ExactIndex(2), folder.index("entity")]
    for index in indexes:
        with pytest.raises(ValueError, match="position"):
            index.advance(-1)
        with pytest.raises(ValueError, match="limit"):
            index.search(np.ones(2, dtype=np.float32), -1)
    folder.close()


def test_the_exact_index_can_be_cleared() -> None:
    """After `clear` nothing is held and nothing has been followed."""
    index = ExactIndex(2)
    index.upsert(["b", "a"], np.eye(2, dtype=np.float32))
    index.advance(3)
    assert index.keys() == ["a", "b"]

    index.clear()
    assert (index.keys(), index.count(), index.position) == ([], 0, 0)


@given(st.data())
def test_the_exact_index_agrees_with_a_dictionary(data: st.DataObject) -> None:
    """After any additions, replacements and removals, a search equals sorting what is left."""
    index, held = ExactIndex(3), dict[str, np.ndarray]()
    keys = st.lists(st.sampled_from("abcdefgh"), max_size=8)
    for batch in data.draw(st.lists(st.tuples(st.booleans(), keys), max_size=8)):
        adding, names = batch
        if adding:
            rows = np.array([data.draw(_rows) for _ in names], dtype=np.float32).reshape(-1, 3)
            index.upsert(names, rows)
            held |= dict(zip(names, rows, strict=True))
        else:
            index.delete(names)
            held = {key: row for key, row in held.items() if key not in names}
    assert index.keys() == sorted(held)

    query = np.array([1, 1, 0], dtype=np.float32)
    found = index.search(query, 4)
    assert len(found) == min(4, len(held))
    expected = {key: _cosine(row, query) for key, row in held.items()}
    assert all(abs(value - expected[key]) < 1e-6 for key, value in found)
    missed = [value for key, value in expected.items() if key not in dict(found)]
    assert not missed or max(missed) <= found[-1][1] + 1e-6
    assert found == sorted(found, key=lambda pair: (-pair[1], pair[0]))


_rows = st.lists(st.integers(-2, 2), min_size=3, max_size=3)


def _cosine(row: np.ndarray, query: np.ndarray) -> float:
    length = float(np.linalg.norm(row) * np.linalg.norm(query))
    return float(row @ query) / length if length else 0.0


@pytest.mark.parametrize("scale", [1e-38, 1e-20, 1e20, 3e38])
def test_huge_and_tiny_vectors_keep_their_direction(scale: float) -> None:
    """No length that float32 can hold is lost to rounding."""
    index = ExactIndex(2)
    index.upsert(["a"], np.array([[scale, scale]], dtype=np.float32))

    assert abs(index.search(np.array([scale, 0], dtype=np.float32), 1)[0][1] - 0.5**0.5) < 1e-6
