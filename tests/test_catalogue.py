"""The words and surroundings of all texts: a view that follows the log and can be thrown away."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from recall_echo_core import Memory, open_memory
from recall_echo_core.cataloguing import Cataloguing

if TYPE_CHECKING:
    from conftest import MovableClock

ALONE = {"vectors": {"background": False}}
LINES = [
    ("monday", "I keep a robot called XJ-900 in the shed"),
    ("monday", "Is it dangerous?"),
    ("monday", "No, it only mows the lawn"),
    ("friday", "私の名前は太郎です"),
    ("friday", "Он живёт в Москве"),
    ("friday", "we met at the café"),
]
QUESTIONS = ["XJ-900", "太郎", "Москва", "CAFE\u0301", "lawn robot", "nothing of the sort"]


def letters(texts: list[str]) -> list[list[float]]:
    """Texts of the same letters are near; the meaning of words does not matter here."""
    signs = "abcdefghijklmnopqrstuvwxyz0123456789"
    return [[0.01, *(float(text.casefold().count(sign)) for sign in signs)] for text in texts]


def opened(folder: Path, clock: MovableClock) -> Memory:
    return open_memory(folder, embedding=letters, clock=clock, settings=ALONE)


def tell(memory: Memory) -> None:
    for session, content in LINES:
        memory.record([{"content": content}], session_id=session)
    memory.add_entity("XJ-900", abstract="a robot")
    memory.add_entity("XJ-900", abstract="a lawn mower")
    memory.remember("Ann", "OWNS", "XJ-900")
    memory.retract(str(memory.remember("Ann", "OWNS", "a boat").evidence_id))


def answers(memory: Any) -> list[list[tuple[str, float, dict[str, float]]]]:
    """What is found, in which order, and why."""
    silent = {"record_access": False} if isinstance(memory, Memory) else {}
    return [
        [
            (hit.text, round(hit.score, 9), {k: round(v, 9) for k, v in hit.parts.items()})
            for hit in memory.recall(question, k=20, **silent)
        ]
        for question in QUESTIONS
    ]


def shots(folder: Path) -> list[Path]:
    return sorted(folder.glob("snapshots/*/words/*.snapshot"))


@pytest.fixture
def told(tmp_path: Path, clock: MovableClock, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a memory that was told something, with a snapshot of its catalogue."""
    keep = Cataloguing.keep
    monkeypatch.setattr(Cataloguing, "keep", lambda self, least: keep(self, 1))
    with opened(tmp_path, clock) as memory:
        tell(memory)
        answers(memory)
    assert len(shots(tmp_path)) == 1
    return tmp_path


@pytest.mark.parametrize("question", QUESTIONS[:4])
def test_words_are_found_in_any_script(told: Path, clock: MovableClock, question: str) -> None:
    """Row 20: by the channel of words, whatever the vectors say."""
    with opened(told, clock) as memory:
        first = memory.recall(question, k=1, kinds=["episode"]).hits[0]

    assert first.parts["words"] == 1.0


def test_a_snapshot_is_read_instead_of_the_texts(
    told: Path, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After opening again nothing is read a second time, and the answers are the same."""
    with opened(told, clock) as memory:
        expected = answers(memory)
    read: list[int] = []
    contents = Cataloguing.current.__globals__["contents"]
    monkeypatch.setitem(
        Cataloguing.current.__globals__,
        "contents",
        lambda namespace, batch, **how: (
            read.append(len(batch)) or contents(namespace, batch, **how)
        ),
    )

    with opened(told, clock) as memory:
        assert answers(memory) == expected
        assert read == []
        memory.record([{"content": "one more"}])
        memory.recall("one more")
        assert read == [1]


@pytest.mark.parametrize("fate", ["gone", "cut", "garbled"])
def test_without_its_snapshot_it_is_made_again(told: Path, clock: MovableClock, fate: str) -> None:
    with opened(told, clock) as memory:
        expected = answers(memory)
    [shot] = shots(told)
    content = shot.read_bytes()
    if fate == "gone":
        shot.unlink()
    else:
        shot.write_bytes(content[:-9] if fate == "cut" else content[::-1])

    with opened(told, clock) as memory:
        assert answers(memory) == expected


def test_it_is_the_same_however_often_it_was_brought_up(
    tmp_path: Path, clock: MovableClock
) -> None:
    """Asked after each event, or once at the end; live, or as the past."""
    with opened(tmp_path / "often", clock) as often, opened(tmp_path / "once", clock) as once:
        for memory in (often, once):
            for session, content in LINES:
                memory.record([{"content": content}], session_id=session)
                if memory is often:
                    answers(memory)
            tell(memory)
        assert answers(often) == answers(once)
        assert answers(often.as_of()) == answers(often)


def test_what_is_forgotten_leaves_no_word_behind(told: Path, clock: MovableClock) -> None:
    """The catalogue of a memory that forgot is that of one which never knew."""
    with opened(told, clock) as memory:
        memory.forget(session="friday")
        assert shots(told) == []
        left = answers(memory)

    with opened(told / "other", clock) as other:
        for session, content in LINES[:3]:
            other.record([{"content": content}], session_id=session)
        other.add_entity("XJ-900", abstract="a robot")
        other.add_entity("XJ-900", abstract="a lawn mower")
        other.remember("Ann", "OWNS", "XJ-900")
        other.retract(str(other.remember("Ann", "OWNS", "a boat").evidence_id))
        assert left == answers(other)


def test_words_of_one_namespace_are_not_found_in_another(told: Path, clock: MovableClock) -> None:
    """Row 31, in the channel of words."""
    with opened(told, clock) as memory:
        memory.namespace("other").record([{"content": "XJ-900 is mine"}])
        texts = [text for found in answers(memory) for text, _, _ in found]

    assert texts
    assert not [text for text in texts if "mine" in text]
