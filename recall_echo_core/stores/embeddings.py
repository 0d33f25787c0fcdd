"""Where are embeddings kept, so that no vector is ever computed twice?

Beside the log, in the same database: the vector index is a view of this table. A vector belongs
to the event that gave an item its text, so an old text's vectors answer questions about the past.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from sqlalchemy import delete, func, insert, select, update

from recall_echo_core.errors import StoreError
from recall_echo_core.stores.schema import (
    EMBEDDED,
    MODEL_NOTES,
    embeddings,
    namespaces,
    progress,
    store,
    translated,
)
from recall_echo_core.texts import TextKey, vector_key

if TYPE_CHECKING:
    from recall_echo_core.ports import Vectors
    from recall_echo_core.stores.sql import SqlLog

__all__ = ["Embeddings", "drop_all"]

PAGE: Final = 2_000
IN_LIST: Final = 500


class Embeddings:
    """The kept embeddings of one namespace. Safe from any thread."""

    def __init__(self, log: SqlLog, namespace: int, dimension: int) -> None:
        self._log, self._engine = log, log.engine
        self._namespace, self._dimension = namespace, dimension

    def position(self) -> int:
        """Return the log position up to which every text has its vectors here."""
        query = select(progress.c.position).where(
            progress.c.namespace == self._namespace, progress.c.view == EMBEDDED
        )
        with translated("reading embeddings"), self._engine.connect() as connection:
            return connection.execute(query).scalar() or 0

    def count(self, kind: str, upto: int) -> int:
        """Return how many vectors of a kind there are of texts up to a position."""
        table = embeddings.c
        query = select(func.count()).where(
            table.namespace == self._namespace, table.kind == kind, table.position <= upto
        )
        with translated("reading embeddings"), self._engine.connect() as connection:
            return connection.execute(query).scalar_one()

    def known(self, texts: Sequence[TextKey]) -> set[TextKey]:
        """Return which of these texts have vectors here already."""
        found: set[TextKey] = set()
        wanted = {(text.position, text.item): text for text in texts}
        positions = sorted({text.position for text in texts})
        with translated("reading embeddings"), self._engine.connect() as connection:
            for i in range(0, len(positions), IN_LIST):
                query = select(embeddings.c.position, embeddings.c.item).where(
                    embeddings.c.namespace == self._namespace,
                    embeddings.c.position.in_(positions[i : i + IN_LIST]),
                    embeddings.c.chunk == 0,
                )
                for position, item in connection.execute(query):
                    text = wanted.get((position, item))
                    if text is not None:
                        found.add(text)
        return found

    def save(self, new: Sequence[tuple[TextKey, Vectors]], position: int, generation: int) -> bool:
        """Keep vectors, a row per chunk of each text, and that all up to `position` have some.

        Returns false, keeping nothing, when the namespace has moved on from `generation`: what
        was embedded may have been forgotten meanwhile.
        """
        rows = [
            {
                "namespace": self._namespace,
                "position": text.position,
                "item": text.item,
                "chunk": chunk,
                "kind": text.kind,
                "vector": np.ascontiguousarray(vector, dtype="<f4").tobytes(),
            }
            for text, vectors in new
            for chunk, vector in enumerate(vectors)
        ]
        current = select(namespaces.c.generation).where(namespaces.c.id == self._namespace)
        with translated("keeping embeddings"), self._log.transaction() as connection:
            if connection.execute(current).scalar() != generation:
                return False
            if rows:
                # Another process may have embedded the same text a moment ago: same vector.
                connection.execute(insert(embeddings).prefix_with("OR IGNORE"), rows)
            reached = progress.c.namespace == self._namespace, progress.c.view == EMBEDDED
            found = connection.execute(select(progress.c.position).where(*reached)).scalar()
            if found is None:
                row = {"namespace": self._namespace, "view": EMBEDDED, "position": position}
                connection.execute(insert(progress).values(row))
            elif found < position:
                connection.execute(update(progress).where(*reached).values(position=position))
        return True

    def load(self, kind: str, after: int = 0) -> Iterator[tuple[list[str], Vectors]]:
        """Yield keys and vectors of a kind whose text is past a position, a page at a time."""
        start: tuple[int, bytes, int] = (after, b"\xff" * 17, 0)
        table = embeddings.c
        while True:
            position, item, chunk = start
            past = (table.position > position) | (
                (table.position == position)
                & ((table.item > item) | ((table.item == item) & (table.chunk > chunk)))
            )
            query = (
                select(table.position, table.item, table.chunk, table.vector)
                .where(table.namespace == self._namespace, table.position >= position)
                .where(table.kind == kind, past)
                .order_by(table.position, table.item, table.chunk)
                .limit(PAGE)
            )
            with translated("reading embeddings"), self._engine.connect() as connection:
                rows = connection.execute(query).all()
            if rows:
                keys = [vector_key(row[0], row[1], row[2]) for row in rows]
                if any(len(row[3]) != 4 * self._dimension for row in rows):
                    raise StoreError("an embedding is damaged; reindex() makes all of them again")
                matrix = np.frombuffer(b"".join(row[3] for row in rows), dtype="<f4")
                yield keys, matrix.reshape(len(rows), self._dimension)
            if len(rows) < PAGE:
                return
            start = rows[-1][0], rows[-1][1], rows[-1][2]

    def clear(self) -> None:
        """Drop every vector of this namespace, so that each text is embedded again."""
        with translated("dropping embeddings"), self._log.transaction() as connection:
            for table in (embeddings, progress):
                connection.execute(delete(table).where(table.c.namespace == self._namespace))


def drop_all(log: SqlLog) -> None:
    """Drop every vector of every namespace and the note of the model that made them."""
    with translated("dropping embeddings"), log.transaction() as connection:
        connection.execute(delete(embeddings))
        connection.execute(delete(progress))
        connection.execute(delete(store).where(store.c.key.in_(MODEL_NOTES)))
