"""A text that cannot be read keeps no other from being found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from recall_echo_core import Memory, open_memory
from recall_echo_core.embedding import Stopped, embedded
from recall_echo_core.errors import EmbedderUnavailable
from recall_echo_core.stores.callable import CallableEmbedder
from recall_echo_core.texts import TextKey

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import MovableClock


class Letters:
    """Counts letters, unless it is told to fail, or the text is poison."""

    def __init__(self) -> None:
        self.down = False

    def __call__(self, texts: list[str]) -> list[list[float]]:
        if self.down or any("poison" in text for text in texts):
            raise RuntimeError("it hurts")
        return [[1.0 + text.count(letter) for letter in "abcdefgh"] for text in texts]


@pytest.fixture
def letters() -> Letters:
    return Letters()


@pytest.fixture
def memory(tmp_path: Path, clock: MovableClock, letters: Letters):
    settings = {"vectors": {"background": False}}
    with open_memory(tmp_path, embedding=letters, clock=clock, settings=settings) as opened:
        yield opened


def found(memory: Memory, text: str) -> list[str]:
    return [hit.text for hit in memory.recall(text, record_access=False)]


def test_a_refused_text_is_kept_and_the_others_are_found(memory: Memory, caplog) -> None:
    """Row 25: one bad text of a batch leaves the others searchable, and says so in the log."""
    memory.record([{"content": "aaa"}, {"content": "poison"}, {"content": "bbb"}])

    assert found(memory, "bbb") == ["user: bbb", "user: aaa"]
    assert "position 2 cannot be embedded" in caplog.text
    assert [episode.content for episode in memory.episodes()] == ["aaa", "poison", "bbb"]
    assert memory.as_of().recall("bbb").hits[0].text == "user: bbb"


def test_a_refused_text_is_tried_again_by_verify(memory: Memory, monkeypatch) -> None:
    """It is found by its words meanwhile; once the model can read it, by its meaning too."""
    memory.record([{"content": "poison ccc"}])
    assert found(memory, "ccc") == ["user: poison ccc"]
    assert memory.recall("ccc").hits[0].parts["similarity"] == 0.0
    assert memory.verify().mended == ()
    monkeypatch.setattr(Letters, "__call__", lambda self, texts: [[1.0] * 8 for _ in texts])

    assert memory.verify().mended == ("1 texts had no vectors",)
    assert memory.recall("ccc").hits[0].parts["similarity"] > 0.0


def test_a_model_that_is_down_is_our_error_and_loses_nothing(
    memory: Memory, letters: Letters
) -> None:
    """Everything told meanwhile is found once it is up again."""
    letters.down = True
    memory.record([{"content": "aaa"}])
    for ask in (lambda: memory.recall("aaa"), memory.flush, memory.as_of().recall):
        with pytest.raises((EmbedderUnavailable, TypeError)):
            ask()
    with pytest.raises(EmbedderUnavailable, match=r"failed \(RuntimeError: it hurts\)"):
        memory.recall("aaa")
    letters.down = False

    assert found(memory, "aaa") == ["user: aaa"]


def test_embedding_a_long_text_can_be_stopped_between_pieces() -> None:
    """Closing waits for a few pieces, not for a megabyte."""
    calls: list[int] = []

    def counted(texts: list[str]) -> list[list[float]]:
        calls.append(len(texts))
        return [[1.0, 2.0] for _ in texts]

    embedder = CallableEmbedder(counted, max_tokens=8)
    calls.clear()
    with pytest.raises(Stopped):
        embedded(
            embedder,
            {TextKey(1, b"i" * 16, "episode"): "One two three. " * 500},
            lambda: len(calls) > 3,
        )

    assert max(calls) <= 32
    assert sum(calls) <= 4 * 32


def test_a_new_model_has_to_work_before_the_old_vectors_go(
    tmp_path: Path, letters: Letters
) -> None:
    """A reindex that fails at once leaves the store as it was."""

    def broken(texts: list[str]) -> list[list[float]]:
        if texts != ["The dimension of this text's vector is measured."]:
            raise RuntimeError("no such model")
        return [[1.0, 2.0]]

    with open_memory(tmp_path, embedding=letters) as memory:
        memory.record([{"content": "aaa"}])
        memory.flush()
    with pytest.raises(EmbedderUnavailable, match="no such model"):
        open_memory(tmp_path, embedding=broken, reindex=True)

    with open_memory(tmp_path, embedding=letters) as memory:
        assert found(memory, "aaa") == ["user: aaa"]
