"""Every embedder keeps the promises of the port."""

from __future__ import annotations

import numpy as np
import pytest

from recall_echo_core.stores.callable import CallableEmbedder, estimate_tokens
from recall_echo_core.stores.fastembed import FastEmbedder
from recall_echo_core.testing import check_embedder


def letters(texts: list[str]) -> list[list[float]]:
    """Count letters: a function from texts to vectors, as a user would pass it."""
    return [[1.0, *(text.lower().count(letter) for letter in "aeiou")] for text in texts]


class Letters:
    """The same as an object that can be called."""

    def __call__(self, texts: list[str]) -> np.ndarray:
        return np.array(letters(texts))


@pytest.fixture(scope="module")
def model() -> FastEmbedder:
    """The default model, loaded once."""
    return FastEmbedder()


def test_the_default_model_keeps_the_contract(model: FastEmbedder) -> None:
    """The model that is installed with the package passes every check."""
    check_embedder(lambda: model)


@pytest.mark.parametrize("function", [letters, Letters(), lambda texts: iter(letters(texts))])
def test_a_function_keeps_the_contract(function: object) -> None:
    """A function, an object that can be called, and one that yields its rows pass every check."""
    check_embedder(lambda: CallableEmbedder(function))  # type: ignore[arg-type]  # an object is one too


def test_a_broken_embedder_is_caught() -> None:
    """An embedder whose vectors depend on the batch fails the suite."""
    with pytest.raises(AssertionError):
        check_embedder(lambda: CallableEmbedder(lambda texts: [[len(texts), 1.0] for _ in texts]))


def test_a_function_is_named_after_its_definition() -> None:
    """Without a model id, module and name stand in; an object has those of its class."""
    assert CallableEmbedder(letters).model_id == f"callable:{__name__}.letters"
    assert CallableEmbedder(Letters()).model_id == f"callable:{__name__}.Letters"
    assert CallableEmbedder(letters, model_id="mine").model_id == "mine"


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ([[1.0, 2.0]] * 3, r"shape \(3, 2\) for 1 texts"),
        ([1.0, 2.0], r"shape \(2,\) for 1 texts"),
        ([[]], r"shape \(1, 0\)"),
        ([[1.0, float("nan")]], "NaN"),
        ([[1.0], [1.0, 2.0]], "not one row of numbers"),
        ([["a", "b"]], "not one row of numbers"),
        (None, "NoneType"),
    ],
)
def test_what_a_function_gives_is_checked(result: object, words: str) -> None:
    """A bad result is a `ValueError` that says what came back."""
    with pytest.raises(ValueError, match=words):
        CallableEmbedder(lambda texts: result, model_id="mine")


def test_a_function_cannot_change_its_dimension() -> None:
    """Vectors of another length than at first are refused, with both numbers."""
    embedder = CallableEmbedder(lambda texts: [[1.0] * (2 + ("more" in text)) for text in texts])
    with pytest.raises(ValueError, match="vectors of 3 numbers, but of 2"):
        embedder.embed(["more"])


def test_a_function_reads_at_least_one_token() -> None:
    """`max_tokens` below 1 is refused."""
    with pytest.raises(ValueError, match="max_tokens"):
        CallableEmbedder(letters, max_tokens=0)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), (" ", 1), ("one", 2), ("one two", 3), ("東京", 2), ("東京 is big", 5), ("カナ。", 4)],
)
def test_tokens_are_estimated_by_words_and_signs(text: str, tokens: int) -> None:
    """1.5 a word, 1 a Chinese, Japanese or Korean sign, and never 0 for a text."""
    assert estimate_tokens(text) == tokens
