"""What a caller passed is usable, or the message says what is wrong with it."""

from __future__ import annotations

import math
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_echo_core.arguments import (
    MAX_NAME,
    bounds,
    checked_count,
    checked_kinds,
    checked_name,
    checked_text,
    context_of,
    id_of,
    weight_of,
)
from recall_echo_core.confidence import CONTEXTS
from recall_echo_core.texts import KINDS
from recall_echo_core.times import DAY, moment


@given(st.text(st.characters(codec="utf-8"), max_size=MAX_NAME).filter(str.strip))
def test_a_name_is_kept_as_spelt(name: str) -> None:
    """Without its outer white space."""
    assert checked_name(name, "name") == name.strip()


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("", ValueError, "subject is empty; give it a name"),
        (" \t\n\u00a0\u2003", ValueError, "subject is empty; give it a name"),
        ("x" * 1_001, ValueError, "subject has 1,001 characters; the limit is 1,000, split it"),
        ("a\ud800", ValueError, "subject holds half a surrogate pair at index 1"),
        (None, TypeError, r"subject must be text, not NoneType \(None\)"),
        (5, TypeError, r"subject must be text, not int \(5\)"),
        (b"Ann", TypeError, r"subject must be text, not bytes \(b'Ann'\)"),
        (["Ann"] * 99, TypeError, r"subject must be text, not list \(\['Ann', "),
    ],
)
def test_what_is_no_name_is_refused(name: object, error: type[Exception], said: str) -> None:
    """By the word the caller knows it by, and with the value, cut short."""
    with pytest.raises(error, match=said) as caught:
        checked_name(name, "subject")
    assert len(str(caught.value)) < 150


def test_text_may_be_empty_and_long() -> None:
    """A million characters, and not one more."""
    assert checked_text("", "content") == ""
    assert len(checked_text("x" * 1_000_000, "content")) == 1_000_000
    with pytest.raises(ValueError, match="content has 1,000,001 characters"):
        checked_text("x" * 1_000_001, "content")


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (None, None, (None, None)),
        ("2026-03-14", None, (moment("2026-03-14", day="start"), None)),
        (None, "2026-03-14", (None, moment("2026-03-15", day="start"))),
        (date(2026, 3, 14), "2026-03-14", (moment("2026-03-14T00:00"), moment("2026-03-15T00:00"))),
        ("2026-03-14T01:00+01:00", "2026-03-14T00:01", (moment("2026-03-14T00:00"),) * 2),
    ],
)
def test_a_bare_date_is_inside_its_period(start, end, expected) -> None:
    """As its first or its last day."""
    found = bounds(start, end)

    assert found[0] == expected[0]
    assert found[1] in (expected[1], (expected[0] or 0) + DAY // 1440)


@pytest.mark.parametrize("end", ["2026-03-13", "2026-03-14T12:00", "2026-03-14T14:00+02:00"])
def test_a_period_ends_after_it_begins(end: str) -> None:
    """Not at the same moment, and not before."""
    with pytest.raises(ValueError, match=r"valid_until .* must be later than valid_from"):
        bounds("2026-03-14T12:00Z", end)


@pytest.mark.parametrize("word", ["valid_from", "valid_until"])
def test_a_bad_bound_is_named(word: str) -> None:
    """As the caller knows it."""
    given_ = {"valid_from": None, "valid_until": None, word: "soon"}
    with pytest.raises(ValueError, match=f"{word} 'soon' is not ISO 8601"):
        bounds(given_["valid_from"], given_["valid_until"])


@pytest.mark.parametrize("weight", [1, 1.0, 0.5, 1e-300])
def test_a_weight_is_a_float_in_0_to_1(weight: float) -> None:
    """0 left out."""
    assert weight_of(weight) == weight
    assert type(weight_of(weight)) is float


@pytest.mark.parametrize(
    "weight", [0, -1, 2, 1.01, math.nan, math.inf, -math.inf, 10**400, -(10**400)]
)
def test_other_weights_are_refused(weight: float) -> None:
    """However large."""
    with pytest.raises(ValueError, match="weight of evidence must lie in"):
        weight_of(weight)


@pytest.mark.parametrize("weight", [None, True, "1", 1j, [1]])
def test_what_is_no_weight_is_refused(weight: object) -> None:
    """A bool, too."""
    with pytest.raises(TypeError, match="weight must be a number"):
        weight_of(weight)


def test_a_context_is_one_of_four() -> None:
    """The message lists them."""
    assert [context_of(context) for context in CONTEXTS] == list(CONTEXTS)
    for other in ("", "Explicit", None, 5, []):
        with pytest.raises(ValueError, match="one of authoritative, explicit, inferred, specul"):
            context_of(other)


@given(st.binary(min_size=16, max_size=16))
def test_an_id_reads_as_its_bytes(id: bytes) -> None:
    """In either case."""
    assert id_of(id.hex(), "id") == id_of(id.hex().upper(), "id") == id


@pytest.mark.parametrize(
    "text", ["", "M1", "0" * 31, "0" * 34, "g" * 32, None, 5, b"0" * 32, "\ud800"]
)
def test_what_is_no_id_is_refused(text: object) -> None:
    """The message says what one looks like."""
    with pytest.raises(ValueError, match="is not an id; ids are 32 hexadecimal digits"):
        id_of(text, "after")


def test_a_count_is_a_whole_number_from_1() -> None:
    """Python's bools and floats are none."""
    assert checked_count(10**30, "k") == 10**30
    for other in (0, -1, 1.0, math.nan, True, "3", None):
        with pytest.raises(ValueError, match="k must be a whole number of at least 1"):
            checked_count(other, "k")


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (None, KINDS),
        ("episode", ("episode",)),
        (["episode", "entity", "episode"], ("entity", "episode")),
        (iter(KINDS), KINDS),
    ],
)
def test_kinds_come_in_their_usual_order(kinds, expected) -> None:
    """Each once; all of them when nothing is said."""
    assert checked_kinds(kinds) == expected


@pytest.mark.parametrize("kinds", ["", [], "entities", ["entity", "x"], [None], ["entity", 5]])
def test_other_kinds_are_refused(kinds) -> None:
    """The message lists those there are."""
    with pytest.raises(ValueError, match="kinds must be some of entity, relation, episode"):
        checked_kinds(kinds)


@pytest.mark.parametrize("kinds", [5, True, [[]], [{}]])
def test_what_are_no_kinds_is_refused(kinds) -> None:
    """What cannot be a set of words."""
    with pytest.raises(TypeError):
        checked_kinds(kinds)
