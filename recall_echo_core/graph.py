"""What do the events add up to?

The picture is a networkx graph of entities, with the beliefs of each subject and relation type in
a `Group` that its edges point to. It is the sum of the events up to `position` and nothing else:
it can be thrown away and folded again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import networkx as nx

from recall_echo_core.events import (
    EntityDescribed,
    EpisodeRecorded,
    EvidenceObserved,
    EvidenceRetracted,
    FeedbackGiven,
    RecallServed,
    RelationEnded,
    SettingsChanged,
    Stored,
    type_key,
)
from recall_echo_core.fold import (
    Observation,
    apply,
    effective,
    folded,
    order,
    period_at,
    standing,
)
from recall_echo_core.names import identity, normalised
from recall_echo_core.picture import (
    NEVER,
    Activity,
    Edge,
    EpisodeMark,
    Group,
    GroupKey,
    Loader,
    Node,
    Picture,
    RelationMark,
)
from recall_echo_core.settings import Folding
from recall_echo_core.texts import TextKey
from recall_echo_core.utility import INITIAL, after_outcome

if TYPE_CHECKING:
    from recall_echo_core.texts import Kind

__all__ = ["Graph"]

Drawn: TypeAlias = tuple[int, Group, bytes]  # where a relation's text stands, and the relation


class Graph:
    """The fold of one namespace's events. Not thread-safe: its owner holds a lock."""

    def __init__(self, salt: bytes, folding: Folding | None = None) -> None:
        self.salt = salt
        self.position = 0
        self.folding = folding or Folding()
        self.entities: nx.DiGraph[bytes] = nx.DiGraph()
        self.nodes: dict[bytes, Node] = {}
        self.groups: dict[GroupKey, Group] = {}
        self.relations: dict[bytes, RelationMark] = {}
        self.leading = False  # whether any relation was told in an episode
        self.retired: dict[bytes, int] = {}  # where relations stood that are no more, for lists
        self.episodes: dict[bytes, EpisodeMark] = {}
        self.activity: dict[bytes, Activity] = {}
        self.fresh: list[TextKey] = []  # texts given since whoever embeds them last looked

    # Folding

    def fold(self, stored: Iterable[Stored], load: Loader) -> None:
        """Add events that follow `position`; what arrived late refolds its group from `load`."""
        fresh: dict[GroupKey, list[tuple[int, Observation]]] = {}
        stale: set[GroupKey] = set()
        revised: set[bytes] = set()
        for item in stored:
            event = item.event
            if isinstance(event, (EvidenceObserved, RelationEnded)):
                key = (event.subject, type_key(event.type))
                fresh.setdefault(key, []).append((item.position, event))
                self._mention(event, item.position)
            elif isinstance(event, EvidenceRetracted):
                stale.add((event.subject, type_key(event.type)))
            elif isinstance(event, SettingsChanged):
                self.folding = event.folding
                stale.update(self.groups)
            elif isinstance(event, FeedbackGiven) and event.replaces is not None:
                revised.update(event.used, event.unused)
            else:
                self._take(item, event)
            self.position = item.position
        drawn: list[Drawn] = []
        for key, observations in fresh.items():
            drawn += self._grow(key, observations, stale)
        drawn += self._refold(stale, load)
        for position, group, value in sorted(drawn, key=itemgetter(0)):
            id = self._item(group, value)
            self.retired.pop(id, None)
            self._draw(group, value, id, position)
            self.fresh.append(TextKey(position, id, "relation"))
        self._revise(revised, load)

    def _take(self, item: Stored, event: Any) -> None:
        if isinstance(event, EntityDescribed):
            self._describe(event, item)
        elif isinstance(event, EpisodeRecorded):
            self.episodes[event.id] = EpisodeMark(
                item.position, event.time, event.session, event.role, event.name
            )
            self.fresh.append(TextKey(item.position, event.id, "episode"))
        elif isinstance(event, RecallServed):
            for hit in event.items():
                self.touch(hit, event.at)
        elif isinstance(event, FeedbackGiven):
            self._credit(event)

    def _mention(self, event: Observation, position: int) -> None:
        ends = (event.subject, event.subject_name), (event.object, event.object_name)
        for id, name in ends:
            node = self.nodes.get(id)
            if node is None:
                self._add_node(id, name, None, position, event.observed_at)
            elif event.observed_at > node.seen_at:
                node.seen_at = event.observed_at

    def _add_node(self, id: bytes, name: str, key: str | None, position: int, at: int) -> Node:
        node = Node(id, name, key, None, None, position, position, (0, 0, 0), at)
        self.nodes[id] = node
        self.entities.add_node(id)
        self.fresh.append(TextKey(position, id, "entity"))
        return node

    def _describe(self, event: EntityDescribed, item: Stored) -> None:
        node = self.nodes.get(event.id)
        if node is None:
            node = self._add_node(event.id, event.name, event.key, item.position, item.recorded_at)
        node.seen_at = max(node.seen_at, item.recorded_at)
        node.key = node.key if event.key is None else event.key
        node.kind = node.kind if event.kind is None else event.kind
        if event.abstract is not None and event.abstract != node.abstract:
            node.abstract, node.text_position = event.abstract, item.position
            self.fresh.append(TextKey(item.position, event.id, "entity"))
        overview, content, metadata = node.details
        node.details = (
            overview if event.overview is None else item.position,
            content if event.content is None else item.position,
            metadata if event.metadata is None else item.position,
        )

    def _grow(
        self, key: GroupKey, fresh: list[tuple[int, Observation]], stale: set[GroupKey]
    ) -> list[Drawn]:
        """Take in what is later than all before; return the relations that are new with it."""
        group = self.groups.get(key)
        if group is None:
            group = Group(key[0], fresh[0][1].type, key[1], NEVER, {}, {})
            self.groups[key] = group
        for _, event in fresh:
            if isinstance(event, EvidenceObserved) and event.episode and event.supports:
                self.leading = True
                told = group.told.setdefault(event.object, [])
                if event.episode not in told:
                    told.append(event.episode)
        if key in stale:
            return []
        observations = standing(observation for _, observation in fresh)
        if order(observations[0]) <= group.last:
            stale.add(key)
            return []
        for observation in observations:
            apply(group.values, observation, self.folding)
        group.last = order(observations[-1])
        since, _ = _standing_since(fresh)
        return _new(group, since)

    def _refold(self, stale: set[GroupKey], load: Loader) -> list[Drawn]:
        """Fold some groups afresh; erase relations that went, return those that are new."""
        drawn: list[Drawn] = []
        if not stale:
            return drawn
        found: dict[GroupKey, list[tuple[int, Observation | EvidenceRetracted]]]
        found = {key: [] for key in stale}
        for position, event in load.evidence({subject for subject, _ in stale}):
            found.get((event.subject, type_key(event.type)), []).append((position, event))
        for key, events in found.items():
            group = self.groups.get(key)
            if group is not None:
                observations = standing(event for _, event in events)
                group.values = folded(observations, self.folding)
                group.last = order(observations[-1]) if observations else NEVER
                since, gone = _standing_since(events)
                for value, item in list(group.items.items()):
                    if self.relations[item].position != since.get(value):
                        self._erase(group, value)
                for value, place in gone.items():
                    self.retired[self._item(group, value)] = place
                drawn += _new(group, since)
        return drawn

    def _item(self, group: Group, value: bytes) -> bytes:
        return identity(self.salt, "relation", group.subject.hex(), group.key, value.hex())

    def _draw(self, group: Group, value: bytes, item: bytes, position: int) -> None:
        group.items[value] = item
        self.relations[item] = RelationMark(group, value, position)
        self.entities.add_edge(group.subject, value)
        self.entities.edges[group.subject, value][group.key] = group

    def _erase(self, group: Group, value: bytes) -> None:
        del self.relations[group.items.pop(value)]
        types = self.entities.edges[group.subject, value]
        del types[group.key]
        if not types:
            self.entities.remove_edge(group.subject, value)

    # Activity

    def touch(self, item: bytes, at: int) -> None:
        """Count one access of an item."""
        activity = self.activity.setdefault(item, Activity())
        activity.accesses += 1
        activity.at = at if activity.at is None else max(activity.at, at)

    def _credit(self, event: FeedbackGiven, only: set[bytes] | None = None) -> None:
        for items, used in ((event.used, True), (event.unused, False)):
            for item in items:
                if only is None or item in only:
                    activity = self.activity.setdefault(item, Activity())
                    activity.utility = after_outcome(activity.utility, event.reward, used=used)

    def _revise(self, items: set[bytes], load: Loader) -> None:
        """Refold the utility of items one of whose verdicts was replaced."""
        if not items:
            return
        verdicts: dict[tuple[bytes, str], FeedbackGiven] = {}
        for event in load.feedback():
            verdicts[event.recall, event.source] = event  # keeps the place of the first
        for item in items:
            if item in self.activity:
                self.activity[item].utility = INITIAL
        for event in verdicts.values():
            self._credit(event, only=items)

    # Reading

    def entity_id(self, name: str, key: str | None = None) -> bytes:
        """Return the id an entity of this name has here, known or not."""
        return identity(self.salt, "entity", normalised(name), key or "")

    def group_of(self, subject: bytes, relation_type: str) -> Group | None:
        """Return the beliefs of one subject and relation type, if there are any."""
        return self.groups.get((subject, type_key(relation_type)))

    def edges(self, entity: bytes, now: int, at: int, least: float) -> Iterator[Edge]:
        """Yield the relations at an entity, both ways, that hold at `at` and are sure enough."""
        if entity not in self.entities:
            return
        for value, types in self.entities.succ[entity].items():
            for group in types.values():
                yield from self._edge(value, group, value, now, at, least)
        for subject, types in self.entities.pred[entity].items():
            if subject != entity:
                for group in types.values():
                    yield from self._edge(subject, group, entity, now, at, least)

    def _edge(
        self, other: bytes, group: Group, value: bytes, now: int, at: int, least: float
    ) -> Iterator[Edge]:
        period = period_at(group.values[value], at)
        if period is not None:
            sure = effective(period, now, self.folding, group.key)
            if sure >= least:
                yield Edge(other, group.subject, value, group, period, sure)

    def at_entity(self, entity: bytes) -> Iterator[bytes]:
        """Yield the relations at an entity, both ways, whether or not they hold now."""
        if entity not in self.entities:
            return
        for value, types in self.entities.succ[entity].items():
            yield from (group.items[value] for group in types.values())
        for subject, types in self.entities.pred[entity].items():
            if subject != entity:
                yield from (group.items[entity] for group in types.values())

    def told_in(self, relation: bytes) -> Sequence[bytes]:
        """Return the episodes that evidence for a relation was in."""
        mark = self.relations.get(relation)
        return () if mark is None else mark.group.told.get(mark.object, ())

    def text_position(self, item: bytes) -> int | None:
        """Return which event gave an item the text it has now; `None` if it is not known."""
        if item in self.nodes:
            return self.nodes[item].text_position
        mark = self.relations.get(item) or self.episodes.get(item)
        return None if mark is None else mark.position

    def kind_of(self, item: bytes) -> Kind:
        """Return what sort of thing an item is."""
        if item in self.nodes:
            return "entity"
        return "relation" if item in self.relations else "episode"

    def texts_after(self, position: int) -> list[TextKey]:
        """Return every text given after a position, in log order."""
        found = [
            TextKey(node.text_position, id, "entity")
            for id, node in self.nodes.items()
            if node.text_position > position
        ]
        for item, mark in self.relations.items():
            if mark.position > position:
                found.append(TextKey(mark.position, item, "relation"))
        for item, episode in self.episodes.items():
            if episode.position > position:
                found.append(TextKey(episode.position, item, "episode"))
        return sorted(found)

    # Snapshots

    def picture(self) -> Picture:
        """Return everything this graph holds."""
        positions = {item: mark.position for item, mark in self.relations.items()}
        groups = [
            (group, {value: positions[item] for value, item in group.items.items()})
            for group in self.groups.values()
        ]
        return Picture(
            self.position,
            self.folding,
            list(self.nodes.values()),
            groups,
            self.episodes,
            self.activity,
            self.retired,
        )

    @classmethod
    def of(cls, salt: bytes, picture: Picture) -> Graph:
        """Return the graph a picture was taken of."""
        graph = cls(salt, picture.folding)
        graph.position = picture.position
        graph.nodes = {node.id: node for node in picture.nodes}
        graph.entities.add_nodes_from(graph.nodes)
        drawn: list[Drawn] = []
        for group, positions in picture.groups:
            graph.groups[group.subject, group.key] = group
            drawn += [(position, group, value) for value, position in positions.items()]
        for position, group, value in sorted(drawn, key=itemgetter(0)):
            graph._draw(group, value, group.items[value], position)
        graph.episodes, graph.activity = picture.episodes, picture.activity
        graph.retired = picture.retired
        graph.leading = any(group.told for group in graph.groups.values())
        return graph


def _standing_since(
    events: Iterable[tuple[int, Observation | EvidenceRetracted]],
) -> tuple[dict[bytes, int], dict[bytes, int]]:
    """Return since which event each value has had evidence that was not taken back.

    A relation that is stated again after all of its evidence was taken back begins anew there,
    in whatever batches the events are folded. Of values without such evidence, the event since
    which they last had some comes second.
    """
    since: dict[bytes, int] = {}
    gone: dict[bytes, int] = {}
    values: dict[bytes, bytes] = {}
    counting: dict[bytes, set[bytes]] = {}
    for position, event in events:
        if isinstance(event, EvidenceRetracted):
            value = values.get(event.evidence, b"")
            evidence = counting.get(value, set())
            evidence.discard(event.evidence)
            if not evidence and value in since:
                gone[value] = since.pop(value)
        else:
            values[event.id] = event.object
            counting.setdefault(event.object, set()).add(event.id)
            since.setdefault(event.object, position)
            gone.pop(event.object, None)
    return since, gone


def _new(group: Group, since: Mapping[bytes, int]) -> list[Drawn]:
    return [(at, group, value) for value, at in since.items() if value not in group.items]
