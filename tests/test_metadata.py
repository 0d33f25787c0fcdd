"""Metadata comes back equal, or is refused with the path to what cannot be kept."""

from __future__ import annotations

import math
from collections import ChainMap
from datetime import UTC, date, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import names, scalars

from recall_echo_core.metadata import DEPTH, TAG, packed, unpacked

zones = (
    st.none()
    | st.just(UTC)
    | st.integers(-1_000, 1_000).map(lambda m: timezone(timedelta(minutes=m)))
)
leaves = (
    scalars
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.dates()
    | st.datetimes(timezones=zones)
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
mappings = st.dictionaries(names, values, max_size=5)


class Day(date):
    """A date of somebody else's class."""


class Moment(datetime):
    """A time of somebody else's class."""


@given(mappings)
def test_it_comes_back_equal(metadata: dict[str, Any]) -> None:
    """Dates, times, numbers and nesting, through the bytes of the log."""
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(packed(metadata)))

    assert unpacked(stored) == metadata


@given(mappings)
def test_what_is_kept_is_json(metadata: dict[str, Any]) -> None:
    """And what was given is not changed."""
    before = repr(metadata)
    kept = packed(metadata)

    assert msgspec.json.decode(msgspec.json.encode(kept)) == kept
    assert repr(metadata) == before


def test_nothing_is_an_empty_mapping() -> None:
    """Nothing given is nothing kept."""
    assert packed(None) is None
    assert (packed({}), unpacked({}), unpacked(None)) == ({}, {}, {})


@pytest.mark.parametrize(
    ("given_", "back"),
    [
        ((1, (2,)), [1, [2]]),
        (MappingProxyType({"b": 1}), {"b": 1}),
        (ChainMap({"b": 1}, {"c": 2}), {"b": 1, "c": 2}),
        (Day(2026, 3, 14), date(2026, 3, 14)),
        (Moment(2026, 3, 14, tzinfo=UTC), datetime(2026, 3, 14, tzinfo=UTC)),
        (-(2**63), -(2**63)),
        (2**63 - 1, 2**63 - 1),
        (True, True),
    ],
)
def test_what_is_like_a_plain_value_is_taken_as_one(given_: object, back: object) -> None:
    """Tuples become lists, other mappings dicts, subclasses what they stand for."""
    assert unpacked(packed({"a": given_})) == {"a": back}


def nested(depth: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


LOOP: dict[str, Any] = {}
LOOP["a"] = LOOP


@pytest.mark.parametrize(
    ("metadata", "error", "said"),
    [
        ([1], TypeError, "metadata must be a mapping, not list"),
        ("a", TypeError, "metadata must be a mapping, not str"),
        ({1: 2}, TypeError, "metadata has the key 1; keys must be text"),
        ({"a": {None: 2}}, TypeError, r"metadata\['a'\] has the key None"),
        ({"a": [0, {1}]}, TypeError, r"metadata\['a'\]\[1\] is a set"),
        ({"a": b"b"}, TypeError, r"metadata\['a'\] is a bytes"),
        ({"a": 1j}, TypeError, r"metadata\['a'\] is a complex"),
        ({"a": object}, TypeError, r"metadata\['a'\] is a type"),
        ({"a": math.nan}, ValueError, r"metadata\['a'\] is nan"),
        ({"a": [-math.inf]}, ValueError, r"metadata\['a'\]\[0\] is -inf"),
        ({"a": 2**63}, ValueError, r"metadata\['a'\] does not fit 64 bits"),
        ({"a": "\ud800"}, ValueError, r"metadata\['a'\] holds half a surrogate pair"),
        ({"\ud800": 1}, ValueError, "a key of metadata holds half a surrogate pair"),
        ({"a": {TAG: 1}}, ValueError, r"metadata\['a'\] uses the key '\$recall_echo'"),
        (nested(DEPTH + 2), ValueError, f"nested more than {DEPTH} deep"),
        (LOOP, ValueError, f"nested more than {DEPTH} deep"),
    ],
)
def test_what_cannot_be_kept_is_named_by_its_path(metadata, error, said: str) -> None:
    """Before anything is written."""
    with pytest.raises(error, match=said):
        packed(metadata)


def test_as_deep_as_allowed_is_kept() -> None:
    """The limit itself belongs to it."""
    assert unpacked(packed(nested(DEPTH))) == nested(DEPTH)
