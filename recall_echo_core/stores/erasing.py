"""How is something taken out of the database so that nothing of it is left?

Payloads are blanked in place, so positions stay dense; embeddings go; the generation moves on, so
that every process throws away what it holds. Then the file is rebuilt and the write-ahead log cut,
since both keep old pages. What could not be finished is noted, and finished by the next open.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, func, insert, select, update

from recall_echo_core.errors import StoreError
from recall_echo_core.events import ERASED_SHAPE
from recall_echo_core.stores.rows import NamespaceKey, blank_row, row_of
from recall_echo_core.stores.schema import (
    BUSY_SECONDS,
    EMBEDDED,
    embeddings,
    events,
    namespaces,
    progress,
    store,
    translated,
)

if TYPE_CHECKING:
    from recall_echo_core.events import Stored
    from recall_echo_core.stores.sql import SqlLog, Writer

__all__ = ["blank", "drop_namespace", "finished", "namespaces_of", "scrub", "unfinished"]

UNFINISHED: Final = "erasing"
PATIENCE_MS: Final = 2_000  # how long other readers are waited for before it is left unfinished
IN_LIST: Final = 500


def blank(
    writer: Writer,
    key: NamespaceKey,
    blanked: Collection[int],
    rewritten: Sequence[Stored],
    gone: Collection[bytes],
    embed_after: int,
) -> int:
    """Blank and rewrite events, drop embeddings, move the generation on and return the new one.

    Args:
        writer: Holds the write lock; all happens in its transaction.
        key: The namespace.
        blanked: Positions whose payload goes.
        rewritten: Events that stay, as they are from now on.
        gone: Items whose embeddings go, of whatever version.
        embed_after: Texts past this position may need vectors again.
    """
    here = events.c.namespace == key.id
    for some in _parts(sorted(blanked)):
        query = select(events.c.position, events.c.kind, events.c.recorded_at)
        for row in writer.connection.execute(query.where(here, events.c.position.in_(some))).all():
            at_place = update(events).where(here, events.c.position == row.position)
            writer.connection.execute(
                at_place.values(blank_row(key, row.position, row.kind, row.recorded_at))
            )
        writer.connection.execute(
            delete(embeddings).where(
                embeddings.c.namespace == key.id, embeddings.c.position.in_(some)
            )
        )
    for stored in rewritten:
        at_place = update(events).where(here, events.c.position == stored.position)
        writer.connection.execute(at_place.values(row_of(key, stored)))
    for items in _parts(sorted(gone)):
        writer.connection.execute(
            delete(embeddings).where(embeddings.c.namespace == key.id, embeddings.c.item.in_(items))
        )
    writer.connection.execute(
        update(progress)
        .where(progress.c.namespace == key.id, progress.c.view == EMBEDDED)
        .where(progress.c.position > embed_after)
        .values(position=embed_after)
    )
    writer.connection.execute(
        update(namespaces)
        .where(namespaces.c.id == key.id)
        .values(generation=namespaces.c.generation + 1)
    )
    moved = select(namespaces.c.generation).where(namespaces.c.id == key.id)
    generation: int = writer.connection.execute(moved).scalar_one()
    _note_unfinished(writer, f"{key.id}:{generation}")
    return generation


def drop_namespace(writer: Writer, key: NamespaceKey) -> dict[str, int]:
    """Remove every row of a namespace, its name included; return what went, by kind of event.

    Rows are not read, so a namespace whose log is damaged can go, too.
    """
    there = select(events.c.kind, func.count()).where(
        events.c.namespace == key.id, events.c.shape != ERASED_SHAPE
    )
    counts = {row[0]: row[1] for row in writer.connection.execute(there.group_by(events.c.kind))}
    for table in (events, embeddings, progress):
        writer.connection.execute(delete(table).where(table.c.namespace == key.id))
    writer.connection.execute(delete(namespaces).where(namespaces.c.id == key.id))
    _note_unfinished(writer, f"{key.id}:whole")
    return counts


def scrub(log: SqlLog) -> bool:
    """Rebuild the database file and cut its write-ahead log; return whether nothing is left.

    False while another connection still reads an older state.
    """
    if log.engine.dialect.name != "sqlite":
        return True
    with log.alone() as cursor:
        try:
            cursor.execute(f"PRAGMA busy_timeout={PATIENCE_MS}")
            cursor.execute("VACUUM")
            busy, _, _ = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except log.engine.dialect.loaded_dbapi.DatabaseError as error:
            if "locked" in str(error) or "busy" in str(error):
                return False
            raise StoreError(f"rebuilding the database after forgetting failed: {error}") from error
        finally:
            cursor.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")
    return not busy


def unfinished(log: SqlLog) -> str | None:
    """Return the erasures that were begun and still have to be finished, as noted."""
    return log.note(UNFINISHED)


def namespaces_of(erasures: str) -> set[int]:
    """Return the numbers of the namespaces that noted erasures are about.

    >>> sorted(namespaces_of("1:3 2:whole 1:4"))
    [1, 2]
    """
    return {int(erasure.split(":")[0]) for erasure in erasures.split()}


def finished(log: SqlLog, last: str) -> None:
    """Note that nothing is left to finish, unless an erasure was begun after `last`."""
    with translated("writing the store"), log.transaction() as connection:
        connection.execute(delete(store).where(store.c.key == UNFINISHED, store.c.value == last))


def _note_unfinished(writer: Writer, erasure: str) -> None:
    note = store.c.key == UNFINISHED
    before = writer.connection.execute(select(store.c.value).where(note)).scalar()
    if before is None:
        writer.connection.execute(insert(store).values(key=UNFINISHED, value=erasure))
    else:
        together = f"{before} {erasure}"
        writer.connection.execute(update(store).where(note).values(value=together))


def _parts(values: Sequence[object]) -> list[Sequence[object]]:
    return [values[start : start + IN_LIST] for start in range(0, len(values), IN_LIST)]
