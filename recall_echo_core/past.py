"""What would a namespace have answered at an earlier moment?

Only what was recorded by then is known, with the settings of then, and faded to then. Questions
about one subject read that subject's events only; others fold the log up to that moment, once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from recall_echo_core.events import SETTINGS_REF
from recall_echo_core.graph import Graph
from recall_echo_core.namespace import LogLoader, replayed
from recall_echo_core.recall import When
from recall_echo_core.times import to_datetime
from recall_echo_core.view import View

if TYPE_CHECKING:
    from recall_echo_core.asked import Asked
    from recall_echo_core.engine import Engine, Room
    from recall_echo_core.frozen import Frozen
    from recall_echo_core.matching import Found
    from recall_echo_core.picture import Activity
    from recall_echo_core.ports import Vectors
    from recall_echo_core.texts import Kind

__all__ = ["PastView"]


class PastView(View):
    """What a namespace answered, or would have answered, at an earlier moment.

    Args:
        engine: Shared parts.
        room: The namespace.
        known_at: Only what was recorded up to this moment is known, and faded to it.
        valid_at: The moment asked about.
        check_open: Raises when the memory it came from is closed.
    """

    def __init__(
        self,
        engine: Engine,
        room: Room,
        known_at: int,
        valid_at: int,
        check_open: Callable[[], None],
    ) -> None:
        super().__init__(engine, room)
        self._known, self._asked = known_at, valid_at
        self._still_open = check_open
        self._state = (0, 0)  # of which namespace and generation the graph is
        self._graph: Graph | None = None
        self._texts: Frozen | None = None

    @property
    def known_at(self) -> datetime:
        """The moment whose knowledge this is."""
        return to_datetime(self._known)

    @property
    def valid_at(self) -> datetime:
        """The moment asked about."""
        return to_datetime(self._asked)

    def _check_open(self) -> None:
        self._still_open()

    def _when(self) -> When:
        return When(self._known, self._asked)

    def _known_at(self) -> int | None:
        return self._known

    @contextmanager
    def _reading(self, subject: bytes | None = None) -> Iterator[Graph]:
        self._check_open()
        namespace = self._room.namespace
        log, key = namespace.log, namespace.key
        with namespace.reading():  # what has been forgotten since is not answered from a cache
            if self._state != (key.id, namespace.generation):
                self._state, self._graph = (key.id, namespace.generation), None
                self._texts = None
        if subject is not None and self._graph is None:
            graph = Graph(key.salt)
            loader = LogLoader(log, key, None, self._known)
            graph.fold(log.read(key, known_at=self._known, ref=SETTINGS_REF), loader)
            graph.fold(log.read(key, known_at=self._known, subjects=[subject]), loader)
            with namespace.reading() as live:  # names are shown as first spelt, wherever that was
                for id, node in graph.nodes.items():
                    if id in live.nodes:
                        node.name = live.nodes[id].name
            yield graph
            return
        if self._graph is None:
            self._graph = replayed(log, key, self._known)
        yield self._graph

    def _accesses(self) -> Mapping[bytes, Activity]:
        return {}  # what waits to be written is of today

    def _matching(
        self, kinds: Collection[Kind], asked: Asked, vector: Vectors, limit: int
    ) -> Mapping[Kind, tuple[Found, bool]]:
        with self._reading() as graph:
            if self._texts is None:
                self._texts = self._room.indexing.frozen(graph)
            return self._texts.search(kinds, asked, vector, limit)
