"""What is to be found, by which questions? The three public sets, in one shape.

Text of a unit: `speaker: text [shares caption]`, as all published baselines embed it. Passages
of MuSiQue come in an order shuffled with a fixed seed: those of one question may lie side by side
in the file, and any use of neighbours would profit from that.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FILES = {
    "LoCoMo": "retrieval/locomo10_dev.jsonl.gz",
    "BEAM": "retrieval/beam_100K_dev.jsonl.gz",
    "MuSiQue": "retrieval/musique_train100.jsonl.gz",
}
TRIPLES = "graph/musique_train100_openie.jsonl.gz"
SHUFFLE = 6  # the seed of the passages' order


@dataclass(frozen=True, slots=True)
class Unit:
    """One turn or passage."""

    id: str
    session: str
    text: str
    speaker: str | None = None
    iso: str | None = None

    @property
    def said(self) -> str:
        """The text with its speaker before it: what is embedded."""
        return f"{self.speaker}: {self.text}" if self.speaker else self.text

    @property
    def role(self) -> str | None:
        """Who speaks, where the host gives it as a role; a name is not one."""
        return self.speaker if self.speaker in ("user", "assistant") else None


@dataclass(frozen=True, slots=True)
class Question:
    """One question, and the units that answer it."""

    id: str
    text: str
    category: str
    gold: frozenset[str]


@dataclass(frozen=True, slots=True)
class Corpus:
    """One store: all units of one dialogue or of one collection, and what is asked of it."""

    set: str
    name: str
    units: list[Unit]
    questions: list[Question]
    triples: dict[str, list[list[str]]] = field(default_factory=dict)


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def unit_of(doc: dict[str, Any]) -> Unit:
    shares = f" [shares {doc['caption']}]" if doc.get("caption") else ""
    return Unit(
        id=str(doc["id"]),
        session=str(doc.get("session", "")),
        text=doc["text"] + shares,
        speaker=doc.get("speaker"),
        iso=doc.get("iso"),
    )


def corpora(data: Path, name: str) -> list[Corpus]:
    """Return the stores of one set; questions without gold evidence are left out."""
    found = []
    for row in rows_of(data / FILES[name]):
        units = [unit_of(doc) for doc in row["docs"]]
        if not any(unit.speaker for unit in units):
            random.Random(SHUFFLE).shuffle(units)
        known = {unit.id for unit in units}
        questions = [
            Question(query["id"], query["text"], query["category"], gold)
            for query in row["queries"]
            if (gold := frozenset(map(str, query["gold"])) & known)
        ]
        found.append(Corpus(name, str(row["corpus"]), units, questions))
    return found


def triples_of(data: Path) -> dict[str, list[list[str]]]:
    """Return ready subject, relation, object triples by passage."""
    return {row["id"]: row["triples"] for row in rows_of(data / TRIPLES)}
