"""The graph is the sum of the events: however they are cut, the same picture."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import SUBJECT, VALUES, logs

from recall_echo_core.events import (
    EntityDescribed,
    EpisodeRecorded,
    Event,
    EvidenceObserved,
    EvidenceRetracted,
    FeedbackGiven,
    RecallServed,
    SettingsChanged,
    Stored,
)
from recall_echo_core.graph import Graph
from recall_echo_core.picture import Picture
from recall_echo_core.settings import Folding
from recall_echo_core.times import DAY

SALT = b"0" * 16
OSLO, ROME, ACME, BOB = VALUES


class Log:
    """A log in memory that a fold can reread, up to the event folded last."""

    def __init__(self, events: Sequence[Stored]) -> None:
        self.events = list(events)

    def evidence(self, subjects: Collection[bytes]) -> Iterator:
        for item in self.events:
            if getattr(item.event, "subject", None) in subjects:
                yield item.position, item.event

    def feedback(self) -> Iterator[FeedbackGiven]:
        for item in self.events:
            if isinstance(item.event, FeedbackGiven):
                yield item.event


def told(*events: Event) -> list[Stored]:
    return [Stored(number, number * DAY, event) for number, event in enumerate(events, 1)]


def grown(log: Sequence[Stored], cuts: Collection[int] = ()) -> Graph:
    """Fold a log in batches that end at these places."""
    graph = Graph(SALT)
    start = 0
    for end in [*sorted(cuts), len(log)]:
        graph.fold(log[start:end], Log(log[:end]))
        start = max(start, end)
    return graph


def said(number: int, value: bytes = OSLO, at: int = 0, **changes: object) -> EvidenceObserved:
    given = {"establishes": True, "subject": SUBJECT, "type": "LIVES_IN", **changes}
    return EvidenceObserved(
        id=number.to_bytes(16, "big"),
        subject_name="Ann",
        object=value,
        object_name=value[:1].decode(),
        observed_at=at,
        **given,
    )


def taken_back(evidence: EvidenceObserved) -> EvidenceRetracted:
    return EvidenceRetracted(evidence.id, evidence.subject, evidence.type)


def contents(graph: Graph) -> dict[str, object]:
    """Everything a graph holds, listed in its order."""
    return {
        "position": graph.position,
        "folding": graph.folding,
        "nodes": list(graph.nodes.items()),
        "groups": list(graph.groups.items()),
        "relations": [
            (item, mark.group.subject, mark.group.key, mark.object, mark.position)
            for item, mark in graph.relations.items()
        ],
        "episodes": list(graph.episodes.items()),
        "activity": graph.activity,
        "edges": {
            (subject, value): set(types) for subject, value, types in graph.entities.edges.data()
        },
        "texts": graph.texts_after(0),
        "retired": graph.retired,
    }


@given(logs(), st.data())
def test_however_a_log_is_cut_the_picture_is_the_same(log, data) -> None:
    """Folding in any batches gives, bit for bit, what one replay from zero gives."""
    cuts = data.draw(st.sets(st.integers(0, len(log))))

    assert contents(grown(log, cuts)) == contents(grown(log))


@given(logs())
def test_folding_one_at_a_time_is_the_same(log) -> None:
    """A process that followed every event holds what one that replays them holds."""
    assert contents(grown(log, range(len(log)))) == contents(grown(log))


@given(logs(), st.data())
def test_a_snapshot_continues_as_if_nothing_had_happened(log, data) -> None:
    """A graph made of a picture, as bytes and back, holds the same and goes on the same."""
    half = data.draw(st.integers(0, len(log)))
    before = grown(log[:half])
    stored = msgspec.msgpack.encode(before.picture())

    graph = Graph.of(SALT, msgspec.msgpack.decode(stored, type=Picture))
    assert contents(graph) == contents(before)
    graph.fold(log[half:], Log(log))

    assert contents(graph) == contents(grown(log))


@given(logs())
def test_every_fresh_text_is_announced(log) -> None:
    """Whoever embeds what each fold calls fresh has embedded every text there is."""
    graph = grown(log, range(len(log)))

    assert set(graph.texts_after(0)) <= set(graph.fresh)


@given(logs())
def test_each_text_is_known_by_its_newest_event(log) -> None:
    """`texts_after`, `text_position` and `kind_of` agree about every item."""
    graph = grown(log)

    for text in graph.texts_after(0):
        assert (graph.text_position(text.item), graph.kind_of(text.item)) == (
            text.position,
            text.kind,
        )
    assert graph.text_position(b"unknown") is None


@given(logs())
def test_edges_are_seen_from_both_ends_once(log) -> None:
    """Each relation that holds is an edge of its subject and of its object, a loop once."""
    graph = grown(log)
    at = 30 * DAY
    seen = [
        (entity, edge.subject, edge.group.key, edge.object)
        for entity in graph.nodes
        for edge in graph.edges(entity, at, at, 0.0)
    ]

    expected = [
        (entity, mark.group.subject, mark.group.key, mark.object)
        for mark in graph.relations.values()
        if any(period.holds(at) for period in mark.group.values[mark.object])
        for entity in {mark.group.subject, mark.object}
    ]
    assert sorted(seen) == sorted(expected)


def test_an_entity_nobody_mentioned_has_no_edges() -> None:
    """An unknown entity is not an error to a walk, it is a dead end."""
    assert list(grown(told(said(1))).edges(BOB, 0, 0, 0.0)) == []


def test_taking_evidence_back_removes_the_edge_and_the_item() -> None:
    """What rested on one piece of evidence is gone with it; the entities stay."""
    graph = grown(told(said(1), said(2, ROME), taken_back(said(1))), cuts=[1, 2])

    assert [mark.object for mark in graph.relations.values()] == [ROME]
    assert list(graph.entities.edges) == [(SUBJECT, ROME)]
    assert OSLO in graph.nodes


def test_one_of_two_types_between_a_pair_can_go() -> None:
    """Taking one relation back leaves the other relation of the same two entities."""
    log = told(said(1), said(2, type="LIKES"), taken_back(said(1)))
    graph = grown(log, cuts=[2])

    assert list(graph.entities.edges[SUBJECT, OSLO]) == ["likes"]


def test_a_relation_stated_again_after_it_was_taken_back_is_a_new_text() -> None:
    """It stands where it was stated again, for who followed and for who replays."""
    log = told(said(1), taken_back(said(1)), said(2, at=DAY))

    for graph in (grown(log, cuts=[1, 2]), grown(log)):
        assert [mark.position for mark in graph.relations.values()] == [3]


def test_relations_are_listed_in_the_order_they_were_first_stated() -> None:
    """A replay, a snapshot and a process that followed list the same order."""
    log = told(said(1), said(2, subject=BOB), said(3, ROME))
    followed, replayed = grown(log, cuts=[1, 2]), grown(log)

    for graph in (followed, replayed, Graph.of(SALT, replayed.picture())):
        assert [mark.position for mark in graph.relations.values()] == [1, 2, 3]


def test_late_evidence_refolds_its_own_group_only() -> None:
    """Every other group keeps its very values."""
    graph = grown(told(said(1, at=DAY), said(2, type="LIKES", at=DAY), said(3, subject=BOB)))
    before = {key: group.values for key, group in graph.groups.items()}
    asked = []
    late = Stored(4, 4 * DAY, said(4, at=0, context="speculative"))

    class Watched(Log):
        def evidence(self, subjects: Collection[bytes]) -> Iterator:
            asked.extend(subjects)
            return super().evidence(subjects)

    graph.fold([late], Watched([*told(said(1, at=DAY), said(2, type="LIKES", at=DAY)), late]))

    changed = [key for key, group in graph.groups.items() if group.values is not before[key]]
    assert changed == [(SUBJECT, "lives_in")]
    assert asked == [SUBJECT]
    assert graph.groups[SUBJECT, "lives_in"].values[OSLO][0].belief.mean == 4 / 11


def test_evidence_in_order_rereads_nothing() -> None:
    """Only what arrives late costs a look at the log."""
    graph = grown(told(said(1)))

    class Closed(Log):
        def evidence(self, subjects: Collection[bytes]) -> Iterator:
            raise AssertionError("reread")

    graph.fold([Stored(2, 0, said(2, at=DAY))], Closed([]))

    assert graph.groups[SUBJECT, "lives_in"].values[OSLO][0].supports == 2


@pytest.mark.parametrize(("second", "utility"), [(1.0, 0.55), (0.0, 0.45), (0.5, 0.5)])
def test_a_replaced_verdict_counts_as_if_it_had_been_the_first(second, utility) -> None:
    """The utility is that of the last verdict alone, in the place of the first."""
    recall = RecallServed(b"r" * 16, 0, [(OSLO, "entity", 0.5)])
    first = FeedbackGiven(recall.id, "user", 1.0, [OSLO], [])
    again = FeedbackGiven(recall.id, "user", second, [OSLO], [], replaces=2)
    log = told(recall, first, again)

    for graph in (grown(log), grown(log, cuts=[2])):
        assert graph.activity[OSLO].utility == pytest.approx(utility, abs=1e-12)


def test_a_replaced_verdict_leaves_other_items_alone() -> None:
    """Items the verdict was not about keep their very numbers."""
    shown = [(item, "entity", 0.5) for item in (OSLO, ROME)]
    events = [RecallServed(b"r" * 16, 0, shown[:1]), RecallServed(b"q" * 16, 0, shown[1:])]
    events += [FeedbackGiven(b"q" * 16, "user", 0.37, [ROME], [])]
    events += [FeedbackGiven(b"r" * 16, "user", 1.0, [OSLO], [])]
    graph = grown(told(*events))
    other = graph.activity[ROME].utility
    log = told(*events, FeedbackGiven(b"r" * 16, "user", 0.0, [OSLO], [], replaces=4))

    graph.fold(log[-1:], Log(log))

    assert (graph.activity[ROME].utility, graph.activity[OSLO].utility) == (other, 0.45)


def test_new_settings_refold_everything_and_later_evidence_uses_them() -> None:
    """A single-valued type counts rivals from the first piece on, however late it is declared."""
    declared = SettingsChanged(Folding(single_valued=frozenset({"lives_in"})))
    log = told(said(1), said(2, ROME, at=1), declared, said(3, ROME, at=2))

    for graph in (grown(log), grown(log, cuts=[1, 2, 3])):
        assert graph.groups[SUBJECT, "lives_in"].values[OSLO][0].opposes == 2


def test_what_was_not_said_about_an_entity_stays() -> None:
    """A description adds to the earlier ones; only a new abstract is a new text."""
    first = EntityDescribed(OSLO, "Oslo", kind="city", abstract="a", overview="o")
    second = EntityDescribed(OSLO, "OSLO", abstract="a", content="c", metadata={"a": 1})
    third = EntityDescribed(OSLO, "oslo", abstract="b")
    node = grown(told(first, second, third)).nodes[OSLO]

    assert (node.name, node.kind, node.abstract) == ("Oslo", "city", "b")
    assert (node.details, node.first_position, node.text_position) == ((1, 2, 2), 1, 3)


def test_an_episode_is_marked_by_what_it_can_be_filtered_by() -> None:
    """The graph holds where it stands and who said it when, not its text."""
    event = EpisodeRecorded(b"e" * 16, "long text", 5, "user", "Ann", "s1")
    graph = grown(told(event))

    mark = graph.episodes[event.id]
    assert msgspec.structs.astuple(mark) == (1, 5, "s1", "user", "Ann")
