"""What does recall-echo reach? Through its public API only, as a host would use it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from recall_echo_core import Memory, Statement, open_memory
from recall_quality_parts.embeddings import Embeddings, KeptEmbedder
from recall_quality_parts.measures import DEPTH

if TYPE_CHECKING:
    from recall_quality_parts.sets import Corpus, Unit


def message(unit: Unit) -> dict[str, Any]:
    """Return a unit as a host hands it over: a role, and a name where speakers have names."""
    return {
        "role": unit.role or "user",
        "name": None if unit.role else unit.speaker,
        "content": unit.text,
        "time": unit.iso,
    }


def record(memory: Memory, corpus: Corpus) -> dict[str, str]:
    """Record every session in order; return the unit's id by its episode's.

    Passages belong to no session: a heap of documents has no turns.
    """
    found: dict[str, str] = {}
    for session, units in groupby(corpus.units, key=lambda unit: unit.session):
        told = list(units)
        talk = session if any(unit.speaker for unit in told) else None
        ids = memory.record([message(unit) for unit in told], session_id=talk)
        found |= dict(zip(ids, (unit.id for unit in told), strict=True))
    memory.flush()
    return found


def gather(memory: Memory, corpus: Corpus, units: dict[str, str]) -> None:
    """Record the ready triples of each unit as relations that it tells."""
    memory.observe(
        Statement(*triple, episode_id=episode)
        for episode, unit in units.items()
        for triple in corpus.triples.get(unit, [])
        if len(triple) == 3 and all(part.strip() for part in triple)  # a model wrote them
    )
    memory.flush()


@contextmanager
def built(
    corpus: Corpus, kept: Embeddings | None, *, triples: bool = False
) -> Iterator[tuple[Memory, dict[str, str], float]]:
    """Yield a memory of one corpus, built anew, its units by episode, and the seconds it took.

    Args:
        corpus: What to record.
        kept: Vectors known already, to save the time of the model.
        triples: Whether ready triples are recorded, too.
    """
    model = None if kept is None else KeptEmbedder(kept)
    last = max((unit.iso for unit in corpus.units if unit.iso), default=None)
    end = datetime.fromisoformat(last).astimezone(UTC) if last else datetime.now(UTC)
    with (
        tempfile.TemporaryDirectory(prefix="recall-echo-") as folder,
        open_memory(folder, namespace=corpus.name, embedding=model, clock=lambda: end) as memory,
    ):
        started = time.perf_counter()
        units = record(memory, corpus)
        if triples:
            gather(memory, corpus, units)
        yield memory, units, time.perf_counter() - started


def ranked(memory: Memory, units: dict[str, str], text: str) -> list[str]:
    """Return the ids of the units found, best first."""
    found = memory.recall(text, k=DEPTH, kinds=["episode"], record_access=False)
    return [units[hit.id] for hit in found]
