"""kill -9 at any moment loses nothing that was acknowledged, and leaves nothing half done.

A nursery process imports the package once and forks a writer for each kill, since most of a
writer's start is imports. The writer says in a file what has returned; the test kills it, and then
opens the memory, as the next process would, and compares.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from recall_echo_core import Memory, Statement, open_memory
from recall_echo_core.stores.callable import CallableEmbedder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TESTS = Path(__file__).parent
MEMORIES, KILLS = 5, 10
BATCH, TURNS = 20, 7  # statements of one `observe`, messages of one `record`
INDEX_BATCHES = (8, 32, 128)  # vectors that go to Chroma at once: all the time, or less often

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork, and no SIGKILL")


def hashed(texts: list[str]) -> np.ndarray:
    """A vector by chance for each text, the same in each process."""
    return np.stack(
        [np.random.default_rng(zlib.crc32(text.encode())).normal(size=24) for text in texts]
    )


def opened(folder: Path, index_batch: int) -> Memory:
    return open_memory(
        folder,
        embedding=CallableEmbedder(hashed, model_id="hashed"),
        settings={"vectors": {"index_batch": index_batch}},
        single_valued={"LIVES_IN"},
    )


# In the nursery and its children


def nursery() -> None:
    """For each line, `[folder, seed, index_batch, file]`, fork a writer and say its id."""
    import chromadb  # noqa: F401 loaded once, before the forks

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            folder, seed, index_batch, said = json.loads(line)
            try:
                write(opened(Path(folder), index_batch), seed, Path(said))
            except BaseException as error:
                tell(Path(said), op="failed", error=repr(error))
            os._exit(1)
        print(child, flush=True)
        os.waitpid(child, 0)
        print("gone", flush=True)


def tell(said: Path, **what: Any) -> None:
    """Say that something has returned; the page cache outlives the process."""
    with said.open("ab") as file:
        file.write(json.dumps(what).encode() + b"\n")


def write(memory: Memory, seed: int, said: Path) -> None:
    """Use every writing verb until killed, and say what has returned."""
    rng = random.Random(seed)
    sessions: list[str] = []
    step = 0

    def remember(name: str) -> dict[str, Any]:
        memory.remember(f"Person {name}", "LIVES_IN", f"city {name}")
        return {"text": f"Person {name} lives in city {name}"}

    def observe(name: str) -> dict[str, Any]:
        subject = f"Batch {name}"
        memory.observe(
            [Statement(subject=subject, type="HOLDS", object=f"part {n}") for n in range(BATCH)]
        )
        return {"subject": subject}

    def record(name: str) -> dict[str, Any]:
        messages = [{"content": f"said {name} {number}"} for number in range(TURNS)]
        ids = memory.record(messages, session_id=name)
        sessions.append(name)
        return {"session": name, "ids": ids}

    def recall(name: str) -> dict[str, Any]:
        found = memory.recall(f"user: said {rng.choice(sessions or [name])} 0")
        memory.mark_used(found.id, used=["M1"] if found.hits else [])
        memory.feedback(found.id, "success")
        return {"recall": found.id}

    def flush(name: str) -> dict[str, Any]:
        memory.flush()
        return {}

    def snapshot(name: str) -> dict[str, Any]:
        memory._room.namespace.snapshot(least=1)  # by itself only every 2,000 events
        return {}

    def reindex(name: str) -> dict[str, Any]:
        memory.reindex()
        return {}

    def forget(name: str) -> dict[str, Any]:
        if not sessions:
            return {}
        session = sessions.pop(rng.randrange(len(sessions)))
        tell(said, op="forgetting", session=session)
        memory.forget(session=session)
        return {"session": session}

    often = [remember] * 6 + [observe] * 3 + [record] * 4 + [recall] * 3
    verbs: list[Callable[[str], dict[str, Any]]] = [
        *often,
        flush,
        snapshot,
        reindex,
        forget,
        forget,
    ]
    while True:
        step += 1
        verb = rng.choice(verbs)
        tell(said, op=verb.__name__, **verb(f"{seed}-{step}"))


# In the test


@pytest.fixture(scope="module")
def writers() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", "import test_crashes; test_crashes.nursery()"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()  # its loop ends
        assert process.wait(timeout=60) == 0


def kill_one(
    writers: subprocess.Popen[str], order: tuple[str, int, int], said: Path, rng: random.Random
) -> None:
    """Start a writer and kill it, while it opens or while it writes."""
    assert writers.stdin is not None
    assert writers.stdout is not None
    before = said.stat().st_size if said.exists() else 0
    print(json.dumps([*order, str(said)]), file=writers.stdin, flush=True)
    child = int(writers.stdout.readline())
    if rng.random() < 0.25:
        time.sleep(rng.uniform(0.0, 0.3))
    else:
        deadline = time.monotonic() + 60
        while (said.stat().st_size if said.exists() else 0) == before:
            assert time.monotonic() < deadline, "the writer hangs"
            time.sleep(0.002)
        time.sleep(rng.uniform(0.0, 1.0))
    os.kill(child, signal.SIGKILL)
    assert writers.stdout.readline() == "gone\n"


def all_relations(memory: Memory) -> Iterator[str]:
    after = None
    while page := memory.relations(after=after, limit=1_000):
        yield from (relation.text for relation in page)
        after = page[-1].id


def all_episodes(memory: Memory) -> Iterator[tuple[str | None, str]]:
    after = None
    while page := memory.episodes(after=after, limit=1_000):
        yield from ((episode.session_id, episode.id) for episode in page)
        after = page[-1].id


def check(memory: Memory, told: list[dict[str, Any]], rng: random.Random) -> None:
    """What returned is there, each batch is whole or not there, and all of it is found."""
    of = {op: [item for item in told if item["op"] == op] for op in {t["op"] for t in told}}
    assert of.get("failed", []) == []
    relations = Counter(all_relations(memory))
    assert {item["text"] for item in of.get("remember", ())} <= set(relations)
    batches = Counter(text.partition(" holds ")[0] for text in relations if " holds " in text)
    assert {item["subject"] for item in of.get("observe", ())} <= set(batches)
    assert set(batches.values()) <= {BATCH}

    episodes = list(all_episodes(memory))
    sessions = Counter(session for session, _ in episodes)
    assert set(sessions.values()) <= {TURNS}
    begun = {item["session"] for item in of.get("forgetting", ())}
    done = {item["session"] for item in of.get("forget", ()) if "session" in item}
    kept = [item for item in of.get("record", ()) if item["session"] not in begun]
    assert {item["session"] for item in kept} <= set(sessions)
    assert {id for item in kept for id in item["ids"]} <= {id for _, id in episodes}
    assert done.isdisjoint(sessions)

    events = memory.stats().events
    for item in of.get("recall", ()):
        memory.feedback(item["recall"], "success")
    assert memory.stats().events == events  # since the same verdict of each was there already
    for item in rng.sample(kept, min(len(kept), 5)):
        number = rng.randrange(TURNS)
        asked = f"user: said {item['session']} {number}"
        found = memory.recall(asked, k=30, kinds=["episode"], record_access=False)
        assert item["ids"][number] in {hit.id for hit in found}
    report = memory.verify()
    assert report.ok, report.problems


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(MEMORIES))
def test_a_killed_writer_loses_nothing_it_was_told(
    seed: int, tmp_path: Path, writers: subprocess.Popen[str]
) -> None:
    """Ten kills of one memory: after each, or after two, all that returned is whole and found."""
    rng = random.Random(seed)
    folder, said = tmp_path / "memory", tmp_path / "said"
    index_batch = INDEX_BATCHES[seed % len(INDEX_BATCHES)]
    told: list[dict[str, Any]] = []
    for kill in range(KILLS):
        kill_one(writers, (str(folder), 100 * seed + kill, index_batch), said, rng)
        if kill % 2 and rng.random() < 0.5:
            continue  # so that the next writer finds what this one left
        told = [json.loads(line) for line in said.read_text().splitlines()] if said.exists() else []
        with opened(folder, index_batch) as memory:
            check(memory, told, rng)

    with opened(folder, index_batch) as memory:
        check(memory, told, rng)
        assert memory.verify().mended == ()
    assert {"remember", "record"} <= {item["op"] for item in told}
