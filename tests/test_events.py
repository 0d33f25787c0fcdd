"""What is written to the log can be read again, also by later versions."""

from __future__ import annotations

from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import foldings, ids, names, plain

from recall_echo_core.errors import StoreError, UnsupportedShape
from recall_echo_core.events import (
    ERASED_SHAPE,
    SHAPES,
    EntityDescribed,
    Erased,
    Event,
    RecallServed,
    UsageMarked,
    decoded,
    encoded,
    from_json,
    kind_of,
    to_json,
    type_key,
)
from recall_echo_core.settings import Folding

PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    bytes: ids,
    str: names,
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    Folding: foldings,
    type(None): st.none(),
}


def of_type(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type that an event may have as a field."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return st.sampled_from(inner)
    if origin is list:
        return st.lists(of_type(inner[0]), max_size=4)
    if origin is tuple:
        return st.tuples(*map(of_type, inner))
    if origin is dict:
        return st.dictionaries(names, plain, max_size=3)
    if origin is Union or inner:
        return st.one_of(*map(of_type, inner))
    return PLAIN[hint]


def events_of(kind: type) -> st.SearchStrategy[Any]:
    if kind is Erased:
        return st.builds(Erased, kind=st.sampled_from(sorted(SHAPES)))
    fields = {name: of_type(hint) for name, hint in get_type_hints(kind).items()}
    return st.builds(kind, **fields)


KINDS = get_args(Event)


def shape_of(event: Event) -> int:
    return ERASED_SHAPE if isinstance(event, Erased) else SHAPES[kind_of(event)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(st.data())
def test_an_event_comes_back_equal(kind: type, data: st.DataObject) -> None:
    """Every kind, with every field."""
    event = data.draw(events_of(kind))
    word, shape = kind_of(event), shape_of(event)

    assert decoded(word, shape, encoded(event)) == event
    assert from_json(word, shape, to_json(event)) == event


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(st.data())
def test_fields_of_tomorrow_do_not_matter_to_today(kind: type, data: st.DataObject) -> None:
    """Defaults are left out, so a field that is added with one reads old payloads."""
    event = data.draw(events_of(kind))
    fields = msgspec.msgpack.decode(encoded(event))

    more = msgspec.msgpack.encode({**fields, "unheard_of": 1})
    assert decoded(kind_of(event), shape_of(event), more) == event


def test_every_kind_has_a_word_and_a_shape() -> None:
    """The words are what stands in the database, for good."""
    assert dict(SHAPES) == {
        "entity": 1,
        "evidence": 1,
        "ended": 1,
        "retraction": 1,
        "episode": 1,
        "settings": 1,
        "recall": 1,
        "link": 1,
        "usage": 1,
        "feedback": 1,
    }
    assert len(KINDS) == len(SHAPES) + 1


@pytest.mark.parametrize("kind", sorted(SHAPES))
def test_of_what_was_erased_only_the_kind_is_left(kind: str) -> None:
    """Whatever bytes stand in its place."""
    for payload in (b"", b"\xc1", b"anything"):
        assert decoded(kind, ERASED_SHAPE, payload) == Erased(kind)
    assert to_json(Erased(kind)) == b"{}"


def renamed(fields: dict[str, Any]) -> dict[str, Any]:
    return {"id": fields["id"], "title": fields["label"]}


def named(fields: dict[str, Any]) -> dict[str, Any]:
    return {"id": fields["id"], "name": fields["title"].title(), "kind": "thing"}


@pytest.mark.parametrize(
    ("shape", "fields"),
    [
        (1, {"id": b"e" * 16, "label": "ann lee"}),
        (2, {"id": b"e" * 16, "title": "ann lee"}),
        (3, {"id": b"e" * 16, "name": "Ann Lee", "kind": "thing"}),
    ],
)
def test_older_shapes_are_lifted_step_by_step(shape: int, fields: dict[str, Any]) -> None:
    """From two shapes ago, from one, and from this one."""
    upcasts = {("entity", 1): renamed, ("entity", 2): named, ("usage", 1): dict}
    payload = msgspec.msgpack.encode(fields)
    shapes = {**SHAPES, "entity": 3}

    event = decoded("entity", shape, payload, shapes=shapes, upcasts=upcasts)
    assert event == EntityDescribed(b"e" * 16, "Ann Lee", kind="thing")


@pytest.mark.parametrize(
    "event",
    [
        RecallServed(b"r" * 16, 5, [(b"e" * 16, "entity", 0.5)], b"u" * 16),
        UsageMarked(b"r" * 16, [b"e" * 16], "ids"),
    ],
)
def test_a_step_may_leave_everything_as_it_is(event: Event) -> None:
    """Bytes, tuples and nesting survive being lifted."""
    kind = kind_of(event)

    lifted = decoded(
        kind, 1, encoded(event), shapes={**SHAPES, kind: 2}, upcasts={(kind, 1): lambda same: same}
    )
    assert lifted == event


@pytest.mark.parametrize(
    ("kind", "shape", "known"), [("entity", 2, 1), ("usage", 99, 1), ("dream", 1, 0)]
)
def test_what_a_newer_version_wrote_is_refused(kind: str, shape: int, known: int) -> None:
    """A newer shape or an unknown kind says to upgrade; it is an error of the store."""
    with pytest.raises(UnsupportedShape, match=f"'{kind}' has shape {shape}.*upgrade") as caught:
        decoded(kind, shape, encoded(UsageMarked(b"r" * 16, [], "ids")))
    with pytest.raises(UnsupportedShape):
        from_json(kind, shape, b"{}")
    assert (caught.value.found, caught.value.known) == (shape, known)
    assert isinstance(caught.value, StoreError)


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x80", encoded(EntityDescribed(b"", ""))[:-1]])
def test_a_payload_that_promises_something_else_is_refused(payload: bytes) -> None:
    """By an error that the log turns into one of its own."""
    with pytest.raises(msgspec.MsgspecError):
        decoded("entity", 1, payload)


def test_relation_types_are_the_same_whatever_their_case() -> None:
    """One type, spelt three ways."""
    assert {type_key(spelt) for spelt in ("LIVES_IN", "lives_in", " Lives_In ")} == {"lives_in"}
