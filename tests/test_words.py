"""Content words are found in any script, and a text is cut where readers would."""

from __future__ import annotations

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from recall_echo_core.words import STOP_WORDS, content_words, mentions, shortened

texts = st.text(st.characters(codec="utf-8"), max_size=60)
FAMILY = "👨\u200d👩\u200d👧\u200d👦"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Where does Ann work?", {"ann", "work"}),
        ("ACME's tools, and Acme's!", {"acme's", "tools"}),
        ("ann_lee 3.14 1,000 x2. 5", {"ann_lee", "3.14", "1,000", "x2", "5"}),
        ("mail ann@acme.com v1.2.3", {"mail", "ann", "acme.com", "v1.2.3"}),
        ("Zoe\u0308 was in STRASSE", {"zoë", "strasse"}),
        ("東京に", {"東", "京", "に"}),
        ("Где живёт Анна?", {"где", "живёт", "анна"}),
        ("the and of it", set()),
        ("", set()),
        ("?!… 👍", set()),
    ],
)
def test_words_of_any_script(text: str, expected: set[str]) -> None:
    """In normal form, without function words; scripts without spaces come apart."""
    assert content_words(text) == expected


@given(texts, st.sets(st.sampled_from(["ann", "oslo", "works"])))
def test_words_of_the_question_can_be_left_out(text: str, without: set[str]) -> None:
    """What is left out is gone, and nothing else."""
    text = f"{text} Ann works in Oslo"

    assert content_words(text, without) == content_words(text) - without


@given(texts)
def test_no_word_is_a_stop_word(text: str) -> None:
    """Finding words again in what was found finds the same."""
    found = content_words(text)

    assert not found & STOP_WORDS
    assert all(word == word.strip() and word for word in found)


@given(texts, st.integers(0, 70))
def test_a_text_is_cut_at_the_limit_between_graphemes(text: str, limit: int) -> None:
    """What fits is left alone; what does not ends in an ellipsis."""
    found = shortened(text, limit)

    assert len(found) <= limit
    if len(text) <= limit:
        assert found == text
    elif limit > 0:
        graphemes = regex.findall(r"\X", text)
        assert found.endswith("…")
        assert any("".join(graphemes[:n]) == found[:-1] for n in range(len(graphemes) + 1))


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("a cafe\u0301 in Oslo", 7, "a caf…"),
        ("a cafe\u0301 in Oslo", 8, "a cafe\u0301…"),
        (FAMILY * 3, 8, FAMILY + "…"),
        (FAMILY * 3, 7, "…"),
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
    ],
)
def test_no_accent_or_family_is_torn_apart(text: str, limit: int, expected: str) -> None:
    """A sign of many code points is kept whole or left out."""
    assert shortened(text, limit) == expected


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("I met ANN  Lee.", ["ann lee"], True),
        ("Annual fees", ["Ann"], False),
        ("Ann's house", ["Ann"], True),
        ("l'eau d'Oslo", ["Oslo"], True),
        ("ann@acme.com", ["Acme"], True),
        ("ann_lee", ["Ann"], True),
        ("Joanna, Ann2 and Annä", ["Ann"], False),
        ("He writes C++ and R.", ["C++"], True),
        ("東京に住む", ["東京"], True),
        ("Zoe\u0308!", ["ZOË"], True),
        ("a.b", ["b", "a.b"], True),
        ("(x", ["(x"], True),
        ("anything", [], False),
    ],
)
def test_a_name_is_mentioned_as_a_whole_word(text, names: list[str], expected: bool) -> None:
    """In any case and form, and whatever signs it holds."""
    assert mentions(text, names) is expected
