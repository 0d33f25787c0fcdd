"""Many threads at once lose nothing: every number equals what counting by hand gives."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from recall_echo_core import Memory, RecallEchoError, Statement, open_memory
from recall_echo_core.errors import StoreClosed

if TYPE_CHECKING:
    from conftest import MovableClock

THREADS = 16
DAY = timedelta(days=1)
START = datetime(2026, 1, 1, tzinfo=UTC)


def letters(texts: list[str]) -> list[list[float]]:
    """Texts of the same letters are near; the meaning of words does not matter here."""
    signs = "abcdefghijklmnopqrstuvwxyz0123456789"
    return [[0.01, *(float(text.casefold().count(sign)) for sign in signs)] for text in texts]


@pytest.fixture
def memory(tmp_path: Path, clock: MovableClock) -> Iterator[Memory]:
    with open_memory(
        tmp_path, embedding=letters, clock=clock, single_valued={"LIVES_IN"}
    ) as opened:
        yield opened


def at_once(work: Callable[[int], object], threads: int = THREADS) -> list[object]:
    """Do work(0), work(1), ... in as many threads, all let go at one moment; return the results."""
    barrier = threading.Barrier(threads)

    def started(number: int) -> object:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(started, range(threads)))


def positions(folder: Path, namespace: str = "default") -> list[int]:
    """The positions in the log, read past this package."""
    log = sqlite3.connect(folder / "log.sqlite3")
    try:
        rows = log.execute(
            "select position from events join namespaces on namespaces.id = events.namespace"
            " where name = ? order by position",
            [namespace],
        )
        return [position for (position,) in rows]
    finally:
        log.close()


def open_folders() -> int:
    """How many index folders this process holds files of, where the system can say so."""
    files = Path("/proc/self/fd")
    held = [os.path.realpath(link) for link in files.iterdir()] if files.exists() else []
    found = {path.partition("/vectors/")[2].partition("/")[0] for path in held}
    return len({name.removesuffix(".lock") for name in found} - {""})


def numbers(memory: Memory) -> dict[str, tuple[float, float]]:
    return {r.text: (r.alpha, r.beta) for r in memory.relations(limit=10_000)}


ROUNDS = 4
SHARED = [f"value {number}" for number in range(4)]
EVENTS_A_ROUND = 16


def a_turn(memory: Memory, thread: int, turn: int) -> None:
    """Use every verb once; `EVENTS_A_ROUND` events come of it."""
    value = SHARED[(thread + turn) % len(SHARED)]
    memory.remember("Hub", "LINKS", value)
    memory.corroborate("hub", "links", value, weight=0.5, source="tool:x")
    memory.contradict("HUB", "LINKS", value, weight=0.25)
    memory.observe(
        [
            Statement(subject="Hub", type="LINKS", object=value, establishes=False, weight=0.125),
            Statement(subject="Hub", type="LINKS", object=value, supports=False, weight=0.125),
            Statement(subject=f"Own {thread}", type="HAS", object=f"thing {turn}"),
        ]
    )
    content = f"thread {thread} turn {turn}"
    first, _ = memory.record(
        [{"content": content}, {"role": "assistant", "content": "noted"}], session_id=f"s{thread}"
    )
    found = memory.recall(content, kinds=["episode"])
    assert first in {hit.id for hit in memory.recall(content, k=100, record_access=False)}
    memory.mark_used(found.id, used=["M1"])
    memory.feedback(found.id, "success", source=f"judge {thread}")
    memory.add_entity("Hub", metadata={"last": thread})
    changed = START + turn * DAY
    memory.supersede(
        f"Person {thread}",
        "LIVES_IN",
        f"city {turn}",
        f"city {turn + 1}",
        at=changed,
        observed_at=changed,
    )
    mistaken = memory.corroborate("Hub", "LINKS", value, weight=1.0)
    assert mistaken.evidence_id is not None
    memory.retract(mistaken.evidence_id)
    why = memory.explain("Hub", "LINKS", value)
    assert why.recomputed() == pytest.approx(why.effective, abs=1e-12)
    assert (why.moves[-1].alpha, why.moves[-1].beta) == (why.relation.alpha, why.relation.beta)
    assert {belief.object for belief in memory.beliefs("Hub", "LINKS")} == set(SHARED)


def closed_form() -> dict[str, tuple[float, float]]:
    """What all turns add up to, whatever their order: weights are sums of powers of two."""
    hits = THREADS * ROUNDS // len(SHARED)
    expected = {
        f"Hub links {value}": (9.0 + hits * (1.0 + 0.5 + 0.125), 1.0 + hits * (0.25 + 0.125))
        for value in SHARED
    }
    for thread in range(THREADS):
        for turn in range(ROUNDS):
            expected[f"Own {thread} has thing {turn}"] = (9.0, 1.0)
        for turn in range(ROUNDS + 1):
            expected[f"Person {thread} lives in city {turn}"] = (9.0, 1.0)
    return expected


def test_sixteen_threads_of_mixed_verbs_lose_no_update(
    memory: Memory, tmp_path: Path, clock: MovableClock
) -> None:
    """Alphas and betas equal the closed form, positions are dense, and a replay says the same."""
    for value in SHARED:
        memory.remember("Hub", "LINKS", value)
    clock.advance(seconds=1)

    at_once(lambda thread: [a_turn(memory, thread, turn) for turn in range(ROUNDS)])

    turns = THREADS * ROUNDS
    assert numbers(memory) == closed_form()
    events = 1 + len(SHARED) + EVENTS_A_ROUND * turns  # the settings, the first statements
    memory.flush()
    assert memory.stats().events == events
    assert positions(tmp_path) == list(range(1, events + 1))
    assert memory.stats().episodes == 2 * turns
    assert memory.verify().problems == ()
    before = numbers(memory), memory.entities(limit=1000), memory.stats().indexed
    memory.close()
    with open_memory(tmp_path, embedding=letters, clock=clock) as again:
        assert (numbers(again), again.entities(limit=1000), again.stats().indexed) == before
        assert again.verify().ok


def test_late_evidence_from_many_threads_refolds_to_the_same(memory: Memory) -> None:
    """Each thread tells its days backwards, so that most evidence arrives late, and none is lost.

    The earliest statement, of day 0, is speculative: Beta(3, 7).
    """
    days = 8

    def tell(thread: int) -> None:
        for number in reversed(range(days)):
            first = thread == 0 and number == 0
            memory.remember(
                "Hub",
                "LINKS",
                "value",
                context="speculative" if first else "explicit",
                observed_at=START + number * DAY + timedelta(minutes=thread),
                weight=0.5,
            )

    at_once(tell)

    (relation,) = memory.relations()
    assert (relation.alpha, relation.beta) == (3.0 + 0.5 * (THREADS * days - 1), 7.0)
    assert relation.established_at == START
    assert memory.verify().ok


@pytest.mark.parametrize(("outcome", "reward"), [("success", 1.0), ("failed", 0.0), (0.75, 0.75)])
def test_concurrent_feedback_on_one_item_loses_none(
    memory: Memory, outcome: str | float, reward: float
) -> None:
    """80 recalls of one entity, each with a verdict, are 80 accesses and 80 steps of utility."""
    memory.add_entity("Acme")
    recalls = 5

    def use(thread: int) -> None:
        for _ in range(recalls):
            found = memory.recall("Acme", k=1)
            memory.feedback(found.id, outcome)

    at_once(use)

    utility = 0.5
    for _ in range(THREADS * recalls):
        utility += 0.1 * (reward - utility)
    acme = memory.get("Acme")
    assert acme.accesses == THREADS * recalls
    assert acme.utility == utility
    assert memory.verify().ok


def test_utility_passes_99_hundredths_after_38_successes(memory: Memory) -> None:
    """From 0.5, 1 - 0.5 * 0.9^n is above .99 from n = 38 on, and .9974 after 50."""
    memory.add_entity("Acme")
    found = memory.recall("Acme")

    utilities = []
    for number in range(50):
        memory.feedback(found.id, "success", source=f"judge {number}")
        utilities.append(memory.get("Acme").utility)

    assert next(n for n, utility in enumerate(utilities, 1) if utility > 0.99) == 38
    assert utilities[36] == pytest.approx(1 - 0.5 * 0.9**37, abs=1e-12)
    assert utilities[36] < 0.99
    assert utilities[49] == pytest.approx(1 - 0.5 * 0.9**50, abs=1e-12)


def test_many_judges_of_one_recall_each_count_once(memory: Memory) -> None:
    """16 sources that say the same three times each are 16 verdicts on one recall."""
    memory.add_entity("Acme")
    found = memory.recall("Acme")
    before = memory.stats().events

    at_once(lambda n: [memory.feedback(found.id, "success", source=f"j{n}") for _ in range(3)])

    memory.flush()
    assert memory.get("Acme").utility == pytest.approx(1 - 0.5 * 0.9**16, abs=1e-12)
    assert memory.get("Acme").accesses == 1
    assert memory.stats().events - before in (16, 17)  # with the receipt, if it was still waiting


def test_one_judge_in_a_hurry_counts_once(memory: Memory, tmp_path: Path, clock) -> None:
    """Of 16 different verdicts of one source at once, exactly one is left, in every replay."""
    memory.add_entity("Acme")
    found = memory.recall("Acme")

    at_once(lambda number: memory.feedback(found.id, number / 16, source="judge"))

    utility = memory.get("Acme").utility
    assert utility in [0.5 + 0.1 * (number / 16 - 0.5) for number in range(16)]
    assert memory.verify().ok
    memory.close()
    with open_memory(tmp_path, embedding=letters, clock=clock) as again:
        assert again.get("Acme").utility == utility


def test_each_reading_is_counted_once_while_receipts_are_being_saved(memory: Memory) -> None:
    """After n recalls hotness is that of n accesses, whether or not their receipts are saved."""
    memory.add_entity("Acme")

    levels = [memory.recall("Acme").hits[0].parts["hotness"] for _ in range(200)]
    assert levels == [(1.0 + n) / (2.0 + n) for n in range(200)]


def test_everybody_finds_what_they_have_just_told(memory: Memory) -> None:
    """Each thread recalls its own texts at once, while others write and vectors go to disk."""

    def tell(thread: int) -> None:
        for number in range(8):
            text = f"{chr(97 + thread) * 9} {number}"
            (id,) = memory.record([{"content": text}])
            found = memory.recall(text, k=8, kinds=["episode"], record_access=False)
            assert id in {hit.id for hit in found}
            if number % 4 == thread % 4:
                memory.flush()

    at_once(tell)

    stats = memory.stats()
    assert (stats.episodes, stats.indexed + stats.waiting) == (THREADS * 8, THREADS * 8)
    assert memory.verify().ok


def test_threads_that_add_the_same_entity_make_one(memory: Memory) -> None:
    """One name in 16 spellings, and 16 names in one spelling, are 17 entities."""
    spellings = ["Zoë  Smith", "zoë smith", "ZOE\u0308 SMITH", " Zoë\u00a0Smith "] * 4

    ids = at_once(
        lambda n: (memory.add_entity(spellings[n]).id, memory.add_entity("X", key=f"{n}").id)
    )

    assert len({zoe for zoe, _ in ids}) == 1
    assert len({x for _, x in ids}) == THREADS
    assert memory.stats().entities == THREADS + 1


class TestHandles:
    def test_two_handles_of_one_folder_share_everything(
        self, tmp_path: Path, clock: MovableClock
    ) -> None:
        """What one handle is told the other knows, and closing one leaves the other open."""
        (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
        (tmp_path / "real").mkdir()
        paths = [tmp_path / "real", str(tmp_path / "real" / ".." / "real"), tmp_path / "link"]
        handles = [open_memory(path, embedding=letters, clock=clock) for path in paths]
        first, *others = handles
        first.remember("Ann", "LIKES", "tea")
        first.flush()

        for other in others:
            assert numbers(other) == {"Ann likes tea": (9.0, 1.0)}
            assert other.stats() == first.stats()
            assert other.stats().indexed == 3  # the index on disk admits one process, and is shared
        found = first.recall("Ann", record_access=True)
        others[0].feedback(found.id, "success")  # a receipt that waits in the process is shared
        first.close()
        with pytest.raises(StoreClosed):
            first.stats()
        others[0].remember("Ann", "LIKES", "tea")
        assert numbers(others[1])["Ann likes tea"] == (10.0, 1.0)
        for other in others:
            other.close()

    def test_handles_of_different_namespaces_share_the_folder(self, tmp_path: Path) -> None:
        """One folder opened for two users gives each their own memory."""
        with (
            open_memory(tmp_path, namespace="alice", embedding=letters) as alice,
            open_memory(tmp_path, namespace="bob") as bob,
        ):
            alice.add_entity("Acme")

            assert (alice.name, bob.name) == ("alice", "bob")
            assert bob.entities() == []
            assert alice.namespaces() == bob.namespaces() == ["alice", "bob"]
            assert [entity.name for entity in bob.namespace("alice").entities()] == ["Acme"]

    @pytest.mark.parametrize(
        "asked",
        [
            {"clock": lambda: START},
            {"settings": {"graph": {"expansion": {"depth": 2}}}},
            {"single_valued": {"LIVES_IN"}},
            {"embedding": "BAAI/bge-small-en-v1.5"},
            {"reindex": True},
        ],
        ids=lambda asked: next(iter(asked)),
    )
    def test_a_handle_that_asks_for_something_else_is_refused(
        self, tmp_path: Path, asked: dict
    ) -> None:
        """What cannot be shared is an error that says what to do, and harms no other handle."""
        with open_memory(tmp_path, embedding=letters) as memory:
            memory.add_entity("Acme")

            with pytest.raises(ValueError, match="is open in this process with another"):
                open_memory(tmp_path, **asked)
            assert memory.get("Acme").name == "Acme"
        with (
            open_memory(tmp_path, **{"embedding": letters} | asked)
            if "embedding" not in asked
            else open_memory(tmp_path, embedding=letters) as memory
        ):
            assert memory.get("Acme").name == "Acme"

    def test_opening_and_closing_from_many_threads(
        self, tmp_path: Path, clock: MovableClock
    ) -> None:
        """16 threads that open, tell and close one new folder leave all they told."""

        def use(thread: int) -> None:
            for number in range(3):
                with open_memory(tmp_path, embedding=letters, clock=clock) as memory:
                    memory.remember("Ann", "LIKES", f"thing {thread} {number}")
                    memory.remember("Ann", "LIKES", "tea")

        at_once(use)

        with open_memory(tmp_path, embedding=letters, clock=clock) as memory:
            counts = numbers(memory)
            assert counts.pop("Ann likes tea") == (9.0 + THREADS * 3 - 1, 1.0)
            assert set(counts.values()) == {(9.0, 1.0)}
            assert len(counts) == THREADS * 3
            assert memory.verify().ok
            assert memory.namespaces() == ["default"]

    def test_closing_while_others_work_is_an_error_of_this_package(self, tmp_path: Path) -> None:
        """A thread whose memory is closed under it gets StoreClosed, and its last write stands."""
        memory = open_memory(tmp_path, embedding=letters)
        told: list[int] = [0] * 4
        errors: list[BaseException] = []
        running = threading.Semaphore(0)

        def tell(thread: int) -> None:
            try:
                while True:
                    memory.remember("Ann", "LIKES", f"thing {thread} {told[thread]}")
                    told[thread] += 1
                    running.release()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=tell, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            running.acquire()
        memory.close()
        for thread in threads:
            thread.join()

        assert [type(error) for error in errors] == [StoreClosed] * 4
        with open_memory(tmp_path, embedding=letters) as again:
            texts = set(numbers(again))
            for thread, count in enumerate(told):
                assert {f"Ann likes thing {thread} {n}" for n in range(count)} <= texts
            assert again.verify().ok


class TestNamespaces:
    def test_namespaces_in_parallel_keep_their_own_counts(
        self, memory: Memory, tmp_path: Path
    ) -> None:
        """16 threads in a namespace each, writing the same facts, count their own only."""

        def tell(thread: int) -> None:
            mine = memory.namespace(f"user {thread}")
            for _ in range(thread + 1):
                mine.remember("Ann", "LIKES", "tea")
                mine.record([{"content": "I like tea"}])
                found = mine.recall("tea", k=1, kinds=["entity"])
                mine.feedback(found.id, "success")

        at_once(tell)

        for thread in range(THREADS):
            mine = memory.namespace(f"user {thread}")
            assert numbers(mine) == {"Ann likes tea": (9.0 + thread, 1.0)}
            assert mine.stats().episodes == thread + 1
            assert mine.verify().ok
            events = 1 + 4 * (thread + 1)  # the settings; statement, episode, receipt, verdict
            assert positions(tmp_path, f"user {thread}") == list(range(1, events + 1))
        assert memory.stats().events == 1

    def test_more_namespaces_than_index_folders_are_held_open(self, memory: Memory) -> None:
        """36 namespaces with vectors on disk, used in turns by 4 threads, all find their own."""
        names = [f"user {number}" for number in range(36)]
        for number, name in enumerate(names):
            mine = memory.namespace(name)
            mine.record([{"content": f"note {number}"}])
            mine.flush()

        def ask(thread: int) -> None:
            for turn in range(len(names)):
                number = (turn * 7 + thread * 5) % len(names)
                mine = memory.namespace(names[number])
                (hit,) = mine.recall(f"note {number}", record_access=False)
                assert hit.text == f"user: note {number}"

        at_once(ask, threads=4)

        assert memory.namespaces() == sorted([*names, "default"])
        memory.namespace("default")
        assert open_folders() <= 32

    def test_a_new_namespace_opened_by_all_at_once_is_one(self, memory: Memory) -> None:
        """16 threads that ask for a new namespace get the same one, with the same ids."""
        ids = at_once(lambda _: memory.namespace("new").add_entity("Acme").id)

        assert len(set(ids)) == 1
        assert memory.namespace("new").stats().entities == 1
        assert memory.namespaces() == ["default", "new"]


def test_an_error_in_one_thread_is_no_error_in_another(memory: Memory) -> None:
    """Bad arguments of half the threads leave nothing behind and disturb nobody."""

    def tell(thread: int) -> None:
        for number in range(5):
            if thread % 2:
                with pytest.raises((ValueError, RecallEchoError)):
                    memory.remember("Ann", "LIKES", "tea", weight=2.0)
                with pytest.raises(ValueError, match="message 1 has no content"):
                    memory.record([{"content": "fine"}, {"content": " "}])
                with pytest.raises(RecallEchoError):
                    memory.retract("00" * 16)
            else:
                memory.remember("Ann", "LIKES", f"thing {thread} {number}")

    at_once(tell)

    assert len(numbers(memory)) == THREADS // 2 * 5
    assert memory.stats().events == 1 + THREADS // 2 * 5
    assert memory.verify().ok
