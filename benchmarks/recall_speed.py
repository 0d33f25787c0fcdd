"""How long does a question take, beside the bare Chroma query of the same run?

    python benchmarks/recall_speed.py [--texts 10000] [--questions 300]

Made-up turns of two speakers in sessions of twenty, words drawn by Zipf's law, some with names,
vectors ready made in 200 clusters, one a session, and a fact for every tenth turn: nothing is
embedded, neither on writing nor on asking. Asked
are questions of four words of some turn. "bare Chroma" is a persistent collection of the same
vectors in another folder, asked for ten. Each question is asked in every way, one after another;
the first tenth warms up. Milliseconds; read the ratios: machines differ.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
from rich.console import Console
from rich.table import Table

from recall_echo_core import Memory, open_memory

DIMENSION, CLUSTERS, SESSION = 384, 200, 20
BATCH, FACTS = 1_000, 10
K = 10


class ReadyVectors:
    """A vector for every text, made from the text itself and kept; turns of a session are alike."""

    def __init__(self) -> None:
        self._centres = np.random.default_rng(0).standard_normal((CLUSTERS, DIMENSION))
        self._known: dict[str, np.ndarray[Any, Any]] = {}
        self._session: dict[str, int] = {}

    def place(self, turns: list[dict[str, str]]) -> None:
        """Take note of which texts belong together."""
        for number, turn in enumerate(turns):
            self._session[turn["content"]] = number // SESSION

    def __call__(self, texts: list[str]) -> np.ndarray[Any, Any]:
        """Return one row a text."""
        for text in texts:
            if text not in self._known:
                self._known[text] = self._made(text)
        return np.stack([self._known[text] for text in texts])

    def _made(self, text: str) -> np.ndarray[Any, Any]:
        seed = zlib.crc32(text.encode())
        noise = np.random.default_rng(seed).standard_normal(DIMENSION)
        # A recorded turn is embedded with its speaker before it.
        session = self._session.get(text, self._session.get(text.partition(": ")[2], seed))
        vector = self._centres[session % CLUSTERS] + 0.7 * noise
        made: np.ndarray[Any, Any] = (vector / np.linalg.norm(vector)).astype(np.float32)
        return made


def turns(count: int) -> list[dict[str, str]]:
    dice = np.random.default_rng(1)
    syllables = "ka lo mi nu pe ra tel von mar sin dra ko fe li sto".split()
    words = list({"".join(dice.choice(syllables, size=3)) for _ in range(4_000)})
    words.sort()
    weights = 1.0 / np.arange(1, len(words) + 1)
    weights /= weights.sum()
    made = []
    for number in range(count):
        said = list(dice.choice(words, size=int(dice.integers(6, 24)), p=weights))
        if number % 5 == 0:
            said[0] = said[0].capitalize() + " " + str(dice.choice(words)).capitalize()
        name = ("Ann", "Bea")[number % 2]
        made.append({"role": "user", "name": name, "content": " ".join(said)})
    return made


def fill(memory: Memory, made: list[dict[str, str]]) -> float:
    started = time.perf_counter()
    for start in range(0, len(made), SESSION):
        memory.record(made[start : start + SESSION], session_id=f"s{start // SESSION}")
        for turn in made[start : start + SESSION : FACTS]:
            subject, type, *rest = turn["content"].split()
            memory.remember(subject, type.upper(), rest[0])
    memory.flush()
    return time.perf_counter() - started


def bare_chroma(folder: Path, vectors: np.ndarray[Any, Any]) -> Any:
    client = chromadb.PersistentClient(
        str(folder), settings=chromadb.Settings(anonymized_telemetry=False)
    )
    collection = client.create_collection(
        "bare", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
    )
    for start in range(0, len(vectors), BATCH):
        end = min(start + BATCH, len(vectors))
        collection.add([str(place) for place in range(start, end)], vectors[start:end])
    return collection


def milliseconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=10_000, help="turns in the memory")
    parser.add_argument("--questions", type=int, default=300, help="how many are asked")
    parser.add_argument("--data", type=Path, help="not used: texts are made up")
    options = parser.parse_args()
    embed, made = ReadyVectors(), turns(options.texts)
    dice = random.Random(2)
    questions = [
        " ".join(dice.sample(dice.choice(made)["content"].split(), 4))
        for _ in range(options.questions)
    ]
    embed.place(made)
    embed(questions)
    console = Console()
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as bare,
        tempfile.TemporaryDirectory() as folder,
        open_memory(folder, embedding=embed) as memory,
    ):
        seconds = fill(memory, made)
        console.print(f"{len(made):,} turns recorded and indexed in {seconds:.1f} s")
        collection = bare_chroma(Path(bare), embed([turn["content"] for turn in made]))

        def recall(text: str, kinds: list[str] | None) -> object:
            return memory.recall(text, k=K, kinds=kinds, record_access=False)

        ways: dict[str, Callable[[str], object]] = {
            "bare Chroma": lambda text: collection.query(embed([text]), n_results=K, include=[]),
            "recall of episodes": lambda text: recall(text, ["episode"]),
            "recall of all kinds": lambda text: recall(text, None),
        }
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for text in questions:
            for name, way in ways.items():
                taken[name].append(milliseconds(lambda: way(text)))  # noqa: B023 used at once
    table = Table(f"{len(made):,} texts", "p50 ms", "p95 ms", "p50 beside Chroma")
    warm = {name: np.percentile(each[len(each) // 10 :], [50, 95]) for name, each in taken.items()}
    for name, (middle, high) in warm.items():
        ratio = middle / warm["bare Chroma"][0]
        table.add_row(name, f"{middle:.1f}", f"{high:.1f}", f"{ratio:.1f}×")
    console.print(table)


if __name__ == "__main__":
    main()
