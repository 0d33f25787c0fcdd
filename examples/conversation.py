"""Record a long dialogue and answer its questions with evidence.

    python conversation.py locomo10_dev.jsonl.gz --limit 1

FILE holds one dialogue a line, as JSON, gzipped or not: `docs` with id, session, iso, speaker,
text and caption, `queries` with text, category, answer and the ids of the gold evidence. Each
dialogue is recorded as episodes of its own namespace; the clock stands at its last turn. Printed
are some questions with the evidence found, and evidence recall@10 beside that of dense vectors
alone, from the same run: the same model, one vector a turn, exact cosine, nothing else.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from recall_echo_core import Memory, open_memory
from recall_echo_core.stores.fastembed import FastEmbedder

K = 10
console = Console(width=100, highlight=False, markup=False)


def dialogues(path: Path, limit: int | None) -> Iterator[dict[str, Any]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if limit is not None and number >= limit:
                return
            yield json.loads(line)


def said(doc: dict[str, Any]) -> str:
    return doc["text"] + (f" [shares {doc['caption']}]" if doc.get("caption") else "")


def record(memory: Memory, docs: list[dict[str, Any]]) -> dict[str, str]:
    """Record every turn; return the id of its episode by the turn's id."""
    episodes: dict[str, str] = {}
    for session in dict.fromkeys(str(doc.get("session", "")) for doc in docs):
        turns = [doc for doc in docs if str(doc.get("session", "")) == session]
        messages = [
            {
                "role": "assistant" if doc.get("speaker") == "assistant" else "user",
                "name": doc.get("speaker"),
                "content": said(doc),
                "time": doc.get("iso"),
                "id": doc["id"],
            }
            for doc in turns
        ]
        ids = memory.record(messages, session_id=session or None)
        episodes |= {str(doc["id"]): id for doc, id in zip(turns, ids, strict=True)}
    memory.flush()
    return episodes


def dense_alone(docs: list[dict[str, Any]], questions: list[str]) -> list[list[str]]:
    """Return the ids of the K turns nearest to each question by cosine."""
    model = FastEmbedder()

    def unit(texts: list[str]) -> np.ndarray[Any, Any]:
        vectors = model.embed(texts).astype(np.float64)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    turns = unit([f"{doc['speaker']}: {said(doc)}" if doc.get("speaker") else said(doc)
                  for doc in docs])  # fmt: skip
    nearest = np.argsort(-(unit(questions) @ turns.T), axis=1, kind="stable")[:, :K]
    return [[str(docs[place]["id"]) for place in row] for row in nearest]


def share_found(gold: list[Any], found: list[str]) -> float:
    wanted = {str(id) for id in gold}
    return len(wanted & set(found)) / len(wanted)


def answer(memory: Memory, episodes: dict[str, str], dialogue: dict[str, Any], show: int) -> Table:
    queries = [query for query in dialogue["queries"] if query["gold"]]
    turn_of = {episode: turn for turn, episode in episodes.items()}
    baseline = dense_alone(dialogue["docs"], [query["text"] for query in queries])
    scores: dict[str, list[tuple[float, float]]] = {}
    for number, (query, dense) in enumerate(zip(queries, baseline, strict=True)):
        found = memory.recall(query["text"], k=K, kinds={"episode"}, record_access=False)
        turns = [turn_of[hit.id] for hit in found]
        both = share_found(query["gold"], turns), share_found(query["gold"], dense)
        for category in (query["category"], "all"):
            scores.setdefault(category, []).append(both)
        if number < show:
            console.print(f"\n{query['text']}   (answer: {query.get('answer')})")
            for hit, turn in zip(found.hits[:3], turns, strict=False):
                mark = "*" if turn in map(str, query["gold"]) else " "
                console.print(f" {mark} {hit.score:.3f}  {turn:8} {hit.text[:78]}")
    rows = Table("category", "questions", f"recall@{K}", "dense alone",
                 title=f"{dialogue['corpus']}: evidence found", title_justify="left")  # fmt: skip
    for category, pairs in sorted(scores.items(), key=lambda item: (item[0] == "all", item[0])):
        ours, dense_share = (sum(pair[i] for pair in pairs) / len(pairs) for i in (0, 1))
        rows.add_row(category, str(len(pairs)), f"{ours:.1%}", f"{dense_share:.1%}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--limit", type=int, help="read only this many dialogues")
    parser.add_argument("--show", type=int, default=5, help="questions to print with evidence")
    options = parser.parse_args()
    if not options.file.is_file():
        parser.error(f"{options.file} is not there; see benchmarks/README.md for where to get it")
    for dialogue in dialogues(options.file, options.limit):
        last = max(doc.get("iso") or "" for doc in dialogue["docs"])
        end = datetime.fromisoformat(last).astimezone(UTC) if last else datetime.now(UTC)
        with (
            tempfile.TemporaryDirectory(prefix="recall-echo-") as folder,
            open_memory(folder, namespace=str(dialogue["corpus"]), clock=lambda: end) as memory,  # noqa: B023 used only while the loop stands here
        ):
            started = time.perf_counter()
            episodes = record(memory, dialogue["docs"])
            seconds = time.perf_counter() - started
            console.print(f"{len(episodes)} turns recorded and indexed in {seconds:.1f} s")
            console.print(answer(memory, episodes, dialogue, options.show))


if __name__ == "__main__":
    main()
