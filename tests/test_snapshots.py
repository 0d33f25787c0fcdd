"""A snapshot is a shortcut: without it, or with a damaged one, the answers are the same."""

from __future__ import annotations

import logging
import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from recall_echo_core.errors import StoreError
from recall_echo_core.events import EvidenceObserved
from recall_echo_core.graph import Graph
from recall_echo_core.namespace import Namespace
from recall_echo_core.picture import Picture
from recall_echo_core.stores.snapshots import KEPT, Snapshots
from recall_echo_core.stores.sql import SqlLog

if TYPE_CHECKING:
    from collections.abc import Iterator

SALT = b"0" * 16


def said(number: int) -> EvidenceObserved:
    return EvidenceObserved(
        id=number.to_bytes(16, "big"), subject=b"a", subject_name="Ann", type="LIKES",
        object=bytes([number % 5]), object_name=f"value {number % 5}", observed_at=number,
        establishes=True,
    )  # fmt: skip


def picture(position: int) -> Picture:
    graph = Graph(SALT)
    graph.position = position
    graph.touch(b"item", position)
    return graph.picture()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "snapshots"


@pytest.fixture
def snapshots(folder: Path) -> Snapshots:
    return Snapshots(Picture, folder, "log:0")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqlLog]:
    with closing(SqlLog(f"sqlite:///{tmp_path / 'log.sqlite3'}")) as log:
        yield log


def test_the_newest_at_or_before_a_position_is_used(snapshots: Snapshots) -> None:
    """One beyond the head of the log is of another life of it."""
    snapshots.write(picture(5))
    snapshots.write(picture(10))

    assert [snapshots.newest(upto=n) for n in (99, 10, 9, 5, 4)] == [
        picture(10),
        picture(10),
        picture(5),
        picture(5),
        None,
    ]


def test_no_more_than_two_are_kept(snapshots: Snapshots, folder: Path) -> None:
    """The newest ones, by position and not by name or age; nothing is left aside."""
    for position in (9, 10, 1_000, 99):
        snapshots.write(picture(position))

    assert [int(path.stem) for path in sorted(folder.iterdir())] == [99, 1_000]
    assert KEPT == 2


def test_writing_one_again_replaces_it(snapshots: Snapshots, folder: Path) -> None:
    """Two processes at one position write the same."""
    snapshots.write(picture(5))
    snapshots.write(picture(5))

    assert [path.suffix for path in folder.iterdir()] == [".snapshot"]


def test_without_a_folder_there_is_none(snapshots: Snapshots, folder: Path) -> None:
    """It is made when the first is written."""
    assert snapshots.newest(upto=99) is None
    assert not folder.exists()


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def relabelled(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"snapshot 2", b"snapshot 1"))


def foreign(path: Path) -> None:
    Snapshots(Picture, path.parent, "log:1").write(picture(10))


def unreadable(path: Path) -> None:
    path.unlink()
    path.mkdir()


def of_another_shape(path: Path) -> None:
    class Other(msgspec.Struct):
        position: int

    Snapshots(Picture, path.parent, "log:0").write(Other(10))


def folding_nonsense(path: Path) -> None:
    wrong = msgspec.to_builtins(picture(10), builtin_types=(bytes,))
    wrong["folding"]["decay_floor"] = 7.0
    other = msgspec.defstruct("Other", list(wrong))
    Snapshots(Picture, path.parent, "log:0").write(other(**wrong))


DAMAGE = [
    truncated, cut_off, emptied, flipped, relabelled, foreign, unreadable, of_another_shape,
    folding_nonsense,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_a_damaged_one_is_passed_over_for_an_older_one(snapshots, folder, damage, caplog) -> None:
    """With a warning that names the file; the file is left for whoever looks into it."""
    snapshots.write(picture(5))
    snapshots.write(picture(10))
    path = max(folder.iterdir())
    damage(path)

    with caplog.at_level(logging.WARNING):
        assert snapshots.newest(upto=99) == picture(5)
    assert f"passing over the snapshot {path}" in caplog.text
    assert path.exists()


def test_a_write_that_fails_leaves_the_older_one(snapshots: Snapshots, folder: Path) -> None:
    """It is an error of ours, and nothing half written is left."""
    snapshots.write(picture(5))
    (folder / f"{10:020}.snapshot").mkdir()

    with pytest.raises(StoreError, match=r"writing the snapshot .* failed"):
        snapshots.write(picture(10))
    assert snapshots.newest(upto=99) == picture(5)
    assert not list(folder.glob("*.part"))


def test_a_file_in_the_place_of_the_folder_is_an_error_of_ours(snapshots, folder: Path) -> None:
    """Not one of the operating system's."""
    folder.write_bytes(b"precious")

    with pytest.raises(StoreError, match=r"writing the snapshot .* failed"):
        snapshots.write(picture(10))
    assert folder.read_bytes() == b"precious"


def state(namespace: Namespace) -> tuple:
    with namespace.reading() as graph:
        values = {key: (group.last, group.values) for key, group in graph.groups.items()}
        return graph.position, values, graph.nodes, graph.texts_after(0)


@pytest.mark.parametrize("damage", [None, *DAMAGE], ids=lambda d: d.__name__ if d else "none")
def test_a_replay_gives_the_same_answers(log, snapshots, folder, damage) -> None:
    """From a snapshot and its tail, from an older one, or from the beginning."""
    key = log.namespace("alice", lambda: SALT)
    writing = Namespace(log, key, lambda _: snapshots)
    for start in (0, 3, 6):
        writing.append(0, lambda _, start=start: [said(start + n) for n in range(3)])
        state(writing)
        if start < 6:
            writing.snapshot(least=1)
    writing.snapshot(least=99)
    assert [int(path.stem) for path in sorted(folder.iterdir())] == [3, 6]
    if damage is not None:
        damage(max(folder.iterdir()))

    expected = state(writing)
    assert state(Namespace(log, key, lambda _: snapshots)) == expected
    assert state(Namespace(log, key, None)) == expected
    shutil.rmtree(folder)
    assert state(Namespace(log, key, lambda _: snapshots)) == expected


def test_a_snapshot_is_not_written_twice_for_nothing(log, snapshots, folder) -> None:
    """Only when enough has happened since the last, whoever wrote that."""
    key = log.namespace("alice", lambda: SALT)
    one = Namespace(log, key, lambda _: snapshots)
    one.snapshot(least=0)  # nobody has asked for the graph yet
    one.append(0, lambda _: [said(1)])
    state(one)
    one.snapshot(least=2)
    assert not folder.exists()
    one.snapshot(least=0)
    (path,) = folder.iterdir()
    path.unlink()
    one.snapshot(least=0)

    assert not list(folder.iterdir())
    one.append(0, lambda _: [said(2)])
    one.snapshot(least=1)
    assert [int(path.stem) for path in folder.iterdir()] == [2]
