"""Which tables are there, and how is a database opened safely?

SQLite runs in WAL mode with `synchronous=FULL` on every connection, so an acknowledged write
survives a power cut; writers take the lock when they begin, so positions are handed out in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    insert,
    select,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError

from recall_echo_core.errors import StoreBusy, StoreError, UnsupportedShape

__all__ = [
    "BUSY_SECONDS",
    "EMBEDDED",
    "MODEL_NOTES",
    "embeddings",
    "events",
    "namespaces",
    "open_engine",
    "progress",
    "store",
    "translated",
]

SCHEMA: Final = 1
BUSY_SECONDS: Final = 30
EMBEDDED: Final = "embedded"  # the view that `progress` follows: vectors beside the log
MODEL_NOTES: Final = ("model", "dimension", "reading")  # what the store says about its vectors

metadata = MetaData()


class Bytes(LargeBinary):
    """Bytes as the drivers take and give them; wrapping each took a tenth of a batched write."""

    cache_ok = True

    def bind_processor(self, dialect: Any) -> None:
        """Pass bytes on as they are."""

    def result_processor(self, dialect: Any, coltype: Any) -> None:
        """Take bytes as they are."""


store = Table(
    "store",
    metadata,
    Column("key", String, primary_key=True),
    Column("value", String, nullable=False),
)

namespaces = Table(
    "namespaces",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("salt", Bytes, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("head", BigInteger, nullable=False),
    sqlite_autoincrement=True,  # an id is not given out again, so nothing stale can be taken for it
)

events = Table(
    "events",
    metadata,
    Column("namespace", ForeignKey("namespaces.id"), primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", String, nullable=False),
    Column("shape", Integer, nullable=False),
    Column("recorded_at", BigInteger, nullable=False),
    Column("ref", Bytes),  # id of the thing the event is about
    Column("subject", Bytes),  # subject of the relation the event is about
    Column("run", Bytes),  # run of the host a recall belongs to
    Column("payload", Bytes, nullable=False),
    Column("checksum", Bytes, nullable=False),
    sqlite_with_rowid=False,
)
for _column in ("ref", "subject", "run"):
    _given = events.c[_column].is_not(None)
    Index(
        f"events_{_column}",
        events.c.namespace,
        events.c[_column],
        sqlite_where=_given,
        postgresql_where=_given,
    )
_feedback = events.c.kind == "feedback"
Index(
    "events_feedback",
    events.c.namespace,
    events.c.position,
    sqlite_where=_feedback,
    postgresql_where=_feedback,
)

embeddings = Table(
    "embeddings",
    metadata,
    Column("namespace", ForeignKey("namespaces.id"), primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("item", Bytes, primary_key=True),
    Column("chunk", Integer, primary_key=True, autoincrement=False),
    Column("kind", String, nullable=False),
    Column("vector", Bytes, nullable=False),
    sqlite_with_rowid=False,
)

progress = Table(
    "progress",
    metadata,
    Column("namespace", ForeignKey("namespaces.id"), primary_key=True),
    Column("view", String, primary_key=True),
    Column("position", BigInteger, nullable=False),
)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn the database library's exceptions into ours, saying what was being done."""
    try:
        yield
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        if "locked" in str(cause) or "busy" in str(cause):
            raise StoreBusy(
                "The database", f"{what} waited {BUSY_SECONDS} s in vain; try again"
            ) from error
        raise StoreError(f"{what} failed: {cause}. Nothing of it was kept.") from error
    except UnicodeDecodeError as error:  # SQLite quotes the damage it has found as it is
        said = error.object.decode(errors="replace")
        raise StoreError(f"{what} failed: {said}. Nothing of it was kept.") from error


def open_engine(url: str | URL) -> Engine:
    """Return an engine for a database whose tables are there and of a shape we know.

    Raises:
        StoreError: the file cannot be opened, or is not a database; it is left as it is.
        UnsupportedShape: it was written by a newer version.
    """
    parsed = make_url(url)
    sqlite = parsed.get_backend_name() == "sqlite"
    arguments: dict[str, Any] = {"timeout": BUSY_SECONDS} if sqlite else {}
    with translated(f"opening {parsed.database}"):
        engine = create_engine(parsed, connect_args=arguments, pool_size=8, max_overflow=24)
        if sqlite:
            event.listen(engine, "connect", _prepare_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
        try:
            _create_tables(engine)
        except BaseException:
            engine.dispose()
            raise
    return engine


def _create_tables(engine: Engine) -> None:
    with engine.connect().execution_options(write=True) as connection, connection.begin():
        metadata.create_all(connection)
        query = select(store.c.value).where(store.c.key == "schema")
        found = connection.execute(query).scalar()
        if found is None:
            connection.execute(insert(store).values(key="schema", value=str(SCHEMA)))
        elif not found.isdecimal():
            raise StoreError(f"The database says that its shape is {found!r}; it is damaged.")
        elif int(found) > SCHEMA:
            raise UnsupportedShape("The database", int(found), SCHEMA)


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # we begin transactions ourselves, see _begin_sqlite
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        f"busy_timeout={BUSY_SECONDS * 1000}",
        "secure_delete=ON",
        "foreign_keys=ON",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Any) -> None:
    # A writer that began as a reader could be refused the lock half-way; so it asks first.
    write = connection.get_execution_options().get("write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
