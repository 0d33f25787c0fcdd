"""Damage to a view costs time only; damage to the log is found, named, and left as it is."""

from __future__ import annotations

import hashlib
import random
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from recall_echo_core import Memory, Statement, open_memory
from recall_echo_core.errors import CorruptLog, StoreError
from recall_echo_core.same_model import SENTENCE
from recall_echo_core.stores.callable import CallableEmbedder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import MovableClock

BONN = ("Ann", "LIVES_IN", "Bonn")
CITIES = ["Oslo", "Paris", "Rome", "Lima", "Cairo", "Quito"]
QUESTIONS = ["Ann lives in Oslo", "user: note 7 of Ann", "Cairo", "part 11"]
SETTINGS = {"vectors": {"index_batch": 16, "background": False}}


class Counting:
    """Vectors of letters, and which texts they were asked for."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: list[str]) -> np.ndarray:
        self.texts += texts
        signs = "abcdefghijklmnopqrstuvwxyz0123456789"
        return np.array(
            [[0.01, *(text.casefold().count(sign) for sign in signs)] for text in texts]
        )


def opened(folder: Path, clock: MovableClock, model: Counting | None = None, **more: Any) -> Memory:
    embedder = CallableEmbedder(model or Counting(), model_id="letters")
    return open_memory(folder, embedding=embedder, clock=clock, **{"settings": SETTINGS, **more})


def snapshot(memory: Memory) -> None:
    memory._room.namespace.snapshot(least=1)  # by itself only every 2,000 events


def tell(memory: Memory) -> None:
    """Statements, evidence, notes: two snapshots, vectors on disk, and some of them not yet."""
    for city in CITIES:
        memory.remember("Ann", "LIVES_IN", city)
    memory.contradict("Ann", "LIVES_IN", "Oslo", weight=0.5)
    memory.record([{"content": f"note {n} of Ann"} for n in range(20)], session_id="s")
    snapshot(memory)
    memory.observe([Statement(subject="Box", type="HOLDS", object=f"part {n}") for n in range(20)])
    memory.flush()
    snapshot(memory)
    memory.record([{"content": f"late note {n}"} for n in range(3)])


def answers(memory: Memory) -> dict[str, Any]:
    """Beliefs, numbers, and what is recalled with which scores."""
    found = {
        question: [
            (hit.id, hit.kind, hit.text, round(hit.score, 6))
            for hit in memory.recall(question, k=8, record_access=False)
        ]
        for question in QUESTIONS
    }
    beliefs = [memory.beliefs("Ann", "LIVES_IN"), memory.beliefs("Box", "HOLDS")]
    return {"recall": found, "beliefs": beliefs, "entities": memory.entities(limit=100)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "m"


@pytest.fixture
def expected(folder: Path, clock: MovableClock) -> dict[str, Any]:
    """What a memory that was told answers; it is closed."""
    with opened(folder, clock) as memory:
        tell(memory)
        return answers(memory)


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")


def noise(path: Path) -> None:
    path.write_bytes(random.Random(path.name).randbytes(path.stat().st_size))


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[len(content) // 2] ^= 1
        path.write_bytes(content)


def gone(path: Path) -> None:
    path.unlink()


def edit(folder: Path, statement: str, *values: object) -> int:
    with closing(sqlite3.connect(folder / "log.sqlite3")) as log, log:
        return log.execute(statement, values).rowcount


def digest(folder: Path) -> str:
    """The digest of the log file, with what is in its write-ahead log written into it."""
    with closing(sqlite3.connect(folder / "log.sqlite3")) as log:
        log.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return hashlib.sha256((folder / "log.sqlite3").read_bytes()).hexdigest()


class TestViews:
    def check(self, folder: Path, clock: MovableClock, expected: dict[str, Any]) -> None:
        """The same answers, no text embedded again, and all is well afterwards."""
        model = Counting()
        with opened(folder, clock, model) as memory:
            model.texts.clear()
            assert answers(memory) == expected
            memory.flush()
            assert set(model.texts) <= {*QUESTIONS, SENTENCE}
            assert memory.verify().ok
            assert answers(memory) == expected
        with opened(folder, clock) as memory:
            assert memory.verify().mended == ()
            assert answers(memory) == expected

    @pytest.mark.parametrize("damage", [noise, half, empty, flipped, gone])
    def test_all_files_of_the_vectors(self, damage, folder, clock, expected) -> None:
        """Whatever happens to all of Chroma's files, the index is made again from the log."""
        files = files_of(folder / "vectors")
        assert len(files) >= 5
        for path in files:
            damage(path)

        self.check(folder, clock, expected)

    @pytest.mark.slow
    @pytest.mark.parametrize("damage", [noise, half, gone])
    def test_each_file_of_the_vectors_in_turn(self, damage, folder, clock, expected) -> None:
        """One damaged file among whole ones is the harder case."""
        whole = folder.with_name("whole")
        shutil.copytree(folder, whole)
        names = [path.relative_to(folder) for path in files_of(folder / "vectors")]
        for name in names:
            shutil.rmtree(folder)
            shutil.copytree(whole, folder)
            damage(folder / name)

            self.check(folder, clock, expected)

    @pytest.mark.parametrize("views", [["vectors"], ["snapshots"], ["vectors", "snapshots"]])
    def test_views_that_are_gone(self, views, folder, clock, expected) -> None:
        """A view can be deleted while nobody has the memory open."""
        for view in views:
            shutil.rmtree(folder / view)

        self.check(folder, clock, expected)

    @pytest.mark.parametrize("damage", [noise, half, empty, flipped])
    @pytest.mark.parametrize("which", ["newest", "all"])
    def test_snapshots(self, which, damage, folder, clock, expected) -> None:
        """A damaged snapshot is passed over for an older one, or for the log."""
        files = files_of(folder / "snapshots")
        assert len(files) == 2
        for path in files[-1:] if which == "newest" else files:
            damage(path)

        self.check(folder, clock, expected)

    def test_vectors_deleted_under_an_open_memory(self, folder, clock, expected) -> None:
        """It goes on from the kept embeddings, or from what Chroma still has open."""
        with opened(folder, clock) as memory:
            assert answers(memory) == expected
            shutil.rmtree(folder / "vectors")

            assert answers(memory) == expected
            memory.record([{"content": f"more {n}"} for n in range(20)])
            memory.flush()
            assert memory.verify().ok
            (hit,) = memory.recall("user: more 13", k=1, kinds=["episode"])
            assert hit.text == "user: more 13"


class TestEmbeddings:
    @pytest.mark.parametrize(
        "vector",
        ["x''", "x'00'", "x'0000c07f' || substr(vector, 5)", "substr(vector, 1, 8)", "'text'", "7"],
    )
    @pytest.mark.parametrize("indexed", [True, False])
    def test_a_damaged_row_is_made_again(self, vector, indexed, folder, clock, expected) -> None:
        """That text is embedded again, no other, and every answer is as before."""
        position = 10 if indexed else 50
        assert edit(folder, f"UPDATE embeddings SET vector = {vector} WHERE position = {position}")
        if indexed:
            shutil.rmtree(folder / "vectors")
        model = Counting()
        with opened(folder, clock, model) as memory:
            assert answers(memory) == expected
            assert memory.verify().ok
            again = [text for text in model.texts if "note" in text and text not in QUESTIONS]
        assert len(again) == 1
        with opened(folder, clock) as memory:
            assert memory.verify().mended == ()

    def test_a_flipped_byte_of_a_vector_is_found(self, folder, clock, expected) -> None:
        """`verify` finds a vector that is another one now, and makes it again."""
        assert edit(
            folder,
            "UPDATE embeddings SET vector = substr(vector, 1, 4) || x'00000041' ||"
            " substr(vector, 9) WHERE position = 10",
        )
        with opened(folder, clock) as memory:
            report = memory.verify()
            assert report.ok
            assert report.mended
            assert answers(memory) == expected
        with opened(folder, clock) as memory:
            assert memory.verify().mended == ()

    def test_dropping_them_leaves_what_was_imported(self, folder, clock, expected, tmp_path):
        """After `reindex` and a new model, importing a file again adds nothing as before."""
        with opened(folder, clock) as memory:
            memory.export(tmp_path / "m.jsonl")
        with opened(tmp_path / "other", clock) as other:
            other.record([{"content": "something of its own"}])
            assert other.import_(tmp_path / "m.jsonl") == 50
            other.reindex()
            assert other.import_(tmp_path / "m.jsonl") == 0
        with opened(tmp_path / "other", clock, reindex=True) as other:
            assert other.import_(tmp_path / "m.jsonl") == 0
            assert other.stats().events == 51
            assert other.verify().ok

    def test_missing_rows_are_made_again(self, folder, clock, expected) -> None:
        """`verify` finds texts without vectors."""
        assert edit(folder, "DELETE FROM embeddings WHERE position = 10")
        with opened(folder, clock) as memory:
            assert memory.verify().mended
            assert answers(memory) == expected
            assert memory.verify().mended == ()


def flip_event(folder: Path, position: int, offset: int) -> None:
    """Flip one bit of an event's row in the file itself, past SQLite."""
    digest(folder)  # so that all is in the file
    with closing(sqlite3.connect(folder / "log.sqlite3")) as log:
        (payload,) = log.execute(
            "SELECT CAST(payload || checksum AS BLOB) FROM events WHERE position = ?", [position]
        ).fetchone()
    path = folder / "log.sqlite3"
    content = bytearray(path.read_bytes())
    assert content.count(payload) == 1
    content[content.index(payload) + offset % len(payload)] ^= 0x10
    path.write_bytes(content)


READS: list[tuple[str, Callable[[Memory], object]]] = [
    ("beliefs", lambda memory: memory.beliefs("Ann", "LIVES_IN")),
    ("recall", lambda memory: memory.recall("Ann")),
    ("remember", lambda memory: memory.remember(*BONN, observed_at="2020-01-01")),
    ("stats", lambda memory: memory.stats()),
    ("episodes", lambda memory: memory.episodes()),
    ("as_of", lambda memory: memory.as_of("2100-01-01").entities()),
    ("export", lambda memory: memory.export("never.jsonl")),
]


class TestLog:
    @pytest.mark.parametrize("views", ["kept", "gone"])
    @pytest.mark.parametrize("offset", [0, 20, -9, -1])
    @pytest.mark.parametrize("position", [1, 7, 9, 30, 50])
    def test_a_flipped_byte_is_found_named_and_left(
        self, position, offset, views, folder, clock, expected, tmp_path
    ) -> None:
        """`verify` names the place, the file stays as it is, and the rest can be exported."""
        flip_event(folder, position, offset)
        if views == "gone":
            shutil.rmtree(folder / "snapshots")
            shutil.rmtree(folder / "vectors")
        before = digest(folder)

        with opened(folder, clock) as memory:
            report = memory.verify()
            assert [f"'default' is damaged at position {position}" in p for p in report.problems]
            assert report.mended == ()
            with pytest.raises(CorruptLog, match=rf"'default'.* position {position}"):
                memory.export(tmp_path / "whole.jsonl")
            assert not (tmp_path / "whole.jsonl").exists()
            assert memory.export(tmp_path / "rest.jsonl", skip_damaged=True) == report.events
        assert digest(folder) == before

        with opened(tmp_path / "other", clock) as other:
            assert other.import_(tmp_path / "rest.jsonl") == report.events
            assert other.verify().ok

    @pytest.mark.parametrize("views", ["kept", "gone"])
    @pytest.mark.parametrize("position", [3, 9])
    def test_it_can_be_opened_with_settings(self, position, views, folder, clock, expected) -> None:
        """Settings that cannot be folded into a damaged log keep nobody from saving the rest."""
        flip_event(folder, position, 20)
        if views == "gone":
            shutil.rmtree(folder / "snapshots")

        for _ in range(2):
            with opened(folder, clock, single_valued={"LIVES_IN"}) as memory:
                report = memory.verify()
                assert [f"position {position}" in problem for problem in report.problems] == [True]
                assert memory.export(folder / "rest.jsonl", skip_damaged=True) == report.events

    @pytest.mark.parametrize(("verb", "read"), READS, ids=[verb for verb, _ in READS])
    def test_the_first_read_that_touches_it_says_so(
        self, verb, read, folder, clock, expected, tmp_path, monkeypatch
    ) -> None:
        """Without a snapshot every question reads the log; no answer leaves out an event."""
        monkeypatch.chdir(tmp_path)
        flip_event(folder, 3, 20)
        shutil.rmtree(folder / "snapshots")
        before = digest(folder)

        with opened(folder, clock) as memory:
            for _ in range(2):
                with pytest.raises(CorruptLog, match=r"'default'.* position 3") as caught:
                    read(memory)
                assert (caught.value.namespace, caught.value.position) == ("default", 3)
        if verb != "remember":
            assert digest(folder) == before

    def test_other_namespaces_go_on(self, folder, clock, expected) -> None:
        """Damage to one user's log is no business of another's."""
        with opened(folder, clock, namespace="bob") as bob:
            tell(bob)
            before = answers(bob)
        edit(folder, "UPDATE events SET payload = x'00' WHERE position = 3 AND namespace = 1")
        with opened(folder, clock, namespace="bob") as bob:
            assert answers(bob) == before
            assert bob.verify().ok
            assert not bob.namespace("default").verify().ok

    @pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"garbage" * 1_000, None])
    def test_a_log_that_is_no_log_is_refused_and_left(self, content, folder, clock, expected):
        """Garbage, nothing, or no file at all, beside views of a log that was there."""
        log = folder / "log.sqlite3"
        log.unlink() if content is None else log.write_bytes(content)
        before = {path: path.read_bytes() for path in files_of(folder)}

        for _ in range(2):
            with pytest.raises(StoreError, match=r"log\.sqlite3"):
                opened(folder, clock)
        assert {path: path.read_bytes() for path in files_of(folder)} == before

    def test_a_lost_log_says_what_to_do(self, folder, clock, expected) -> None:
        """Put a backup back, or take everything away to begin with an empty memory."""
        backup = (folder / "log.sqlite3").read_bytes()
        (folder / "log.sqlite3").unlink()
        with pytest.raises(StoreError, match="backup, or remove"):
            opened(folder, clock)

        (folder / "log.sqlite3").write_bytes(backup)
        with opened(folder, clock) as memory:
            assert answers(memory) == expected
        for path in (folder / "log.sqlite3", folder / "vectors", folder / "snapshots"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        with opened(folder, clock) as memory:
            assert memory.stats().events == 0

    def test_an_empty_file_and_nothing_else_is_a_new_memory(self, folder, clock) -> None:
        """That is what a process leaves that was killed at its very first moment."""
        folder.mkdir()
        (folder / "log.sqlite3").touch()

        with opened(folder, clock) as memory:
            assert memory.stats().events == 0

    def test_a_log_put_back_from_a_backup_leaves_no_later_view(self, folder, clock) -> None:
        """Views that have seen more than the log holds are of another life of it."""
        with opened(folder, clock) as memory:
            tell(memory)
            snapshot(memory)
        backup = (folder / "log.sqlite3").read_bytes()
        with opened(folder, clock) as memory:
            memory.record([{"content": f"lost {n}"} for n in range(40)])
            memory.remember("Ann", "LIVES_IN", "Sofia")
            memory.flush()
            snapshot(memory)
            snapshot(memory)
        (folder / "log.sqlite3").write_bytes(backup)

        with opened(folder, clock) as memory:
            memory.remember("Ann", "LIVES_IN", "Vaduz")
            ids = memory.record([{"content": f"found {n}"} for n in range(60)])
            found = memory.recall("user: found 31", k=5, kinds=["episode"], record_access=False)
            assert ids[31] in {hit.id for hit in found}
            assert not any("lost" in hit.text for hit in found)
            memory.flush()
        with opened(folder, clock) as memory:
            values = {belief.object for belief in memory.beliefs("Ann", "LIVES_IN")}
            assert values == {*CITIES, "Vaduz"}
            found = memory.recall("user: lost 31", k=100, kinds=["episode"], record_access=False)
            assert not any("lost" in hit.text for hit in found)
            assert {ids[31], ids[59]} <= {hit.id for hit in found}
            report = memory.verify()
            assert (report.problems, report.mended) == ((), ())


def test_a_damaged_log_takes_nothing_more(tmp_path: Path) -> None:
    """What is told to it is refused before it is written, so telling it again doubles nothing."""
    with open_memory(tmp_path, embedding=lambda texts: [[1.0]] * len(texts)) as memory:
        for number in range(5):
            memory.remember("Ann", "LIKES", f"thing {number}")
    with closing(sqlite3.connect(tmp_path / "log.sqlite3")) as database, database:
        database.execute("UPDATE events SET payload = x'00' WHERE position = 3")
    with open_memory(tmp_path, embedding=lambda texts: [[1.0]] * len(texts)) as memory:
        for _ in range(2):
            with pytest.raises(CorruptLog, match="position 3"):
                memory.remember("Ann", "LIKES", "Cats")
            with pytest.raises(CorruptLog, match="position 3"):
                memory.record([{"content": "hi"}])
    with closing(sqlite3.connect(tmp_path / "log.sqlite3")) as database:
        (count,) = database.execute("SELECT count(*) FROM events").fetchone()

    assert count == 5
