"""A store's vectors come from one model, and it knows that model again."""

from __future__ import annotations

import struct
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pytest

from recall_echo_core.errors import EmbedderMismatch, StoreError
from recall_echo_core.same_model import SameModel
from recall_echo_core.stores.callable import CallableEmbedder
from recall_echo_core.stores.sql import SqlLog
from recall_echo_core.testing import check_embedder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def model(name: str = "m", signs: str = "aeiou", noise: float = 0.0) -> CallableEmbedder:
    """Counts signs, with a little noise that does not depend on the text."""

    def count(texts: list[str]) -> list[list[float]]:
        return [[text.lower().count(sign) + 0.1 + noise for sign in signs] for text in texts]

    return CallableEmbedder(count, model_id=name)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqlLog]:
    with closing(SqlLog(f"sqlite:///{tmp_path / 'log.sqlite3'}")) as log:
        yield log


@pytest.fixture
def known(log: SqlLog) -> SqlLog:
    SameModel(model(), log).embed(["first"])
    return log


def test_it_is_an_embedder(log: SqlLog) -> None:
    """It keeps the promises of the port it stands before."""
    check_embedder(lambda: SameModel(model(), log))


def test_it_passes_everything_on(known: SqlLog) -> None:
    """Name, sizes, tokens and vectors are those of the model."""
    inner, outer = model(), SameModel(model(), known)

    assert (outer.model_id, outer.dimension, outer.max_tokens) == ("m", 5, inner.max_tokens)
    assert outer.count_tokens("some text") == inner.count_tokens("some text")
    assert np.array_equal(outer.embed(["abc"]), inner.embed(["abc"]))


def test_nothing_is_noted_before_the_first_text(log: SqlLog) -> None:
    """Looking at a store does not decide its model."""
    SameModel(model(), log).verify()
    SameModel(model("other", "ab"), log).verify()

    assert log.note("model") is None


def test_the_first_text_decides(known: SqlLog) -> None:
    """The name, the dimension, and how it reads a fixed sentence."""
    assert (known.note("model"), known.note("dimension")) == ("m", "5")
    assert len(bytes.fromhex(known.note("reading"))) == 20


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (model("n"), "embedded with m, but was opened with n"),
        (model("m", "ae"), "vectors of 2 numbers instead of 5"),
    ],
)
def test_another_name_or_dimension_is_refused_at_once(known, other, said: str) -> None:
    """The error says how to embed everything again."""
    with pytest.raises(EmbedderMismatch, match=said) as caught:
        SameModel(other, known)
    assert "reindex=True" in str(caught.value)


def test_another_model_of_the_same_name_is_found_by_what_it_reads(known: SqlLog) -> None:
    """When asked to verify, else before the first vector is given."""
    other = SameModel(model("m", "wxyzq"), known)

    for use in (other.verify, lambda: other.embed(["text"])):
        with pytest.raises(EmbedderMismatch, match="reads a known sentence differently"):
            use()


def test_a_little_noise_is_the_same_model(known: SqlLog) -> None:
    """The same weights on another processor."""
    assert SameModel(model(noise=1e-3), known).embed(["text"]).shape == (1, 5)


def test_who_writes_first_is_right_for_the_other_too(log: SqlLog) -> None:
    """Two processes that open an empty store with two models."""
    one, other = SameModel(model("one"), log), SameModel(model("other"), log)
    one.embed(["text"])

    with pytest.raises(EmbedderMismatch, match="embedded with one"):
        other.embed(["text"])


@pytest.mark.parametrize(
    ("reading", "error"),
    [
        ("xyz", StoreError),
        ("00", StoreError),
        (struct.pack("<4f", 1, 2, 3, 4).hex(), StoreError),
        (struct.pack("<5f", *[0.0] * 5).hex(), EmbedderMismatch),
        (struct.pack("<5f", *[float("nan")] * 5).hex(), EmbedderMismatch),
        (struct.pack("<5f", *[3e38] * 5).hex(), EmbedderMismatch),
    ],
)
def test_a_damaged_note_is_an_error_of_ours(known: SqlLog, reading: str, error) -> None:
    """It never passes for the same model."""
    known.set_notes({"reading": reading})

    with pytest.raises(error, match="reindex=True"):
        SameModel(model(signs="aeiow"), known).embed(["text"])


def test_a_damaged_dimension_is_another_one(known: SqlLog) -> None:
    """Whatever stands there."""
    known.set_notes({"dimension": "five"})

    with pytest.raises(EmbedderMismatch, match="instead of five"):
        SameModel(model(), known)
