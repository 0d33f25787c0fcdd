"""By which terms a text is found, in any script."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_echo_core.terms import mentions_in, terms_of


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Ann walked home", "walking"),
        ("私の名前は太郎です", "太郎"),
        ("周末吃夜宵", "夜宵"),
        ("Он живёт в Москве", "Москва"),
        ("a café in Oslo", "CAFE\u0301"),
        ("a café in Oslo", "cafe"),
        ("الكتاب على الطاولة", "الكتاب"),
        ("she is a 👩‍💻 now", "👩‍💻"),
        ("한국어 문장", "한국어"),
        ("set user_id and call getUserName", "user name id"),
        ("error ABC-123 in v2.1.0", "abc-123"),
        ("Ann’s dog", "Ann's"),
    ],
)
def test_a_question_and_a_text_meet(text: str, question: str) -> None:
    """Row 20: each of these shares a term."""
    asked = set(terms_of(question))

    assert asked
    assert asked & set(terms_of(text))


def test_function_words_are_no_terms() -> None:
    assert terms_of("What is it that they would have of the") == []


def test_a_pair_of_signs_tells_words_apart_that_share_one() -> None:
    """In scripts without spaces one sign is too little."""
    assert not set(terms_of("東京")) & set(terms_of("京都"))


@given(st.text(max_size=80))
def test_any_text_has_terms_that_do_not_depend_on_its_normal_form(text: str) -> None:
    """Nothing fails, nothing is empty, and composed and decomposed forms agree."""
    terms = terms_of(text)

    assert all(terms)
    assert sorted(terms_of(unicodedata.normalize("NFC", text))) == sorted(
        terms_of(unicodedata.normalize("NFD", text))
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("The Beatles met Ann Lee.", ["beatles", "ann lee"]),
        ("Hello Love\nA film of 1992 by Ann.", ["hello love", "ann"]),
        ("nothing here", []),
        ("It was Ann's idea", ["ann"]),
        ("Москва и Анна", ["москва", "анна"]),
    ],
)
def test_what_a_text_calls_by_a_name(text: str, names: list[str]) -> None:
    assert [name for name in dict.fromkeys(mentions_in(text)) if name != "a"] == names
