"""A long text is cut where a reader would, and nothing of it is lost."""

from __future__ import annotations

import itertools
import math

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from recall_echo_core.chunks import chunked

FAMILY = "👨\u200d👩\u200d👧\u200d👦"
SAID = "Ann moved to Oslo in spring. Did she like it? She did!\nBob stayed. "


def by_words(text: str) -> int:
    return len(text.split())


def by_bytes(text: str) -> int:
    return math.ceil(len(text.encode()) / 2)


def by_signs(text: str) -> int:
    return len(text)


counts = st.sampled_from([by_words, by_bytes, by_signs])
limits = st.integers(1, 40)
pieces = st.sampled_from(
    ["Ann", " ", "moved.", "\n", "東京", "。", "?", "e\u0301", "\u0301", "\u0903", FAMILY, "x" * 30]
)
texts = st.lists(pieces, max_size=60).map("".join) | st.text(st.characters(codec="utf-8"))


@given(texts, limits, counts)
def test_only_white_space_is_dropped(text: str, limit: int, count) -> None:
    """The chunks stand in the text in order, and what lies between them is blank."""
    place = 0
    for chunk in chunked(text, limit, count):
        start = text.index(chunk, place)
        assert not text[place:start].strip()
        place = start + len(chunk)

    assert not text[place:].strip()


@given(texts, limits, counts)
def test_no_chunk_is_over_the_limit_but_a_grapheme_that_is(text: str, limit: int, count) -> None:
    """What exceeds it cannot be cut."""
    for chunk in chunked(text, limit, count):
        assert count(chunk) <= limit or len(regex.findall(r"\X", chunk.strip())) == 1


@given(texts, limits, counts)
def test_cuts_fall_between_graphemes(text: str, limit: int, count) -> None:
    """No accent is torn from its letter, no family apart."""
    ends = {match.end() for match in regex.finditer(r"\X", text)} | {0}
    place = 0
    for chunk in chunked(text, limit, count):
        place = text.index(chunk, place)
        assert place in ends
        place += len(chunk)
        assert place in ends


@given(texts, counts)
def test_what_fits_is_left_alone(text: str, count) -> None:
    """One chunk, the text itself, blank or not."""
    assert chunked(text, max(1, count(text)), count) == [text]


def test_sentences_come_first_then_words_then_signs() -> None:
    """The coarsest cut that fits."""
    assert chunked(SAID, 6, by_words) == [
        "Ann moved to Oslo in spring. ",
        "Did she like it? She did!\n",
        "Bob stayed. ",
    ]
    assert chunked("one two three four five", 2, by_words) == ["one two ", "three four ", "five"]
    assert chunked("abcdefghij", 4, by_signs) == ["abcd", "efgh", "ij"]


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("東京に住む。大阪で働く。", 6, ["東京に住む。", "大阪で働く。"]),
        ("東京に住む", 2, ["東京", "に住", "む"]),
        ("e\u0301" * 3, 3, ["e\u0301"] * 3),
        (f"a {FAMILY}{FAMILY}", 8, ["a ", FAMILY, FAMILY]),
        ("Он ушёл! Она нет.", 9, ["Он ушёл! ", "Она нет."]),
    ],
)
def test_other_scripts_and_signs(text: str, limit: int, expected: list[str]) -> None:
    """Sentence ends of other scripts count; signs of many code points are one."""
    assert chunked(text, limit, by_signs) == expected


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000,
        "東" * 300_000,
        FAMILY * 100_000,
        "a." * 300_000,
        "\n" * 500_000 + "x" * 500_000,
    ],
    ids=["letters", "ideographs", "families", "dots", "blank lines"],
)
def test_a_megabyte_without_a_space_is_read_a_few_times_only(text: str) -> None:
    """What is counted in all grows with the text, not with its square."""
    read = itertools.count()
    signs = [0]

    def count(piece: str) -> int:
        next(read)
        signs[0] += len(piece)
        return by_signs(piece)

    chunks = chunked(text, 256, count)

    assert "".join(chunks).strip() == text.strip()
    assert max(map(len, chunks)) <= 256
    assert signs[0] <= 5 * len(text)
    assert next(read) <= len(text)


def test_a_sentence_of_ten_thousand_words_has_each_word_once() -> None:
    """Cut between words, in order, and full."""
    words = [f"word{n}" for n in range(10_000)]
    chunks = chunked(" ".join(words), 256, by_words)

    assert [len(chunk.split()) for chunk in chunks] == [256] * 39 + [16]
    assert " ".join(chunks).split() == words
