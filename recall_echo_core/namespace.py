"""What does this process hold of one namespace, and is it up to date?

The graph is brought up to the log before each answer; writing goes through the log first and then
into the graph, in log order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from recall_echo_core.errors import CorruptLog
from recall_echo_core.events import (
    Event,
    EvidenceObserved,
    EvidenceRetracted,
    FeedbackGiven,
    RelationEnded,
    Stored,
)
from recall_echo_core.graph import Graph

if TYPE_CHECKING:
    from recall_echo_core.fold import Observation
    from recall_echo_core.stores.snapshots import Snapshots
    from recall_echo_core.stores.sql import NamespaceKey, SqlLog, Writer

__all__ = ["LogLoader", "Namespace", "evidence_about", "replayed"]

SNAPSHOT_EVENTS: Final = 2_000
SUBJECTS: Final = 500  # whose evidence is read by one query


class LogLoader:
    """Rereads evidence and feedback from one part of the log, for a fold."""

    def __init__(
        self, log: SqlLog, key: NamespaceKey, upto: int | None = None, known_at: int | None = None
    ) -> None:
        self._log, self._key, self._upto, self._known_at = log, key, upto, known_at

    def evidence(
        self, subjects: Collection[bytes]
    ) -> Iterator[tuple[int, Observation | EvidenceRetracted]]:
        """All evidence about some subjects and where it stands, in log order for each subject."""
        wanted = sorted(subjects)
        for start in range(0, len(wanted), SUBJECTS):
            few = wanted[start : start + SUBJECTS]
            for stored, event in evidence_about(
                self._log, self._key, few, self._upto, self._known_at
            ):
                yield stored.position, event

    def feedback(self) -> Iterable[FeedbackGiven]:
        """All feedback, in log order."""
        for stored in self._log.read(
            self._key, kinds=("feedback",), upto=self._upto, known_at=self._known_at
        ):
            if isinstance(stored.event, FeedbackGiven):
                yield stored.event


def evidence_about(
    log: SqlLog,
    key: NamespaceKey,
    subjects: Collection[bytes],
    upto: int | None,
    known_at: int | None,
) -> Iterator[tuple[Stored, Observation | EvidenceRetracted]]:
    """Yield the evidence about some subjects, in log order, with its place in the log."""
    for stored in log.read(key, subjects=subjects, upto=upto, known_at=known_at):
        if isinstance(stored.event, (EvidenceObserved, RelationEnded, EvidenceRetracted)):
            yield stored, stored.event


def replayed(log: SqlLog, key: NamespaceKey, known_at: int) -> Graph:
    """Return the graph of what was recorded up to a moment, folded from the beginning."""
    graph = Graph(key.salt)
    _, head = log.head(key)
    graph.fold(log.read(key, upto=head, known_at=known_at), LogLoader(log, key, head, known_at))
    return graph


class Namespace:
    """One isolated memory as this process holds it. Safe from any thread."""

    def __init__(self, log: SqlLog, key: NamespaceKey, snapshots: Snapshots | None) -> None:
        self.log, self.key = log, key
        self._snapshots = snapshots
        self._lock = threading.RLock()
        self._graph: Graph | None = None
        self._snapshot_position = 0

    @contextmanager
    def reading(self) -> Iterator[Graph]:
        """Hold the graph, brought up to the log."""
        with self._lock:
            graph = self._opened()
            _, head = self.log.head(self.key)
            self._follow(graph, head)
            yield graph

    def append(self, recorded_at: int, decide: Callable[[Writer], Sequence[Event]]) -> list[Stored]:
        """Append what `decide` returns, durably and together, and take it into the graph.

        Args:
            recorded_at: The moment it is learned.
            decide: Called with the write lock held, so what it reads stays true.
        """
        with self.log.writing(self.key) as writer:
            stored = writer.append(decide(writer), recorded_at)
        if stored:
            with self._lock:
                graph = self._opened()
                if graph.position == stored[0].position - 1:
                    self._fold(graph, stored)
                else:
                    self._follow(graph, stored[-1].position)
        return stored

    def snapshot(self, *, least: int = SNAPSHOT_EVENTS) -> None:
        """Keep the graph on disk if at least `least` events are not in a snapshot yet."""
        with self._lock:
            graph = self._graph
            if self._snapshots is None or graph is None:
                return
            if graph.position - self._snapshot_position >= max(1, least):
                self._snapshots.write(graph.picture())
                self._snapshot_position = graph.position

    def replace(self, graph: Graph) -> None:
        """Hold another graph from now on."""
        with self._lock:
            self._graph = graph

    def _opened(self) -> Graph:
        if self._graph is None:
            _, head = self.log.head(self.key)
            picture = None if self._snapshots is None else self._snapshots.newest(upto=head)
            if picture is None:
                graph = Graph(self.key.salt)
            else:
                graph = Graph.of(self.key.salt, picture)
                self._snapshot_position = picture.position
            self._follow(graph, head)
            self._graph = graph
        return self._graph

    def _follow(self, graph: Graph, head: int) -> None:
        if head <= graph.position:
            return
        expected = head - graph.position
        before = graph.position
        stored = list(self.log.read(self.key, after=before, upto=head))
        if len(stored) != expected:
            have = {item.position for item in stored}
            missing = next(p for p in range(before + 1, head + 1) if p not in have)
            raise CorruptLog(self.key.name, missing, "the event is missing")
        self._fold(graph, stored)

    def _fold(self, graph: Graph, stored: Sequence[Stored]) -> None:
        try:
            graph.fold(stored, LogLoader(self.log, self.key, stored[-1].position))
        except BaseException:
            self._graph = None  # half folded; it is built anew when next asked for
            raise
