"""How does what the graph holds look from outside?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from recall_echo_core.events import EntityDescribed, EpisodeRecorded, Stored
from recall_echo_core.metadata import unpacked
from recall_echo_core.model import Entity, Episode, Path, Relation
from recall_echo_core.names import identity
from recall_echo_core.picture import Activity, Group
from recall_echo_core.times import to_datetime

if TYPE_CHECKING:
    from recall_echo_core.fold import Period
    from recall_echo_core.graph import Graph
    from recall_echo_core.paths import Trail

__all__ = ["detail_positions", "entity_of", "episode_of", "path_of", "relation_of"]


def detail_positions(graph: Graph, entities: Iterable[bytes]) -> set[int]:
    """Return where in the log the longer texts of some entities stand."""
    return {place for id in entities for place in graph.nodes[id].details if place}


def entity_of(graph: Graph, id: bytes, stored: Mapping[int, Stored]) -> Entity:
    """Return an entity; `stored` holds the events at its `detail_positions`."""
    node = graph.nodes[id]
    activity = graph.activity.get(id, Activity())
    overview, content, metadata = (_described(stored.get(place)) for place in node.details)
    return Entity(
        id=id.hex(),
        name=node.name,
        key=node.key,
        kind=node.kind,
        abstract=node.abstract,
        overview=overview.overview if overview else None,
        content=content.content if content else None,
        utility=activity.utility,
        accesses=activity.accesses,
        metadata=unpacked(metadata.metadata) if metadata else {},
    )


def _described(stored: Stored | None) -> EntityDescribed | None:
    event = None if stored is None else stored.event
    return event if isinstance(event, EntityDescribed) else None


def episode_of(stored: Stored) -> Episode | None:
    """Return the episode of an event; `None` if it has been forgotten a moment ago."""
    event = stored.event
    if not isinstance(event, EpisodeRecorded):
        return None
    return Episode(
        id=event.id.hex(),
        content=event.content,
        role=event.role,
        name=event.name,
        session_id=event.session,
        time=to_datetime(event.time),
        metadata=unpacked(event.metadata),
    )


def relation_of(
    graph: Graph,
    group: Group,
    value: bytes,
    period: Period,
    now: int,
    evidence: bytes | None = None,
) -> Relation:
    """Return one period of a relation, read at `now`."""
    item = group.items.get(value)
    if item is None:
        item = identity(graph.salt, "relation", group.subject.hex(), group.key, value.hex())
    folding = graph.folding
    return Relation(
        id=item.hex(),
        subject=graph.nodes[group.subject].name,
        type=group.type,
        object=graph.nodes[value].name,
        subject_id=group.subject.hex(),
        object_id=value.hex(),
        alpha=period.alpha,
        beta=period.beta,
        context=period.context,
        source=period.source,
        established_at=to_datetime(period.established_at),
        reinforced_at=None if period.reinforced_at is None else to_datetime(period.reinforced_at),
        valid_from=None if period.valid_from is None else to_datetime(period.valid_from),
        valid_until=None if period.valid_until is None else to_datetime(period.valid_until),
        supports=period.supports,
        opposes=period.opposes,
        read_at=to_datetime(now),
        half_life_days=folding.half_life(group.key),
        decay_floor=folding.decay_floor,
        evidence_id=None if evidence is None else evidence.hex(),
    )


def path_of(graph: Graph, trail: Trail, now: int) -> Path:
    """Return a path of the graph."""
    relations = tuple(
        relation_of(graph, edge.group, edge.object, edge.period, now) for edge in trail.edges
    )
    return Path(trail.names, relations, trail.confidence)
