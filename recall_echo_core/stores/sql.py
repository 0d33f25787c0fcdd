"""Where does the log live? In one SQL table, append-only, with dense positions per namespace."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    Connection,
    Engine,
    Select,
    bindparam,
    delete,
    func,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.engine import URL

from recall_echo_core.errors import CorruptLog, StoreErased, StoreError
from recall_echo_core.events import Event, Stored
from recall_echo_core.stores.rows import NamespaceKey, row_of, stored_of
from recall_echo_core.stores.schema import (
    embeddings,
    events,
    namespaces,
    open_engine,
    progress,
    store,
    translated,
)

__all__ = ["NamespaceKey", "SqlLog", "Writer", "sqlite_url"]

PAGE: Final = 5_000
IN_LIST: Final = 500


def sqlite_url(path: Path) -> URL:
    """Return the URL of a SQLite file, whatever characters its path holds."""
    return URL.create("sqlite", database=str(path))


_ordered: Final = select(events).where(events.c.namespace == bindparam("ns"))
_head: Final = select(namespaces.c.generation, namespaces.c.head).where(
    namespaces.c.id == bindparam("ns")
)
_advance: Final = (
    update(namespaces)
    .where(namespaces.c.id == bindparam("ns"))
    .values(head=namespaces.c.head + bindparam("more"))
    .returning(namespaces.c.head)
)
_insert: Final = insert(events)
_known: Final = select(events.c.ref).where(
    events.c.namespace == bindparam("ns"),
    events.c.ref.in_(bindparam("refs", expanding=True)),
    events.c.kind.in_(bindparam("kinds", expanding=True)),
)


class SqlLog:
    """The events of every namespace of one database. Safe from any thread.

    Args:
        url: SQLAlchemy database URL.
    """

    def __init__(self, url: str | URL) -> None:
        self._engine = open_engine(url)
        self._process = os.getpid()
        # Within a process writers queue here, which is fair and quicker than SQLite's polling.
        self._writer_lock = threading.Lock()

    @property
    def engine(self) -> Engine:
        """Where connections come from.

        Raises:
            StoreError: this is a fork of the process that opened them, and must not use them.
        """
        if os.getpid() != self._process:
            raise StoreError(
                "This memory was opened before a fork; call open_memory(...) in this process."
            )
        return self._engine

    def close(self) -> None:
        """Give back every connection."""
        if os.getpid() == self._process:
            self._engine.dispose()

    # Namespaces and notes

    def namespace(self, name: str, new_salt: Callable[[], bytes]) -> NamespaceKey:
        """Return the key of a namespace, creating it with a fresh salt when new."""
        query = select(namespaces.c.id, namespaces.c.name, namespaces.c.salt).where(
            namespaces.c.name == name
        )
        with translated("opening a namespace"):
            with self.engine.connect() as connection:
                row = connection.execute(query).first()
            if row is None:
                with self.transaction() as connection:
                    row = connection.execute(query).first()
                    if row is None:
                        fresh = {"name": name, "salt": new_salt(), "generation": 0, "head": 0}
                        connection.execute(insert(namespaces).values(**fresh))
                        row = connection.execute(query).one()
        return NamespaceKey(row.id, row.name, row.salt)

    def begin_with(self, key: NamespaceKey, salt: bytes) -> bool:
        """Give a namespace that has no event yet another salt; return whether that was done.

        It gets another id too, so that whoever holds the old key notices.
        """
        if key.salt == salt:
            return False
        with translated("opening a namespace"), self.transaction() as connection:
            row = connection.execute(_head, {"ns": key.id}).first()
            if row is None or row.head > 0:
                return False
            for table in (progress, embeddings):
                connection.execute(delete(table).where(table.c.namespace == key.id))
            connection.execute(delete(namespaces).where(namespaces.c.id == key.id))
            fresh = {"name": key.name, "salt": salt, "generation": 0, "head": 0}
            connection.execute(insert(namespaces).values(**fresh))
            return True

    def keys(self) -> list[NamespaceKey]:
        """Return the keys of all namespaces, by name."""
        query = select(namespaces.c.id, namespaces.c.name, namespaces.c.salt)
        with translated("listing namespaces"), self.engine.connect() as connection:
            rows = connection.execute(query.order_by(namespaces.c.name)).all()
        return [NamespaceKey(row.id, row.name, row.salt) for row in rows]

    def namespaces(self) -> list[str]:
        """Return the names of all namespaces, sorted."""
        return [key.name for key in self.keys()]

    def note(self, key: str) -> str | None:
        """Return a note about the whole store, such as the model its vectors come from."""
        with translated("reading the store"), self.engine.connect() as connection:
            query = select(store.c.value).where(store.c.key == key)
            value: str | None = connection.execute(query).scalar()
            return value

    def set_notes(self, notes: dict[str, str]) -> None:
        """Write notes about the whole store, in one transaction."""
        with translated("writing the store"), self.transaction() as connection:
            for key, value in notes.items():
                changed = connection.execute(
                    update(store).where(store.c.key == key).values(value=value)
                )
                if changed.rowcount == 0:
                    connection.execute(insert(store).values(key=key, value=value))

    # Reading

    def head(self, key: NamespaceKey) -> tuple[int, int]:
        """Return the generation of a namespace and the position of its newest event."""
        with translated("reading the log"), self.engine.connect() as connection:
            row = connection.execute(_head, {"ns": key.id}).first()
        if row is None:
            raise StoreErased(key.name)
        return row.generation, row.head

    def mark(self, key: NamespaceKey, position: int) -> str:
        """Return what tells the event at a position from any other; empty where there is none."""
        query = select(events.c.checksum).where(
            events.c.namespace == key.id, events.c.position == position
        )
        with translated("reading the log"), self.engine.connect() as connection:
            checksum = connection.execute(query).scalar()
        return checksum.hex() if isinstance(checksum, bytes) else ""

    def newest(self, key: NamespaceKey) -> int:
        """Return the position of the newest event that is there; read `head` after it."""
        query = select(func.max(events.c.position)).where(events.c.namespace == key.id)
        with translated("reading the log"), self.engine.connect() as connection:
            return connection.execute(query).scalar() or 0

    def read(
        self,
        key: NamespaceKey,
        *,
        after: int = 0,
        upto: int | None = None,
        known_at: int | None = None,
        kinds: Iterable[str] = (),
        subjects: Collection[bytes] | None = None,
        ref: bytes | None = None,
        run: bytes | None = None,
    ) -> Iterator[Stored]:
        """Yield events in log order, a page at a time, each checked against its checksum.

        Args:
            key: The namespace.
            after: Only events past this position.
            upto: Only events up to this position.
            known_at: Only events recorded up to this moment.
            kinds: Only these kinds.
            subjects: Only evidence about these entities as subjects.
            ref: Only events about the thing with this id.
            run: Only recalls of this run.

        Raises:
            CorruptLog: an event is not what was written.
        """
        filters = {"upto": upto, "known_at": known_at, "ref": ref, "run": run}
        given: dict[str, Any] = {
            name: value for name, value in filters.items() if value is not None
        }
        if subjects is not None:
            given["subjects"] = list(subjects)
        query = _query(tuple(kinds), tuple(given))
        while True:
            with translated("reading the log"), self.engine.connect() as connection:
                rows = connection.execute(query, {"ns": key.id, "after": after, **given}).all()
            for row in rows:
                yield stored_of(key, row)
            if len(rows) < PAGE:
                return
            after = rows[-1].position

    def scan(self, key: NamespaceKey, upto: int) -> Iterator[Stored | CorruptLog]:
        """Yield the log in order, and in place of each damaged event what is wrong with it."""
        query, after = _query((), ("upto",)), 0
        while True:
            with translated("reading the log"), self.engine.connect() as connection:
                given = {"ns": key.id, "after": after, "upto": upto}
                rows = connection.execute(query, given).all()
            for row in rows:
                try:
                    yield stored_of(key, row)
                except CorruptLog as error:
                    yield error
            if len(rows) < PAGE:
                return
            after = rows[-1].position

    def at(self, key: NamespaceKey, positions: Iterable[int]) -> dict[int, Stored]:
        """Return the events at these positions, by position."""
        wanted = sorted(set(positions))
        found: dict[int, Stored] = {}
        with translated("reading the log"), self.engine.connect() as connection:
            for i in range(0, len(wanted), IN_LIST):
                query = _ordered.where(events.c.position.in_(wanted[i : i + IN_LIST]))
                for row in connection.execute(query, {"ns": key.id}):
                    found[row.position] = stored_of(key, row)
        for position in wanted:
            if position not in found:
                self.head(key)  # raises if the whole namespace is gone
                raise CorruptLog(key.name, position, "the event is missing")
        return found

    # Writing

    @contextmanager
    def writing(self, key: NamespaceKey) -> Iterator[Writer]:
        """Hold the write lock: what is read through the writer stays true until it has appended.

        All that is appended inside becomes durable together when the block ends, or not at all.
        """
        with translated("appending to the log"), self.transaction() as connection:
            yield Writer(key, connection)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Hold the write lock of the database; all is kept when the block ends, or nothing."""
        engine = self.engine  # checked before the lock, which a fork may have left locked
        with (
            self._writer_lock,
            engine.connect().execution_options(write=True) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def alone(self) -> Iterator[Any]:
        """Hold the write lock outside a transaction, with a cursor of the driver."""
        engine = self.engine
        with self._writer_lock:
            connection = engine.raw_connection()
            try:
                yield connection.cursor()
            finally:
                connection.close()


class Writer:
    """The log of one namespace while its write lock is held."""

    def __init__(self, key: NamespaceKey, connection: Connection) -> None:
        self._key, self.connection = key, connection

    def append(self, new: Sequence[Event], recorded_at: int) -> list[Stored]:
        """Append events at the next positions and return them in place."""
        return self.append_dated([(recorded_at, event) for event in new])

    def append_dated(self, new: Sequence[tuple[int, Event]]) -> list[Stored]:
        """Append events, each with the moment it was recorded, and return them in place."""
        if not new:
            return []
        parameters = {"ns": self._key.id, "more": len(new)}
        head = self.connection.execute(_advance, parameters).scalar()
        if head is None:
            raise StoreErased(self._key.name)
        placed = [
            Stored(position, recorded_at, event)
            for position, (recorded_at, event) in enumerate(new, head - len(new) + 1)
        ]
        self.connection.execute(_insert, [row_of(self._key, item) for item in placed])
        return placed

    def progress(self, view: str) -> int:
        """Return how far something has followed a log, 0 when it has not begun."""
        query = select(progress.c.position).where(
            progress.c.namespace == self._key.id, progress.c.view == view
        )
        return self.connection.execute(query).scalar() or 0

    def set_progress(self, view: str, position: int) -> None:
        """Note how far something has followed a log."""
        here = progress.c.namespace == self._key.id, progress.c.view == view
        changed = self.connection.execute(update(progress).where(*here).values(position=position))
        if changed.rowcount == 0:
            row = {"namespace": self._key.id, "view": view, "position": position}
            self.connection.execute(insert(progress).values(row))

    def everything(self) -> list[Stored]:
        """Return the whole log of the namespace."""
        query = _ordered.order_by(events.c.position)
        rows = self.connection.execute(query, {"ns": self._key.id})
        return [stored_of(self._key, row) for row in rows]

    def about(self, ref: bytes, kinds: Iterable[str] = ()) -> list[Stored]:
        """Return the events about the thing with this id, in log order."""
        query = _query(tuple(kinds), ("ref",))
        rows = self.connection.execute(query, {"ns": self._key.id, "after": 0, "ref": ref})
        return [stored_of(self._key, row) for row in rows]

    def known(self, refs: Sequence[bytes], kinds: Sequence[str]) -> set[bytes]:
        """Return which of these ids the log already has an event of these kinds about."""
        found: set[bytes] = set()
        for i in range(0, len(refs), IN_LIST):
            given = {"ns": self._key.id, "refs": refs[i : i + IN_LIST], "kinds": kinds}
            found.update(self.connection.execute(_known, given).scalars())
        return found


@lru_cache(maxsize=64)
def _query(kinds: tuple[str, ...], given: tuple[str, ...]) -> Select[Any]:
    """Return the select for a set of filters; built once each, since building takes longest."""
    query = _ordered.where(events.c.position > bindparam("after"))
    if "upto" in given:
        query = query.where(events.c.position <= bindparam("upto"))
    if "known_at" in given:
        query = query.where(events.c.recorded_at <= bindparam("known_at"))
    if kinds:  # spelt out, so that SQLite sees that the index on feedback applies
        words = [literal(kind, literal_execute=True) for kind in kinds]
        query = query.where(
            events.c.kind == words[0] if len(kinds) == 1 else events.c.kind.in_(words)
        )
    for column in ("ref", "run"):
        if column in given:
            query = query.where(events.c[column] == bindparam(column))
    if "subjects" in given:
        query = query.where(events.c.subject.in_(bindparam("subjects", expanding=True)))
    return query.order_by(events.c.position).limit(PAGE)
