"""Thousands of real, conflicting statements add up to what counting by hand gives."""

from __future__ import annotations

import gzip
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from recall_echo_core import Memory, Statement, open_memory
from recall_echo_core.namespace import replayed
from recall_echo_core.times import moment

if TYPE_CHECKING:
    from conftest import MovableClock

    from recall_echo_core.graph import Graph

START = datetime(2026, 1, 1, tzinfo=UTC)
TYPE = "LABELLED"
Counts = dict[tuple[str, str], tuple[float, float]]


def few_numbers(texts: list[str]) -> list[list[float]]:
    """Vectors are not looked at here."""
    return [[float(len(text)), 1.0] for text in texts]


@pytest.fixture(scope="module")
def claims(data: Path) -> list[tuple[str, str, str]]:
    """(slot, source, value) in an order of their own: 12,190 statements by 74 sources."""
    path = data / "claims" / "crowd_ZenCrowd_us.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"{path} is missing; the set is described in benchmarks/README.md")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    found = [(row["slot"], source, value) for row in rows for source, value in row["claims"]]
    random.Random(0).shuffle(found)
    return found


def statements(claims: list[tuple[str, str, str]]) -> list[Statement]:
    """Each statement, observed a second after the one before."""
    return [
        Statement(
            subject=f"slot {slot}",
            type=TYPE,
            object=value,
            source=source,
            observed_at=START + timedelta(seconds=number),
        )
        for number, (slot, source, value) in enumerate(claims)
    ]


def counted(claims: list[tuple[str, str, str]]) -> Counts:
    """Count without a fold: each value's first statement is its prior, Beta(9, 1).

    Every later one for it adds to alpha, every later one for another value of the slot to beta.
    """
    by_slot: dict[str, list[str]] = {}
    for slot, _, value in claims:
        by_slot.setdefault(slot, []).append(value)
    counts: Counts = {}
    for slot, values in by_slot.items():
        for value in set(values):
            later = values[values.index(value) + 1 :]
            own = later.count(value)
            counts[slot, value] = 9.0 + own, 1.0 + len(later) - own
    return counts


def told(memory: Memory, said: list[Statement], rng: random.Random, clock: MovableClock) -> None:
    """Tell statements in the order given, in batches of random sizes, a minute apart."""
    start = 0
    while start < len(said):
        end = start + rng.randint(1, 900)
        memory.observe(said[start:end])
        clock.advance(minutes=1)
        start = end


def believed(memory: Memory) -> Counts:
    """Every alpha and beta, read page by page."""
    found: Counts = {}
    after = None
    while page := memory.relations(after=after, limit=1000):
        after = page[-1].id
        for relation in page:
            slot = relation.subject.removeprefix("slot ")
            found[slot, relation.object] = relation.alpha, relation.beta
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_any_arrival_order_gives_the_counted_numbers(
    claims: list[tuple[str, str, str]], tmp_path: Path, clock: MovableClock, seed: int
) -> None:
    """Three shuffled arrivals of 12,190 statements all give the closed-form alphas and betas."""
    rng = random.Random(seed)
    shuffled = statements(claims)
    rng.shuffle(shuffled)

    with opened(tmp_path, clock) as memory:
        told(memory, shuffled, rng, clock)

        assert believed(memory) == counted(claims)
        assert memory.stats().events == len(claims) + 1  # and the settings


def test_explain_and_as_of_agree_with_a_replay_from_zero(
    claims: list[tuple[str, str, str]], tmp_path: Path, clock: MovableClock
) -> None:
    """At 50 random moments the past view, its account and a replay of the log say the same."""
    rng = random.Random(4)
    shuffled = statements(claims)
    rng.shuffle(shuffled)
    with opened(tmp_path, clock) as memory:
        began = clock()
        told(memory, shuffled, rng, clock)
        minutes = int((clock() - began).total_seconds() // 60)
        for _ in range(50):
            then = began + timedelta(minutes=rng.uniform(0, minutes))
            slot = f"slot {rng.choice(claims)[0]}"
            view, graph = memory.as_of(then), fold_of(memory, then)
            group = graph.group_of(graph.entity_id(slot), TYPE)
            expected = {} if group is None else {
                graph.nodes[value].name: (period.alpha, period.beta)
                for value, (period,) in group.values.items()
            }  # fmt: skip

            beliefs = {belief.object: belief.relation for belief in view.beliefs(slot, TYPE)}
            assert {name: (r.alpha, r.beta) for name, r in beliefs.items()} == expected
            for name, relation in beliefs.items():
                why = view.explain(slot, TYPE, name)

                assert why.recomputed() == why.effective == relation.effective()
                assert all(move.recorded_at <= then for move in why.moves)


def opened(folder: Path, clock: MovableClock) -> Memory:
    return open_memory(
        folder,
        single_valued={TYPE},
        clock=clock,
        embedding=few_numbers,
        settings={"vectors": {"background": False}},
    )


def fold_of(memory: Memory, then: datetime) -> Graph:
    namespace = memory._room.namespace
    return replayed(namespace.log, namespace.key, moment(then))
