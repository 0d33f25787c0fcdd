"""Is what is stored whole, and how much is there of it?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from recall_echo_core.errors import CorruptLog
from recall_echo_core.graph import Graph
from recall_echo_core.namespace import LogLoader

if TYPE_CHECKING:
    from recall_echo_core.engine import Engine, Room
    from recall_echo_core.events import Stored

__all__ = ["Stats", "Verification", "stats_of", "verified"]


class Stats(msgspec.Struct, frozen=True):
    """How much a namespace holds.

    Attributes:
        events: Events in the log; also the position of the newest.
        entities: Entities known.
        relations: Subject, type and object triples with evidence.
        episodes: Episodes kept.
        indexed: Vectors in the index on disk.
        waiting: Vectors searched exactly until there are enough for the index on disk.
        model: The model the vectors come from.
    """

    events: int
    entities: int
    relations: int
    episodes: int
    indexed: int
    waiting: int
    model: str


class Verification(msgspec.Struct, frozen=True):
    """What was checked and what was found; no problems means all is well."""

    events: int
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def stats_of(engine: Engine, room: Room) -> Stats:
    """Return how much a namespace holds."""
    vectors = room.indexing.counts()
    with room.namespace.reading() as graph:
        return Stats(
            events=graph.position,
            entities=len(graph.nodes),
            relations=len(graph.relations),
            episodes=len(graph.episodes),
            indexed=vectors["indexed"],
            waiting=vectors["waiting"],
            model=engine.embedder.model_id,
        )


def verified(engine: Engine, room: Room) -> Verification:
    """Read the whole log, fold it again, and compare the graph and the vectors with it."""
    namespace = room.namespace
    log, key = namespace.log, namespace.key
    with namespace.reading() as graph:
        head = graph.position
        events: list[Stored] = []
        try:
            events.extend(log.read(key, upto=head))
        except CorruptLog as error:
            return Verification(len(events), (str(error),))
        problems = _gaps([stored.position for stored in events], head)
        fresh = Graph(key.salt)
        fresh.fold(events, LogLoader(log, key, head))
        problems += _differences(graph, fresh)
    if not problems:
        room.indexing.catch_up()
        lacking = room.indexing.lacking()
        if lacking:
            problems.append(f"{lacking} texts have no vectors; reindex() makes them")
    return Verification(len(events), tuple(problems))


def _gaps(positions: list[int], head: int) -> list[str]:
    if positions == list(range(1, head + 1)):
        return []
    missing = sorted(set(range(1, head + 1)) - set(positions))
    return [f"the log lacks {len(missing)} events, the first at position {missing[0]}"]


def _differences(live: Graph, fresh: Graph) -> list[str]:
    return [
        f"the graph's {what} differ from a replay of the log; delete the snapshots folder"
        for what, of in _PARTS.items()
        if of(live) != of(fresh)
    ]


_PARTS: Final[dict[str, Callable[[Graph], object]]] = {
    "settings": lambda graph: graph.folding,
    "entities": lambda graph: graph.nodes,
    "beliefs": lambda graph: {
        key: (group.last, group.values) for key, group in graph.groups.items() if group.values
    },
    "episodes": lambda graph: graph.episodes,
    "activity": lambda graph: graph.activity,
}
