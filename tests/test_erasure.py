"""What was forgotten is nowhere any more: in no file, in no answer, in no number."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import struct
import subprocess
import sys
import threading
import time
import unicodedata
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from recall_echo_core import Memory, Statement, open_memory
from recall_echo_core.errors import (
    CorruptLog,
    StoreErased,
    UnknownEntity,
    UnknownRelation,
)
from recall_echo_core.stores.callable import CallableEmbedder
from recall_echo_core.stores.chroma import ChromaFolder
from recall_echo_core.stores.erasing import blank, drop_namespace, finished, unfinished
from recall_echo_core.stores.snapshots import MAGIC
from recall_echo_core.stores.sql import SqlLog

if TYPE_CHECKING:
    from conftest import MovableClock

TESTS = Path(__file__).parent
DIMENSION = 64
STEM = "quuxzal"
CANARY = "Quuxzalïn"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ALONE: dict[str, Any] = {"vectors": {"background": False}}  # no thread of its own
SOON = 15.0  # seconds that a test waits for what takes one or two


def by_words(texts: list[str]) -> list[list[float]]:
    """Texts that share words, in the same case, are near."""
    rows = [[0.01] * DIMENSION for _ in texts]
    for row, text in zip(rows, texts, strict=True):
        for word in set(re.findall(r"\w+", text)):
            digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
            row[digest[0] % DIMENSION] += 1.0 + digest[1] / 256
            row[digest[2] % DIMENSION] -= 0.5 + digest[3] / 256
    return rows


def model() -> CallableEmbedder:
    return CallableEmbedder(by_words, model_id="words")


def opened(folder: Path, namespace: str = "default", **more: Any) -> Memory:
    """The memory in a folder, at a noon that stands still."""
    given = {"clock": noon, "settings": ALONE, "single_valued": {"LIVES_IN"}} | more
    return open_memory(folder, namespace=namespace, embedding=model(), **given)


def noon() -> datetime:
    return NOON


# Looking for traces


def spellings(word: str) -> set[bytes]:
    """A word in every encoding a file might hold it in; the files are read in lower case, too."""
    forms = {word, word.lower(), word.upper(), word.casefold(), unicodedata.normalize("NFD", word)}
    found: set[bytes] = set()
    for form in forms:
        found |= {form.encode(code) for code in ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le")}
        found.add(json.dumps(form).strip('"').encode())
    return found


def contents(folder: Path, *, spare: bool = False) -> Iterator[tuple[str, bytes]]:
    """Every file in a folder, snapshots as they are and unpacked.

    Without `spare`, a file of a graph ends after its last record; see the test of that.
    """
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            if path.name in ("data_level0.bin", "length.bin") and not spare:
                count, size = struct.unpack_from(
                    "<QQ", path.with_name("header.bin").read_bytes(), 20
                )
                data = data[: count * (4 if path.name == "length.bin" else size)]
            name = str(path.relative_to(folder))
            yield name, data
            if data.startswith(MAGIC):
                yield f"{name} unpacked", zlib.decompress(data[len(MAGIC) + 32 :])


def worded(folder: Path, word: str = STEM) -> set[str]:
    """The files that hold a word, whatever its encoding and case."""
    needles = spellings(word) | (spellings(CANARY) if word == STEM else set())
    return {
        name
        for name, data in contents(folder)
        for content in (data, data.lower())
        if any(needle in content for needle in needles) or word in name.lower()
    }


def vectored(
    folder: Path, texts: list[str], embed: Any = by_words, *, spare: bool = False
) -> set[str]:
    """The files that hold, at any byte, numbers whose cosine to a text's vector is above .99."""
    vectors = _directions(embed(texts))
    return {
        name
        for name, data in contents(folder, spare=spare)
        if any(_near(data[start:], vectors) for start in range(4))
    }


def _directions(vectors: Any) -> np.ndarray:
    rows = np.asarray(vectors, dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _near(data: bytes, vectors: np.ndarray) -> bool:
    floats = np.frombuffer(data[: len(data) // 4 * 4], dtype="<f4")
    floats = np.where(np.abs(floats) < 1e6, floats, 0.0).astype(np.float32)  # NaN is not below
    length = vectors.shape[1]
    for start in range(0, len(floats) - length + 1, 20_000):
        part = floats[start : start + 20_000 + length - 1]
        windows = np.lib.stride_tricks.sliding_window_view(part, length)
        norms = np.linalg.norm(windows, axis=1, keepdims=True)
        with np.errstate(over="ignore"):
            if (windows @ vectors.T > 0.99 * np.maximum(norms, 1e-6)).any():
                return True
    return False


def kept_vectors(folder: Path) -> np.ndarray:
    """What is in the table of embeddings, as a database gives it."""
    with closing(sqlite3.connect(folder / "log.sqlite3")) as log:
        rows = [row[0] for row in log.execute("select vector from embeddings")]
    size = 4 * DIMENSION
    return np.array([np.frombuffer(row[:size], dtype="<f4") for row in rows]).reshape(-1, DIMENSION)


# What is told


def tell_others(memory: Memory) -> str:
    """What nobody forgets: of each verb something; return the id of an episode."""
    memory.add_entity("Ann", kind="person", abstract="a painter", metadata={"born": 1990})
    memory.add_entity("Oslo", overview="a town", content="a town by a fjord")
    (episode,) = memory.record({"content": "Ann paints at night", "id": 1}, session_id="monday")
    memory.remember("Ann", "LIVES_IN", "Oslo", episode_id=episode)
    memory.remember("Ann", "LIKES", "tea", statement_id="tea", metadata={"hot": True})
    memory.corroborate("Ann", "LIKES", "tea", source="tool", weight=0.5)
    memory.contradict("Ann", "LIKES", "milk")
    memory.supersede("Bob", "WORKS_AT", "Acme", "Initech", at="2026-02-01")
    taken = memory.remember("Bob", "LIKES", "tea")
    memory.retract(str(taken.evidence_id))
    memory.observe([Statement(subject="Bob", type="KNOWS", object="Ann", weight=0.25)])
    return episode


def tell(memory: Memory, selector: str) -> dict[str, Any]:
    """The canary, through every verb that `selector` reaches; return what forgets it."""
    if selector == "relation":
        about = (CANARY, f"{CANARY}S", f"of {CANARY}")
        for number in range(3):
            memory.remember(
                *about, source=CANARY, statement_id=f"{CANARY} {number}", metadata={CANARY: CANARY}
            )
        memory.contradict(*about, source=CANARY)
        memory.corroborate(*about)
        return {"relation": about}
    count = 1 if selector == "episode" else 2
    ids = memory.record(
        [
            {
                "content": f"{CANARY} sang in Oslo, {number}",
                "role": CANARY,
                "name": CANARY,
                "id": f"{CANARY} {number}",
                "metadata": {"who": [CANARY], CANARY: {"deep": NOON}},
            }
            for number in range(count)
        ],
        session_id=CANARY,
    )
    given: dict[str, Any] = {"source": CANARY, "episode_id": ids[0], "metadata": {"by": CANARY}}
    memory.remember("ANN", "knows", CANARY, statement_id=CANARY, **given)
    memory.remember("Ann", "LIVES_IN", CANARY, **given)
    memory.corroborate(CANARY, "LIKES", "tea", **given)
    memory.contradict(CANARY, f"{CANARY}S", f"opera of {CANARY}", **given)
    memory.supersede(CANARY, "LIVES_IN", "Oslo", "Rome", at="2026-02-01", **given)
    taken = memory.remember(CANARY, "LIKES", "milk", **given)
    memory.retract(str(taken.evidence_id))
    memory.observe([Statement(subject="Bob", type="KNOWS", object=CANARY, **given)])
    memory.add_entity(
        CANARY, kind=CANARY, abstract=f"{CANARY}, a singer", overview=CANARY, content=CANARY,
        metadata={"name": CANARY},
    )  # fmt: skip
    return {
        "entity": {"entity": CANARY},
        "session": {"session": CANARY},
        "source": {"source": CANARY},
        "episode": {"episode": ids[0]},
        "everything": {"everything": True},
    }[selector]


def turn(memory: Memory, selector: str = "") -> str:
    """Recall everything there is, and say what it was good for."""
    found = memory.recall("what does Ann like in Oslo", k=1_000, run_id="a run")
    useful = ("ann likes tea", "oslo")
    memory.mark_used(found.id, used=[hit.id for hit in found if hit.text.lower() in useful])
    memory.feedback(found.id, "success")
    if selector in ("source", "everything"):
        memory.feedback(found.id, 0.25, source=CANARY)
    return str(found.id)


def texts_of(memory: Memory) -> list[str]:
    """Every text about the canary that has vectors."""
    found = memory.recall(CANARY, k=1_000, record_access=False)
    return [hit.text for hit in found if STEM in hit.text.lower()]


def answers(memory: Memory) -> dict[str, Any]:
    """All that can be asked; ids left out, since they differ between memories."""
    past = memory.as_of("2026-03-02", valid_at="2026-01-15")
    known = [entity.name for entity in memory.entities(limit=1_000)]
    return {
        "relations": [_of_relation(relation) for relation in memory.relations(limit=1_000)],
        "past": [_of_relation(relation) for relation in past.relations(limit=1_000)],
        "entities": [
            (e.name, e.kind, e.abstract, e.overview, e.content, e.metadata, e.utility, e.accesses)
            for e in memory.entities(limit=1_000)
        ],
        "episodes": [(e.content, e.speaker, e.session_id) for e in memory.episodes(limit=1_000)],
        "beliefs": [
            (b.object, b.probability, b.effective)
            for view in (memory, past)
            for name in known
            for type in ("LIVES_IN", "LIKES", "KNOWS", "WORKS_AT")
            for b in view.beliefs(name, type)
        ],
        "reach": [(r.entity.name, r.confidence) for n in known for r in memory.traverse(n, 3)],
        "why": [
            [(move.reason, move.statement, move.alpha, move.beta) for move in why.moves]
            for r in memory.relations(limit=1_000)
            for why in [memory.explain(r.subject, r.type, r.object)]
        ],
    }


def _of_relation(relation: Any) -> tuple[Any, ...]:
    return (
        relation.text, relation.type, relation.alpha, relation.beta, relation.context,
        relation.source, relation.supports, relation.opposes, relation.valid_from,
        relation.valid_until, relation.reinforced_at, relation.established_at,
    )  # fmt: skip


def hits(memory: Memory, question: str) -> dict[str, Any]:
    """The score of everything there is, by text."""
    found = memory.recall(question, k=1_000, record_access=False)
    return {hit.text: pytest.approx(hit.score, abs=1e-5) for hit in found}


def assert_unknown(memory: Memory) -> None:
    """No verb says anything of the canary."""
    everything = answers(memory), memory.stats(), memory.verify(), memory.namespaces()
    assert STEM not in repr(everything).lower()
    past = memory.as_of("2026-03-01T12:00")
    for view in (memory, past):
        for question in (CANARY, f"{CANARY} sang in Oslo, 0", f"{CANARY}: {CANARY}, a singer"):
            assert STEM not in repr(view.recall(question, k=1_000)).lower()
        assert view.beliefs(CANARY, "LIKES") == []
        assert view.relations(CANARY) == view.episodes(CANARY) == view.entities(CANARY) == []
        for name in (CANARY, "Quuxzali"):
            with pytest.raises(UnknownEntity) as unknown:
                view.get(name)
            assert unknown.value.known == ()
            with pytest.raises(UnknownEntity):
                view.traverse(name)
            with pytest.raises(UnknownEntity):
                view.paths("Ann", name)
        for triple in ((CANARY, "LIKES", "tea"), ("Ann", "KNOWS", CANARY)):
            with pytest.raises(UnknownRelation):
                view.explain(*triple)


def told(memory: Memory, selector: str) -> tuple[dict[str, Any], list[str]]:
    """Tell everything, use it, and bring it to every file; return what forgets it, and texts."""
    tell_others(memory)
    selection = tell(memory, selector)
    turn(memory, selector)
    texts = texts_of(memory)
    memory.flush()
    memory.recall(CANARY)  # a receipt that still waits
    memory._room.namespace.snapshot(least=1)
    return selection, texts


SELECTORS = ["entity", "relation", "session", "source", "episode", "everything"]


@pytest.mark.parametrize("selector", SELECTORS)
def test_what_was_forgotten_is_found_nowhere(tmp_path: Path, selector: str) -> None:
    """In no file in any encoding, as no vector, by no verb: at once, reindexed, and reopened."""
    folder = tmp_path / "memory"
    namespace = CANARY if selector == "everything" else "default"
    with opened(folder, namespace) as memory:
        selection, texts = told(memory, selector)
        # What is looked for below can be found where it is.
        files, vectors = worded(folder), vectored(folder, texts)
        assert any(name.startswith("log.sqlite3") for name in files)
        assert any(name.endswith("unpacked") for name in files)
        assert any(name.startswith("log.sqlite3") for name in vectors)
        assert any(name.endswith("chroma.sqlite3") for name in vectors)

        receipt = memory.forget(**selection)

        assert receipt.status == "complete"
        assert receipt.events > 4
        assert (worded(folder), vectored(folder, texts)) == (set(), set())
        if selector == "everything":
            assert memory.namespace("default").namespaces() == ["default"]
            memory = memory.namespace("default")
            tell_others(memory)
        assert_unknown(memory)
        memory.reindex()
        assert_unknown(memory)
    with opened(folder) as memory:
        assert_unknown(memory)
        memory.flush()
        assert (worded(folder), vectored(folder, texts)) == (set(), set())
    assert (_directions(kept_vectors(folder)) @ _directions(by_words(texts)).T).max() < 0.99


def test_a_graph_of_vectors_is_begun_anew(tmp_path: Path) -> None:
    """Of more than a thousand vectors Chroma makes a graph in a file of its own."""
    with opened(tmp_path) as memory:
        memory.observe(Statement(subject="Ann", type="SAW", object=f"{n}") for n in range(1_100))
        selection, texts = told(memory, "entity")
        assert any(name.endswith("data_level0.bin") for name in vectored(tmp_path, texts))

        assert memory.forget(**selection).status == "complete"
        memory.flush()
        assert memory.stats().indexed > 2_200
        assert vectored(tmp_path, texts) == set()


def test_a_new_graph_holds_nothing_but_its_records(tmp_path: Path) -> None:
    """Room for records to come is written to disk, too, and must not hold what memory held."""
    rows = np.random.default_rng(1).normal(size=(200, DIMENSION)).astype(np.float32)
    for number in range(20):
        with closing(ChromaFolder(tmp_path, DIMENSION, identity=f"{number}")) as folder:
            folder.index("episode").upsert([f"k{n}" for n in range(200)], rows)
            folder.index("episode").search(rows[0], 5)
            spare = [
                data[len(records) :]
                for (_, data), (_, records) in zip(
                    contents(tmp_path, spare=True), contents(tmp_path), strict=True
                )
            ]

            assert not any(any(data) for data in spare)


@pytest.mark.parametrize("selector", SELECTORS[:-1])
def test_every_number_is_as_if_it_had_never_been_told(tmp_path: Path, selector: str) -> None:
    """Posteriors, utility, accesses, and answers equal those of a memory told all the rest."""
    with opened(tmp_path / "never") as never, opened(tmp_path / "forgot") as forgot:
        if selector == "source":  # which was the first to spell some names
            selection = tell(forgot, selector)
        for memory in (never, forgot):
            tell_others(memory)
        if selector != "source":
            selection = tell(forgot, selector)
        for memory in (never, forgot):
            turn(memory, selector if memory is forgot else "")
            memory.flush()
        assert answers(never) != answers(forgot)

        forgot.forget(**selection)

        for again in range(2):
            for question in ("who likes tea", "Ann paints at night", "a singer"):
                assert hits(forgot, question) == hits(never, question), again
            assert answers(forgot) == answers(never)
            assert [e.accesses for e in forgot.entities()] == [1] * len(forgot.entities())
            forgot.reindex()


@pytest.mark.parametrize("selector", SELECTORS[:-1])
def test_receipts_stand_and_can_still_be_judged(tmp_path: Path, selector: str) -> None:
    """A verdict on a recall of before credits the hits that are left, and only these."""
    with opened(tmp_path) as memory:
        tell_others(memory)
        selection = tell(memory, selector)
        found = memory.recall("Ann and the singer", k=1_000, run_id="a run")
        memory.forget(**selection)
        usage = memory.mark_used(found.id, response="She likes tea [M1], [M2], [M3], [M4]")
        memory.feedback_for_run("a run", 1.0)

        left = {hit.id for hit in memory.recall("Ann", k=1_000, record_access=False)}
        assert usage.used
        assert set(usage.used) <= left
        assert all(entity.accesses == 1 for entity in memory.entities())


def test_the_default_model_finds_nothing_either(tmp_path: Path, no_network: list[str]) -> None:
    """Row 28: searched for by its exact text, after forgetting and after reopening, it is gone."""
    text = f"{CANARY} sang an aria at the opera in Oslo last night"
    with open_memory(tmp_path, clock=noon) as memory:
        (id,) = memory.record({"content": text}, session_id="monday")
        memory.record({"content": "The weather in Oslo was mild"})
        memory.remember("Ann", "LIKES", "tea")
        memory.flush()
        embed = memory._engine.embedder.embed
        assert memory.recall(text, k=1).hits[0].id == id
        assert vectored(tmp_path, [f"user: {text}"], embed)

        memory.forget(session="monday")

        assert [h.text for h in memory.recall(text) if STEM in h.text.lower() or h.id == id] == []
        assert (worded(tmp_path), vectored(tmp_path, [f"user: {text}"], embed)) == (set(), set())
    with open_memory(tmp_path, clock=noon) as memory:
        assert id not in {hit.id for hit in memory.recall(text)}
        assert len(memory.recall(text)) > 0
        assert vectored(tmp_path, [f"user: {text}"], embed) == set()


def test_a_namespace_forgotten_leaves_no_hit_in_graph_or_search(tmp_path: Path) -> None:
    """Row 27: deleting everything of one user empties graph, search, history, and the folder."""
    with opened(tmp_path, "ann") as memory:
        told(memory, "entity")
        kinds = memory.stats()
        receipt = memory.forget(everything=True)

        assert receipt.events == kinds.events
        assert (receipt.entities, receipt.episodes) == (3, 3)
        assert receipt.evidence == 8 + 8
        assert memory.namespace("other").namespaces() == ["other"]
        assert not any(CANARY in hit.text for hit in memory.recall(CANARY, k=100))
        assert memory.stats().entities == memory.stats().relations == 0
        assert memory.as_of("2026-03-02").entities() == []
        assert worded(tmp_path) == worded(tmp_path, "ann paints") == set()


def test_the_only_source_of_an_entity_takes_it_whole(tmp_path: Path) -> None:
    """Row 29: node, description, neighbours' sight of it, and what use it was: all go with it."""
    with opened(tmp_path) as memory:
        tell_others(memory)
        memory.remember("Ann", "TRUSTS", CANARY, source="tool:crm")
        memory.add_entity(CANARY, abstract=f"{CANARY} is a spy", content="secret")
        turn(memory)
        assert memory.get(CANARY).accesses == 1

        memory.forget(source="tool:crm")

        with pytest.raises(UnknownEntity):
            memory.get(CANARY)
        assert STEM not in repr([r.entity for r in memory.traverse("Ann")]).lower()
        assert worded(tmp_path) == set()
        memory.add_entity(CANARY)
        assert (memory.get(CANARY).accesses, memory.get(CANARY).utility) == (0, 0.5)


def test_the_same_text_of_somebody_else_stays(tmp_path: Path) -> None:
    """Erasing one user's text leaves another's identical text, its vector and numbers, intact."""
    with opened(tmp_path, "ann") as ann:
        bob = ann.namespace("bob")
        for memory in (ann, bob):
            selection, texts = told(memory, "entity")
        before, found = answers(bob), hits(bob, CANARY)
        ann.forget(**selection)

        assert answers(bob) == before
        assert hits(bob, CANARY) == found
        assert any(STEM in text.lower() for text in found)
        seen = ann.recall(CANARY, k=1_000)
        assert STEM not in repr(seen).lower()
        bob.forget(**selection)
        assert (worded(tmp_path), vectored(tmp_path, texts)) == (set(), set())


def test_what_was_forgotten_can_be_told_again(tmp_path: Path) -> None:
    """Under the same statement and message ids it counts as new, from the prior on."""
    with opened(tmp_path) as memory:
        for _ in range(2):
            message = {"content": f"{CANARY} sang", "id": 7}
            (episode,) = memory.record(message, session_id="monday")
            given: dict[str, Any] = {"statement_id": "s", "episode_id": episode}
            memory.remember(CANARY, "LIKES", "tea", **given)
            again = memory.remember(CANARY, "LIKES", "tea", **given)

            assert (again.alpha, again.beta, again.supports) == (9.0, 1.0, 1)
            assert len(memory.episodes("monday")) == 1
            assert memory.get(CANARY).accesses == 0
            assert {hit.text for hit in memory.recall(CANARY)} > {f"{CANARY} likes tea"}
            memory.forget(session="monday")


class TestTheReceipt:
    def test_it_counts_what_went_and_what_still_names_it(self, tmp_path: Path) -> None:
        """Events by kind, and texts of others that only their owner can judge."""
        with opened(tmp_path) as memory:
            tell_others(memory)
            memory.remember("Ann", "KNOWS", CANARY)
            memory.add_entity(CANARY, abstract="a singer")
            memory.add_entity("Eve", abstract=f"taught by {CANARY}")
            memory.remember("Bob", "LIKES", "opera", source=f"{CANARY} herself")
            memory.record([{"content": f"I met {CANARY.upper()}"}, {"content": "I met nobody"}])
            events = memory.stats().events
            receipt = memory.forget(entity=CANARY.lower())

            assert (receipt.events, receipt.entities, receipt.evidence, receipt.episodes) == (
                (3, 1, 1, 1)
            )
            assert (receipt.mentions, receipt.status) == (2, "complete")
            assert memory.stats().events == events

    @pytest.mark.parametrize(
        "selection",
        [
            {"entity": "nobody"}, {"relation": ("Ann", "HATES", "tea")}, {"session": "friday"},
            {"source": "nobody"}, {"episode": "0" * 32},
        ],
        ids=lambda selection: next(iter(selection)),
    )  # fmt: skip
    def test_of_the_unknown_nothing_goes(self, tmp_path: Path, selection: Any) -> None:
        """It says 0 and complete, and leaves answers, log and files as they are."""
        with opened(tmp_path) as memory:
            tell_others(memory)
            memory.flush()
            before, files = answers(memory), dict(contents(tmp_path))
            receipt = memory.forget(**selection)

            assert receipt == type(receipt)(0, 0, 0, 0, 0, "complete")
            assert dict(contents(tmp_path)) == files
            assert answers(memory) == before

    def test_keeping_episodes_keeps_their_text(self, tmp_path: Path) -> None:
        """The entity goes, what was said verbatim stays, findable, and is counted."""
        with opened(tmp_path) as memory:
            memory.record([{"content": f"{CANARY} sang"}])
            memory.remember(CANARY, "LIKES", "tea")
            receipt = memory.forget(entity=CANARY, episodes="keep")

            assert (receipt.evidence, receipt.episodes, receipt.mentions) == (1, 0, 1)
            assert [hit.text for hit in memory.recall(CANARY)] == [f"user: {CANARY} sang"]

    @pytest.mark.parametrize(
        "selection",
        [
            {}, {"entity": "Ann", "session": "monday"}, {"everything": True, "source": "user"},
            {"everything": False}, {"entity": ""}, {"entity": " "}, {"session": ""},
            {"source": " "}, {"episode": "not an id"}, {"relation": ("Ann", "LIKES")},
            {"relation": "Ann"}, {"relation": ("Ann", "", "tea")},
            {"entity": "Ann", "episodes": "some"}, {"entity": "half \ud800"},
        ],
        ids=str,
    )  # fmt: skip
    def test_what_is_no_selection_is_refused(self, tmp_path: Path, selection: Any) -> None:
        """None, two, or a malformed selector is a `ValueError`, and nothing is forgotten."""
        with opened(tmp_path) as memory:
            tell_others(memory)
            before = answers(memory)
            with pytest.raises(ValueError, match=r"\w"):
                memory.forget(**selection)

            assert answers(memory) == before

    @pytest.mark.parametrize("selector", ["entity", "session", "source", "episode", "relation"])
    def test_what_is_no_text_is_refused(self, tmp_path: Path, selector: str) -> None:
        """A number is no name."""
        with opened(tmp_path) as memory, pytest.raises((TypeError, ValueError)):
            memory.forget(**{selector: 7})

    def test_the_entity_of_another_namespace_is_refused(self, tmp_path: Path) -> None:
        """Its id means nothing here; saying so beats forgetting somebody of the same name."""
        with opened(tmp_path, "ann") as ann:
            bob = ann.namespace("bob")
            ann.remember("Eve", "LIKES", "tea")
            bob.remember("Eve", "LIKES", "tea")

            with pytest.raises(ValueError, match="another namespace"):
                bob.forget(entity=ann.get("Eve"))
            assert bob.forget(entity=bob.get("Eve")).evidence == 1

    def test_a_damaged_namespace_can_be_forgotten_whole_only(self, tmp_path: Path) -> None:
        """What a damaged log says cannot be told apart any more, but all of it can go."""
        with opened(tmp_path) as memory:
            told(memory, "entity")
        with closing(sqlite3.connect(tmp_path / "log.sqlite3")) as log:
            log.execute("update events set payload = x'00' where position = 5")
            log.commit()
        with opened(tmp_path) as memory:
            with pytest.raises(CorruptLog):
                memory.forget(entity=CANARY)
            assert worded(tmp_path)

            assert memory.forget(everything=True).status == "complete"
            assert worded(tmp_path) == set()


# Other threads, other processes


class Other:
    """Another process: runs code with `folder`, `say` and `wait`; `wait()` ends at `go()`."""

    def __init__(self, code: str, folder: Path) -> None:
        start = (
            "import os, sqlite3, sys\n"
            f"sys.path.insert(0, {str(TESTS)!r})\n"
            "from pathlib import Path\n"
            "from test_erasure import *\n"
            "folder = Path(sys.argv[1])\n"
            "def say(word): print(word, flush=True)\n"
            "def wait():\n"
            "    say('waiting')\n"
            "    sys.stdin.readline()\n"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", start + code, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)])},
        )

    def until_waiting(self) -> list[str]:
        """What it said until it waited, or ended."""
        assert self.process.stdout is not None
        said: list[str] = []
        for line in self.process.stdout:
            if line.strip() == "waiting":
                break
            said.append(line.strip())
        return said

    def go(self) -> list[str]:
        """Let it go on; return what it says until it waits again, or ends."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.until_waiting()


@contextmanager
def other(code: str, folder: Path) -> Iterator[Other]:
    """Another process, waiting for the first time."""
    running = Other(code, folder)
    try:
        running.until_waiting()
        yield running
    finally:
        running.process.kill()
        running.process.communicate()


OLD_READER = """
log = sqlite3.connect(folder / "log.sqlite3")
log.execute("begin")
log.execute("select count(*) from events").fetchone()
wait()
"""


@pytest.mark.parametrize("selector", ["entity", "everything"])
def test_with_a_reader_of_an_older_state_it_says_incomplete(tmp_path: Path, selector: str) -> None:
    """Within seconds; no verb knows it any more; the next opening without the reader finishes."""
    with opened(tmp_path, CANARY) as memory:
        selection, texts = told(memory, selector)
        with other(OLD_READER, tmp_path) as reader:
            began = time.monotonic()
            receipt = memory.forget(**selection)
            took = time.monotonic() - began
            if selector == "entity":
                seen = memory.recall(CANARY, k=1_000)
                assert STEM not in repr(seen).lower()
            assert worded(tmp_path, "a singer")
            assert reader.process.poll() is None
    assert receipt.status == "incomplete"
    assert took < SOON

    with opened(tmp_path) as memory:
        found = worded(tmp_path) if selector == "everything" else worded(tmp_path, "a singer")
        assert (found, vectored(tmp_path, texts)) == (set(), set())
        assert unfinished(memory._engine.log) is None


def test_the_next_call_finishes_too(tmp_path: Path) -> None:
    """Once the reader is gone, forgetting anything, even the unknown, cleans up what was left."""
    with opened(tmp_path) as memory:
        selection, _ = told(memory, "entity")
        with other(OLD_READER, tmp_path):
            assert memory.forget(**selection).status == "incomplete"

        assert memory.forget(source="nobody").status == "complete"
        assert worded(tmp_path) == set()


IN_USE = f"""
memory = opened(folder)
memory.flush()
say(any("{STEM}" in hit.text.lower() for hit in memory.recall("{CANARY}", record_access=False)))
wait()
found = memory.recall("{CANARY} likes tea", k=1000)
say([hit.text for hit in found if "{STEM}" in repr(hit).lower()])
say(sorted(hit.text for hit in found) == sorted(hits(memory, "tea")))
wait()
memory.close()
say("closed")
wait()
"""


def test_a_process_that_has_it_open_notices_with_its_next_call(tmp_path: Path) -> None:
    """Though its index held the vectors: it answers right, and its files hold nothing after."""
    with opened(tmp_path) as memory:
        selection, texts = told(memory, "entity")
    with other(IN_USE, tmp_path) as user, opened(tmp_path) as memory:
        receipt = memory.forget(**selection)
        assert receipt.status == "incomplete"  # the other has the vectors open
        assert vectored(tmp_path, texts)

        assert user.go() == ["[]", "True"]
        assert (worded(tmp_path), vectored(tmp_path, texts)) == (set(), set())
        assert user.go() == ["closed"]
        assert memory.forget(source="nobody").status == "complete"
        assert_unknown(memory)
        assert (worded(tmp_path), vectored(tmp_path, texts)) == (set(), set())


IDLE = """
memory = opened(folder)
say(len(memory.beliefs("Ann", "LIKES")))
wait()
memory.close()
wait()
"""


def test_a_process_that_only_closes_brings_nothing_back(tmp_path: Path) -> None:
    """What it had in memory, and would have kept as a snapshot, was forgotten by another."""
    with opened(tmp_path) as memory:
        selection, texts = told(memory, "entity")
        memory.observe(Statement(subject="Ann", type="SAW", object=f"{n}") for n in range(2_100))
        memory._engine.drop_snapshots()
        with other(IDLE, tmp_path) as idle:
            assert memory.forget(**selection).status == "complete"
            idle.go()

            assert (worded(tmp_path), vectored(tmp_path, texts)) == (set(), set())


FORGOTTEN_MEANWHILE = f"""
memory = opened(folder, "{CANARY}")
memory.recall("{CANARY}")
wait()
try:
    memory.beliefs("Ann", "LIKES")
except StoreErased:
    say("erased")
say(len(memory.entities()))
wait()
"""


def test_a_process_whose_namespace_went_says_so_once(tmp_path: Path) -> None:
    """`StoreErased` on its next call; asked again, it begins anew with nothing."""
    with opened(tmp_path, CANARY) as memory:
        _, texts = told(memory, "everything")
        with other(FORGOTTEN_MEANWHILE, tmp_path) as user:
            memory.forget(everything=True)
            assert user.go() == ["erased", "0"]

        assert vectored(tmp_path, texts) == set()
        assert memory.namespace("default").forget(source="nobody").status == "complete"


WAITING_RECEIPT = f"""
memory = opened(folder)
found = memory.recall("{CANARY}", k=1000)
wait()
memory.flush()
say("flushed")
wait()
"""


def test_receipts_that_wait_in_another_process_lose_the_hits_too(tmp_path: Path) -> None:
    """Told anew, what was forgotten has been recalled by nobody."""
    with opened(tmp_path) as memory:
        selection, _ = told(memory, "entity")
        with other(WAITING_RECEIPT, tmp_path) as user:
            memory.forget(**selection)
            assert user.go() == ["flushed"]
        memory.add_entity(CANARY)

        assert memory.get(CANARY).accesses == 0
        assert memory.get("Ann").accesses == 3


CRASHING = """
from recall_echo_core import erasure
from recall_echo_core.stores import erasing
def crash(*args, **more):
    os._exit(9)
point, selection = sys.stdin.readline().split(" ", 1)
vars({"erasure": erasure, "erasing": erasing}[point.split(".")[0]])[point.split(".")[1]] = crash
memory = opened(folder)
memory.recall("tea")
memory.forget(**eval(selection))
"""


@pytest.mark.parametrize("selector", ["entity", "everything"])
@pytest.mark.parametrize("point", ["erasure.finish", "erasing.scrub", "erasing.finished"])
def test_a_crash_half_way_is_finished_by_the_next_opening(
    tmp_path: Path, selector: str, point: str
) -> None:
    """Between the transaction, the views, the rebuilt file and the note, whatever was done."""
    with opened(tmp_path) as memory:
        selection, texts = told(memory, selector)
    crashed = Other(CRASHING, tmp_path)
    crashed.process.communicate(f"{point} {selection!r}\n", timeout=60)
    assert crashed.process.returncode == 9
    if point == "erasure.finish":
        assert worded(tmp_path)

    with opened(tmp_path) as memory:
        assert (worded(tmp_path), vectored(tmp_path, texts)) == (set(), set())
        assert unfinished(memory._engine.log) is None
        if selector == "everything":
            tell_others(memory)
        assert_unknown(memory)


@pytest.mark.parametrize("selector", ["entity", "everything"])
def test_a_crash_before_the_end_of_the_transaction_forgets_nothing(
    tmp_path: Path, selector: str
) -> None:
    """All is as it was, and can be forgotten then."""
    with opened(tmp_path) as memory:
        selection, texts = told(memory, selector)
        before = answers(memory)
    crashed = Other(CRASHING, tmp_path)
    crashed.process.communicate(f"erasing._note_unfinished {selection!r}\n", timeout=60)
    assert crashed.process.returncode == 9

    with opened(tmp_path) as memory:
        now = answers(memory)
        assert now["relations"] == before["relations"]
        assert now["episodes"] == before["episodes"]
        assert memory.verify().ok
        assert memory.forget(**selection).status == "complete"
        assert (worded(tmp_path), vectored(tmp_path, texts)) == (set(), set())


def test_it_can_be_forgotten_while_others_use_the_memory(tmp_path: Path) -> None:
    """Threads that write, recall and judge see no error, and bring nothing of it back."""
    with opened(tmp_path, settings={}) as memory:
        selection, texts = told(memory, "entity")
        stop = threading.Event()

        def work(number: int) -> int:
            turns = 0
            while not stop.is_set():
                memory.remember("Ann", "SAW", f"thing {number} {turns}")
                found = memory.recall(f"{CANARY} likes tea")
                memory.mark_used(found.id, response="tea")
                turns += 1
            return turns

        with ThreadPoolExecutor(3) as pool:
            working = [pool.submit(work, number) for number in range(3)]
            time.sleep(0.3)
            status = memory.forget(**selection).status
            stop.set()
            turns = [job.result(SOON) for job in working]
        memory.flush()

        assert status in ("complete", "incomplete")
        assert min(turns) > 0
        assert memory.forget(source="nobody").status == "complete"
        assert (worded(tmp_path), vectored(tmp_path, texts)) == (set(), set())
        assert_unknown(memory)
        assert len(memory.relations("Ann", "SAW", limit=10_000)) == sum(turns)


def test_a_recall_answered_while_something_is_forgotten_keeps_its_receipt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what it showed of the forgotten goes out of it; it can be judged like any other."""
    with opened(tmp_path, settings={}) as memory:
        selection, _ = told(memory, "entity")
        memory.remember("Ann", "SAW", "the sea")
        memory.flush()  # so that the recall, inside the transaction, has nothing to write
        found = []

        def and_recall(*given: object) -> int:
            generation: int = blank(*given)  # type: ignore[arg-type]
            found.append(memory.recall("What did Ann see?"))
            return generation

        monkeypatch.setattr("recall_echo_core.stores.erasing.blank", and_recall)
        memory.forget(**selection)

        memory.mark_used(found[0].id, used=[hit.alias for hit in found[0].hits])
        memory.feedback(found[0].id, "success")
        again = memory.recall("What did Ann see?", kinds=["relation"]).hits[0]
        assert again.parts["utility"] > 0.5


@pytest.mark.parametrize("logged", [True, False])
def test_a_forgotten_hit_leaves_the_marks_of_the_others_as_they_were(
    tmp_path: Path, logged: bool
) -> None:
    """`[M2]` in an answer still means the second memory of the block that the model was shown."""
    with opened(tmp_path, settings={}) as memory:
        for place in ("Acme", "Bolt", "Cube"):
            memory.remember("Ann", "WORKS_AT", place)
        found = memory.recall("Where does Ann work?", kinds=["relation"])
        if logged:
            memory.flush()
        first, second, third = found.hits
        memory.forget(entity=first.text.split()[-1])

        told = memory.mark_used(found.id, response="At one of them [M1], later at another [M2].")
        assert told.used == (second.id,)
        assert memory.mark_used(found.id, used=[first.id, first.alias, "M3"]).used == (third.id,)
        with pytest.raises(ValueError, match="M4"):
            memory.mark_used(found.id, used=["M4"])
        memory.feedback(found.id, "success")
        again = {
            hit.id: hit.parts["utility"] for hit in memory.recall("Ann", kinds=["relation"]).hits
        }
        assert again[third.id] > 0.5 > again[second.id]
        assert memory.verify().ok


def test_two_may_forget_at_once(tmp_path: Path) -> None:
    """Whoever ends first does not end for the other; nothing of either is left."""
    with opened(tmp_path, "ann") as ann:
        memories = [ann, *(ann.namespace(f"user {number}") for number in range(3))]
        selections = [told(memory, "entity")[0] for memory in memories]
        with ThreadPoolExecutor(len(memories)) as pool:
            jobs = [
                pool.submit(memory.forget, **selection)
                for memory, selection in zip(memories, selections, strict=True)
            ]
            receipts = [job.result(4 * SOON) for job in jobs]

        assert {receipt.evidence for receipt in receipts} == {8}
        assert receipts[0].status in ("complete", "incomplete")
        assert ann.forget(source="nobody").status == "complete"
        assert worded(tmp_path) == set()


def test_an_erasure_that_begins_while_another_ends_is_not_taken_as_done(tmp_path: Path) -> None:
    """The note of what is unfinished goes only with the last erasure it was made for."""
    with opened(tmp_path) as memory:
        tell_others(memory)
        namespace = memory._room.namespace
        log, key = namespace.log, namespace.key
        with log.writing(key) as writer:
            blank(writer, key, [1], [], [], 0)
        first = unfinished(log)
        with log.writing(key) as writer:
            blank(writer, key, [2], [], [], 0)
        second = unfinished(log)
        assert first is not None
        finished(log, first)

        assert unfinished(log) == second != first
        assert memory.forget(source="nobody").status == "complete"
        assert unfinished(log) is None


def test_noticing_that_a_namespace_went_waits_for_nobody(tmp_path: Path) -> None:
    """One thread lets go of the index, another brings it up to the graph: neither blocks."""
    with opened(tmp_path) as memory:
        tell_others(memory)
        memory.flush()
        room = memory._room
        with (
            closing(SqlLog(f"sqlite:///{tmp_path / 'log.sqlite3'}")) as elsewhere,
            elsewhere.writing(room.namespace.key) as writer,
        ):
            drop_namespace(writer, room.namespace.key)
        noticing = threading.Thread(target=_asked, args=(memory,), daemon=True)
        using = threading.Thread(target=_reading, args=(room.namespace,), daemon=True)
        with room.indexing.resting():  # as whoever embeds does
            noticing.start()
            noticing.join(0.5)
            using.start()
            using.join(SOON)
            assert not using.is_alive()
        noticing.join(SOON)
        assert not noticing.is_alive()


def _asked(memory: Memory) -> None:
    with pytest.raises(StoreErased):
        memory.beliefs("Ann", "LIKES")


def _reading(namespace: Any) -> None:
    with pytest.raises(StoreErased), namespace.reading():
        pass


@pytest.mark.parametrize("selector", ["entity", "everything"])
def test_a_view_of_the_past_made_before_knows_nothing_after(tmp_path: Path, selector: str) -> None:
    """The past is not kept from what was forgotten, though it had been looked at."""
    with opened(tmp_path) as memory:
        selection, _ = told(memory, selector)
        past = memory.as_of("2026-03-02")
        assert past.get(CANARY).abstract
        assert STEM in repr(past.recall(CANARY)).lower()

        memory.forget(**selection)

        assert STEM not in repr(past.recall(CANARY, k=1_000)).lower()
        assert past.relations(CANARY) == []
        with pytest.raises(UnknownEntity):
            past.get(CANARY)


def test_no_time_passes_for_what_stays(tmp_path: Path, clock: MovableClock) -> None:
    """Views of moments before and after what was forgotten equal those of a memory without it."""
    with (
        opened(tmp_path / "never", clock=clock) as never,
        opened(tmp_path / "forgot", clock=clock) as forgot,
    ):
        moments = []
        for step in range(4):
            for memory in (never, forgot):
                memory.remember("Ann", "LIVES_IN", f"town {step}")
                memory.add_entity("Ann", abstract=f"in town {step}")
                memory.flush()
            forgot.remember("Ann", "LIVES_IN", CANARY, source="rumour")
            moments.append(clock())
            clock.advance(days=10)
        forgot.forget(source="rumour")

        for moment in moments:
            ours, theirs = forgot.as_of(moment), never.as_of(moment)
            assert [b.confidence for b in ours.beliefs("Ann", "LIVES_IN")] == [
                b.confidence for b in theirs.beliefs("Ann", "LIVES_IN")
            ]
            assert [(h.text, h.score) for h in ours.recall("town", k=100)] == [
                (h.text, pytest.approx(h.score, abs=1e-5)) for h in theirs.recall("town", k=100)
            ]
