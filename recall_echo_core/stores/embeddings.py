"""Where are embeddings kept, so that no vector is ever computed twice?

Beside the log, in the same database: the vector index is a view of this table. A vector belongs
to the event that gave an item its text, so an old text's vectors answer questions about the past.
Each row ends with a checksum: what is damaged is made again from its text.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import sqlalchemy
from sqlalchemy import delete, func, insert, select, update

from recall_echo_core.stores.schema import (
    EMBEDDED,
    MODEL_NOTES,
    Bytes,
    embeddings,
    namespaces,
    progress,
    store,
    translated,
)
from recall_echo_core.texts import Kind, TextKey, vector_key

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from recall_echo_core.ports import Vectors
    from recall_echo_core.stores.sql import SqlLog

__all__ = ["Embeddings", "drop_all"]

PAGE: Final = 2_000
IN_LIST: Final = 500
SUM: Final = 4  # bytes of the checksum behind each vector


class Embeddings:
    """The kept embeddings of one namespace. Safe from any thread."""

    def __init__(self, log: SqlLog, namespace: int, dimension: int) -> None:
        self._log = log
        self._namespace, self._dimension = namespace, dimension

    def position(self) -> int:
        """Return the log position up to which every text has its vectors here."""
        query = select(progress.c.position).where(
            progress.c.namespace == self._namespace, progress.c.view == EMBEDDED
        )
        with translated("reading embeddings"), self._log.engine.connect() as connection:
            return connection.execute(query).scalar() or 0

    def count(self, kind: str, upto: int | None = None) -> int:
        """Return how many vectors of a kind there are, of texts up to a position if given."""
        table = embeddings.c
        query = select(func.count()).where(table.namespace == self._namespace, table.kind == kind)
        if upto is not None:
            query = query.where(table.position <= upto)
        with translated("reading embeddings"), self._log.engine.connect() as connection:
            return connection.execute(query).scalar_one()

    def known(self, texts: Sequence[TextKey]) -> set[TextKey]:
        """Return which of these texts have vectors here already."""
        found: set[TextKey] = set()
        wanted = {(text.position, text.item): text for text in texts}
        positions = sorted({text.position for text in texts})
        with translated("reading embeddings"), self._log.engine.connect() as connection:
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
        was embedded may have been forgotten meanwhile, or be embedded by another model now.
        """
        rows = self._rows(new)
        with translated("keeping embeddings"), self._log.transaction() as connection:
            if not self._current(connection, generation):
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

    def replace(
        self,
        damaged: Sequence[TextKey],
        new: Sequence[tuple[TextKey, Vectors]],
        generation: int,
    ) -> bool:
        """Drop the vectors of some texts and keep new ones; false, as `save`, if out of date."""
        rows = self._rows(new)
        with translated("replacing damaged embeddings"), self._log.transaction() as connection:
            if not self._current(connection, generation):
                return False
            for text in damaged:
                connection.execute(
                    delete(embeddings).where(
                        embeddings.c.namespace == self._namespace,
                        embeddings.c.position == text.position,
                        embeddings.c.item == text.item,
                    )
                )
            if rows:
                connection.execute(insert(embeddings), rows)
        return True

    def load(
        self,
        kind: Kind,
        damaged: list[TextKey],
        *,
        after: int = 0,
        upto: int | None = None,
    ) -> Iterator[tuple[list[str], Vectors]]:
        """Yield keys and vectors of a kind, a page at a time.

        Args:
            kind: Which texts.
            damaged: Takes the texts of rows that are not what was written; these are left out.
            after: Only texts past this position.
            upto: Only texts up to this position.
        """
        start: tuple[int, bytes, int] = (after, b"\xff" * 17, 0)
        table = embeddings.c
        while True:
            position, item, chunk = start
            past = (table.position > position) | (
                (table.position == position)
                & ((table.item > item) | ((table.item == item) & (table.chunk > chunk)))
            )
            # Cast, since a damaged row may hold a text that is none, which the driver refuses.
            vector = sqlalchemy.cast(table.vector, Bytes)
            query = (
                select(table.position, table.item, table.chunk, vector)
                .where(table.namespace == self._namespace, table.position >= position)
                .where(table.kind == kind, past)
                .order_by(table.position, table.item, table.chunk)
                .limit(PAGE)
            )
            if upto is not None:
                query = query.where(table.position <= upto)
            with translated("reading embeddings"), self._log.engine.connect() as connection:
                rows = connection.execute(query).all()
            whole = [row for row in rows if self._is_whole(row)]
            if len(whole) < len(rows):
                bad = {(row[0], row[1]) for row in rows if not self._is_whole(row)}
                damaged += [TextKey(position, item, kind) for position, item in sorted(bad)]
            if whole:
                keys = [vector_key(row[0], row[1], row[2]) for row in whole]
                matrix = np.frombuffer(b"".join(row[3][:-SUM] for row in whole), dtype="<f4")
                yield keys, matrix.reshape(len(whole), self._dimension)
            if len(rows) < PAGE:
                return
            start = rows[-1][0], rows[-1][1], rows[-1][2]

    def vectors(self, texts: Sequence[TextKey]) -> dict[TextKey, Vectors]:
        """Return the vectors of some texts, a row a chunk.

        A text without vectors, or with a damaged one, is left out.
        """
        wanted = {(text.position, text.item): text for text in texts}
        positions = sorted({text.position for text in texts})
        table = embeddings.c
        rows: list[tuple[Any, ...]] = []
        with translated("reading embeddings"), self._log.engine.connect() as connection:
            for start in range(0, len(positions), IN_LIST):
                vector = sqlalchemy.cast(table.vector, Bytes)
                query = select(table.position, table.item, table.chunk, vector).where(
                    table.namespace == self._namespace,
                    table.position.in_(positions[start : start + IN_LIST]),
                )
                rows += map(tuple, connection.execute(query).all())
        found: dict[TextKey, list[bytes]] = {}
        damaged: set[TextKey] = set()
        for row in rows:
            text = wanted.get(row[:2])
            if text is not None:
                found.setdefault(text, []).append(row[3][:-SUM])
                if not self._is_whole(row):
                    damaged.add(text)
        return {
            text: np.frombuffer(b"".join(parts), dtype="<f4").reshape(-1, self._dimension)
            for text, parts in found.items()
            if text not in damaged
        }

    def _rows(self, new: Sequence[tuple[TextKey, Vectors]]) -> list[dict[str, Any]]:
        rows = []
        for text, vectors in new:
            for chunk, vector in enumerate(vectors):
                content = np.ascontiguousarray(vector, dtype="<f4").tobytes()
                row = {"namespace": self._namespace, "position": text.position, "item": text.item}
                row |= {"chunk": chunk, "kind": text.kind}
                row["vector"] = content + _checksum(text.position, text.item, chunk, content)
                rows.append(row)
        return rows

    def _is_whole(self, row: Sequence[Any]) -> bool:
        position, item, chunk, vector = row
        content = vector[:-SUM]
        return len(content) == 4 * self._dimension and vector[-SUM:] == _checksum(
            position, item, chunk, content
        )

    def _current(self, connection: Connection, generation: int) -> bool:
        query = select(namespaces.c.generation).where(namespaces.c.id == self._namespace)
        return cast("int | None", connection.execute(query).scalar()) == generation

    def clear(self) -> None:
        """Drop every vector of this namespace, so that each text is embedded again."""
        with translated("dropping embeddings"), self._log.transaction() as connection:
            here = embeddings.c.namespace == self._namespace
            connection.execute(delete(embeddings).where(here))
            reached = progress.c.namespace == self._namespace, progress.c.view == EMBEDDED
            connection.execute(delete(progress).where(*reached))
            _move_on(connection, self._namespace)


def drop_all(log: SqlLog) -> None:
    """Drop every vector of every namespace and the note of the model that made them."""
    with translated("dropping embeddings"), log.transaction() as connection:
        connection.execute(delete(embeddings))
        connection.execute(delete(progress).where(progress.c.view == EMBEDDED))
        connection.execute(delete(store).where(store.c.key.in_(MODEL_NOTES)))
        _move_on(connection)


def _move_on(connection: Connection, namespace: int | None = None) -> None:
    """Have every process look again at what it holds of the vectors."""
    further = update(namespaces).values(generation=namespaces.c.generation + 1)
    if namespace is not None:
        further = further.where(namespaces.c.id == namespace)
    connection.execute(further)


def _checksum(position: int, item: bytes, chunk: int, vector: bytes) -> bytes:
    place = struct.pack("<qi", position, chunk) + item
    return struct.pack("<I", zlib.crc32(vector, zlib.crc32(place)))
