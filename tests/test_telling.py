"""Everything that can be told: refused before it is written, or durable and folded."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from recall_echo_core import Memory, RecallEchoError, Statement, open_memory
from recall_echo_core.errors import UnknownEvidence, UnknownRelation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import MovableClock

ALONE = {"vectors": {"background": False}}
FACT: dict[str, Any] = {"subject": "Ann", "type": "LIVES_IN", "object": "Oslo"}


def letters(texts: list[str]) -> list[list[float]]:
    """A model of sorts: texts are near that share letters."""
    return [[text.lower().count(letter) + 0.01 for letter in "abcdefghilmnorstu"] for text in texts]


@pytest.fixture
def memory(tmp_path: Path, clock: MovableClock) -> Iterator[Memory]:
    with open_memory(tmp_path / "m", embedding=letters, clock=clock, settings=ALONE) as memory:
        yield memory


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    folder = tmp_path_factory.mktemp("m")
    with open_memory(folder, embedding=letters, settings=ALONE) as memory:
        memory.remember(**FACT)
        yield memory


NAME = [5, b"Ann", ["Ann"], True, "", " \t", "\ud800", "x" * 1_001]
TEXT = [5, b"a", "\ud800", "x" * 1_000_001]
TIME = [5, 0.5, True, math.nan, b"2026", "", "today", "2026-13-01", "\ud800"]
TIME += ["0001-01-01T00:00+01:00", datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))]
ID = [5, "", "M1", "0" * 31, "g" * 32, b"0" * 16, "0" * 32]
METADATA = [5, "a", [1], {1: 2}, {"a": {1}}, {"a": b"b"}, {"a": math.nan}, {"a": [math.inf]}]
METADATA += [{"a": "\ud800"}, {"\ud800": 1}, {"a": 2**63}, {"$recall_echo": "date"}]
DETAILS: dict[str, list[Any]] = {
    "source": [None, *NAME],
    "weight": [None, 0, -1, 1.5, math.nan, math.inf, True, "1", 10**400, 1j],
    "context": [None, 5, "", "sure", [], "Explicit"],
    "observed_at": TIME,
    "valid_until": TIME,
    "statement_id": NAME,
    "episode_id": ID,
    "metadata": METADATA,
}
MESSAGES = [
    None, 5, "hi", [5], ["hi"], [None], [{}], [{"content": None}], [{"content": ""}],
    [{"content": " \n"}], [{"content": "a", "text": "b"}], [{"content": "\ud800"}],
    [{"content": "x" * 1_000_001}], {"content": "a", "role": None}, {"content": "a", "role": ""},
    {"content": "a", "name": 5}, {"content": "a", "id": 1.5}, {"content": "a", "id": True},
    {"content": "a", "time": "today"}, {"content": "a", "metadata": [1]},
    [{"content": "fine"}, {"content": "fine", "time": 5}],
]  # fmt: skip
STATEMENTS = [
    None, 5, "hi", [5], ["hi"], [FACT], [Statement(**FACT), None], [Statement(**FACT, weight=2)],
    [Statement(**FACT, supports="no")], [Statement(**FACT, establishes=None)],
]  # fmt: skip
triple = {word: [None, *NAME] for word in FACT}
TOLD: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "remember": (FACT, {**triple, **DETAILS, "valid_from": TIME}),
    "corroborate": (FACT, {**triple, **DETAILS, "valid_from": TIME}),
    "contradict": (FACT, {**triple, **DETAILS, "valid_from": TIME}),
    "supersede": ({"subject": "Ann", "type": "LIVES_IN", "old": "Oslo", "new": "Rome"}, {
        "subject": [None, *NAME], "type": [None, *NAME], "old": [None, *NAME],
        "new": [None, *NAME, "Oslo", "oslo ", "OSLO"], "at": TIME, "valid_from": ["2026-01-01"],
        **DETAILS,
    }),
    "observe": ({"statements": []}, {"statements": STATEMENTS}),
    "retract": ({}, {"evidence_id": [None, *ID]}),
    "add_entity": ({"name": "Ann"}, {
        "name": [None, *NAME], "kind": NAME, "key": NAME, "metadata": METADATA,
        "abstract": TEXT, "overview": TEXT, "content": TEXT,
    }),
    "record": ({"messages": []}, {"messages": MESSAGES, "session_id": NAME}),
    "recall": ({"text": "who?"}, {"now": TIME, "run_id": ["", " ", "\ud800", "x" * 1_001]}),
    "as_of": ({"known_at": "2026-01-01"}, {"known_at": TIME, "valid_at": TIME}),
    "namespace": ({"name": "bob"}, {"name": [None, *NAME]}),
    "mark_used": ({"response": "Oslo [M1]"}, {
        "recall_id": [None, *ID], "response": TEXT, "question": TEXT,
        "used": [5, "M1", ["M99"], [5], ["0" * 32]],
    }),
    "feedback": ({"outcome": "success"}, {
        "recall_id": [None, *ID], "source": [None, *NAME],
        "outcome": [None, True, "good", "", -0.1, 1.1, math.nan, 10**400, [1]],
    }),
    "feedback_for_run": ({"run_id": "run", "score": 1.0}, {
        "run_id": ["", " ", "\ud800", "other"], "key": [None, *NAME],
        "score": [None, "success", -0.1, 1.1, math.nan, math.inf, 10**400],
    }),
}  # fmt: skip

CASES = [(verb, word) for verb, (_, bad) in TOLD.items() for word in bad]


@pytest.mark.parametrize(("verb", "word"), CASES)
def test_what_cannot_be_kept_is_refused_before_it_is_written(told: Memory, verb, word) -> None:
    """With a `ValueError`, a `TypeError` or an error of ours that says what is wrong."""
    given, bad = TOLD[verb]
    if verb in ("mark_used", "feedback", "feedback_for_run"):
        found = told.recall("who?", run_id="run")
        given = given if "run_id" in given else {"recall_id": found.id, **given}
    told.flush()
    before = told.stats().events
    for value in bad[word]:
        with pytest.raises((ValueError, TypeError, RecallEchoError)) as caught:
            getattr(told, verb)(**{**given, word: value})
        error = caught.value
        assert type(error) in (ValueError, TypeError) or isinstance(error, RecallEchoError), value
        assert len(str(error)) > 15
        assert "could not convert" not in str(error)

    with pytest.raises(TypeError, match=r"[Uu]nexpected keyword"):
        getattr(told, verb)(**given, nonsense=1)
    assert told.stats().events == before
    assert told.verify().ok


def test_stating_again_corroborates(memory: Memory) -> None:
    """The worked example: .600 .636 .667 .692, and .643 after a contradiction."""
    said = [memory.remember(**FACT, context="inferred") for _ in range(4)]
    said.append(memory.contradict(**FACT))

    assert [round(relation.confidence, 3) for relation in said] == [0.6, 0.636, 0.667, 0.692, 0.643]
    assert (said[-1].supports, said[-1].opposes, said[-1].contested) == (4, 1, True)
    assert len({relation.evidence_id for relation in said}) == 5


@pytest.mark.parametrize(
    ("verb", "context", "expected"),
    [
        ("remember", "authoritative", (10, 0)),
        ("remember", "speculative", (3, 7)),
        ("corroborate", "inferred", (7, 4)),
        ("contradict", "inferred", (6, 5)),
        ("contradict", "authoritative", (10, 1)),
    ],
)
def test_what_was_unknown_starts_at_its_prior(memory, verb, context, expected) -> None:
    """A statement is its prior; other evidence counts on top."""
    relation = getattr(memory, verb)(**FACT, context=context)

    assert (relation.alpha, relation.beta, relation.context) == (*expected, context)


def test_what_gave_way_was_true_until_then(memory: Memory) -> None:
    """The old value ends and keeps its confidence; the new one begins where it ended."""
    old = memory.remember(**FACT, observed_at="2026-01-01")
    new = memory.supersede("Ann", "LIVES_IN", "Oslo", "Rome", at="2026-02-01", source="tool")

    before, after = memory.relations()
    changed = datetime(2026, 2, 1, tzinfo=UTC)
    assert (before.valid_until, before.confidence) == (changed, old.confidence)
    assert (after.valid_from, after.confidence, after.id) == (changed, 0.9, new.id)
    assert [belief.object for belief in memory.beliefs("Ann", "LIVES_IN")] == ["Rome"]


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2026-03-01", "2026-02-01"),
        ("2026-03-01T12:00", "2026-03-01T12:00"),
        ("2026-03-01T12:00+00:00", "2026-03-01T12:30+01:00"),
        (datetime.fromisoformat("2026-03-01"), datetime(2026, 2, 1, tzinfo=UTC)),
    ],
)
def test_a_period_that_ends_before_it_begins_is_refused(memory, start, end) -> None:
    """Aware times are compared with naive ones, which are UTC."""
    before = memory.stats().events
    for call in (
        lambda: memory.remember(**FACT, valid_from=start, valid_until=end),
        lambda: memory.supersede("Ann", "LIVES_IN", "Oslo", "Rome", at=start, valid_until=end),
    ):
        with pytest.raises(ValueError, match="must be later than"):
            call()

    assert memory.stats().events == before


def test_a_bare_date_is_a_whole_day(memory: Memory) -> None:
    """From its first microsecond to its last, so one day is a period and holds to its end."""
    relation = memory.remember(**FACT, valid_from="2026-03-01", valid_until="2026-03-01")

    assert relation.valid_from == datetime(2026, 3, 1, tzinfo=UTC)
    assert relation.valid_until == datetime(2026, 3, 2, tzinfo=UTC)
    assert [
        len(memory.as_of(valid_at=asked).beliefs("Ann", "LIVES_IN"))
        for asked in ("2026-02-28", "2026-03-01", "2026-03-02T00:00Z")
    ] == [0, 1, 0]


def test_what_is_observed_on_the_last_day_speaks_about_the_period(memory: Memory) -> None:
    """A confirmation of that day corroborates, and opens no second period."""
    memory.remember(**FACT, valid_from="2026-02-01", valid_until="2026-02-28")
    memory.remember(**FACT, observed_at="2026-02-28")

    assert [(r.alpha, r.valid_until) for r in memory.relations("Ann")] == [
        (10.0, datetime(2026, 3, 1, tzinfo=UTC))
    ]


def test_a_later_supersede_moves_the_change_both_ways(memory: Memory) -> None:
    """The last word about the moment counts for the end of the old and the start of the new."""
    memory.remember("Ann", "LIVES_IN", "Paris")
    for day in ("2026-02-01", "2026-02-15", "2026-02-10"):
        memory.supersede("Ann", "LIVES_IN", "Paris", "Oslo", at=day)

        held = {r.object: (r.valid_from, r.valid_until) for r in memory.relations("Ann")}
        moment = datetime.fromisoformat(f"{day}T00:00+00:00")
        assert held == {"Paris": (None, moment), "Oslo": (moment, None)}


def test_what_is_told_in_one_moment_counts_in_the_order_told(memory: Memory) -> None:
    """There and back again on a standing clock leaves the last word."""
    memory.remember("Ann", "LIVES_IN", "Paris")
    memory.supersede("Ann", "LIVES_IN", "Paris", "Oslo")
    memory.supersede("Ann", "LIVES_IN", "Oslo", "Paris")

    assert [belief.object for belief in memory.beliefs("Ann", "LIVES_IN")] == ["Paris"]


def test_what_is_said_to_have_ended_before_it_began_does_not_hold(memory: Memory) -> None:
    """Of two values only the newest holds."""
    memory.remember("Ann", "LIVES_IN", "Oslo", valid_from="2026-02-15")
    memory.supersede("Ann", "LIVES_IN", "Oslo", "Rome", at="2026-02-01")

    assert [belief.object for belief in memory.beliefs("Ann", "LIVES_IN")] == ["Rome"]


def test_taking_a_change_back_brings_the_old_value_back(memory: Memory) -> None:
    """Both the new value and the end of the old one are taken back."""
    memory.remember("Ann", "LIVES_IN", "Paris")
    changed = memory.supersede("Ann", "LIVES_IN", "Paris", "Oslo", at="2026-02-01")
    assert changed.evidence_id is not None
    memory.retract(changed.evidence_id)

    (belief,) = memory.beliefs("Ann", "LIVES_IN")
    assert (belief.object, belief.relation.valid_until) == ("Paris", None)


@pytest.mark.parametrize("word", ["supports", "establishes", "context_", "wieght"])
@pytest.mark.parametrize("verb", ["corroborate", "contradict"])
def test_a_verb_decides_its_own_direction(memory: Memory, verb: str, word: str) -> None:
    """Nothing a caller adds turns a confirmation into a doubt; a typo is named."""
    with pytest.raises(TypeError, match=f"unexpected keyword '{word}'; known: source"):
        getattr(memory, verb)(**FACT, **{word: False})


def test_the_same_statement_counts_once(memory: Memory) -> None:
    """By its id, or by its episode, where for and against are two statements."""
    (episode,) = memory.record({"content": "Ann lives in Oslo"})
    for _ in range(2):
        memory.remember(**FACT, statement_id="1")
        memory.corroborate(**FACT, episode_id=episode)
        relation = memory.contradict(**FACT, episode_id=episode.upper())

    assert (relation.supports, relation.opposes) == (2, 1)


def test_evidence_can_be_taken_back_once(memory: Memory) -> None:
    """The second time changes nothing; a relation without evidence is unknown."""
    first, second = memory.remember(**FACT), memory.contradict(**FACT)
    memory.retract(second.evidence_id)
    memory.retract(second.evidence_id)

    assert memory.beliefs("Ann", "LIVES_IN")[0].relation.belief == first.belief
    assert memory.stats().events == 3
    memory.retract(first.evidence_id)
    with pytest.raises(UnknownRelation, match="state it with remember"):
        memory.explain(**FACT)
    with pytest.raises(UnknownEvidence, match="explain"):
        memory.retract("0" * 32)


def test_what_is_not_said_about_an_entity_stays(memory: Memory) -> None:
    """Each text for itself; metadata as a whole; the first spelling of the name."""
    memory.add_entity("Ann", kind="person", abstract="a", content="c", metadata={"a": 1, "b": [2]})
    memory.add_entity("ANN", overview="o", abstract="b")
    entity = memory.add_entity("ann", metadata={"a": None})

    assert (entity.name, entity.kind, entity.text) == ("Ann", "person", "Ann: b")
    assert (entity.overview, entity.content, entity.metadata) == ("o", "c", {"a": None})
    assert memory.entities() == [entity] == [memory.get("Ann")]


def test_an_entity_can_be_given_as_a_value(memory: Memory) -> None:
    """That tells two of one name apart; one of another namespace is refused."""
    other = memory.add_entity("Ann", key="2")
    memory.remember(other, "LIVES_IN", "Oslo")

    assert memory.beliefs("Ann", "LIVES_IN") == []
    assert memory.beliefs(other, "LIVES_IN")[0].relation.subject_id == other.id
    with pytest.raises(ValueError, match="another namespace"):
        memory.namespace("bob").remember(other, "LIVES_IN", "Oslo")


def test_messages_are_kept_in_order_and_verbatim(memory, clock) -> None:
    """With what is known about each; one with an id is kept once per session."""
    full = {"role": "ai", "content": " hi\n", "name": "Eve", "time": "2026-01-01T10:00+01:00"}
    messages = [{"content": "a"}, {**full, "metadata": {"n": 1}}, {"content": "b", "id": 7}]
    ids = memory.record(iter(messages), session_id="s")
    assert memory.record([{"content": "c", "id": "7"}], session_id=" s") == ids[2:]
    assert memory.record([{"content": "d", "id": "7"}], session_id="t") != ids[2:]

    one, two, three, _ = memory.episodes()
    assert [one.id, two.id, three.id] == ids
    assert (one.role, one.speaker, one.time, one.session_id) == ("user", "user", clock(), "s")
    assert (two.content, two.text, two.metadata) == (" hi\n", "Eve:  hi\n", {"n": 1})
    assert two.time == datetime(2026, 1, 1, 9, tzinfo=UTC)


def test_many_statements_come_back_in_order(memory: Memory) -> None:
    """More than a batch; a repeated one has the id of the first."""
    said = [Statement(subject=f"S{n}", type="R", object="O") for n in range(1_500)]
    twice = [Statement(**FACT, statement_id="1", supports=False)] * 2
    ids = memory.observe(iter([*said, *twice]))

    assert len(set(ids)) == 1_501
    assert ids[-1] == ids[-2] == memory.explain(**FACT).moves[-1].evidence_id
    assert memory.stats().events == 1_501
