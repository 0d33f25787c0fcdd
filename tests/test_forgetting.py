"""What has to go when something is forgotten, as a rule about logs that touches nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import KNOWN, SESSIONS, SOURCES, SUBJECT, TYPES, VALUES, lives

from recall_echo_core.events import (
    EntityDescribed,
    EpisodeRecorded,
    Erased,
    Event,
    EvidenceObserved,
    EvidenceRetracted,
    FeedbackGiven,
    RecallServed,
    RelationEnded,
    SettingsChanged,
    Stored,
    UsageMarked,
    kind_of,
    type_key,
)
from recall_echo_core.forgetting import ListLoader, Plan, Selection, planned
from recall_echo_core.graph import Graph
from recall_echo_core.names import identity
from recall_echo_core.settings import Folding
from recall_echo_core.times import DAY

SALT = b"0" * 16
A, B, C, D = VALUES


def told(*events: Event) -> list[Stored]:
    """A log of these events, one a day."""
    return [Stored(number, number * DAY, event) for number, event in enumerate(events, 1)]


def said(number: int, subject: bytes = SUBJECT, object: bytes = A, **more: Any) -> EvidenceObserved:
    given: dict[str, Any] = {
        "id": number.to_bytes(16, "big"), "subject": subject, "type": "LIKES", "object": object,
        "subject_name": subject[:1].decode(), "object_name": object[:1].decode(),
        "observed_at": number * DAY, "establishes": True,
    }  # fmt: skip
    return EvidenceObserved(**given | more)


def ended(number: int, object: bytes, **more: Any) -> RelationEnded:
    evidence = said(number, object=object, **more)
    names = [name for name in RelationEnded.__struct_fields__ if name != "at"]
    return RelationEnded(at=number * DAY, **{name: getattr(evidence, name) for name in names})


def spoken(number: int, content: str = "nothing", **more: Any) -> EpisodeRecorded:
    return EpisodeRecorded(episode(number), content, number * DAY, **more)


def episode(number: int) -> bytes:
    return bytes([200 + number]) * 16


def relation(subject: bytes, object: bytes, type: str = "LIKES") -> bytes:
    return identity(SALT, "relation", subject.hex(), type_key(type), object.hex())


def folded(log: Sequence[Stored]) -> Graph:
    graph = Graph(SALT)
    graph.fold(log, ListLoader(log))
    return graph


def followed(log: Sequence[Stored]) -> Graph:
    """The same graph, by a process that hears of each event on its own."""
    graph = Graph(SALT)
    for number in range(len(log)):
        graph.fold(log[number : number + 1], ListLoader(log[: number + 1]))
    return graph


def everything(graph: Graph) -> dict[str, object]:
    """All that a graph answers from."""
    return {
        "settings": graph.folding,
        "entities": list(graph.nodes.values()),
        "beliefs": {key: (g.last, g.values) for key, g in graph.groups.items() if g.values},
        "relations": {item: mark.position for item, mark in graph.relations.items()},
        "edges": {(a, b, *types) for a, b, types in graph.entities.edges(data=True)},
        "episodes": list(graph.episodes.items()),
        "activity": graph.activity,
        "texts": graph.texts_after(0),
    }


def after(log: Sequence[Stored], plan: Plan) -> list[Stored]:
    """The log as the plan leaves it."""
    return [
        msgspec.structs.replace(stored, event=Erased(kind_of(stored.event)))
        if stored.position in plan.blanked
        else msgspec.structs.replace(
            stored, event=plan.rewritten.get(stored.position, stored.event)
        )
        for stored in log
    ]


def nameable(log: Iterable[Stored]) -> set[bytes]:
    """Every entity, relation and episode that a log says anything about."""
    items: set[bytes] = set()
    for stored in log:
        event = stored.event
        if isinstance(event, EvidenceObserved | RelationEnded):
            items |= {event.subject, event.object}
            items.add(relation(event.subject, event.object, event.type))
        elif isinstance(event, EntityDescribed | EpisodeRecorded):
            items.add(event.id)
    return items


def never_held(log: Sequence[Stored], blanked: Collection[int], gone: set[bytes]) -> list[Stored]:
    """The log of a memory that never held some events, and so never recalled some items."""
    log = [stored for stored in log if stored.position not in blanked]
    return [msgspec.structs.replace(stored, event=_unseen(stored.event, gone)) for stored in log]


def _unseen(event: Event, gone: set[bytes]) -> Event:
    replace = msgspec.structs.replace
    if isinstance(event, RecallServed):
        return replace(event, hits=[hit for hit in event.hits if hit[0] not in gone])
    if isinstance(event, UsageMarked):
        return replace(event, used=[item for item in event.used if item not in gone])
    if isinstance(event, FeedbackGiven):
        used, unused = ([i for i in items if i not in gone] for items in (event.used, event.unused))
        return replace(event, used=used, unused=unused)
    return event


triples = st.tuples(
    st.sampled_from(KNOWN), st.sampled_from(TYPES).map(type_key), st.sampled_from(KNOWN)
)
selections = st.one_of(
    st.builds(Selection, entity=st.sampled_from(KNOWN), keep_episodes=st.booleans()),
    st.builds(Selection, relation=triples),
    st.builds(Selection, session=st.sampled_from(SESSIONS)),
    st.builds(Selection, source=st.sampled_from([*SOURCES, "Ann"])),
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Stored], Selection]:
    """A log, and a selection that may or may not match something in it."""
    log = draw(lives(SALT))
    episodes = [stored.event.id for stored in log if isinstance(stored.event, EpisodeRecorded)]
    one = st.builds(Selection, episode=st.sampled_from([b"?" * 16, *episodes]))
    return log, draw(selections | one)


CHANGED_VERDICT = told(
    said(1, object=A),
    said(2, object=B),
    RecallServed(b"r" * 16, 2 * DAY, [(A, "entity", 0.5), (B, "entity", 0.4)]),
    FeedbackGiven(b"r" * 16, "user", 1.0, [A], [B]),
    FeedbackGiven(b"r" * 16, "user", 0.0, [A], [B], replaces=4),
)
TAKEN_BACK = told(
    said(1, object=A),
    RecallServed(b"r" * 16, DAY, [(relation(SUBJECT, A), "relation", 0.5)]),
    EvidenceRetracted(said(1).id, SUBJECT, "LIKES"),
    said(2, object=B),
)


class TestTheRule:
    @given(cases())
    @example((CHANGED_VERDICT, Selection(entity=A)))
    @example((TAKEN_BACK, Selection(entity=A)))
    @example((TAKEN_BACK, Selection(relation=(SUBJECT, "likes", A))))
    def test_what_is_left_is_what_a_log_that_never_held_it_gives(self, case) -> None:
        """Numbers, periods, utility, accesses and heat are those of the events that stay."""
        log, selection = case
        plan = planned(log, SALT, selection)
        survivors = [stored for stored in log if stored.position not in plan.blanked]
        gone = (nameable(log) - nameable(survivors)) | plan.gone
        unheard = never_held(log, plan.blanked, gone)

        assert everything(plan.graph) == everything(folded(unheard))
        assert everything(plan.graph) == everything(folded(after(log, plan)))
        if unheard:
            assert everything(plan.graph) == everything(followed(unheard))

    @given(cases())
    def test_what_is_gone_is_what_was_there_and_is_no_more(self, case) -> None:
        """Nothing left in the log names an item that nothing says anything about."""
        log, selection = case
        plan = planned(log, SALT, selection)
        left = after(log, plan)
        kept = plan.graph
        there = {*kept.nodes, *kept.relations, *kept.episodes}

        assert plan.gone >= nameable(log) - nameable(left)
        assert not plan.gone & there
        assert plan.gone <= nameable(log)
        for stored in left:
            if isinstance(stored.event, RecallServed):
                assert not plan.gone & {item for item, _, _ in stored.event.hits}
            if isinstance(stored.event, UsageMarked | FeedbackGiven):
                assert not plan.gone & {*stored.event.used, *getattr(stored.event, "unused", ())}

    @given(cases())
    def test_forgetting_again_finds_nothing(self, case) -> None:
        """Of a log in which something was forgotten, the same selection takes nothing more."""
        log, selection = case
        plan = planned(log, SALT, selection)
        left = after(log, plan)
        again = planned(left, SALT, selection)

        assert not (again.blanked or again.rewritten or again.gone or again.respelt)
        assert set(again.counts.values()) == {0}
        assert everything(again.graph) == everything(plan.graph)

    @given(cases())
    def test_other_beliefs_keep_their_numbers(self, case) -> None:
        """A group none of whose evidence goes has the same periods, bit for bit."""
        log, selection = case
        plan = planned(log, SALT, selection)
        touched = {
            (stored.event.subject, type_key(stored.event.type))
            for stored in log
            if stored.position in plan.blanked
            and isinstance(stored.event, EvidenceObserved | RelationEnded)
        }
        before = {key: group.values for key, group in folded(log).groups.items()}
        now = {key: group.values for key, group in plan.graph.groups.items()}

        assert {key: now[key] for key in before if key not in touched} == {
            key: values for key, values in before.items() if key not in touched
        }

    @given(cases())
    def test_positions_stay_dense_and_kinds_stay(self, case) -> None:
        """Every event stands where it stood; what is rewritten is of the same kind and recall."""
        log, selection = case
        plan = planned(log, SALT, selection)
        left = after(log, plan)

        assert [stored.position for stored in left] == list(range(1, len(log) + 1))
        assert [kind_of(s.event) for s in left] == [kind_of(s.event) for s in log]
        assert [s.recorded_at for s in left] == [s.recorded_at for s in log]
        assert not plan.blanked & plan.rewritten.keys()
        assert plan.graph.position == len(log)
        assert {kind_of(e) for e in plan.rewritten.values()} <= {"recall", "usage", "feedback"}

    @given(cases())
    def test_texts_that_changed_are_embedded_again(self, case) -> None:
        """A text of a new place, or spelt otherwise, lies past where vectors are taken as made."""
        log, selection = case
        plan = planned(log, SALT, selection)
        before, now = folded(log), plan.graph
        known = set(before.texts_after(0))
        moved = {text for text in now.texts_after(0) if text not in known}
        renamed = {
            text.item
            for text in now.texts_after(0)
            if text in known
            and text.kind == "entity"
            and now.nodes[text.item].name != before.nodes[text.item].name
        }

        assert all(text.position > plan.embed_after for text in moved)
        assert renamed <= plan.respelt
        assert all(now.text_position(item) > plan.embed_after for item in plan.respelt)

    @given(cases())
    def test_no_event_says_what_was_selected(self, case) -> None:
        """What stays matches no part of the selection, and settings always stay."""
        log, selection = case
        plan = planned(log, SALT, selection)

        for stored in after(log, plan):
            event = stored.event
            if isinstance(event, EvidenceObserved | RelationEnded):
                assert selection.entity not in (event.subject, event.object)
                assert selection.source != event.source
                assert selection.relation != (event.subject, type_key(event.type), event.object)
                assert event.episode is None or event.episode in plan.graph.episodes
            elif isinstance(event, EpisodeRecorded):
                assert event.id != selection.episode
                assert selection.session is None or event.session != selection.session
                assert selection.source is None or selection.source not in (event.role, event.name)
            elif isinstance(event, EntityDescribed):
                assert event.id != selection.entity
            elif isinstance(event, FeedbackGiven):
                assert event.source != selection.source
        settings = {s.position for s in log if isinstance(s.event, SettingsChanged | RecallServed)}
        assert not settings & plan.blanked

    @given(cases())
    def test_the_receipt_counts_what_goes(self, case) -> None:
        """By kind of event, and by nothing else."""
        log, selection = case
        plan = planned(log, SALT, selection)
        kinds = [kind_of(stored.event) for stored in log if stored.position in plan.blanked]

        assert plan.counts == {
            "entities": kinds.count("entity"),
            "evidence": kinds.count("evidence") + kinds.count("ended"),
            "episodes": kinds.count("episode"),
        }


def gone(log: Sequence[Stored], **selection: Any) -> list[int]:
    """The positions that a selection takes."""
    return sorted(planned(log, SALT, Selection(**selection)).blanked)


class TestWhatGoesWith:
    def test_an_entity_takes_what_names_it(self) -> None:
        """Its relations both ways, its texts, and episodes by any spelling, in text, name, data."""
        log = told(
            said(1, SUBJECT, A, object_name="Ann Lee"),
            said(2, A, B, subject_name="ANN  lee"),
            said(3, SUBJECT, B),
            EntityDescribed(A, "Ann Lee", abstract="a friend"),
            EntityDescribed(B, "B", abstract="knows Ann Lee"),
            spoken(1, "I met ann lee today"),
            spoken(2, "hello", name="Ann Lee"),
            spoken(3, "hello", metadata={"with": ["Bob", {"who": "Ann Lee"}]}),
            spoken(4, "hello Leeann, an alleean"),
            ended(4, A),
        )

        assert gone(log, entity=A) == [1, 2, 4, 6, 7, 8, 10]
        assert planned(log, SALT, Selection(entity=A)).mentions == 1  # B's abstract

    def test_keeping_episodes_keeps_them_and_what_they_say_of_others(self) -> None:
        """`keep_episodes` spares episodes that name the entity; they are counted as mentions."""
        log = told(
            spoken(1, "A and B like it"),
            said(1, SUBJECT, A, episode=episode(1)),
            said(2, SUBJECT, B, episode=episode(1)),
        )
        plan = planned(log, SALT, Selection(entity=A, keep_episodes=True))

        assert (sorted(plan.blanked), plan.mentions) == ([2], 1)
        assert gone(log, entity=A) == [1, 2, 3]

    def test_forgetting_an_entity_leaves_the_descriptions_of_others(self) -> None:
        """What others are described as is theirs, though nothing relates to them any more."""
        log = told(EntityDescribed(B, "B", abstract="a tool maker"), said(1, A, B))
        plan = planned(log, SALT, Selection(entity=A))

        assert plan.blanked == {2}
        assert plan.graph.nodes[B].abstract == "a tool maker"

    def test_a_relation_goes_and_both_ends_keep_their_descriptions(self) -> None:
        """In any spelling of its type, with ends of periods; other relations of both stay."""
        log = told(
            EntityDescribed(SUBJECT, "S", abstract="somebody"),
            EntityDescribed(A, "A", abstract="something"),
            said(1, SUBJECT, A),
            said(2, SUBJECT, A, type="likes", supports=False, establishes=False),
            said(3, SUBJECT, A, type="OWNS"),
            said(4, A, SUBJECT),
            ended(5, A),
        )
        plan = planned(log, SALT, Selection(relation=(SUBJECT, "likes", A)))

        assert sorted(plan.blanked) == [3, 4, 7]
        assert plan.gone == {relation(SUBJECT, A)}
        assert [plan.graph.nodes[id].abstract for id in (SUBJECT, A)] == ["somebody", "something"]

    @pytest.mark.parametrize(
        "selection",
        [{"session": "monday"}, {"source": "tool"}, {"episode": episode(1)}],
        ids=["session", "source", "episode"],
    )
    def test_what_rests_on_nothing_else_goes_too(self, selection) -> None:
        """A description goes with the last evidence about its entity, and stays with any other."""
        log = told(
            spoken(1, session="monday", role="tool"),
            EntityDescribed(A, "A", abstract="only known from monday"),
            EntityDescribed(B, "B", abstract="known otherwise, too"),
            EntityDescribed(C, "C", abstract="never related to anything"),
            said(1, B, A, episode=episode(1), source="tool"),
            said(2, SUBJECT, B),
        )
        plan = planned(log, SALT, Selection(**selection))

        assert sorted(plan.blanked) == [1, 2, 5]
        assert list(plan.graph.nodes) == [B, C, SUBJECT]
        assert plan.gone == {A, relation(B, A), episode(1)}

    def test_a_source_takes_roles_speakers_evidence_and_verdicts(self) -> None:
        """All that was said under a name goes, so that the name is nowhere any more."""
        log = told(
            spoken(1, role="crm"),
            spoken(2, name="crm"),
            spoken(3, "crm said"),
            said(1, source="crm"),
            said(2, object=B, source="user"),
            RecallServed(b"r" * 16, DAY, [(B, "entity", 0.5)]),
            FeedbackGiven(b"r" * 16, "crm", 1.0, [B], []),
            FeedbackGiven(b"r" * 16, "user", 1.0, [B], []),
        )
        plan = planned(log, SALT, Selection(source="crm"))

        assert sorted(plan.blanked) == [1, 2, 4, 7]
        assert plan.graph.activity[B].utility == 0.55

    def test_retractions_go_with_the_evidence_they_took_back(self) -> None:
        """A retraction of what stays stays, and goes on holding."""
        log = told(
            said(1, source="crm"),
            said(2, source="user"),
            EvidenceRetracted(said(1).id, SUBJECT, "LIKES"),
            EvidenceRetracted(said(2).id, SUBJECT, "LIKES"),
        )
        plan = planned(log, SALT, Selection(source="crm"))

        assert sorted(plan.blanked) == [1, 3]
        assert relation(SUBJECT, A) not in plan.graph.relations

    def test_a_retraction_stays_while_a_copy_of_its_evidence_does(self) -> None:
        """What was taken back does not come back because one of two tellers is forgotten."""
        log = told(
            said(1, source="crm"),
            said(1, source="user"),
            EvidenceRetracted(said(1).id, SUBJECT, "LIKES"),
        )
        plan = planned(log, SALT, Selection(source="crm"))

        assert sorted(plan.blanked) == [1]
        assert not plan.graph.relations

    @pytest.mark.parametrize(
        ("selection", "left"),
        [
            ({"entity": A}, {B: [(3 * DAY, None)]}),
            ({"relation": (SUBJECT, "lives_in", A)}, {B: [(3 * DAY, None)]}),
            ({"entity": B}, {A: [(None, 3 * DAY)]}),
            ({"relation": (SUBJECT, "lives_in", B)}, {A: [(None, 3 * DAY)]}),
            ({"source": "crm"}, {A: [(None, None)]}),
            ({"episode": episode(1)}, {A: [(None, None)]}),
        ],
        ids=["old", "old relation", "new", "new relation", "source", "episode"],
    )
    def test_a_change_goes_whole_or_by_its_value(self, selection, left) -> None:
        """Who told of a change told of both halves; each half is about one value only."""
        change = {"type": "LIVES_IN", "episode": episode(1), "source": "crm"}
        log = told(
            said(1, object=A, type="LIVES_IN"),
            spoken(1),
            ended(3, A, **change),
            said(4, object=B, valid_from=3 * DAY, **change),
        )
        plan = planned(log, SALT, Selection(**selection))
        values = plan.graph.groups[SUBJECT, "lives_in"].values

        assert {
            value: [(period.valid_from, period.valid_until) for period in periods]
            for value, periods in values.items()
        } == left

    def test_rivals_get_back_what_erased_evidence_took_from_them(self) -> None:
        """In a single-valued type, forgetting one value undoes what counted against the other."""
        log = told(
            SettingsChanged(Folding(single_valued=frozenset({"likes"}))),
            said(1, object=A),
            said(2, object=B),
        )
        values = planned(log, SALT, Selection(entity=B)).graph.groups[SUBJECT, "likes"].values

        assert values == planned(log[:2], SALT, Selection()).graph.groups[SUBJECT, "likes"].values
        assert values != folded(log).groups[SUBJECT, "likes"].values

    def test_receipts_stand_without_the_erased_hits(self) -> None:
        """Of a recall of two, usage and verdict go on crediting the one that stays."""
        recall = b"r" * 16
        log = told(
            said(1, object=A),
            said(2, object=B),
            RecallServed(recall, DAY, [(A, "entity", 0.9), (B, "entity", 0.8)]),
            UsageMarked(recall, [B, A], "ids"),
            FeedbackGiven(recall, "user", 1.0, [B, A], []),
        )
        plan = planned(log, SALT, Selection(entity=A))

        assert plan.rewritten == {
            3: RecallServed(recall, DAY, [(b"", "", 0.0), (B, "entity", 0.8)]),
            4: UsageMarked(recall, [B], "ids"),
            5: FeedbackGiven(recall, "user", 1.0, [B], []),
        }
        assert list(plan.graph.activity) == [B]

    def test_receipts_forget_a_relation_that_had_been_taken_back(self) -> None:
        """It was shown to nobody any more, yet receipts named it; told anew, it begins cold."""
        plan = planned(TAKEN_BACK, SALT, Selection(entity=A))

        assert plan.rewritten == {2: RecallServed(b"r" * 16, DAY, [(b"", "", 0.0)])}
        assert plan.graph.activity == {}

    def test_the_spelling_of_what_is_forgotten_goes(self) -> None:
        """Where the first to spell a name is forgotten, it is shown as the next one spelt it."""
        log = told(
            said(1, source="crm", subject_name="S"),
            said(2, source="user", object=B),
            EntityDescribed(SUBJECT, "s", abstract="somebody"),
        )
        plan = planned(log, SALT, Selection(source="crm"))

        assert plan.graph.nodes[SUBJECT].name == "s"
        assert plan.respelt == {SUBJECT, relation(SUBJECT, B)}
        assert plan.embed_after == 1

    @pytest.mark.parametrize(
        "selection",
        [
            {"entity": D, "names": ("nobody",)}, {"session": "friday"}, {"source": "nobody"},
            {"episode": b"?" * 16}, {"relation": (A, "likes", SUBJECT)},
            {"relation": (SUBJECT, "owns", A)}, {},
        ],
        ids=str,
    )  # fmt: skip
    def test_the_unknown_takes_nothing(self, selection) -> None:
        """A plan for what is not there is empty, whatever was asked."""
        log = [*CHANGED_VERDICT, *told(spoken(1))[:0]]
        plan = planned(log, SALT, Selection(**selection))

        assert (plan.blanked, plan.rewritten, plan.gone) == (frozenset(), {}, frozenset())
        assert plan.embed_after == len(log)
        assert everything(plan.graph) == everything(folded(log))

    def test_an_unknown_entity_takes_the_episodes_that_name_it(self) -> None:
        """Nobody need have related somebody to anything for the episodes about them to go."""
        log = told(spoken(1, "Dora called"), spoken(2, "nobody called"))

        assert gone(log, entity=D, names=("Dora",)) == [1]

    @pytest.mark.parametrize(
        "text", ["(Ann)", "ANN, again", "with Ann-Marie", "Ann: hello", "安Ann"]
    )
    def test_a_name_is_found_as_a_whole_word(self, text) -> None:
        """In brackets, before a comma, a hyphen or a colon, and after another script."""
        assert gone(told(spoken(1, text)), entity=A, names=("Ann",)) == [1]

    @pytest.mark.parametrize("text", ["Ann's house", "l’Ann", "ann.lee@acme.com", "Ann_Lee"])
    def test_a_name_is_found_where_a_sign_joins_it(self, text) -> None:
        """A possessive, an elision and an address name somebody, too."""
        assert gone(told(spoken(1, text)), entity=A, names=("Ann",)) == [1]

    @pytest.mark.parametrize("text", ["annual", "Joann", "An n", "hannah"])
    def test_a_part_of_a_word_is_no_name(self, text) -> None:
        """Forgetting Ann does not take what Hannah said."""
        assert gone(told(spoken(1, text)), entity=A, names=("Ann",)) == []
