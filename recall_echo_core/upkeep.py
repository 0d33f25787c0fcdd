"""Is what is stored whole, and how much is there of it?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from recall_echo_core.errors import CorruptLog
from recall_echo_core.graph import Graph
from recall_echo_core.namespace import PAST_HEAD, LogLoader

if TYPE_CHECKING:
    from recall_echo_core.engine import Engine, Room
    from recall_echo_core.events import Stored
    from recall_echo_core.ports import Progress

PROGRESS_EVENTS: Final = 1_000

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
    """What was checked and what was found.

    Attributes:
        events: Events that are whole.
        problems: What is wrong with the log; it is left as it is. Empty means all is well.
        mended: What was wrong with views of the log, and is right again.
    """

    events: int
    problems: tuple[str, ...]
    mended: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the log is whole."""
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


def verified(engine: Engine, room: Room, progress: Progress | None = None) -> Verification:
    """Check the log, fold it again, and mend the graph and the vectors where they differ."""
    namespace = room.namespace
    log, key = namespace.log, namespace.key
    newest = log.newest(key)
    generation, head = log.head(key)
    events: list[Stored] = []
    problems: list[str] = []
    if newest > head:
        problems.append(str(CorruptLog(key.name, head + 1, PAST_HEAD)))
    for number, found in enumerate(log.scan(key, upto=head), 1):
        if isinstance(found, CorruptLog):
            problems.append(str(found))
        else:
            events.append(found)
        if progress is not None and (number % PROGRESS_EVENTS == 0 or number == head):
            progress(number, head)
    if not problems:
        problems = _gaps([stored.position for stored in events], head)
    if problems:
        return Verification(len(events), tuple(problems), ())
    mended = _mended_graph(engine, room, events, generation)
    if mended is None:
        return verified(engine, room, progress)
    mended += room.indexing.mended()
    return Verification(len(events), (), tuple(mended))


def _mended_graph(
    engine: Engine, room: Room, events: list[Stored], generation: int
) -> list[str] | None:
    """Compare the graph with a replay; `None` when something was forgotten since `generation`."""
    namespace = room.namespace
    with namespace.reading() as graph:
        if namespace.generation != generation:
            return None
        fresh = Graph(namespace.key.salt)
        fresh.fold(events, LogLoader(namespace.log, namespace.key, len(events)))
        if graph.position > fresh.position:  # somebody has written since
            more = namespace.log.read(namespace.key, after=fresh.position, upto=graph.position)
            fresh.fold(more, LogLoader(namespace.log, namespace.key, graph.position))
        wrong = [
            f"the graph's {what} differed from a replay of the log"
            for what, of in _PARTS.items()
            if of(graph) != of(fresh)
        ]
        if wrong:
            engine.drop_snapshots()
            namespace.replace(fresh, generation)
    return wrong


def _gaps(positions: list[int], head: int) -> list[str]:
    if positions == list(range(1, head + 1)):
        return []
    missing = sorted(set(range(1, head + 1)) - set(positions))
    return [f"the log lacks {len(missing)} events, the first at position {missing[0]}"]


_PARTS: Final[dict[str, Callable[[Graph], object]]] = {
    "settings": lambda graph: graph.folding,
    "entities": lambda graph: graph.nodes,
    "beliefs": lambda graph: {
        key: (group.last, group.values) for key, group in graph.groups.items() if group.values
    },
    "episodes": lambda graph: graph.episodes,
    "activity": lambda graph: graph.activity,
}
