"""How fast is evidence taken in, beside bare SQLite in the same run?

    python benchmarks/evidence.py [--data DIR]

Real statements (crowd_ZenCrowd_us: 12,190 by 74 sources about 2,040 slots, subject = slot, object =
value, single-valued) are told one by one, in batches in the order observed, and in batches in a
shuffled order, where almost every statement arrives late and refolds its slot. Bare SQLite commits
rows of the same size with the same pragmas. Read the ratios: machines differ.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.table import Table

from recall_echo_core import Memory, Statement, open_memory

ROW = b"x" * 200  # about the size of a statement's payload
SINGLE = 1_000  # statements told one by one


def statements(path: Path) -> list[Statement]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    claims = [(row["slot"], source, value) for row in rows for source, value in row["claims"]]
    random.Random(0).shuffle(claims)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        Statement(
            subject=f"slot {slot}",
            type="LABELLED",
            object=value,
            source=source,
            observed_at=start + timedelta(seconds=number),
        )
        for number, (slot, source, value) in enumerate(claims)
    ]


def timed(work: Callable[[], object], count: int) -> tuple[float, float]:
    """Return things a second, and microseconds of processor time for each."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    seconds = time.perf_counter() - wall
    return count / seconds, (time.process_time() - cpu) / count * 1e6


def with_memory(work: Callable[[Memory], object], count: int) -> tuple[float, float]:
    with (
        tempfile.TemporaryDirectory() as folder,
        open_memory(
            folder, single_valued={"LABELLED"}, settings={"vectors": {"background": False}}
        ) as memory,
    ):
        return timed(lambda: work(memory), count)


def bare_sqlite(count: int, batch: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        database = sqlite3.connect(Path(folder) / "bare.sqlite3", isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
            database.execute(f"PRAGMA {pragma}")
        database.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, payload BLOB)")

        def work() -> None:
            for start in range(0, count, batch):
                database.execute("BEGIN IMMEDIATE")
                rows = [(number, ROW) for number in range(start, min(start + batch, count))]
                database.executemany("INSERT INTO rows VALUES (?, ?)", rows)
                database.execute("COMMIT")

        try:
            return timed(work, count)
        finally:
            database.close()


def one_by_one(memory: Memory, said: list[Statement]) -> None:
    for statement in said:
        memory.observe([statement])


def measured(said: list[Statement]) -> Iterator[tuple[str, float, float]]:
    shuffled = random.Random(1).sample(said, len(said))
    yield "one by one", *with_memory(lambda memory: one_by_one(memory, said[:SINGLE]), SINGLE)
    yield "  bare SQLite, one by one", *bare_sqlite(SINGLE, 1)
    yield "batches, in order", *with_memory(lambda memory: memory.observe(said), len(said))
    yield "batches, shuffled", *with_memory(lambda memory: memory.observe(shuffled), len(said))
    yield "  bare SQLite, batches of 1,000", *bare_sqlite(len(said), 1_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(__file__).parents[1].parent / "shared" / "data"
    parser.add_argument("--data", type=Path, default=default, help="folder of the data sets")
    path = parser.parse_args().data / "claims" / "crowd_ZenCrowd_us.jsonl.gz"
    if not path.is_file():
        sys.exit(f"skipped: {path} is missing; benchmarks/README.md says where to get it")
    table = Table("evidence", "events/s", "µs of processor each")
    for name, rate, cpu in measured(statements(path)):
        table.add_row(name, f"{rate:,.0f}", f"{cpu:,.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
