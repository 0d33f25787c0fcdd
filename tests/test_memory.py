"""A memory opens, is shared, is closed, and comes back as it was."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from recall_echo_core import Memory, Statement, open_memory
from recall_echo_core.errors import CorruptLog, EmbedderMismatch, StoreClosed, StoreError
from recall_echo_core.upkeep import Stats

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import MovableClock

ALONE = {"vectors": {"background": False}}
FACT: dict[str, Any] = {"subject": "Ann", "type": "LIVES_IN", "object": "Oslo"}


def letters(texts: list[str]) -> list[list[float]]:
    """A model of sorts: texts are near that share letters."""
    return [[text.lower().count(letter) + 0.01 for letter in "abcdefghilmnorstu"] for text in texts]


def vowels(texts: list[str]) -> list[list[float]]:
    """Another model, of another dimension."""
    return [[text.lower().count(letter) + 0.01 for letter in "aeiou"] for text in texts]


def opened(folder: Path, **more: Any) -> Memory:
    return open_memory(folder, **{"embedding": letters, "settings": ALONE, **more})


@pytest.fixture
def memory(tmp_path: Path, clock: MovableClock) -> Iterator[Memory]:
    with opened(tmp_path / "m", clock=clock) as memory:
        yield memory


def log_of(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "log.sqlite3")) as connection, connection:
        connection.execute(statement)


VERBS: list[tuple[str, dict[str, Any]]] = [
    ("beliefs", {"subject": "Ann", "type": "R"}), ("explain", FACT), ("entities", {}),
    ("traverse", {"start": "Ann"}), ("paths", {"start": "Ann", "end": "Oslo"}),
    ("get", {"name": "Ann"}), ("relations", {}), ("episodes", {}), ("recall", {"text": "who?"}),
]  # fmt: skip
TELLING: list[tuple[str, dict[str, Any]]] = [
    ("remember", FACT), ("corroborate", FACT), ("contradict", FACT), ("namespaces", {}),
    ("supersede", {"subject": "Ann", "type": "R", "old": "a", "new": "b"}),
    ("retract", {"evidence_id": "0" * 32}), ("add_entity", {"name": "Ann"}),
    ("record", {"messages": {"content": "hi"}}), ("as_of", {"known_at": "2026-01-01"}),
    ("mark_used", {"recall_id": "0" * 32}), ("feedback_for_run", {"run_id": "r", "score": 1}),
    ("feedback", {"recall_id": "0" * 32, "outcome": 1.0}), ("namespace", {"name": "bob"}),
    ("observe", {"statements": []}), ("stats", {}), ("verify", {}), ("reindex", {}), ("flush", {}),
    ("__enter__", {}),
]  # fmt: skip


def test_after_close_every_verb_says_so(tmp_path: Path) -> None:
    """The memory, its other namespaces and its past; closing again is fine."""
    memory = opened(tmp_path)
    memory.remember(**FACT)
    bob, past = memory.namespace("bob"), memory.as_of("2100-01-01")
    memory.close()
    memory.close()

    for view, verbs in ((memory, VERBS + TELLING), (bob, VERBS + TELLING), (past, VERBS)):
        for verb, given in verbs:
            with pytest.raises(StoreClosed, match="open it again"):
                getattr(view, verb)(**given)


def test_closing_another_namespace_leaves_the_memory_open(memory: Memory) -> None:
    """`with` closes what it opened, also when its body fails."""
    with pytest.raises(KeyError), memory.namespace("bob") as bob:
        bob.remember(**FACT)
        raise KeyError

    with pytest.raises(StoreClosed):
        bob.stats()
    assert memory.namespaces() == ["bob", "default"]
    assert memory.namespace("bob").beliefs("Ann", "LIVES_IN")[0].object == "Oslo"
    assert (memory.name, bob.name, memory.stats().events) == ("default", "bob", 0)


def test_two_handles_share_one_engine(tmp_path, clock) -> None:
    """What one is told the other knows; the last to close closes the files."""
    one = opened(tmp_path, clock=clock)
    two = opened(tmp_path / "x" / "..", clock=clock, settings=None, embedding=None)
    one.remember(**FACT)
    one.close()

    assert two.beliefs("Ann", "LIVES_IN")[0].confidence == 0.9
    two.close()
    with opened(tmp_path, clock=None) as three:  # another clock, now that all are closed
        assert three.stats().events == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"settings": {"graph": {"expansion": {"depth": 2}}}}, "settings"),
        ({"single_valued": ["LIVES_IN"]}, "settings"),
        ({"clock": lambda: None}, "clock"),
        ({"embedding": vowels}, "embedding"),
        ({"reindex": True}, "model"),
    ],
)
def test_opening_it_again_as_something_else_is_refused(memory, tmp_path, more, said) -> None:
    """It says in what they differ; the first handle goes on."""
    with pytest.raises(ValueError, match=f"another {said}; close it first"):
        opened(tmp_path / "m", **more)

    memory.remember(**FACT)
    assert memory.stats().events == 1


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"namespace": ""}, ValueError),
        ({"namespace": 5}, TypeError),
        ({"namespace": "\ud800"}, ValueError),
        ({"embedding": 5}, TypeError),
        ({"single_valued": "LIVES_IN"}, ValueError),
        ({"single_valued": [5]}, TypeError),
        ({"single_valued": [""]}, ValueError),
        ({"settings": {"graph": {"scorin": {}}}}, ValueError),
        ({"unknown": 1}, TypeError),
    ],
)
def test_nothing_is_made_for_what_cannot_be_opened(tmp_path, more, error) -> None:
    """The folder is not even there."""
    with pytest.raises(error):
        opened(tmp_path / "m", **more)

    assert not (tmp_path / "m").exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    """It is refused and left as it was, wherever in the path it stands."""
    path = tmp_path / "file"
    path.write_bytes(b"precious")
    for where in (path, path / "below"):
        with pytest.raises(StoreError, match="cannot be used as a folder"):
            opened(where)

    assert path.read_bytes() == b"precious"


@pytest.mark.parametrize("name", ["m", "with space", "ä?b#c%20&d=e", "a;b'c\"d", ":memory:"])
def test_any_folder_will_do(tmp_path, monkeypatch, name: str) -> None:
    """A tilde is the home folder; the log is in the folder named and nowhere else."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with opened(f"~/{name}") as memory:
        memory.remember(**FACT)

    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name / "log.sqlite3").is_file()


def test_it_comes_back_as_it_was(tmp_path, clock) -> None:
    """From a snapshot, from a damaged one, and from none."""
    said = [Statement(subject=f"S{n % 7}", type="R", object=f"O{n % 50}") for n in range(2_100)]
    with opened(tmp_path, clock=clock) as memory:
        memory.observe(said)
        memory.add_entity("S1", abstract="first")
        known = memory.relations(limit=999), memory.entities(), memory.traverse("S1")
    snapshots = list(tmp_path.glob("snapshots/*/*.snapshot"))
    assert len(snapshots) == 1

    for damage in (None, b"damaged", b""):
        if damage is not None:
            snapshots[0].write_bytes(damage)
        with opened(tmp_path, clock=clock) as memory:
            found = memory.relations(limit=999), memory.entities(), memory.traverse("S1")
            assert found == known
            assert memory.verify().ok


@pytest.mark.parametrize("size", [None, 0, 1, 50, 100, 4_096, 20_000])
def test_a_log_that_is_gone_is_not_replaced_by_an_empty_one(tmp_path, clock, size) -> None:
    """Removed, emptied or cut off: it is an error, and nothing is made anew."""
    with opened(tmp_path, clock=clock) as memory:
        memory.record({"content": "a" * 50_000})
        memory.flush()
    path = tmp_path / "log.sqlite3"
    path.write_bytes(path.read_bytes()[:size]) if size is not None else path.unlink()

    with pytest.raises(StoreError, match=r"log\.sqlite3"):
        opened(tmp_path, clock=clock)
    assert (path.stat().st_size if path.exists() else None) == size


def test_another_model_is_refused_until_all_is_embedded_again(tmp_path, clock) -> None:
    """`reindex=True` takes the new one; what was known stays."""
    with opened(tmp_path, clock=clock) as memory:
        memory.remember(**FACT)
        assert memory.recall("Oslo").hits
    with pytest.raises(EmbedderMismatch, match="vowels"):
        opened(tmp_path, clock=clock, embedding=vowels)

    with opened(tmp_path, clock=clock, embedding=vowels, reindex=True) as memory:
        assert {hit.kind for hit in memory.recall("Oslo")} == {"entity", "relation"}
        assert memory.verify().ok


def test_stats_count_what_there_is(memory: Memory) -> None:
    """Vectors wait until they are brought to the index on disk."""
    memory.remember(**FACT)
    memory.record({"content": "hi"})
    memory.recall("hi", record_access=False)
    model = f"callable:{__name__}.letters"
    assert memory.stats() == Stats(2, 2, 1, 1, indexed=0, waiting=4, model=model)
    memory.flush()
    assert memory.stats() == Stats(2, 2, 1, 1, indexed=4, waiting=0, model=model)
    memory.reindex()
    assert memory.stats() == Stats(2, 2, 1, 1, indexed=4, waiting=0, model=model)


def test_a_damaged_log_is_an_error_each_time_it_is_read(tmp_path, clock) -> None:
    """Also after a fold that was cut short, nothing half folded is shown."""
    with opened(tmp_path, clock=clock) as memory:
        memory.remember(**FACT, observed_at="2026-02-01")
        log_of(tmp_path, "UPDATE events SET payload = x'00' WHERE position = 1")
        for _ in range(2):
            with pytest.raises(CorruptLog, match="position 1"):
                memory.contradict(**FACT, observed_at="2026-01-01")
        with pytest.raises(CorruptLog):
            memory.beliefs("Ann", "LIVES_IN")


def test_damage_and_gaps_are_found_by_verify(tmp_path, clock) -> None:
    """It says where, and changes nothing."""
    with opened(tmp_path, clock=clock) as memory:
        memory.observe([Statement(**FACT)] * 3)
        memory.beliefs("Ann", "LIVES_IN")
        assert memory.verify().ok
        log_of(tmp_path, "DELETE FROM events WHERE position = 2")
        assert "position 2" in memory.verify().problems[0]
        log_of(tmp_path, "UPDATE events SET kind = 'entity' WHERE position = 3")
        found = memory.verify()

        assert not found.ok
        assert "damaged at position 3" in found.problems[0]
        log_of(tmp_path, "DELETE FROM events")
        assert "lacks 3 events, the first at position 1" in memory.verify().problems[0]


def test_a_text_that_went_missing_under_us_is_a_damaged_log(tmp_path, clock) -> None:
    """Longer texts are read when asked for, perhaps long after the log was opened."""
    with opened(tmp_path, clock=clock) as memory:
        memory.record({"content": "hi"})
        memory.add_entity("Ann", overview="long")
        memory.recall("hi", record_access=False)
        log_of(tmp_path, "DELETE FROM events")
        for verb, given in VERBS:
            if verb in ("episodes", "get", "entities", "recall"):
                with pytest.raises(CorruptLog, match=r"position [12]"):
                    getattr(memory, verb)(**given)


def test_a_head_that_was_set_back_is_a_damaged_log(tmp_path, clock) -> None:
    """Events past it are not passed over in silence."""
    with opened(tmp_path, clock=clock) as memory:
        memory.remember(**FACT)
    log_of(tmp_path, "UPDATE namespaces SET head = 0")

    with opened(tmp_path, clock=clock) as memory:
        assert not memory.verify().ok


def test_an_embedding_of_another_kind_is_passed_over(tmp_path, clock) -> None:
    """It costs a vector at most."""
    with opened(tmp_path, clock=clock) as memory:
        memory.remember(**FACT)
        memory.recall("Oslo", record_access=False)
    log_of(tmp_path, "UPDATE embeddings SET kind = 'entity' WHERE kind = 'relation'")

    with opened(tmp_path, clock=clock) as memory:
        assert memory.recall("Oslo", record_access=False).hits
