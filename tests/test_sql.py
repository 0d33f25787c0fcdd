"""The log on a real SQLite file: in order, all or nothing, and no damage goes unseen."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from recall_echo_core.errors import CorruptLog, StoreError
from recall_echo_core.events import (
    SETTINGS_REF,
    EntityDescribed,
    EvidenceObserved,
    EvidenceRetracted,
    FeedbackGiven,
    RecallServed,
    SettingsChanged,
)
from recall_echo_core.namespace import Namespace
from recall_echo_core.settings import Folding
from recall_echo_core.stores.sql import PAGE, NamespaceKey, SqlLog

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
ANN, OSLO, RUN, RECALL = (bytes([n]) * 16 for n in range(1, 5))


def described(number: int) -> EntityDescribed:
    return EntityDescribed(number.to_bytes(16, "big"), f"entity {number}")


def said(number: int, subject: bytes = ANN) -> EvidenceObserved:
    return EvidenceObserved(
        id=number.to_bytes(16, "big"), subject=subject, subject_name="Ann", type="LIVES_IN",
        object=OSLO, object_name="Oslo", observed_at=number,
    )  # fmt: skip


MIXED = [
    said(1), said(2, subject=OSLO), EvidenceRetracted(said(1).id, ANN, "LIVES_IN"),
    SettingsChanged(Folding()), RecallServed(RECALL, 0, [], RUN),
    FeedbackGiven(RECALL, "user", 1.0, [], []), described(7),
]  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.sqlite3"


@pytest.fixture
def log(path: Path) -> Iterator[SqlLog]:
    with closing(SqlLog(f"sqlite:///{path}")) as log:
        yield log


@pytest.fixture
def key(log: SqlLog) -> NamespaceKey:
    return log.namespace("alice", lambda: b"s" * 16)


def append(log: SqlLog, key: NamespaceKey, *events, at: int = 0) -> list[int]:
    with log.writing(key) as writer:
        return [stored.position for stored in writer.append(events, at)]


def positions(log: SqlLog, key: NamespaceKey, **filters: object) -> list[int]:
    return [stored.position for stored in log.read(key, **filters)]


def edit(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)


def test_positions_are_dense_and_of_one_namespace(log, key) -> None:
    """Each namespace counts from 1 for itself."""
    other = log.namespace("bob", lambda: b"t" * 16)

    assert append(log, key, described(1), described(2)) == [1, 2]
    assert append(log, other, described(3)) == [1]
    assert append(log, key, described(4)) == [3]
    assert (log.head(key), log.head(other)) == ((0, 3), (0, 1))
    assert [stored.event for stored in log.read(other)] == [described(3)]


def test_a_namespace_keeps_its_salt(log, key) -> None:
    """Opening it again makes no fresh one; names are listed sorted."""
    log.namespace("Zoë", lambda: b"z" * 16)
    log.namespace("aaron", lambda: b"a" * 16)

    assert log.namespace("alice", lambda: b"other") == key
    assert log.namespaces() == ["Zoë", "aaron", "alice"]


def test_events_come_back_as_they_went_in(log, key) -> None:
    """Every event, with its place and the moment it was recorded."""
    append(log, key, *MIXED, at=5)

    assert [stored.event for stored in log.read(key)] == MIXED
    assert {stored.recorded_at for stored in log.read(key)} == {5}
    assert {place: stored.event for place, stored in log.at(key, [3, 1, 3]).items()} == {
        1: MIXED[0],
        3: MIXED[2],
    }


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [1, 2, 3, 4, 5, 6, 7]), ({"after": 5}, [6, 7]), ({"after": 7}, []),
        ({"upto": 2}, [1, 2]), ({"after": 2, "upto": 4}, [3, 4]),
        ({"known_at": 3}, [1, 2, 3]), ({"known_at": 0}, []),
        ({"kinds": ("feedback",)}, [6]), ({"kinds": ["evidence", "entity"]}, [1, 2, 7]),
        ({"kinds": ("episode",)}, []), ({"subjects": [ANN]}, [1, 3]),
        ({"subjects": [ANN, OSLO]}, [1, 2, 3]), ({"subjects": []}, []),
        ({"ref": said(1).id}, [1, 3]), ({"ref": SETTINGS_REF}, [4]), ({"run": RUN}, [5]),
        ({"ref": RECALL}, [5, 6]), ({"ref": RECALL, "kinds": ("recall",), "known_at": 5}, [5]),
    ],
)  # fmt: skip
def test_filters_narrow_and_combine(log, key, filters: dict, expected: list[int]) -> None:
    """What is read is what all filters let through, in log order."""
    for at, event in enumerate(MIXED, 1):
        append(log, key, event, at=at)

    assert positions(log, key, **filters) == expected


def test_a_writer_reads_what_it_holds_the_lock_on(log, key) -> None:
    """Also what it appended a moment ago in the same transaction."""
    append(log, key, *MIXED)

    with log.writing(key) as writer:
        writer.append([described(8)], 0)
        assert [stored.position for stored in writer.about(RECALL)] == [5, 6]
        assert [stored.position for stored in writer.about(RECALL, ["recall"])] == [5]
        refs = [described(n).id for n in range(1_200)]
        assert writer.known(refs, ["entity"]) == {described(7).id, described(8).id}
        assert writer.known([], ["entity"]) == set()
        assert writer.append([], 0) == []


def test_more_than_a_page_is_read_whole(log, key) -> None:
    """Paging neither skips nor repeats; the page may end exactly at the end."""
    append(log, key, *map(described, range(2 * PAGE)))
    assert positions(log, key) == list(range(1, 2 * PAGE + 1))

    append(log, key, *map(described, range(3)))
    assert positions(log, key) == list(range(1, 2 * PAGE + 4))
    assert len(log.at(key, range(1, 1_300))) == 1_299


def test_a_batch_is_kept_whole_or_not_at_all(log, key) -> None:
    """An error inside `writing` leaves nothing, and the next writer gets the lock."""
    append(log, key, described(1))
    with pytest.raises(KeyError), log.writing(key) as writer:
        writer.append([described(2), described(3)], 0)
        raise KeyError

    assert positions(log, key) == [1]
    assert append(log, key, described(4)) == [2]


CHANGES = [
    "payload = x'00'", "kind = 'retraction'", "shape = 2", "recorded_at = 1", "ref = x'00'",
    "subject = NULL", "run = x'00'", "checksum = x'0011223344556677'", "checksum = 5",
]  # fmt: skip
OTHER_TYPES = [
    "payload = 'text'", "payload = 0.5", "kind = x'ff'", "shape = 'round'",
    "recorded_at = 'then'", "recorded_at = 1e300",
]  # fmt: skip


def rows_about(log: SqlLog, key: NamespaceKey) -> None:
    with log.writing(key) as writer:
        list(map(writer.about, [said(2).id, b"\0"]))


@pytest.mark.parametrize("change", [*CHANGES, *OTHER_TYPES])
def test_a_changed_column_is_found_by_the_first_read(log, key, path, change) -> None:
    """The error names the namespace and the position, whatever stands there now."""
    append(log, key, *map(said, range(1, 4)))
    edit(path, f"UPDATE events SET {change} WHERE position = 2")

    for read in (positions, lambda *store: SqlLog.at(*store, [2]), rows_about):
        with pytest.raises(CorruptLog, match=r"'alice'.*position 2") as caught:
            read(log, key)
        assert (caught.value.namespace, caught.value.position) == ("alice", 2)


def test_a_moved_row_is_found(log, key, path) -> None:
    """Two rows that changed places are two damaged rows."""
    append(log, key, *map(said, range(1, 4)))
    for change in ("= 9 WHERE position = 1", "= 1 WHERE position = 3", "= 3 WHERE position = 9"):
        edit(path, f"UPDATE events SET position {change}")

    with pytest.raises(CorruptLog, match="position 1"):
        list(log.read(key))


def test_a_row_of_another_namespace_is_found(log, key, path) -> None:
    """A row cannot be carried over to somebody else."""
    log.namespace("bob", lambda: b"t" * 16)
    append(log, key, said(1))
    edit(path, "UPDATE events SET namespace = 2")

    with pytest.raises(CorruptLog, match="'bob'"):
        list(log.read(log.namespace("bob", bytes)))


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_a_missing_row_is_found(log, key, path, missing: int) -> None:
    """Whoever follows the log counts."""
    append(log, key, *map(said, range(1, 4)))
    edit(path, "DELETE FROM events WHERE position = ?", missing)

    with (
        pytest.raises(CorruptLog, match=f"position {missing}: the event is missing"),
        Namespace(log, key, None).reading(),
    ):
        pass


def test_no_flipped_bit_of_the_file_goes_unseen(tmp_path: Path) -> None:
    """Whatever bit of the log's pages is flipped, a read gives the truth or a `StoreError`."""
    path = tmp_path / "log.sqlite3"
    with closing(SqlLog(f"sqlite:///{path}")) as log:
        key = log.namespace("alice", lambda: b"s" * 16)
        append(log, key, *MIXED)
        truth = list(log.read(key))
    whole = path.read_bytes()
    start = whole.index(b"LIVES_IN") // 4096 * 4096  # the page of the events
    used = [place for place in range(start, start + 4096) if whole[place]]
    rng = random.Random(1)
    for place in rng.sample(used, min(len(used), 150)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        try:
            with closing(SqlLog(f"sqlite:///{path}")) as log:
                with Namespace(log, key, None).reading():
                    pass
                found = list(log.read(key))
        except StoreError:
            continue
        assert found == truth, f"bit flipped at {place}"


def test_a_table_that_went_missing_is_a_store_error(log, key, path) -> None:
    """SQLAlchemy's exceptions become ours, the cause chained."""
    edit(path, "DROP TABLE events")

    with pytest.raises(StoreError, match="reading the log failed") as caught:
        positions(log, key)
    assert caught.value.__cause__ is not None


APPENDING = """
import sys
from recall_echo_core.events import EntityDescribed
from recall_echo_core.stores.sql import SqlLog
log = SqlLog(f"sqlite:///{sys.argv[1]}")
key = log.namespace("alice", lambda: b"s" * 16)
print("ready", flush=True)
for line in sys.stdin:
    with log.writing(key) as writer:
        writer.append([EntityDescribed(b"e" * 16, sys.argv[2])] * int(line), 0)
    print("done", flush=True)
log.close()
"""


def test_two_processes_share_one_numbering(log, key, path) -> None:
    """Appending at the same moments, they leave no gap and no double."""
    command = [sys.executable, "-c", APPENDING, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    workers = [subprocess.Popen([*command, name], **pipes) for name in "AB"]
    assert [worker.stdout.readline() for worker in workers] == ["ready\n"] * 2
    for number in range(40):
        for worker in workers:
            print(1 + number % 2, file=worker.stdin, flush=True)
        assert [worker.stdout.readline() for worker in workers] == ["done\n"] * 2
    for worker in workers:
        worker.communicate(timeout=60)

    events = list(log.read(key))
    assert [worker.returncode for worker in workers] == [0, 0]
    assert [stored.position for stored in events] == list(range(1, 121))
    assert sorted(stored.event.name for stored in events) == ["A"] * 60 + ["B"] * 60
