"""A log that moves to another salt says the same about the same names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

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
)
from recall_echo_core.graph import Graph
from recall_echo_core.names import identity
from recall_echo_core.reidentify import Reidentified
from recall_echo_core.settings import Folding

if TYPE_CHECKING:
    from collections.abc import Iterable

OLD, NEW = b"o" * 16, b"n" * 16


def entity(salt: bytes, name: str, key: str = "") -> bytes:
    return identity(salt, "entity", name.lower(), key)


def relation(salt: bytes, subject: str, object: str) -> bytes:
    ends = entity(salt, subject), entity(salt, object)
    return identity(salt, "relation", ends[0].hex(), "likes", ends[1].hex())


def said(salt: bytes, number: int, subject: str, object: str) -> dict[str, object]:
    return {
        "id": bytes([number]) * 16,
        "subject": entity(salt, subject),
        "subject_name": subject,
        "type": "LIKES",
        "object": entity(salt, object),
        "object_name": object,
        "observed_at": number,
    }


def life(salt: bytes) -> list[Event]:
    """Every kind of event, as a namespace with this salt would log it."""
    ann, oslo = entity(salt, "Ann"), relation(salt, "ANN", "Oslo")
    recall, episode, keyed = b"r" * 16, b"e" * 16, entity(salt, "Ann", "2")
    return [
        EntityDescribed(ann, "Ann", abstract="a"),
        EntityDescribed(keyed, "Ann", key="2"),
        EvidenceObserved(**said(salt, 1, "ANN", "Oslo"), establishes=True),
        EvidenceObserved(**said(salt, 2, "Ann", "Rome"), establishes=True),
        EvidenceObserved(**{**said(salt, 3, "Ann", "Rome"), "subject": keyed}, supports=False),
        RelationEnded(**said(salt, 4, "Bob", "Oslo"), at=4),
        EvidenceRetracted(bytes([2]) * 16, ann, "LIKES"),
        EpisodeRecorded(episode, "hi", 5),
        SettingsChanged(Folding()),
        RecallServed(recall, 6, [(ann, "entity", 1.0), (oslo, "relation", 0), (episode, "x", 0)]),
        UsageMarked(recall, [oslo], "ids"),
        FeedbackGiven(recall, "user", 1.0, [oslo], [ann, episode]),
        Erased("evidence"),
    ]  # fmt: skip


def grown(salt: bytes, events: Iterable[Event]) -> Graph:
    class Log:
        def evidence(self, subjects) -> list:
            about = [item for item in stored if getattr(item.event, "subject", None) in subjects]
            return [(item.position, item.event) for item in about]

    stored = [Stored(place, place, event) for place, event in enumerate(events, 1)]
    graph = Graph(salt)
    graph.fold(stored, Log())
    return graph


def test_every_event_is_what_the_other_namespace_would_have_logged() -> None:
    """Ids of entities and relations come from their names; all others stay."""
    renamed = Reidentified(OLD, NEW)

    assert [renamed(event) for event in life(OLD)] == life(NEW)


def test_the_graph_is_that_of_the_other_namespace() -> None:
    """Beliefs, texts and activity, under the new ids."""
    renamed = Reidentified(OLD, NEW)
    graph, expected = grown(NEW, map(renamed, life(OLD))), grown(NEW, life(NEW))

    assert graph.picture() == expected.picture()
    assert graph.activity[relation(NEW, "Ann", "Oslo")].utility == 0.55


@pytest.mark.parametrize("event", life(OLD), ids=lambda event: type(event).__name__)
def test_with_the_same_salt_nothing_changes(event: Event) -> None:
    """Not even what was never seen before."""
    assert Reidentified(OLD, OLD)(event) is event


def test_an_id_that_names_nothing_stays() -> None:
    """A hit whose name was forgotten has no new id to get."""
    recall = RecallServed(b"r" * 16, 6, [(b"x" * 16, "entity", 0.5)])

    assert Reidentified(OLD, NEW)(recall) == recall
