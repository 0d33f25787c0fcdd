"""What does this process hold of one namespace, and is it up to date?

The graph is brought up to the log before each answer; writing goes through the log first and then
into the graph, in log order.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from recall_echo_core.errors import CorruptLog, StoreErased, StoreError
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
    from recall_echo_core.picture import Picture
    from recall_echo_core.stores.snapshots import Snapshots
    from recall_echo_core.stores.sql import NamespaceKey, SqlLog, Writer

__all__ = ["LogLoader", "Namespace", "evidence_about", "replayed"]

log = logging.getLogger(__name__)
PAST_HEAD: Final = "the log is said to end before this event"
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

    def __init__(
        self, log: SqlLog, key: NamespaceKey, snapshots: Callable[[int], Snapshots[Picture]] | None
    ) -> None:
        self.log, self.key = log, key
        self.generation = 0  # moves on when something is forgotten, by whichever process
        # Called with what has been folded, with the graph after something was forgotten, and when
        # the whole namespace has been.
        self.moved_on: Callable[[Graph], None] = lambda _: None
        self.taken: Callable[[Sequence[Stored]], None] = lambda _: None
        self.erased: Callable[[], None] = lambda: None
        self._snapshots = snapshots
        self._lock = threading.RLock()
        self._graph: Graph | None = None
        self._snapshot_position = 0

    @contextmanager
    def reading(self) -> Iterator[Graph]:
        """Hold the graph, brought up to the log.

        Raises:
            StoreErased: the whole namespace has been forgotten.
        """
        try:
            with self._lock:
                generation, head = self.log.head(self.key)
                graph = self._graph
                moved = generation != self.generation
                if graph is None or moved:
                    newest = self.log.newest(self.key)
                    generation, head = self.log.head(self.key)
                    if newest > head:
                        raise CorruptLog(self.key.name, head + 1, PAST_HEAD)
                    graph = self._open(generation, head)
                try:
                    self._follow(graph, head)
                except CorruptLog:
                    self._graph = None  # so that the next call looks again, before it writes
                    raise
                if moved:
                    self.moved_on(graph)
                yield graph
        except StoreErased:
            self.erased()  # without the lock: it waits for whoever holds the index, and may want us
            raise

    def append(self, recorded_at: int, decide: Callable[[Writer], Sequence[Event]]) -> list[Stored]:
        """Append what `decide` returns, durably and together, and take it into the graph.

        Args:
            recorded_at: The moment it is learned.
            decide: Called with the write lock held, so what it reads stays true.

        Raises:
            StoreErased: the whole namespace has been forgotten.
        """
        return self.append_dated(lambda writer: [(recorded_at, e) for e in decide(writer)])

    def append_dated(self, decide: Callable[[Writer], Sequence[tuple[int, Event]]]) -> list[Stored]:
        """Append events, each with the moment it was learned; see `append`."""
        if self._graph is None:
            with self.reading():
                pass  # a damaged log is refused before anything is added to it
        try:
            with self.log.writing(self.key) as writer:
                stored = writer.append_dated(decide(writer))
        except StoreErased:
            self.erased()
            raise
        if stored:
            with self._lock:
                graph = self._graph
                if graph is not None and graph.position == stored[0].position - 1:
                    self._fold(graph, stored)
                elif graph is not None:
                    self._follow(graph, stored[-1].position)
        return stored

    def snapshot(self, *, least: int = SNAPSHOT_EVENTS) -> None:
        """Keep the graph on disk if at least `least` events are not in a snapshot yet.

        Nobody writes meanwhile, so what another process has forgotten does not come back to disk.
        """
        with self._lock:
            graph = self._graph
            if self._snapshots is None or graph is None:
                return
            if graph.position - self._snapshot_position >= max(1, least):
                with self.log.writing(self.key), suppress(StoreErased):
                    if self.log.head(self.key)[0] == self.generation:
                        self._snapshots(self.generation).write(graph.picture())
                        self._snapshot_position = graph.position

    def rest(self) -> bool:
        """Let go of the graph until it is needed again; false if it is in use just now."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self.snapshot()
            self._graph = None
        except StoreError:
            log.exception("keeping a snapshot failed; the graph stays in memory")
            return False
        finally:
            self._lock.release()
        return True

    def replace(self, graph: Graph, generation: int) -> None:
        """Hold the graph that an erasure left, unless another one has moved on already."""
        with self._lock:
            if generation >= self.generation:
                self.generation = generation
                self._graph, self._snapshot_position = graph, 0
                self.moved_on(graph)

    def _open(self, generation: int, head: int) -> Graph:
        picture = None
        if self._snapshots is not None:
            picture = self._snapshots(generation).newest(upto=head)
        self._snapshot_position = 0 if picture is None else picture.position
        graph = Graph(self.key.salt) if picture is None else Graph.of(self.key.salt, picture)
        self._graph, self.generation = graph, generation
        return graph

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
        self.taken(stored)
