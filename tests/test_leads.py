"""Which episodes relations lead to: those they were told in, and those one thing further on."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from recall_echo_core import Memory, open_memory
from recall_echo_core.leads import Leads
from recall_echo_core.relevance import Valued

if TYPE_CHECKING:
    from conftest import MovableClock

ALONE = {"vectors": {"background": False}}
FILLER = [{"content": f"nothing about number {number}"} for number in range(30)]


def words(texts: list[str]) -> list[list[float]]:
    """Texts with the same words are near."""
    rows = np.zeros((len(texts), 2048))
    for row, text in zip(rows, texts, strict=True):
        row[0] = 0.1
        for word in re.findall(r"\w+", text.casefold()):
            row[1 + zlib.crc32(word.encode()) % 2047] += 1.0
    return rows.tolist()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with open_memory(tmp_path, embedding=words, settings=ALONE) as memory:
        memory.record(FILLER)
        yield memory


def tell(memory: Memory, content: str, *fact: str) -> str:
    [episode] = memory.record([{"content": content}])
    if fact:
        memory.remember(*fact, episode_id=episode)
    return episode


def places(memory: Memory, question: str, *, k: int = 40) -> dict[str, int]:
    found = memory.recall(question, k=k, kinds=["episode"], record_access=False)
    return {hit.id: place for place, hit in enumerate(found)}


QUESTION = "Where was the director of Metropolis born?"


def two_steps(memory: Memory, *, gathered: bool = True) -> tuple[str, str]:
    facts: Any = [
        ("Metropolis", "DIRECTED_BY", "Fritz Lang"),
        ("Fritz Lang", "BORN_IN", "Vienna"),
    ]
    first = tell(memory, "metropolis, the film by lang", *(facts[0] if gathered else ()))
    second = tell(memory, "he came from vienna in austria", *(facts[1] if gathered else ()))
    return first, second


def test_a_question_of_two_steps_finds_the_second(memory: Memory) -> None:
    """Which has no word of the question: without the relations it is nowhere near the top."""
    first, second = two_steps(memory)

    assert places(memory, QUESTION, k=2).keys() == {first, second}


def test_without_relations_it_is_not_found(memory: Memory) -> None:
    _, second = two_steps(memory, gathered=False)

    assert places(memory, QUESTION).get(second, 99) > 2


def test_the_past_is_led_by_the_relations_of_then(tmp_path: Path, clock: MovableClock) -> None:
    with open_memory(tmp_path, embedding=words, clock=clock, settings=ALONE) as memory:
        memory.record(FILLER)
        two_steps(memory)
        live, then = places(memory, QUESTION), clock()
        clock.advance(days=1)
        tell(memory, "he came from vienna in virginia", "Fritz Lang", "BORN_IN", "Vienna")
        past = memory.as_of(then).recall(QUESTION, k=40, kinds=["episode"])

        assert [hit.id for hit in past] == list(live)
        assert list(places(memory, QUESTION)) != list(live)


def test_it_is_the_same_after_opening_again(tmp_path: Path) -> None:
    """From the snapshots, and from the log alone."""
    with open_memory(tmp_path, embedding=words, settings=ALONE) as memory:
        memory.record(FILLER)
        two_steps(memory)
        memory.flush()
        before = places(memory, QUESTION)
    with open_memory(tmp_path, embedding=words, settings=ALONE) as memory:
        assert places(memory, QUESTION) == before
        assert memory.verify().ok


def test_what_is_forgotten_leads_nowhere(memory: Memory) -> None:
    first, second = two_steps(memory)
    memory.forget(entity="Fritz Lang")

    assert places(memory, QUESTION, k=1).keys() == {first}
    assert places(memory, QUESTION).get(second, 99) > 2


def test_what_was_taken_back_leads_nowhere(memory: Memory) -> None:
    first = tell(memory, "metropolis, the film by lang", "Metropolis", "DIRECTED_BY", "Fritz Lang")
    second = tell(memory, "he came from vienna in austria")
    told = memory.remember("Fritz Lang", "BORN_IN", "Vienna", episode_id=second)
    memory.retract(str(told.evidence_id))

    assert places(memory, QUESTION, k=1).keys() == {first}
    assert places(memory, QUESTION).get(second, 99) > 2


@pytest.mark.parametrize("things", [3, 60])
def test_a_thing_that_everything_is_related_to_leads_nowhere(memory: Memory, things: int) -> None:
    """As the user is in a memory of one person."""
    tell(memory, "metropolis, the film", "Metropolis", "LIKED_BY", "Ann")
    for number in range(things):
        tell(memory, f"item {number} came along", "Ann", "OWNS", f"thing {number}")
    found = memory.recall("Who likes the film Metropolis?", k=40, kinds=["episode"])
    led = [hit for hit in found if "came along" in hit.text and hit.parts["relevance"] > 0.01]

    assert "metropolis" in found.hits[0].text
    assert len(led) == (things if things == 3 else 0)


class OneFact:
    """A graph of one relation told in some episodes, as far as `Leads` asks for it."""

    def __init__(self, told: list[bytes]) -> None:
        self._told = told

    def told_in(self, item: bytes) -> list[bytes]:
        return self._told

    def text_position(self, item: bytes) -> int:
        return 7


def test_the_nearest_relation_of_an_episode_counts_beside_the_last_one() -> None:
    graph: Any = OneFact([b"e0", b"e2", b"gone"])
    near = {b"r": (7, 0.9), b"s": (7, 0.5), b"stale": (6, 0.3)}
    numbers = {b"e0": 0, b"e1": 1, b"e2": 2}
    leads = Leads(near, "?", np.ones(2), numbers, lambda: nullcontext(graph), lambda _: {})

    assert leads.nearness(np.arange(3)).tolist() == pytest.approx([0.3, 0.0, 0.3])
    assert leads.onward(Valued(np.arange(3), np.zeros(3))) == {}
