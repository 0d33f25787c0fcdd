"""A full disk is an error of ours that loses nothing, and no reason to stop answering."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from recall_echo_core import Memory, Statement, open_memory
from recall_echo_core.errors import StoreError, UnknownRecall
from recall_echo_core.stores.callable import CallableEmbedder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIGNS = "abcdefghijklmnopqrstuvwxyz0123456789"
FOREGROUND = {"vectors": {"background": False, "index_batch": 64}}


def letters(texts: list[str]) -> np.ndarray:
    return np.array([[0.01, *(text.casefold().count(sign) for sign in SIGNS)] for text in texts])


def opened(folder: Path, **settings: Any) -> Memory:
    embedder = CallableEmbedder(letters, model_id="letters")
    return open_memory(folder, embedding=embedder, settings=settings or FOREGROUND)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 8 MB."""
    if not sys.platform.startswith("linux"):
        pytest.skip("file systems in memory are mounted on Linux only")
    where = tmp_path / "small"
    where.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(where)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, timeout=20)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", str(where)], check=True, timeout=20)


def fill(folder: Path) -> Path:
    """Leave no room: not a page, not a byte."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return ballast


def until_full(memory: Memory, write: Callable[[Memory, int], set[str]]) -> tuple[set[str], str]:
    """Write until an error says that the disk is full; return what was acknowledged, the error."""
    told: set[str] = set()
    for number in range(100_000):
        try:
            told |= write(memory, number)
        except StoreError as error:
            return told, str(error)
    raise AssertionError("the disk was never full")


def one(memory: Memory, number: int) -> set[str]:
    memory.remember(f"Person {number}", "LIVES_IN", "Oslo", metadata={"padding": "x" * 500})
    return {f"Person {number} lives in Oslo"}


def many(memory: Memory, number: int) -> set[str]:
    names = [f"Person {number} {part}" for part in range(50)]
    memory.observe(
        [
            Statement(subject=n, type="LIVES_IN", object="Oslo", metadata={"padding": "x" * 500})
            for n in names
        ]
    )
    return {f"{name} lives in Oslo" for name in names}


def everything(memory: Memory) -> set[str]:
    found: set[str] = set()
    after = None
    while page := memory.relations(after=after, limit=1_000):
        found |= {relation.text for relation in page}
        after = page[-1].id
    return found


@pytest.mark.parametrize("write", [one, many])
def test_a_disk_that_fills_up_loses_nothing_acknowledged(small: Path, write) -> None:
    """The error says so, questions are answered, and after making space all goes on."""
    ballast = small / "ballast"
    ballast.write_bytes(b"x" * 5_000_000)
    memory = opened(small / "m")
    memory.recall("warm up", record_access=False)
    told, error = until_full(memory, write)

    assert "disk is full" in error or "disk I/O error" in error
    assert "Nothing of it was kept" in error
    assert told
    assert everything(memory) == told
    for _ in range(3):  # it stays full, and stays an error
        with pytest.raises(StoreError):
            write(memory, 100_000)
    assert everything(memory) == told

    ballast.unlink()
    told |= write(memory, 100_001)
    assert everything(memory) == told
    memory.flush()
    assert memory.verify().ok
    memory.close()
    with opened(small / "m") as again:
        assert everything(again) == told
        assert again.verify().mended == ()
        (hit,) = again.recall(min(told), k=1, kinds=["relation"], record_access=False)
        assert hit.text.startswith(min(told))


def test_a_full_disk_is_no_reason_not_to_answer(small: Path) -> None:
    """What was told before is recalled, whether or not it was embedded; receipts wait."""
    memory = opened(small / "m")
    memory.record([{"content": f"note {n}"} for n in range(100)])
    memory.flush()
    memory.record([{"content": f"late note {n}"} for n in range(100)])
    ballast = fill(small)

    for _ in range(3):
        for text in ("user: note 77", "user: late note 77"):
            found = memory.recall(text, k=5, kinds=["episode"])
            assert text in {hit.text for hit in found}
    assert memory.stats().episodes == 200
    with pytest.raises(StoreError):
        memory.flush()

    ballast.unlink()
    memory.flush()
    stats = memory.stats()
    assert (stats.indexed, stats.waiting) == (200, 0)
    assert memory.verify().mended == ()
    memory.close()
    with opened(small / "m") as again:
        assert again.stats().indexed == 200
        found = again.recall("user: late note 77", k=5, kinds=["episode"])
        assert "user: late note 77" in {hit.text for hit in found}


def test_closing_on_a_full_disk_keeps_what_was_acknowledged(small: Path) -> None:
    """A snapshot that cannot be written is no error; a receipt is kept, or its loss is an error."""
    with opened(small / "m") as memory:
        memory.observe(
            [Statement(subject="Box", type="HOLDS", object=f"part {n}") for n in range(2_500)]
        )
        ballast = fill(small)
    assert not list(small.rglob("*.part"))
    memory = opened(small / "m")
    assert len(everything(memory)) == 2_500
    ballast.unlink()
    found = memory.recall("part 7")
    fill(small)
    try:
        memory.close()
        kept = True
    except StoreError:
        kept = False
    ballast.unlink()
    with opened(small / "m") as again:
        assert len(everything(again)) == 2_500
        assert again.verify().ok
        if kept:
            again.feedback(found.id, "success")
        else:
            with pytest.raises(UnknownRecall):
                again.feedback(found.id, "success")


def test_opening_on_a_full_disk_works_or_says_why(small: Path) -> None:
    """A memory that is there can be read; one that is not yet is an error of ours."""
    with opened(small / "m") as memory:
        memory.record([{"content": f"note {n}"} for n in range(100)])
        memory.flush()
    ballast = fill(small)
    with pytest.raises(StoreError):
        opened(small / "new")
    try:
        with opened(small / "m") as memory:
            assert len(memory.episodes(limit=1_000)) == 100
            assert memory.recall("user: note 7", k=1, record_access=False).hits
    except StoreError as error:  # SQLite needs a few pages for what several readers share
        assert "log.sqlite3" in str(error) or "full" in str(error)

    ballast.unlink()
    with opened(small / "m") as memory:
        assert len(memory.episodes(limit=1_000)) == 100
        assert memory.verify().ok


def test_forgetting_on_a_full_disk_is_all_or_nothing(small: Path) -> None:
    """Either it is forgotten, or an error says that it is not; the next try finishes."""
    with opened(small / "m") as memory:
        memory.record([{"content": f"note {n} " * 20} for n in range(300)], session_id="a")
        memory.record([{"content": f"kept {n}"} for n in range(10)], session_id="b")
        memory.flush()
        ballast = fill(small)
        try:
            memory.forget(session="a")
            left = 0
        except StoreError:
            left = len(memory.episodes(session_id="a", limit=1_000))
        assert left in (0, 300)
        ballast.unlink()
        assert memory.forget(session="a").status == "complete"
        assert memory.episodes(session_id="a") == []
        assert len(memory.episodes(limit=1_000)) == 10
        assert memory.verify().ok


def limited(folder: str) -> None:
    """In a process whose files may not grow beyond 1 MB: write until that is an error."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    memory = opened(Path(folder))
    told, error = until_full(memory, many)
    assert everything(memory) == told
    assert memory.recall(min(told), record_access=False).hits
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    told |= one(memory, 0)
    assert everything(memory) == told
    memory.close()
    print(len(told), error)


@pytest.mark.skipif(os.name == "nt", reason="there is no limit on the size of files")
def test_a_file_that_may_not_grow_is_as_a_full_disk(tmp_path: Path) -> None:
    """The same without a file system of its own: a limit on the size of the process's files."""
    tests = Path(__file__).parent
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, test_disk_full as t; t.limited(sys.argv[1])",
            str(tmp_path / "m"),
        ],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent)])},
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    count, _, error = done.stdout.partition(" ")
    assert "Nothing of it was kept" in error
    with opened(tmp_path / "m") as memory:
        assert len(everything(memory)) == int(count)
        assert memory.verify().ok
