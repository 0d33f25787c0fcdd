"""What an implementation of a port must do, as checks that anyone can run on their own.

```python
from recall_echo_core.testing import check_vector_index

def test_my_index():
    check_vector_index(lambda: MyIndex(dimension=8))
```

Each check is one small function that fails with an `AssertionError`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from recall_echo_core.ports import Embedder, VectorIndex

if TYPE_CHECKING:
    from collections.abc import Callable

    from recall_echo_core.ports import Vectors

__all__ = ["INDEX_DIMENSION", "check_embedder", "check_vector_index"]

INDEX_DIMENSION = 8
"""The dimension of the indexes that `check_vector_index` asks for."""

_NEAR = 1e-5  # how far two similarities of the same vectors may be apart
_CORNERS = np.eye(INDEX_DIMENSION, dtype=np.float32)


def check_vector_index(make: Callable[[], VectorIndex]) -> None:
    """Check that `make()` gives empty indexes of dimension 8 that keep the port's promises."""
    for check in (
        _is_a_vector_index,
        _starts_empty_at_position_0,
        _remembers_the_position,
        _finds_the_nearest_first,
        _measures_the_angle_only,
        _orders_ties_by_key,
        _replaces_what_it_holds,
        _keeps_the_last_of_a_repeated_key,
        _deletes_and_ignores_unknown_keys,
        _takes_any_limit,
        _takes_empty_batches,
        _takes_vectors_of_zeros,
        _takes_a_large_batch,
        _refuses_bad_vectors_whole,
        _works_from_many_threads,
    ):
        check(make())


def check_embedder(make: Callable[[], Embedder]) -> None:
    """Check that `make()` gives embedders that keep the port's promises."""
    for check in (
        _is_an_embedder,
        _gives_one_row_per_text,
        _gives_no_rows_for_no_texts,
        _gives_the_same_vector_in_any_batch,
        _gives_the_same_vector_in_any_thread,
        _takes_any_text,
        _counts_tokens,
    ):
        check(make())


def _vectors(count: int, dimension: int = INDEX_DIMENSION) -> Vectors:
    return np.random.default_rng(1).normal(size=(count, dimension)).astype(np.float32)


def _is_a_vector_index(index: VectorIndex) -> None:
    """It has the methods of the port."""
    assert isinstance(index, VectorIndex)


def _starts_empty_at_position_0(index: VectorIndex) -> None:
    """A new index holds nothing and has followed nothing."""
    assert (index.position, index.count(), index.search(_CORNERS[0], 5)) == (0, 0, [])


def _remembers_the_position(index: VectorIndex) -> None:
    """The position is the last one recorded, whatever is written afterwards."""
    index.advance(7)
    index.upsert(["a"], _CORNERS[:1])
    index.advance(9)
    index.delete(["a"])
    assert index.position == 9


def _finds_the_nearest_first(index: VectorIndex) -> None:
    """Pairs come by falling cosine similarity, as numbers in [-1, 1]."""
    rows = _vectors(50)
    index.upsert([f"k{number:02}" for number in range(50)], rows)
    found = index.search(rows[3], 50)
    lengths = np.linalg.norm(rows, axis=1)
    expected = rows @ rows[3] / (lengths * lengths[3])
    assert [key for key, _ in found] == [f"k{n:02}" for n in np.argsort(-expected)]
    assert np.allclose([value for _, value in found], np.sort(expected)[::-1], atol=_NEAR)
    assert all(-1 <= value <= 1 for _, value in found)


def _measures_the_angle_only(index: VectorIndex) -> None:
    """The length of a vector, stored or searched for, changes no similarity."""
    index.upsert(["long", "short"], np.stack([_CORNERS[0] * 1000, -_CORNERS[0] / 1000]))
    found = dict(index.search(_CORNERS[0] * 50, 2))
    assert abs(found["long"] - 1) < _NEAR
    assert abs(found["short"] + 1) < _NEAR


def _orders_ties_by_key(index: VectorIndex) -> None:
    """Equal vectors come in the order of their keys, also at the limit."""
    row = _vectors(1)
    keys = ["e", "b", "d", "a", "c"]
    index.upsert(keys, np.repeat(row, 5, axis=0))
    assert [key for key, _ in index.search(row[0], 3)] == ["a", "b", "c"]


def _replaces_what_it_holds(index: VectorIndex) -> None:
    """A key that is given again has its new vector only."""
    index.upsert(["a"], _CORNERS[:1])
    index.upsert(["a"], _CORNERS[1:2])
    assert index.count() == 1
    assert abs(index.search(_CORNERS[1], 5)[0][1] - 1) < _NEAR


def _keeps_the_last_of_a_repeated_key(index: VectorIndex) -> None:
    """Within one batch, too, the last vector of a key counts."""
    index.upsert(["a", "b", "a"], _CORNERS[:3])
    assert index.count() == 2
    assert index.search(_CORNERS[2], 1)[0][0] == "a"


def _deletes_and_ignores_unknown_keys(index: VectorIndex) -> None:
    """A deleted key is found no more; an unknown one changes nothing; both can come again."""
    index.upsert(["a", "b", "c"], _CORNERS[:3])
    index.delete(["a", "never", "a"])
    assert index.count() == 2
    assert {key for key, _ in index.search(_CORNERS[0], 5)} == {"b", "c"}
    index.upsert(["a"], _CORNERS[:1])
    assert index.search(_CORNERS[0], 1)[0][0] == "a"


def _takes_any_limit(index: VectorIndex) -> None:
    """A limit of 0 finds nothing, one above the count finds everything."""
    index.upsert(["a", "b"], _CORNERS[:2])
    assert index.search(_CORNERS[0], 0) == []
    assert len(index.search(_CORNERS[0], 1000)) == 2


def _takes_empty_batches(index: VectorIndex) -> None:
    """Nothing to add and nothing to delete is no mistake."""
    index.upsert([], np.zeros((0, INDEX_DIMENSION), dtype=np.float32))
    index.delete([])
    assert index.count() == 0


def _takes_vectors_of_zeros(index: VectorIndex) -> None:
    """A vector without a direction is held, and has similarity 0 to everything."""
    zeros = np.zeros((1, INDEX_DIMENSION), dtype=np.float32)
    index.upsert(["b", "a", "zero"], np.concatenate([_CORNERS[:2], zeros]))
    assert dict(index.search(_CORNERS[0], 3))["zero"] == 0
    assert index.search(zeros[0], 2) == [("a", 0.0), ("b", 0.0)]


def _takes_a_large_batch(index: VectorIndex) -> None:
    """One call may bring more vectors than fit in one request of a database."""
    index.upsert([f"k{number}" for number in range(6000)], _vectors(6000))
    assert index.count() == 6000


def _refuses_bad_vectors_whole(index: VectorIndex) -> None:
    """Another dimension, NaN, infinities and missing rows are `ValueError`; nothing is stored."""
    good = _CORNERS[:2]
    for bad in (good[:, :5], np.full_like(good, np.nan), np.full_like(good, np.inf), good[:1]):
        _raises_value_error(lambda rows: index.upsert(["a", "b"], rows), bad)
    for bad in (good[0, :5], np.full_like(good[0], np.nan), good):
        _raises_value_error(lambda row: index.search(row, 1), bad)
    assert index.count() == 0


def _works_from_many_threads(index: VectorIndex) -> None:
    """Writers and readers in 8 threads lose nothing and find what they wrote."""
    rows = _vectors(160)

    def work(thread: int) -> bool:
        mine = range(thread * 20, thread * 20 + 20)
        for number in mine:
            index.upsert([f"k{number}"], rows[number : number + 1])
        return all(index.search(rows[n], 1)[0][0] == f"k{n}" for n in mine)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert index.count() == 160


def _raises_value_error(function: Callable[[Vectors], object], argument: Vectors) -> None:
    try:
        function(argument)
    except ValueError:
        return
    raise AssertionError(f"no ValueError for an argument of shape {argument.shape}: {argument}")


_TEXTS = ["Alice works at Acme.", "Bob moved to Oslo in spring.", "a " * 400, "東京に住む", "?"]


def _is_an_embedder(embedder: Embedder) -> None:
    """It has the methods of the port, a name, and sizes above 0."""
    assert isinstance(embedder, Embedder)
    assert embedder.model_id
    assert embedder.dimension > 0
    assert embedder.max_tokens > 0


def _gives_one_row_per_text(embedder: Embedder) -> None:
    """Rows are finite float32 of the stated dimension."""
    rows = embedder.embed(_TEXTS)
    assert rows.shape == (len(_TEXTS), embedder.dimension)
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()


def _gives_no_rows_for_no_texts(embedder: Embedder) -> None:
    """An empty batch has the right shape, so that it can be joined to others."""
    assert embedder.embed([]).shape == (0, embedder.dimension)


def _gives_the_same_vector_in_any_batch(embedder: Embedder) -> None:
    """What else is in the batch, and where, does not matter."""
    together = embedder.embed(_TEXTS)
    for number, text in enumerate(_TEXTS):
        assert np.allclose(embedder.embed([text])[0], together[number], atol=_NEAR)
    assert np.allclose(embedder.embed(_TEXTS[::-1]), together[::-1], atol=_NEAR)


def _gives_the_same_vector_in_any_thread(embedder: Embedder) -> None:
    """8 threads at once, the first use among them, get what one gets."""
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda _: embedder.embed(_TEXTS[:2]), range(8)))
    assert all(np.allclose(each, rows[0], atol=_NEAR) for each in rows)


def _takes_any_text(embedder: Embedder) -> None:
    """Empty, blank, odd and very long texts have vectors, too."""
    odd = ["", "   ", "\x00\ufffd", "👩‍👩‍👧", "word " * 5000]
    assert np.isfinite(embedder.embed(odd)).all()


def _counts_tokens(embedder: Embedder) -> None:
    """A text with something in it has tokens, and more text has no fewer."""
    assert embedder.count_tokens("a") > 0
    counts = [embedder.count_tokens("some words " * repeats) for repeats in (1, 10, 100, 1000)]
    assert counts == sorted(counts)
    assert counts[-1] > counts[0]
