"""The Chroma folder: kept across openings, never trusted when damaged, used by one at a time."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from recall_echo_core.errors import StoreBusy, StoreClosed, StoreError
from recall_echo_core.stores.chroma import ChromaFolder
from recall_echo_core.stores.exact import ExactIndex

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
DIMENSION, COUNT = 16, 1500  # Chroma saves a graph only after 1,000 vectors
KEYS = [f"k{number:04}" for number in range(COUNT)]
ROWS = np.random.default_rng(5).normal(size=(COUNT, DIMENSION)).astype(np.float32)


def opened(path: Path, identity: str = "log 1", dimension: int = DIMENSION) -> ChromaFolder:
    return ChromaFolder(path, dimension, identity=identity)


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed folder with 1,500 entities at position 9; to be copied, not used."""
    path = tmp_path_factory.mktemp("chroma") / "vectors"
    folder = opened(path)
    index = folder.index("entity")
    index.upsert(KEYS, ROWS)
    index.advance(9)
    folder.close()
    return path


@pytest.fixture
def path(full: Path, tmp_path: Path) -> Path:
    """A copy of the full folder."""
    return Path(shutil.copytree(full, tmp_path / "vectors"))


def other_process(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def test_what_was_written_is_there_after_each_opening(path: Path) -> None:
    """Vectors, position and space survive several rounds of opening, writing and closing."""
    for turn in range(3):
        folder = opened(path)
        index = folder.index("entity")
        assert (index.position, index.count()) == (9 + turn, COUNT + turn)
        index.upsert([f"new{turn}"], ROWS[turn : turn + 1] * 5)
        index.advance(10 + turn)
        folder.close()

    folder = opened(path)
    found = folder.index("entity").search(ROWS[1], 2)
    assert [key for key, _ in found] == ["k0001", "new1"]
    assert all(abs(similarity - 1) < 1e-5 for _, similarity in found)
    assert folder.leftovers() == []
    folder.close()


def test_kinds_do_not_mix(path: Path) -> None:
    """Each kind has its own vectors and its own position."""
    folder = opened(path)
    folder.index("episode").upsert(["e1"], ROWS[:1])

    assert (folder.index("episode").position, folder.index("entity").position) == (0, 9)
    assert folder.index("episode").search(ROWS[0], 5)[0][0] == "e1"
    assert folder.index("entity").search(ROWS[0], 1)[0][0] == "k0000"
    folder.close()


@pytest.mark.parametrize("kind", ["", "Entity", "a b", "é", "-a", "x" * 65])
def test_a_kind_is_a_short_plain_word(kind: str, tmp_path: Path) -> None:
    """What Chroma could not use as a name is refused by us first."""
    folder = opened(tmp_path / "vectors")
    with pytest.raises(ValueError, match="kind"):
        folder.index(kind)
    folder.close()


@pytest.mark.parametrize(
    ("identity", "dimension"), [("log 2", DIMENSION), ("log 1", DIMENSION + 1)]
)
def test_vectors_of_something_else_are_left_behind(
    identity: str, dimension: int, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another log, generation, model or dimension starts at 0 in a new folder; the old one goes."""
    caplog.set_level(logging.INFO)
    folder = opened(path, identity, dimension)
    index = folder.index("entity")

    assert (index.position, index.count()) == (0, 0)
    assert [child.name for child in path.iterdir()] == ["2"]
    assert "Starting the vectors" in caplog.text
    folder.close()


def cut(name: str, part: float) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        file = next(folder.rglob(name))
        os.truncate(file, int(file.stat().st_size * part))

    return damage


def overwrite(name: str, start: int = 0) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        with next(folder.rglob(name)).open("r+b") as file:
            file.seek(start)
            file.write(np.random.default_rng(3).bytes(4096))

    return damage


def remove(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        found = next(folder.rglob(name))
        if found.is_dir():
            shutil.rmtree(found)
        else:
            found.unlink()

    return damage


def remove_graph(folder: Path) -> None:
    shutil.rmtree(next(folder.rglob("header.bin")).parent)


READ = ["header.bin", "data_level0.bin", "link_lists.bin", "index_metadata.pickle"]
GRAPH = [*READ, "length.bin"]  # Chroma insists on it, and never looks into it
DAMAGE: dict[str, Callable[[Path], None]] = {
    "random catalogue": overwrite("chroma.sqlite3"),
    "cut catalogue": cut("chroma.sqlite3", 0.5),
    "empty catalogue": cut("chroma.sqlite3", 0),
    "no catalogue": remove("chroma.sqlite3"),
    "no graph": remove_graph,
    "everything gone": lambda folder: shutil.rmtree(folder / "1"),
    "empty folder": lambda folder: [shutil.rmtree(folder / "1"), (folder / "1").mkdir()][0],
    "random links": overwrite("data_level0.bin", 20_000),
    **{f"no {name}": remove(name) for name in GRAPH},
    **{f"cut {name}": cut(name, 0.5) for name in READ},
    **{f"empty {name}": cut(name, 0) for name in READ},
    **{f"random {name}": overwrite(name) for name in READ},
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_folder_starts_over(name: str, path: Path) -> None:
    """Whatever is missing, cut or overwritten: position 0, nothing held, and it can be filled."""
    DAMAGE[name](path)
    folder = opened(path)
    index = folder.index("entity")
    assert (index.position, index.count()) == (0, 0)

    index.upsert(KEYS, ROWS)
    index.advance(9)
    folder.close()
    folder = opened(path)
    assert folder.index("entity").position == 9
    assert folder.index("entity").search(ROWS[7], 1)[0][0] == "k0007"
    folder.close()


def test_vectors_lost_from_the_catalogue_are_noticed(path: Path) -> None:
    """A folder that holds fewer vectors than it recorded starts over."""
    folder = opened(path)
    folder.index("entity")._collection.delete(KEYS[:1])  # behind the back of the index
    folder.close()

    folder = opened(path)
    assert folder.index("entity").position == 0
    folder.close()


def test_removing_vectors_is_not_taken_for_damage(path: Path) -> None:
    """Fewer vectors after a removal are right, also without a position recorded since."""
    folder = opened(path)
    folder.index("entity").delete([*KEYS[:400], "never held"])
    folder.close()

    folder = opened(path)
    index = folder.index("entity")
    assert (index.position, index.count()) == (9, COUNT - 400)
    assert len(index.search(ROWS[0], COUNT)) == COUNT - 400
    folder.close()


def test_damage_found_while_searching_is_an_error_and_then_a_new_start(path: Path) -> None:
    """What breaks while it is open raises `StoreError`, and the next opening starts over."""
    folder = opened(path)
    index = folder.index("entity")
    folder._client.delete_collection("kind-entity")  # as another program could

    with pytest.raises(StoreError, match="search") as caught:
        index.search(ROWS[0], 3)
    assert caught.value.__cause__ is not None
    folder.close()
    folder = opened(path)
    assert (folder.index("entity").position, path.joinpath("2").exists()) == (0, True)
    folder.close()


def test_an_index_is_used_by_one_folder_object_at_a_time(path: Path) -> None:
    """Also within one process, a second opening is refused until the first is closed."""
    first = opened(path)
    with pytest.raises(StoreBusy, match="close the other memory"):
        opened(path)

    first.close()
    opened(path).close()


def test_an_index_is_used_by_one_process_at_a_time(path: Path) -> None:
    """While another process has the folder open, opening it says so at once; then it works."""
    process = other_process(HOLD, path, DIMENSION)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    with pytest.raises(StoreBusy) as caught:
        opened(path)
    assert caught.value.path == str(path)

    process.kill()
    process.communicate()
    folder = opened(path)
    assert folder.index("entity").position == 9
    folder.close()


HOLD = """
import sys, time
from pathlib import Path
from recall_echo_core.stores.chroma import ChromaFolder
folder = ChromaFolder(Path(sys.argv[1]), int(sys.argv[2]), identity="log 1")
print("open", flush=True)
time.sleep(60)
"""

BATCH = 50
WRITE = (
    f"BATCH = {BATCH}"
    + """
import sys
from pathlib import Path
import numpy as np
from recall_echo_core.stores.chroma import ChromaFolder
index = ChromaFolder(Path(sys.argv[1]), int(sys.argv[2]), identity="log 1").index("entity")
for position in range(1, 1000):
    rows = np.random.default_rng(position).normal(size=(BATCH, int(sys.argv[2])))
    index.upsert([f"{position}-{number}" for number in range(BATCH)], rows)
    index.advance(position)
    print(position, flush=True)
"""
)


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
@pytest.mark.parametrize("acknowledged", [3, 19, 20, 21, 60])
def test_a_killed_writer_leaves_no_position_without_its_vectors(
    acknowledged: int, tmp_path: Path
) -> None:
    """After kill -9 all that was acknowledged is found, or the index starts over and says so.

    The latter only when the kill hits Chroma while it saves its graph, every 1,000 vectors.
    """
    process = other_process(WRITE, tmp_path / "vectors", DIMENSION)
    assert process.stdout is not None
    for _ in range(acknowledged):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()

    folder = opened(tmp_path / "vectors")
    index = folder.index("entity")
    assert index.position >= acknowledged or (index.position == 0 and acknowledged > 3)
    assert index.count() >= BATCH * index.position
    for position in range(1, index.position + 1):
        rows = np.random.default_rng(position).normal(size=(BATCH, DIMENSION))
        for number in (0, BATCH - 1):
            assert index.search(rows[number], 1)[0][0] == f"{position}-{number}"
    folder.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_is_refused_instead_of_hanging(path: Path) -> None:
    """Chroma does not survive a fork, so the child gets an error, and the parent goes on."""
    assert (
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", FORK, str(path), str(DIMENSION)],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            timeout=60,
        ).returncode
        == 0
    )


FORK = """
import os, sys
from pathlib import Path
import numpy as np
from recall_echo_core.errors import StoreError
from recall_echo_core.stores.chroma import ChromaFolder
folder = ChromaFolder(Path(sys.argv[1]), int(sys.argv[2]), identity="log 1")
index, vector = folder.index("entity"), np.ones(int(sys.argv[2]))
if (child := os.fork()) == 0:
    try:
        index.search(vector, 1)
    except StoreError:
        os._exit(7)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert len(index.search(vector, 1)) == 1
folder.close()
assert not list(Path(sys.argv[1]).rglob("damaged"))
"""


def test_a_closed_folder_says_so(path: Path) -> None:
    """After `close`, which can be called twice, every use is `StoreClosed`."""
    folder = opened(path)
    index = folder.index("entity")
    folder.close()
    folder.close()

    uses: list[Callable[[], object]] = [
        lambda: folder.index("entity"),
        lambda: index.search(ROWS[0], 1),
        lambda: index.upsert(KEYS[:1], ROWS[:1]),
        lambda: index.delete(KEYS[:1]),
        lambda: index.advance(10),
        index.count,
    ]
    for use in uses:
        with pytest.raises(StoreClosed):
            use()


def test_a_folder_that_cannot_be_made_is_a_store_error(tmp_path: Path) -> None:
    """A file where the folder should be is reported as such."""
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreError, match="file"):
        opened(tmp_path / "file")


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["random", "clustered"])
def test_the_approximate_search_finds_what_the_exact_one_finds(shape: str, tmp_path: Path) -> None:
    """Of the 10 nearest among 5,000, at least 95 % are found, with the same similarities."""
    chance = np.random.default_rng(11)
    centres = chance.normal(size=(50, 384)) * (shape == "clustered")
    rows = centres[chance.integers(50, size=5000)] + 0.5 * chance.normal(size=(5000, 384))
    folder = opened(tmp_path / "vectors", dimension=384)
    indexes = folder.index("entity"), ExactIndex(384)
    for index in indexes:
        index.upsert([f"k{number:04}" for number in range(5000)], rows)
    hits = 0
    for row in rows[:100]:
        query = row + chance.normal(size=384) / 4
        near, exact = (dict(index.search(query, 10)) for index in indexes)
        hits += len(near.keys() & exact.keys())
    assert hits >= 950
    folder.close()


def test_equal_vectors_hide_no_others(tmp_path: Path) -> None:
    """Thousands of equal and of zero vectors, hard for a graph, are answered exactly once seen."""
    folder = opened(tmp_path / "vectors")
    index, exact = folder.index("entity"), ExactIndex(DIMENSION)
    rows = np.concatenate([np.repeat(ROWS[:1], 2000, 0), np.zeros((2000, DIMENSION)), ROWS[1:9]])
    for each in (index, exact):
        each.upsert([f"k{number:04}" for number in range(len(rows))], rows)

    def agree() -> None:
        for query in (ROWS[0], ROWS[3]):
            for limit in (3, len(rows)):
                found, expected = index.search(query, limit), exact.search(query, limit)
                assert [key for key, _ in found] == [key for key, _ in expected]
                assert np.allclose([v for _, v in found], [v for _, v in expected], atol=1e-5)

    agree()
    for each in (index, exact):
        each.delete(["k0000", "k0001"])
        each.upsert(["k0002", "new"], ROWS[20:22])
    agree()
    folder.close()
    index = opened(tmp_path / "vectors").index("entity")
    agree()
    index._folder.close()
