"""How does the catalogue of a namespace follow its log?

Texts are added in log order; vectors are measured once they are kept. Between runs it is a
snapshot, which goes with everything else when something is forgotten.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from recall_echo_core.catalogue import Catalogue
from recall_echo_core.contents import contents
from recall_echo_core.errors import StoreError

if TYPE_CHECKING:
    from recall_echo_core.catalogue import CataloguePicture
    from recall_echo_core.graph import Graph
    from recall_echo_core.namespace import Namespace
    from recall_echo_core.stores.embeddings import Embeddings
    from recall_echo_core.stores.snapshots import Snapshots
    from recall_echo_core.texts import TextKey

__all__ = ["Cataloguing"]

BATCH: Final = 500

log = logging.getLogger(__name__)


class Cataloguing:
    """The catalogue of one namespace, as this process holds it. Its owner holds a lock.

    Args:
        namespace: Whose texts.
        embeddings: Where vectors are kept.
        dimension: Of the vectors.
        snapshots: Where it is kept between runs, for a generation.
    """

    def __init__(
        self,
        namespace: Namespace,
        embeddings: Embeddings,
        dimension: int,
        snapshots: Callable[[int], Snapshots[CataloguePicture]] | None,
    ) -> None:
        self._namespace, self._embeddings, self._dimension = namespace, embeddings, dimension
        self._snapshots = snapshots
        self._catalogue: Catalogue | None = None
        self._unread: list[TextKey] = []
        self._kept_at = 0

    def expect(self, graph: Graph, fresh: Sequence[TextKey]) -> None:
        """Take note of the texts given since last time; the graph is held meanwhile."""
        if self._catalogue is not None:
            self._unread += fresh
            return
        picture = None
        if self._snapshots is not None:
            picture = self._snapshots(self._namespace.generation).newest(upto=graph.position)
        self._catalogue = Catalogue(self._dimension) if picture is None else Catalogue.of(picture)
        self._kept_at = self._catalogue.position
        self._unread = graph.texts_after(self._catalogue.position)

    def current(self, reached: int) -> Catalogue:
        """Return the catalogue of all texts given so far.

        Args:
            reached: Position up to which texts have their vectors.
        """
        catalogue = self._catalogue
        if catalogue is None:
            raise AssertionError("expect() comes first")
        while self._unread:
            batch, self._unread = self._unread[:BATCH], self._unread[BATCH:]
            said = contents(self._namespace, batch, speakers=False)
            with self._namespace.reading() as graph:
                marks = {text: graph.episodes.get(text.item) for text in said}
            for text in batch:
                if text in said:
                    catalogue.add(text, said[text], marks[text])
                catalogue.position = text.position
        self._leave_out(catalogue)
        self._measure(catalogue, min(reached, catalogue.position))
        return catalogue

    def keep(self, least: int) -> None:
        """Keep a snapshot if at least `least` positions are not in one yet."""
        catalogue = self._catalogue
        if catalogue is None or self._snapshots is None:
            return
        if catalogue.position - self._kept_at < max(1, least):
            return
        try:
            self._snapshots(self._namespace.generation).write(catalogue.picture())
        except StoreError:  # it is a shortcut only
            log.exception("keeping the catalogue failed; the log will be read instead")
            return
        self._kept_at = catalogue.position

    def drop(self) -> None:
        """Let go of it; it is read again when it is needed."""
        self._catalogue, self._unread = None, []

    def _leave_out(self, catalogue: Catalogue) -> None:
        """Leave out relations whose evidence was all taken back."""
        relations = catalogue.lexical["relation"]
        with self._namespace.reading() as graph:
            for item in graph.retired:
                if item not in graph.relations:
                    relations.remove(item)

    def _measure(self, catalogue: Catalogue, reached: int) -> None:
        closeness = catalogue.closeness
        if closeness.position >= reached:
            return
        try:
            for keys, vectors in self._embeddings.load(
                "episode", [], after=closeness.position, upto=reached
            ):
                catalogue.measure(keys, vectors)
        except StoreError:
            return  # measured with the next ones
        closeness.position = reached
