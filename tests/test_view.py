"""Everything that can be asked, now and of an earlier moment, and what it answers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from recall_echo_core import Memory, RecallEchoError, open_memory
from recall_echo_core.errors import UnknownEntity, UnknownRelation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import MovableClock

CITIES = ("Oslo", "Rome", "Bonn")


def letters(texts: list[str]) -> list[list[float]]:
    """A model of sorts: texts are near that share letters."""
    return [[text.lower().count(letter) + 0.01 for letter in "abcdefghilmnorstu"] for text in texts]


def opened(folder: Path, clock: MovableClock, **more: Any) -> Memory:
    settings = {"vectors": {"background": False}, **more}
    return open_memory(
        folder, embedding=letters, clock=clock, single_valued={"LIVES_IN"}, settings=settings
    )


@pytest.fixture
def memory(tmp_path: Path, clock: MovableClock) -> Iterator[Memory]:
    with opened(tmp_path, clock) as memory:
        yield memory


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with open_memory(tmp_path_factory.mktemp("m"), embedding=letters) as memory:
        memory.remember("Ann", "LIVES_IN", "Oslo")
        yield memory


NAME = [5, b"Ann", ["Ann"], True, "", " \t", "\ud800", "x" * 1_001]
COUNT = [0, -1, 1.5, math.nan, True, "3", None]
ID = [5, "", "M1", "0" * 31, "g" * 32, b"0" * 16, "0" * 32]
QUESTIONS: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "recall": (
        {"text": "who?"},
        {
            "text": [None, 5, "", " ", "\ud800", "x" * 1_000_001],
            "k": COUNT,
            "kinds": [5, [], "x", ["entity", "x"], [5], [[]]],
        },
    ),
    "beliefs": ({"subject": "Ann", "type": "R"}, {"subject": [None, *NAME], "type": [None, *NAME]}),
    "explain": (
        {"subject": "Ann", "type": "LIVES_IN", "object": "Oslo"},
        {word: [None, *NAME, "unknown"] for word in ("subject", "type", "object")},
    ),
    "traverse": ({"start": "Ann"}, {"start": [None, *NAME, "unknown"], "depth": COUNT}),
    "paths": (
        {"start": "Ann", "end": "Oslo"},
        {
            "start": [None, *NAME, "unknown"],
            "end": [None, *NAME, "unknown"],
            "depth": COUNT,
            "limit": COUNT,
        },
    ),
    "get": ({"name": "Ann"}, {"name": [None, *NAME, "unknown"], "key": [*NAME, "unknown"]}),
    "entities": ({}, {"kind": NAME, "after": ID, "limit": COUNT}),
    "relations": ({}, {"subject": NAME, "type": NAME, "after": ID, "limit": COUNT}),
    "episodes": ({}, {"session_id": NAME, "after": ID, "limit": COUNT}),
}


@pytest.mark.parametrize("past", [False, True], ids=["now", "past"])
@pytest.mark.parametrize(
    ("verb", "word"), [(verb, word) for verb, (_, bad) in QUESTIONS.items() for word in bad]
)
def test_a_question_that_makes_no_sense_is_refused(asked, verb, word, past: bool) -> None:
    """With a `ValueError`, a `TypeError` or an error of ours that says what is wrong."""
    valid, bad = QUESTIONS[verb]
    view = asked.as_of("2100-01-01") if past else asked
    valid = {**valid, "record_access": False} if verb == "recall" and not past else valid
    before = asked.stats().events
    getattr(view, verb)(**valid)
    for value in bad[word]:
        with pytest.raises((ValueError, TypeError, RecallEchoError)) as caught:
            getattr(view, verb)(**{**valid, word: value})
        assert type(caught.value) in (ValueError, TypeError) or isinstance(
            caught.value, RecallEchoError
        )
        assert len(str(caught.value)) > 15

    with pytest.raises(TypeError, match="unexpected keyword"):
        getattr(view, verb)(**valid, nonsense=1)
    assert asked.stats().events == before


def test_rival_values_share_one_certainty(memory: Memory) -> None:
    """Of a single-valued type the surest comes first, and all together are at most certain."""
    for city, context in zip(CITIES, ("speculative", "explicit", "inferred"), strict=True):
        memory.remember("Ann", "LIVES_IN", city, context=context)

    beliefs = memory.beliefs("ann", "lives_in")
    assert [belief.object for belief in beliefs] == ["Rome", "Bonn", "Oslo"]
    assert sum(belief.probability for belief in beliefs) == pytest.approx(1.0)
    assert [belief.confidence for belief in beliefs] == [9 / 11, 0.6, 3 / 12]


def test_a_lone_value_leaves_room_for_none_of_these(memory: Memory) -> None:
    """Its probability is its confidence, faded like it."""
    memory.remember("Ann", "LIVES_IN", "Oslo", context="inferred", observed_at="2025-12-01T12:00")

    (belief,) = memory.beliefs("Ann", "LIVES_IN")
    assert belief.probability == belief.effective == pytest.approx(0.3)
    assert belief.confidence == belief.relation.confidence == 0.6
    assert belief.interval == belief.relation.interval()


def test_values_of_a_multi_valued_type_are_no_rivals(memory: Memory) -> None:
    """They have no probability; ties go by name."""
    for city in CITIES:
        memory.remember("Ann", "LIKES", city)

    beliefs = memory.beliefs("Ann", "LIKES")
    assert [belief.object for belief in beliefs] == sorted(CITIES)
    assert {belief.probability for belief in beliefs} == {None}


def test_only_what_holds_now_is_believed(memory: Memory, clock: MovableClock) -> None:
    """Neither what ended nor what is to come; of what is unknown, nothing."""
    memory.remember("Ann", "LIKES", "Oslo", valid_until="2026-02-01")
    memory.remember("Ann", "LIKES", "Rome", valid_from="2026-04-01")

    assert memory.beliefs("Ann", "LIKES") == memory.beliefs("Nobody", "LIKES") == []
    clock.set("2026-04-01")
    assert [belief.object for belief in memory.beliefs("Ann", "LIKES")] == ["Rome"]


def test_of_several_periods_the_one_that_holds_is_explained(memory, clock) -> None:
    """Else the latest; each is believed for itself."""
    memory.remember("Ann", "LIKES", "Oslo", valid_until="2026-01-01", context="inferred")
    memory.remember("Ann", "LIKES", "Oslo", valid_from="2026-05-01", context="explicit")
    memory.corroborate("Ann", "LIKES", "Oslo", valid_from="2025-05-01", observed_at="2025-05-01")

    for day, context, moves in [("2025-06-01", "inferred", 3), ("2026-03-01", "explicit", 1)]:
        found = memory.as_of("2026-03-01", valid_at=day).explain("Ann", "LIKES", "Oslo")
        assert (found.context, len(found.moves)) == (context, moves)


def test_lists_are_read_in_pages_that_stay_right(memory: Memory) -> None:
    """Nothing is skipped or repeated, though somebody writes between two pages."""
    memory.record([{"content": f"message {n}"} for n in range(5)], session_id="s")
    for name in ("Ann", "Bob", "Cem", "Dan", "Eve"):
        memory.remember(name, "LIKES", "Oslo")
    for read in (memory.episodes, memory.entities, memory.relations):
        whole, pages, last = read(), [], None
        while page := read(after=last, limit=2):
            pages += page
            last = page[-1].id
            if len(pages) <= 4:
                memory.retract(memory.remember("Ann", "LIKES", f"{len(pages)}").evidence_id)

        assert pages[: len(whole)] == whole
        assert len({item.id for item in pages}) == len(pages)
    assert [one.object for one in memory.relations("Bob")] == ["Oslo"]
    assert (memory.relations(type="likes"), memory.relations(type="HATES")) == (
        memory.relations(),
        [],
    )
    assert (len(memory.episodes(" s ")), memory.episodes("t"), memory.entities("x")) == (5, [], [])


def test_an_unknown_name_brings_the_closest_to_mind(memory: Memory) -> None:
    """A name is matched whatever its case and spacing; a key tells two of one name apart."""
    memory.add_entity("Ann  Lee", kind="person")
    memory.add_entity("Ann  Lee", key="2", kind="person")

    assert memory.get("ANN lee").name == "Ann  Lee"
    assert memory.get("ann lee", key=" 2 ").key == "2"
    with pytest.raises(UnknownEntity, match="Did you mean 'Ann  Lee'") as caught:
        memory.get("Anne Lee")
    assert caught.value.known == ("Ann  Lee",)
    with pytest.raises(UnknownRelation, match="'Ann  Lee' LIKES 'Oslo'"):
        memory.explain("ann lee", "LIKES", "Oslo")


def test_walks_follow_what_is_sure_enough(tmp_path, clock) -> None:
    """Best path first; what is below `min_confidence` is invisible."""
    with opened(tmp_path, clock, graph={"expansion": {"min_confidence": 0.5}}) as memory:
        memory.remember("Ann", "KNOWS", "Bob")
        memory.remember("Bob", "KNOWS", "Cem")
        memory.remember("Ann", "KNOWS", "Cem", context="inferred")
        memory.remember("Cem", "KNOWS", "Dan", context="speculative")
        reach = memory.traverse("Ann", depth=5)
        paths = memory.paths("Cem", "Ann")

        assert [(r.entity.name, round(r.confidence, 2)) for r in reach] == [
            ("Bob", 0.9),
            ("Cem", 0.81),
        ]
        assert [(path.entities, round(path.confidence, 2)) for path in paths] == [
            (("Cem", "Bob", "Ann"), 0.81),
            (("Cem", "Ann"), 0.6),
        ]
        assert [one.text for one in paths[0].relations] == ["Bob knows Cem", "Ann knows Bob"]
        assert memory.paths("Ann", "Dan") == memory.paths("Ann", "Cem", depth=1, limit=1)[1:] == []
