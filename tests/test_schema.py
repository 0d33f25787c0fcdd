"""The database is opened safely or not at all."""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from recall_echo_core.errors import StoreBusy, StoreError, UnsupportedShape
from recall_echo_core.stores.schema import BUSY_SECONDS, translated
from recall_echo_core.stores.sql import SqlLog


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.sqlite3"


def test_every_connection_is_durable_and_patient(path) -> None:
    """WAL, synchronous FULL, a busy timeout and secure deletion hold on all pooled connections."""
    pragmas = ("journal_mode", "synchronous", "busy_timeout", "secure_delete", "foreign_keys")
    with closing(SqlLog(f"sqlite:///{path}")) as log, ExitStack() as stack:
        connections = [stack.enter_context(log.engine.connect()) for _ in range(20)]
        found = {
            tuple(connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in pragmas)
            for connection in connections
        }

    assert found == {("wal", 2, BUSY_SECONDS * 1000, 1, 1)}


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"\0" * 5_000, b"SQLite"])
def test_what_is_not_a_database_is_refused_and_left_as_it_was(path, content: bytes) -> None:
    """Byte for byte, and with nothing beside it."""
    path.write_bytes(content)

    with pytest.raises(StoreError, match="not a database"):
        SqlLog(f"sqlite:///{path}")
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="folders have no such permission")
@pytest.mark.parametrize("before", ["nothing", "a log"])
def test_a_read_only_folder_is_a_store_error(before: str) -> None:
    """It says what cannot be done, and no library's exception escapes."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        path = Path(name) / "log.sqlite3"
        if before == "a log":
            SqlLog(f"sqlite:///{path}").close()
            path.chmod(0o444)
        path.parent.chmod(0o555)
        stack.callback(path.parent.chmod, 0o755)
        if os.geteuid() == 0:  # whom permissions do not stop
            os.seteuid(65534)
            stack.callback(os.seteuid, 0)

        with pytest.raises(StoreError, match=r"log\.sqlite3"):
            SqlLog(f"sqlite:///{path}")


def test_a_newer_schema_is_refused(path) -> None:
    """An old version does not touch what a newer one wrote."""
    SqlLog(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE store SET value = '2' WHERE key = 'schema'")

    with pytest.raises(UnsupportedShape) as caught:
        SqlLog(f"sqlite:///{path}")
    assert (caught.value.found, caught.value.known) == (2, 1)


def test_a_lock_held_by_others_is_busy_not_broken() -> None:
    """The caller is told to try again."""
    with pytest.raises(StoreBusy, match="appending waited"), translated("appending"):
        raise OperationalError("INSERT", {}, sqlite3.OperationalError("database is locked"))


def test_a_schema_that_can_no_longer_be_read_is_a_store_error(path) -> None:
    """Also where what SQLite says about it is not UTF-8."""
    SqlLog(f"sqlite:///{path}").close()
    path.write_bytes(path.read_bytes().replace(b"WHERE ref", b"WHER\xc5 ref"))

    with pytest.raises(StoreError, match="malformed"):
        SqlLog(f"sqlite:///{path}")


def test_a_schema_number_that_is_none_is_a_store_error(path) -> None:
    """Nobody knows what wrote it."""
    SqlLog(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE store SET value = 'x' WHERE key = 'schema'")

    with pytest.raises(StoreError):
        SqlLog(f"sqlite:///{path}")
