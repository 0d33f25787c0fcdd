"""Where does the log live? In one SQL table, append-only, with dense positions per namespace."""

from __future__ import annotations

import hashlib
import struct
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Engine, Row, Select, bindparam, insert, literal, select, update
from sqlalchemy.engine import URL

from recall_echo_core.errors import CorruptLog
from recall_echo_core.events import (
    SETTINGS_REF,
    SHAPES,
    EntityDescribed,
    EpisodeRecorded,
    Event,
    EvidenceObserved,
    EvidenceRetracted,
    FeedbackGiven,
    RecallServed,
    RelationEnded,
    Stored,
    UsageMarked,
    decoded,
    encoded,
    kind_of,
)
from recall_echo_core.stores.schema import events, namespaces, open_engine, store, translated

__all__ = ["NamespaceKey", "SqlLog", "Writer", "sqlite_url"]

PAGE: Final = 5_000
IN_LIST: Final = 500


def sqlite_url(path: Path) -> URL:
    """Return the URL of a SQLite file, whatever characters its path holds."""
    return URL.create("sqlite", database=str(path))


class NamespaceKey(msgspec.Struct, frozen=True):
    """What identifies a namespace in the database, and the salt its ids are made with."""

    id: int
    name: str
    salt: bytes


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
        self.engine: Engine = open_engine(url)
        # Within a process writers queue here, which is fair and quicker than SQLite's polling.
        self._writer_lock = threading.Lock()

    def close(self) -> None:
        """Give back every connection."""
        self.engine.dispose()

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
                with self._transaction() as connection:
                    row = connection.execute(query).first()
                    if row is None:
                        fresh = {"name": name, "salt": new_salt(), "generation": 0, "head": 0}
                        connection.execute(insert(namespaces).values(**fresh))
                        row = connection.execute(query).one()
        return NamespaceKey(row.id, row.name, row.salt)

    def namespaces(self) -> list[str]:
        """Return the names of all namespaces, sorted."""
        with translated("listing namespaces"), self.engine.connect() as connection:
            return sorted(connection.execute(select(namespaces.c.name)).scalars())

    def note(self, key: str) -> str | None:
        """Return a note about the whole store, such as the model its vectors come from."""
        with translated("reading the store"), self.engine.connect() as connection:
            query = select(store.c.value).where(store.c.key == key)
            value: str | None = connection.execute(query).scalar()
            return value

    def set_notes(self, notes: dict[str, str]) -> None:
        """Write notes about the whole store, in one transaction."""
        with translated("writing the store"), self._transaction() as connection:
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
            row = connection.execute(_head, {"ns": key.id}).one()
            return row.generation, row.head

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
                yield _stored(key, row)
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
                    found[row.position] = _stored(key, row)
        return found

    # Writing

    @contextmanager
    def writing(self, key: NamespaceKey) -> Iterator[Writer]:
        """Hold the write lock: what is read through the writer stays true until it has appended.

        All that is appended inside becomes durable together when the block ends, or not at all.
        """
        with translated("appending to the log"), self._transaction() as connection:
            yield Writer(key, connection)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with (
            self._writer_lock,
            self.engine.connect().execution_options(write=True) as connection,
            connection.begin(),
        ):
            yield connection


class Writer:
    """The log of one namespace while its write lock is held."""

    def __init__(self, key: NamespaceKey, connection: Connection) -> None:
        self._key, self._connection = key, connection

    def append(self, new: Sequence[Event], recorded_at: int) -> list[Stored]:
        """Append events at the next positions and return them in place."""
        if not new:
            return []
        parameters = {"ns": self._key.id, "more": len(new)}
        head = self._connection.execute(_advance, parameters).scalar_one()
        placed = [
            Stored(position, recorded_at, event)
            for position, event in enumerate(new, head - len(new) + 1)
        ]
        self._connection.execute(_insert, [_row(self._key, item) for item in placed])
        return placed

    def about(self, ref: bytes, kinds: Iterable[str] = ()) -> list[Stored]:
        """Return the events about the thing with this id, in log order."""
        query = _query(tuple(kinds), ("ref",))
        rows = self._connection.execute(query, {"ns": self._key.id, "after": 0, "ref": ref})
        return [_stored(self._key, row) for row in rows]

    def known(self, refs: Sequence[bytes], kinds: Sequence[str]) -> set[bytes]:
        """Return which of these ids the log already has an event of these kinds about."""
        found: set[bytes] = set()
        for i in range(0, len(refs), IN_LIST):
            given = {"ns": self._key.id, "refs": refs[i : i + IN_LIST], "kinds": kinds}
            found.update(self._connection.execute(_known, given).scalars())
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


def _row(key: NamespaceKey, item: Stored) -> dict[str, Any]:
    event = item.event
    kind = kind_of(event)
    ref, subject, run = _columns(event)
    payload = encoded(event)
    shape = SHAPES[kind]
    return {
        "namespace": key.id,
        "position": item.position,
        "kind": kind,
        "shape": shape,
        "recorded_at": item.recorded_at,
        "ref": ref,
        "subject": subject,
        "run": run,
        "payload": payload,
        "checksum": _checksum(
            key, item.position, item.recorded_at, kind, shape, ref, subject, run, payload
        ),
    }


def _columns(event: Event) -> tuple[bytes | None, bytes | None, bytes | None]:
    if isinstance(event, (EvidenceObserved, RelationEnded)):
        return event.id, event.subject, None
    if isinstance(event, EvidenceRetracted):
        return event.evidence, event.subject, None
    if isinstance(event, RecallServed):
        return event.id, None, event.run
    if isinstance(event, (UsageMarked, FeedbackGiven)):
        return event.recall, None, None
    if isinstance(event, (EntityDescribed, EpisodeRecorded)):
        return event.id, None, None
    return SETTINGS_REF, None, None


def _checksum(
    key: NamespaceKey,
    position: int,
    recorded_at: int,
    kind: str,
    shape: int,
    ref: bytes | None,
    subject: bytes | None,
    run: bytes | None,
    payload: bytes,
) -> bytes:
    """Return a keyed digest over every column, so a flipped, moved or swapped row shows."""
    digest = hashlib.blake2b(key=key.salt, digest_size=8)
    digest.update(struct.pack("<qqi", position, recorded_at, shape))
    for part in (kind.encode(), ref, subject, run, payload):
        digest.update(b"\0" if part is None else struct.pack("<i", len(part)) + part)
    return digest.digest()


def _stored(key: NamespaceKey, row: Row[Any]) -> Stored:
    _, position, kind, shape, recorded_at, ref, subject, run, payload, checksum = tuple(row)
    expected = _checksum(key, position, recorded_at, kind, shape, ref, subject, run, payload)
    if checksum != expected:
        raise CorruptLog(key.name, position, "its checksum does not match")
    try:
        return Stored(position, recorded_at, decoded(kind, shape, payload))
    except msgspec.MsgspecError as error:
        raise CorruptLog(key.name, position, f"its payload cannot be read ({error})") from error
