"""How similar texts are to a question, with vectors that stay in memory or do not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_echo_core import open_memory
from recall_echo_core.similarity import Similarities
from recall_echo_core.texts import TextKey

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Kept:
    """Vectors of texts, one to three a text, and how often they were read."""

    def __init__(self, count: int) -> None:
        dice = np.random.default_rng(0)
        self.rows = {
            TextKey(n, b"%d" % n, "episode"): dice.normal(size=(1 + n % 3, 4)).astype(np.float32)
            for n in range(count)
        }
        self.reads = 0

    def vectors(self, texts: list[TextKey]) -> dict[TextKey, np.ndarray]:
        self.reads += len(texts)
        return {text: self.rows[text] for text in texts if text in self.rows}

    def best(self, text: TextKey, vector: np.ndarray) -> float:
        rows = self.rows[text]
        lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)
        return float((rows @ vector / lengths).max())


@given(
    most=st.integers(1, 40),
    questions=st.lists(st.lists(st.integers(0, 19), max_size=12), max_size=6),
)
def test_what_stays_in_memory_changes_no_number(most: int, questions: list[list[int]]) -> None:
    kept = Kept(18)
    similarities = Similarities(kept, 4, most)  # type: ignore[arg-type]
    vector = np.array([1.0, -2.0, 0.5, 3.0], dtype=np.float32)
    for numbers in questions:
        texts = [TextKey(n, b"%d" % n, "episode") for n in dict.fromkeys(numbers)]
        found = similarities.of(texts, vector)
        assert found == {
            text: pytest.approx(kept.best(text, vector), abs=1e-6)
            for text in texts
            if text in kept.rows
        }


def test_vectors_are_read_once() -> None:
    kept = Kept(6)
    similarities = Similarities(kept, 4)  # type: ignore[arg-type]
    for _ in range(3):
        similarities.of(list(kept.rows), np.ones(4))
    assert kept.reads == 6

    similarities.drop()
    similarities.of(list(kept.rows), np.ones(4))
    assert kept.reads == 12


def test_a_question_without_direction_is_like_nothing() -> None:
    assert Similarities(Kept(3), 4).of(list(Kept(3).rows), np.zeros(4)) == {}  # type: ignore[arg-type]


def test_the_first_hits_are_the_same_however_many_are_asked_for(tmp_path: Path) -> None:
    """What has no chance is left out early, and that must not show."""
    alone = {"vectors": {"background": False}}
    with open_memory(tmp_path, clock=lambda: NOON, settings=alone) as memory:
        for number in range(60):
            memory.remember(f"Person {number % 20}", "LIKES", f"thing {number}")
            memory.record([{"role": "user", "content": f"Person {number % 20} came, {number}"}])
        for number in range(0, 60, 7):  # some are hot, useful or doubted
            found = memory.recall(f"Does person {number % 20} like thing {number}?", k=3)
            memory.feedback(str(found.id), "success" if number % 2 else "failed")
            memory.contradict(f"Person {number % 20}", "LIKES", f"thing {number}")
        for number in range(20):
            question = f"What does person {number} like? Thing {3 * number}?"
            all_hits = memory.recall(question, k=50, record_access=False)
            for k in (1, 2, 5, 9):
                some = memory.recall(question, k=k, record_access=False)
                assert [(h.id, h.score) for h in some] == [(h.id, h.score) for h in all_hits][:k]
