"""The past answers as it did, and every number can be recomputed."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from recall_echo_core import Memory, open_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import MovableClock

CITIES = ("Oslo", "Rome", "Bonn")
PEOPLE = ("Ann", "Bob", "Cem")


def letters(texts: list[str]) -> list[list[float]]:
    """A model of sorts: texts are near that share letters."""
    return [[text.lower().count(letter) + 0.01 for letter in "abcdefghilmnorstu"] for text in texts]


def opened(folder: Path, clock: MovableClock, **more: Any) -> Memory:
    settings = {"vectors": {"background": False}, **more}
    return open_memory(
        folder, embedding=letters, clock=clock, single_valued={"LIVES_IN"}, settings=settings
    )


@pytest.fixture
def memory(tmp_path: Path, clock: MovableClock) -> Iterator[Memory]:
    with opened(tmp_path, clock) as memory:
        yield memory


def test_the_moment_known_and_the_moment_asked_about_differ(memory, clock) -> None:
    """What is known today of another day, and what was known then of today."""
    memory.remember("Ann", "LIVES_IN", "Oslo", observed_at="2026-01-10", valid_from="2026-01-10")
    known = clock()
    clock.advance(days=30)
    memory.supersede("Ann", "LIVES_IN", "Oslo", "Rome", at="2026-02-01")

    def city(known_at, valid_at=None) -> list[str]:
        view = memory.as_of(known_at, valid_at=valid_at)
        return [belief.object for belief in view.beliefs("Ann", "LIVES_IN")]

    assert city(clock(), "2026-01-15") == ["Oslo"]
    assert city(clock(), "2026-02-02") == city(clock()) == ["Rome"]
    assert city(known) == city(known, clock()) == ["Oslo"]
    assert city(known, "2026-01-09") == city("2026-02-28") == []
    view = memory.as_of("2026-03-14", valid_at="2026-03-15T00:00+02:00")
    assert view.known_at.isoformat() == "2026-03-14T23:59:59.999999+00:00"
    assert view.valid_at.isoformat() == "2026-03-14T22:00:00+00:00"


def live_through(memory: Memory, clock: MovableClock, seed: int) -> Iterator[None]:
    """Tell a memory things at random, pausing after each."""
    rng = random.Random(seed)
    memory.add_entity("ANN")  # the spelling to be shown, also where "Ann" is a subject
    memory.add_entity("ROME")
    for step in range(60):
        clock.advance(hours=rng.randrange(1, 90))
        subject, type = rng.choice(PEOPLE), rng.choice(["LIVES_IN", "LIKES", "lives_in"])
        value = rng.choice((*CITIES, *PEOPLE))
        when = clock().replace(hour=0) if rng.random() < 0.7 else "2026-02-01"
        details = {"weight": rng.uniform(0.1, 1), "observed_at": when}
        details["context"] = rng.choice(["authoritative", "explicit", "inferred", "speculative"])
        match rng.randrange(9):
            case 0:
                memory.contradict(subject, type, value, **details)
            case 1:
                memory.corroborate(subject, type, value, **details)
            case 2 if value != "Oslo":
                memory.supersede(subject, type, value, "Oslo", **details)
            case 3:
                memory.add_entity(value.upper(), abstract=f"number {step}", overview="more")
            case 4:
                memory.record({"content": f"{subject} {type} {value}"}, session_id=subject)
            case 5:
                moves = [
                    move.evidence_id
                    for relation in memory.relations(limit=3)
                    for move in memory.explain(
                        relation.subject, relation.type, relation.object
                    ).moves
                ]
                if moves:
                    memory.retract(rng.choice(moves))
            case 6:
                found = memory.recall(value, k=2)
                memory.feedback(found.id, rng.random())
            case _:
                memory.remember(subject, type, value, **details)
        yield


def answers(view: Callable[[], Any]) -> dict[str, Any]:
    """Everything a view says about a small world; of a single subject, a fresh view."""
    whole = view()
    relations, entities = whole.relations(limit=1_000), whole.entities()
    known = {entity.name for entity in entities}
    silent = {"record_access": False} if isinstance(whole, Memory) else {}
    return {
        "relations": relations,
        "entities": entities,
        "episodes": whole.episodes(),
        "beliefs": [view().beliefs(one, "LIVES_IN") for one in PEOPLE],
        "explained": [view().explain(one.subject, one.type, one.object) for one in relations],
        "reach": {name: whole.traverse(name) for name in known},
        "paths": [whole.paths("Ann", name) for name in known],
        "recalled": whole.recall("Rome, Bonn or Bob?", k=9, **silent),
    }


@pytest.mark.parametrize("seed", range(3))
def test_the_past_answers_as_it_did(tmp_path: Path, clock: MovableClock, seed: int) -> None:
    """Asked at twenty moments and later again: the same, also by another process."""
    seen = []
    with opened(tmp_path, clock) as memory:
        for step, _ in enumerate(live_through(memory, clock, seed)):
            if step % 3 == 0:
                seen.append((clock(), answers(lambda: memory)))
        for at, said in seen:
            assert answers(partial(memory.as_of, at)) == said

    clock.advance(days=400)
    with opened(tmp_path, clock) as memory:
        for at, said in seen:
            assert answers(partial(memory.as_of, at)) == said


@pytest.mark.parametrize("cap", [None, 14.0])
@pytest.mark.parametrize("seed", range(3))
def test_every_number_can_be_recomputed(tmp_path, clock, seed: int, cap: float | None) -> None:
    """From prior through every move to the effective confidence that is shown."""
    more = {} if cap is None else {"graph": {"confidence": {"max_concentration": cap}}}
    reasons = set()
    with opened(tmp_path, clock, **more) as memory:
        for _ in live_through(memory, clock, seed):
            for relation in memory.relations(limit=1_000):
                found = memory.explain(relation.subject, relation.type, relation.object)
                shown = found.relation
                reasons.update(move.reason for move in found.moves)
                last = found.moves[-1]
                assert found.max_concentration == cap
                assert (last.alpha, last.beta) == (shown.alpha, shown.beta)
                assert found.recomputed() == pytest.approx(shown.effective(), abs=1e-12)
                assert found.effective == shown.effective()

    assert reasons == {"prior", "supports", "opposes", "rival", "ended"}
