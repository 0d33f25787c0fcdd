"""Which texts share the question's words, and how much those tell."""

from __future__ import annotations

import math
from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_echo_core.lexical import K1, LENGTH_FLOOR, Lexical, LexicalPicture
from recall_echo_core.texts import TextKey

words = st.sampled_from("abcdef")
texts = st.lists(words, max_size=100)
stores = st.lists(st.tuples(st.integers(0, 5), texts), max_size=12)


def key(number: int, position: int) -> TextKey:
    return TextKey(position, bytes([number]) * 16, "entity")


def filled(store: list[tuple[int, list[str]]]) -> Lexical:
    index = Lexical()
    for position, (number, text) in enumerate(store, 1):
        index.add(key(number, position), Counter(text))
    return index


def by_item(index: Lexical, question: str) -> dict[bytes, float]:
    scores = index.scores(question)
    return {item: float(scores[number]) for item, number in index.numbers.items()}


def by_hand(store: list[tuple[int, list[str]]], question: str) -> dict[bytes, float]:
    """Okapi BM25 written out, over the newest text of each item."""
    newest = {key(number, 0).item: text for number, text in store}
    if not newest:
        return {}
    mean = max(sum(map(len, newest.values())) / len(newest), LENGTH_FLOOR)
    found = {}
    for item, text in newest.items():
        score = 0.0
        for term in dict.fromkeys(question):
            having = sum(term in other for other in newest.values())
            rarity = math.log(1 + (len(newest) - having + 0.5) / (having + 0.5)) if having else 0.0
            often = text.count(term)
            saturation = K1 * (0.25 + 0.75 * max(len(text), LENGTH_FLOOR) / mean)
            score += rarity * often / (often + saturation) if often else 0.0
        found[item] = score
    return found


@given(stores, st.text("abcdef", max_size=4))
def test_scores_are_those_of_the_formula(store: list[tuple[int, list[str]]], question: str) -> None:
    """Also where texts were replaced: what is gone counts no more."""
    expected = by_hand(store, question)

    assert by_item(filled(store), question) == pytest.approx(expected, abs=1e-12)


@given(stores, st.integers(0, 5), st.text("abcdef", max_size=4))
def test_what_is_removed_might_never_have_been(
    store: list[tuple[int, list[str]]], gone: int, question: str
) -> None:
    index = filled(store)
    index.remove(key(gone, 0).item)

    without = [(number, text) for number, text in store if number != gone]
    assert by_item(index, question) == by_item(filled(without), question)


@given(stores, st.text("abcdef", max_size=4))
def test_a_picture_gives_the_same_index(store: list[tuple[int, list[str]]], question: str) -> None:
    """Through bytes, as a snapshot; and it goes on from there."""
    index = filled(store)
    kept = msgspec.msgpack.encode(index.picture())
    again = Lexical.of(msgspec.msgpack.decode(kept, type=LexicalPicture))

    assert by_item(again, question) == by_item(index, question)
    for one in (index, again):
        one.add(key(9, 99), Counter("abc"))
    assert by_item(again, question) == by_item(index, question)
    assert len(again) == len(index)


def test_length_says_nothing_among_short_texts() -> None:
    """Under the floor a word counts the same in two words and in twenty."""
    index = filled([(1, ["a", "b"]), (2, ["a", *"bcdef" * 4])])

    assert len(set(by_item(index, "a").values())) == 1


def test_the_best_come_first_and_ties_by_age() -> None:
    index = filled([(1, ["a"]), (2, ["a", "a"]), (3, ["a"]), (4, ["b"])])

    assert index.best(index.scores("a"), 10) == [1, 0, 2]
    assert index.best(index.scores("a"), 2) == [1, 0]
    assert index.best(index.scores("z"), 10) == []
    assert index.best(np.zeros(4), 10) == []


def test_an_empty_index_answers() -> None:
    index = Lexical()
    index.remove(b"nobody")

    assert (len(index), list(index.scores("a")), index.rarity("a")) == (0, [], 0.0)
    assert not index.has("a", 0)
