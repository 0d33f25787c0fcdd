"""How is an earlier state of a namespace searched?

Exactly, over the vectors that its texts had then, and with the words and surroundings of then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np

from recall_echo_core.catalogue import Catalogue
from recall_echo_core.contents import contents_in
from recall_echo_core.leads import Leads
from recall_echo_core.matching import Found, matched
from recall_echo_core.searching import best_chunks
from recall_echo_core.texts import KINDS, Kind, TextKey, parse_key, vector_key

if TYPE_CHECKING:
    from recall_echo_core.asked import Asked
    from recall_echo_core.graph import Graph
    from recall_echo_core.namespace import Namespace
    from recall_echo_core.ports import VectorIndex, Vectors

__all__ = ["Frozen"]


class Frozen:
    """The texts of one graph that does not change any more.

    Args:
        graph: What was known.
        namespace: Whose log holds the texts.
        kept: Yields the kept vectors of a kind, of whatever version of a text.
        exact: Makes an empty exact index.
        dimension: Of the vectors.
    """

    def __init__(
        self,
        graph: Graph,
        namespace: Namespace,
        kept: Callable[[Kind], Iterator[tuple[list[str], Vectors]]],
        exact: Callable[[], VectorIndex],
        dimension: int,
    ) -> None:
        self._contents = contents_in(
            graph, namespace.log, namespace.key, graph.texts_after(0), speakers=False
        )
        self._catalogue = Catalogue(dimension)
        for text, content in self._contents.items():
            self._catalogue.add(text, content, graph.episodes.get(text.item))
        self._graph = graph
        self._rows: dict[str, Vectors] = {}  # of relations, where they lead to episodes
        self._indexes = {kind: exact() for kind in KINDS}
        for kind, index in self._indexes.items():
            for keys, vectors in kept(kind):
                places = [
                    place
                    for place, (item, position) in enumerate(map(parse_key, keys))
                    if graph.text_position(item) == position
                ]
                wanted = [keys[place] for place in places]
                index.upsert(wanted, vectors[places])
                if kind == "relation" and graph.leading:
                    self._rows |= zip(wanted, vectors[places], strict=True)
                if kind == "episode":
                    self._catalogue.measure(wanted, vectors[places])

    def search(
        self, kinds: Collection[Kind], asked: Asked, vector: Vectors, limit: int
    ) -> dict[Kind, tuple[Found, bool]]:
        """Return what matches a question best, by kind; nothing else is to be had."""
        return {kind: (self._matched(kind, asked, vector, limit), False) for kind in kinds}

    def _leads(self, asked: Asked, vector: Vectors, limit: int) -> Leads:
        near = best_chunks(self._indexes["relation"].search(vector, limit))
        numbers = self._catalogue.lexical["episode"].numbers
        return Leads(
            near, asked.text, vector, numbers, lambda: nullcontext(self._graph), self._vectors
        )

    def _vectors(self, texts: Collection[TextKey]) -> dict[TextKey, Vectors]:
        """Return the vectors of some relations, of length 1."""
        rows = {text: self._rows.get(vector_key(text.position, text.item, 0)) for text in texts}
        found = {text: row for text, row in rows.items() if row is not None and row.any()}
        return {text: row / np.linalg.norm(row) for text, row in found.items()}

    def _matched(self, kind: Kind, asked: Asked, vector: Vectors, limit: int) -> Found:
        index = self._indexes[kind]
        near = best_chunks(index.search(vector, index.count()))
        leading = kind == "episode" and self._graph.leading
        leads = self._leads(asked, vector, limit) if leading else None
        return matched(
            kind,
            asked,
            near,
            limit,
            self._catalogue,
            lambda _: {},  # all that have vectors are near
            lambda texts: {text: self._contents[text] for text in texts},
            leads,
        )
