"""Names are the same when people would say so, and ids tell nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_echo_core.names import identity, normalised

texts = st.text(st.characters(codec="utf-8"))
salts = st.binary(min_size=16, max_size=16)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ann", "ANN"),
        ("  Ann\tLee \n", "ann lee"),
        ("Zoë", "Zoe\u0308"),
        ("straße", "STRASSE"),
        ("ﬁne", "FINE"),
        ("Acme\u00a0Inc", "acme inc"),
        ("\uff21\uff22", "ab"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("①", "1"),
    ],
)
def test_names_that_mean_the_same_are_the_same(one: str, other: str) -> None:
    """Whatever their case, their spacing and their Unicode form."""
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"), [("Ann", "Anna"), ("e", "é"), ("a b", "ab"), ("a-b", "a b")]
)
def test_names_that_differ_stay_different(one: str, other: str) -> None:
    """Accents and hyphens carry meaning."""
    assert normalised(one) != normalised(other)


@given(texts)
def test_normal_form_is_stable(name: str) -> None:
    """Doing it twice changes nothing; neither do case and outer space."""
    once = normalised(name)

    assert normalised(once) == once
    assert normalised(f" {name}\n") == once
    assert once == " ".join(once.split())


@given(salts, st.lists(texts, max_size=4))
def test_an_id_is_the_same_for_the_same_parts(salt: bytes, parts: list[str]) -> None:
    """16 bytes that depend on nothing else."""
    assert identity(salt, *parts) == identity(salt, *parts)
    assert len(identity(salt, *parts)) == 16


@given(salts, st.lists(texts, max_size=3), st.lists(texts, max_size=3))
def test_other_parts_have_another_id(salt: bytes, one: list[str], other: list[str]) -> None:
    """Also where the parts, written one after the other, read the same."""
    assert (identity(salt, *one) == identity(salt, *other)) == (one == other)


@given(salts, salts, texts)
def test_an_id_is_of_one_namespace(salt: bytes, other: bytes, name: str) -> None:
    """Without the salt nobody can tell which name it came from."""
    assert (identity(salt, name) == identity(other, name)) == (salt == other)


def test_where_parts_begin_matters() -> None:
    """ab + c is not a + bc."""
    assert len({identity(b"s", *parts) for parts in (("ab", "c"), ("a", "bc"), ("abc",))}) == 3
