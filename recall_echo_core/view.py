"""What can be asked of a memory at one instant?

A live memory answers as of now; `past` holds the view of an earlier moment.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Final

from recall_echo_core.answer import Answering
from recall_echo_core.arguments import checked_count, checked_kinds, checked_name, checked_text
from recall_echo_core.asked import Asked
from recall_echo_core.confidence import rivals_share
from recall_echo_core.errors import UnknownEntity, UnknownRelation
from recall_echo_core.events import EvidenceRetracted, Stored, type_key
from recall_echo_core.explain import Explanation, account
from recall_echo_core.fold import Step, folded, period_at, standing
from recall_echo_core.model import Belief, Entity, EntityLike, Episode, Path, Reach, Relation
from recall_echo_core.names import normalised
from recall_echo_core.namespace import evidence_about
from recall_echo_core.paging import page
from recall_echo_core.paths import reachable, separate_trails
from recall_echo_core.portray import detail_positions, entity_of, episode_of, path_of, relation_of
from recall_echo_core.recall import When
from recall_echo_core.recalled import Recall
from recall_echo_core.statements import Speaker
from recall_echo_core.times import to_datetime

if TYPE_CHECKING:
    from collections.abc import Callable

    from recall_echo_core.engine import Engine, Room
    from recall_echo_core.graph import Graph
    from recall_echo_core.matching import Found
    from recall_echo_core.picture import Activity
    from recall_echo_core.ports import Vectors
    from recall_echo_core.texts import Kind

__all__ = ["View"]

PATH_DEPTH: Final = 4


class View:
    """Everything that can be asked of one namespace, as of now."""

    def __init__(self, engine: Engine, room: Room) -> None:
        self._engine, self._name = engine, room.namespace.key.name

    @property
    def _room(self) -> Room:
        return self._engine.room(self._name)

    @property
    def name(self) -> str:
        """Name of the namespace."""
        return self._name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of namespace {self._name!r}>"

    # What a past view does differently

    def _check_open(self) -> None:
        """Raise `StoreClosed` if this view can no longer be asked."""

    def _when(self) -> When:
        now = self._engine.now()
        return When(now, now)

    @contextmanager
    def _reading(self, subject: bytes | None = None) -> Iterator[Graph]:
        """Hold the graph; of a past view that only needs one subject, only that part of it."""
        self._check_open()
        with self._room.namespace.reading() as graph:
            yield graph

    def _known_at(self) -> int | None:
        return None

    def _accesses(self) -> Mapping[bytes, Activity]:
        """Return the accesses that are not in the graph yet."""
        return self._room.receipts.accesses()

    def _matching(
        self, kinds: Collection[Kind], asked: Asked, vector: Vectors, limit: int
    ) -> Mapping[Kind, tuple[Found, bool]]:
        return self._room.indexing.search(kinds, asked, vector, limit)

    # Questions

    def recall(self, text: str, k: int = 5, kinds: Collection[Kind] | None = None) -> Recall:
        """Return the memories that answer a question best, without leaving a trace.

        Args:
            text: The question.
            k: Most hits; raising it adds less relevant ones at the end.
            kinds: Which of entity, relation and episode to look for; all when `None`.
        """
        return self._recall(text, k, kinds, self._when())

    def _recall(self, text: str, k: int, kinds: Collection[Kind] | None, when: When) -> Recall:
        question = checked_text(text, "the question")
        if not question.strip():
            raise ValueError("the question is empty; say what to look for")
        wanted = checked_kinds(kinds)
        most = checked_count(k, "k")
        self._check_open()
        self._room.indexing.catch_up()
        namespace = self._room.namespace
        answering = Answering(
            namespace.log, namespace.key, self._reading, self._matching, self._engine.settings
        )
        hits = answering.hits(
            Asked.of(question),
            self._engine.embedder.embed([question])[0],
            k=most,
            kinds=wanted,
            when=when,
            pending=self._accesses,
        )
        return Recall(None, tuple(hits), to_datetime(when.now))

    def beliefs(self, subject: EntityLike, type: str) -> list[Belief]:
        """Return the rival values of a subject and relation type that hold now, the surest first.

        Empty when nothing is believed. For single-valued types each has a probability, adding up
        to at most 1; the rest is "none of these".
        """
        when, name = self._when(), checked_name(type, "relation type")
        with self._entity(subject, "subject") as (graph, id):
            group = graph.group_of(id, name)
            holding = (
                []
                if group is None
                else [
                    relation_of(graph, group, value, period, when.now)
                    for value, periods in group.values.items()
                    if (period := period_at(periods, when.at)) is not None
                ]
            )
            single = type_key(name) in graph.folding.single_valued
        shares = rivals_share(relation.effective() for relation in holding)
        beliefs = [
            Belief(
                object=relation.object,
                probability=share if single else None,
                interval=relation.interval(),
                confidence=relation.confidence,
                effective=relation.effective(),
                relation=relation,
            )
            for relation, share in zip(holding, shares, strict=True)
        ]
        return sorted(beliefs, key=lambda b: (-b.effective, -b.confidence, normalised(b.object)))

    def explain(self, subject: EntityLike, type: str, object: EntityLike) -> Explanation:
        """Return why a relation is believed as it is: prior, each piece of evidence, fading.

        Of several periods, the one that holds now, else the latest, is explained.

        Raises:
            UnknownRelation: there is no evidence about it.
        """
        when, name = self._when(), checked_name(type, "relation type")
        namespace = self._room.namespace
        with self._entity(subject, "subject") as (graph, id):
            value, value_name = self._speaker(graph).entity(object, "object")
            recorded: dict[bytes, int] = {}
            evidence = []
            for stored, event in evidence_about(
                namespace.log, namespace.key, [id], graph.position, self._known_at()
            ):
                if type_key(event.type) == type_key(name):
                    evidence.append(event)
                    if not isinstance(event, EvidenceRetracted):
                        recorded.setdefault(event.id, stored.recorded_at)
            steps: list[Step] = []
            periods = folded(standing(evidence), graph.folding, steps).get(value)
            group = graph.group_of(id, name)
            if not periods or group is None:
                raise UnknownRelation(self._shown(graph, id, subject), name, value_name)
            period = period_at(periods, when.at) or periods[-1]
            return account(
                relation_of(graph, group, value, period, when.now),
                value,
                period,
                steps,
                recorded,
                graph.folding.prior(period.context),
                graph.folding.max_concentration,
            )

    def traverse(self, start: EntityLike, depth: int = 2) -> list[Reach]:
        """Return the entities within `depth` relations, the surest path to each, surest first.

        Args:
            start: Where to begin.
            depth: Most relations in a path; raising it reaches more, less surely, and costs more.

        Raises:
            UnknownEntity: `start` is not known.
        """
        most = checked_count(depth, "depth")
        when, least = self._when(), self._engine.settings.min_confidence
        with self._known_entity(start) as (graph, id):
            trails = reachable(
                id,
                lambda entity: graph.edges(entity, when.now, when.at, least),
                lambda entity: graph.nodes[entity].name,
                most,
            )
            found = sorted(
                ((item, trail) for item, trail in trails.items() if trail.edges),
                key=lambda pair: pair[1].rank,
            )
            stored = self._details(graph, [item for item, _ in found])
            return [
                Reach(entity_of(graph, item, stored), path_of(graph, trail, when.now))
                for item, trail in found
            ]

    def paths(
        self, start: EntityLike, end: EntityLike, *, depth: int = PATH_DEPTH, limit: int = 3
    ) -> list[Path]:
        """Return up to `limit` paths that share no relation, the surest first.

        Args:
            start: One end.
            end: The other.
            depth: Most relations in a path; raising it finds longer, less sure ones, and costs
                more.
            limit: Most paths; raising it adds less sure ones.

        Raises:
            UnknownEntity: one of the two is not known.
        """
        depth, limit = checked_count(depth, "depth"), checked_count(limit, "limit")
        when, least = self._when(), self._engine.settings.min_confidence
        with self._known_entity(start) as (graph, id):
            target = self._id_in(graph, end, "end")
            trails = separate_trails(
                id,
                target,
                lambda entity: graph.edges(entity, when.now, when.at, least),
                lambda entity: graph.nodes[entity].name,
                depth=depth,
                limit=limit,
            )
            return [path_of(graph, trail, when.now) for trail in trails]

    # Lists

    def get(self, name: str, *, key: str | None = None) -> Entity:
        """Return an entity with all its texts.

        Raises:
            UnknownEntity: there is none of this name; the closest names are suggested.
        """
        wanted_name = checked_name(name, "name")
        key = None if key is None else checked_name(key, "key")
        with self._reading() as graph:
            wanted = graph.entity_id(wanted_name, key)
            if wanted not in graph.nodes:
                raise UnknownEntity(name, _close_names(graph, name))
            return entity_of(graph, wanted, self._details(graph, [wanted]))

    def entities(
        self, kind: str | None = None, *, after: str | None = None, limit: int = 100
    ) -> list[Entity]:
        """Return a page of entities, oldest first; `after` is the id of the last one seen.

        Raising `limit` makes fewer, longer pages. They stay right while others write: nothing is
        skipped or repeated.
        """
        kind = None if kind is None else checked_name(kind, "kind")
        with self._reading() as graph:
            ids = page(graph.nodes, after, limit, lambda id: kind in (None, graph.nodes[id].kind))
            stored = self._details(graph, ids)
            return [entity_of(graph, id, stored) for id in ids]

    def relations(
        self,
        subject: EntityLike | None = None,
        type: str | None = None,
        *,
        after: str | None = None,
        limit: int = 100,
    ) -> list[Relation]:
        """Return a page of relations, oldest first; `after` is the id of the last one seen.

        Relations that have ended are listed too, see `Relation.holds`. One with several periods
        gives a value for each, and counts once towards `limit`.
        """
        now = self._when().now
        wanted_type = None if type is None else type_key(checked_name(type, "relation type"))
        with self._reading() as graph:
            id = None if subject is None else self._speaker(graph).entity(subject, "subject")[0]

            def wanted(item: bytes) -> bool:
                group = graph.relations[item].group
                return id in (None, group.subject) and wanted_type in (None, group.key)

            def gone(item: bytes) -> Callable[[bytes], bool] | None:
                place = graph.retired.get(item)
                if place is None:
                    return None
                return lambda other: graph.relations[other].position <= place

            items = page(graph.relations, after, limit, wanted, gone)
            marks = [graph.relations[item] for item in items]
            return [
                relation_of(graph, mark.group, mark.object, period, now)
                for mark in marks
                for period in mark.group.values[mark.object]
            ]

    def episodes(
        self, session_id: str | None = None, *, after: str | None = None, limit: int = 100
    ) -> list[Episode]:
        """Return a page of episodes in the order recorded; `after` is the last id seen."""
        namespace = self._room.namespace
        session = None if session_id is None else checked_name(session_id, "session_id")
        with self._reading() as graph:
            ids = page(
                graph.episodes,
                after,
                limit,
                lambda id: session in (None, graph.episodes[id].session),
            )
            positions = [graph.episodes[id].position for id in ids]
        stored = namespace.log.at(namespace.key, positions)
        found = (episode_of(stored[position]) for position in positions)
        return [episode for episode in found if episode is not None]

    # Inside

    def _speaker(self, graph: Graph) -> Speaker:
        return Speaker(graph.salt, self._engine.now(), self._engine.new_id)

    @contextmanager
    def _entity(self, entity: EntityLike, what: str) -> Iterator[tuple[Graph, bytes]]:
        """Hold the part of the graph about one subject, known or not."""
        salt = self._room.namespace.key.salt
        id, _ = Speaker(salt, 0, self._engine.new_id).entity(entity, what)
        with self._reading(id) as graph:
            yield graph, id

    @contextmanager
    def _known_entity(self, entity: EntityLike) -> Iterator[tuple[Graph, bytes]]:
        with self._reading() as graph:
            yield graph, self._id_in(graph, entity, "start")

    def _id_in(self, graph: Graph, entity: EntityLike, what: str) -> bytes:
        id, name = self._speaker(graph).entity(entity, what)
        if id not in graph.nodes:
            raise UnknownEntity(name, _close_names(graph, name))
        return id

    def _shown(self, graph: Graph, id: bytes, entity: EntityLike) -> str:
        if id in graph.nodes:
            return graph.nodes[id].name
        return entity if isinstance(entity, str) else entity.name

    def _details(self, graph: Graph, entities: Collection[bytes]) -> dict[int, Stored]:
        namespace = self._room.namespace
        return namespace.log.at(namespace.key, detail_positions(graph, entities))


def _close_names(graph: Graph, name: str) -> tuple[str, ...]:
    names = {normalised(node.name): node.name for node in islice(graph.nodes.values(), 10_000)}
    close = difflib.get_close_matches(normalised(name), names, n=3)
    return tuple(names[match] for match in close)
