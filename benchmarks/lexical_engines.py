"""What does the channel of words cost: ours, SQLite's FTS5, tantivy?

    python benchmarks/lexical_engines.py [--texts N]

Made-up texts of 15 words drawn by Zipf's law; questions of 6 of them, the 200 best asked for. FTS5
and tantivy are given the same stems. They score with constants of their own, so a caller who
wants others has to read the candidates' terms again, which is not counted here. tantivy is left
out, saying so, when it is not installed.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from recall_echo_core.lexical import Lexical, LexicalPicture
from recall_echo_core.texts import TextKey

LENGTH, ASKED, BEST, QUESTIONS = 15, 6, 200, 100
Ask = Callable[[list[str]], object]


def made_up(count: int) -> list[list[str]]:
    dice = random.Random(0)
    words = [f"w{number}" for number in range(30_000)]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    return [dice.choices(words, weights, k=LENGTH) for _ in range(count)]


def ours(texts: list[list[str]], folder: Path) -> tuple[Ask, float, int]:
    index = Lexical()
    for number, text in enumerate(texts):
        index.add(TextKey(number, number.to_bytes(16, "big"), "episode"), Counter(text))
    kept = folder / "ours"
    kept.write_bytes(msgspec.msgpack.encode(index.picture()))
    start = time.perf_counter()
    again = Lexical.of(msgspec.msgpack.decode(kept.read_bytes(), type=LexicalPicture))
    opening = time.perf_counter() - start
    return lambda asked: again.best(again.scores(asked), BEST), opening, kept.stat().st_size


def fts5(texts: list[list[str]], folder: Path) -> tuple[Ask, float, int]:
    path = folder / "fts5"
    database = sqlite3.connect(path)
    database.execute("CREATE VIRTUAL TABLE texts USING fts5(text, content='', tokenize='ascii')")
    if sqlite3.sqlite_version_info >= (3, 42):  # before, what is deleted stays in the file
        database.execute("INSERT INTO texts(texts, rank) VALUES ('secure-delete', 1)")
    rows = ((number, " ".join(text)) for number, text in enumerate(texts))
    database.executemany("INSERT INTO texts(rowid, text) VALUES (?, ?)", rows)
    database.commit()
    query = "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY bm25(texts) LIMIT ?"
    return (
        lambda asked: database.execute(query, (" OR ".join(asked), BEST)).fetchall(),
        0.0,
        path.stat().st_size,
    )


def tantivy_engine(texts: list[list[str]], folder: Path) -> tuple[Ask, float, int]:
    import tantivy

    place = folder / "tantivy"
    place.mkdir()
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", stored=False, tokenizer_name="whitespace")
    builder.add_integer_field("number", stored=True)
    index = tantivy.Index(builder.build(), path=str(place))
    writer = index.writer()
    for number, text in enumerate(texts):
        writer.add_document(tantivy.Document(text=" ".join(text), number=number))
    writer.commit()
    index.reload()
    searcher = index.searcher()
    size = sum(path.stat().st_size for path in place.iterdir())
    return lambda asked: searcher.search(index.parse_query(" ".join(asked)), BEST).hits, 0.0, size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--data", help="not used: the texts are made up")
    count = parser.parse_args().texts
    texts = made_up(count)
    questions = [text[:ASKED] for text in made_up(QUESTIONS)]
    table = Table("engine", "built s", "opened s", "question p50 ms", "p95 ms", "on disk MB")
    table.title = f"{count:,} texts of {LENGTH} words"
    with tempfile.TemporaryDirectory() as folder:
        for name, make in (("ours", ours), ("SQLite FTS5", fts5), ("tantivy", tantivy_engine)):
            start = time.perf_counter()
            try:
                ask, opened, size = make(texts, Path(folder))
            except ImportError as error:
                print(f"{name} is left out: {error}")
                continue
            built = time.perf_counter() - start - opened
            spent = []
            for question in questions:
                begun = time.perf_counter()
                ask(question)
                spent.append((time.perf_counter() - begun) * 1e3)
            middle, high = statistics.median(spent), statistics.quantiles(spent, n=20)[-1]
            row = f"{built:.1f}", f"{opened:.2f}", f"{middle:.2f}", f"{high:.2f}"
            table.add_row(name, *row, f"{size / 1e6:.1f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
