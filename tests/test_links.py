"""A recall of several runs, a marking that gives way or not, an answer that is only an echo."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from recall_echo_core import Memory, Recall, open_memory
from recall_echo_core.errors import NotAllowed, UnknownRecall
from recall_echo_core.usage import NEWS_SHARE, Shown, echoed
from recall_echo_core.words import content_words

if TYPE_CHECKING:
    from conftest import MovableClock

ROOT = Path(__file__).parents[1]
ALONE = {"vectors": {"background": False}}
FACTS = [("Alice", "WORKS_AT", "Acme"), ("Bob", "PLAYS", "chess")]
LINK = """
import sys
from recall_echo_core import open_memory
sys.path.insert(0, "tests")
from test_links import letters
with open_memory(sys.argv[1], embedding=letters) as memory:
    memory.link(sys.argv[2], sys.argv[3])
    print(memory.feedback_for_run(sys.argv[3], 1.0))
"""


def letters(texts: list[str]) -> list[list[float]]:
    """Texts of the same letters are near; the meaning of words does not matter here."""
    signs = "abcdefghijklmnopqrstuvwxyz0123456789"
    return [[0.01, *(float(text.casefold().count(sign)) for sign in signs)] for text in texts]


letters.__module__ = "test_links"  # however this file is imported, it is the same model


def opened(folder: Path, clock: Callable[[], Any] | None) -> Memory:
    return open_memory(folder, embedding=letters, clock=clock, settings=ALONE)


@pytest.fixture
def memory(tmp_path: Path, clock: MovableClock) -> Iterator[Memory]:
    with opened(tmp_path / "memory", clock) as memory:
        for fact in FACTS:
            memory.remember(*fact)
        yield memory


@pytest.fixture
def found(memory: Memory) -> Recall:
    """A recall of the two relations, made in the run `first`."""
    return memory.recall("Where does Alice work?", kinds=["relation"], run_id="first")


def utilities(memory: Memory) -> list[float]:
    hits = memory.recall("?", k=9, kinds=["relation"], record_access=False)
    return sorted(hit.parts["utility"] for hit in hits)


def in_a_row(*steps: float) -> float:
    utility = 0.5
    for reward in steps:
        utility += 0.1 * (reward - utility)
    return utility


class TestLink:
    def test_a_recall_can_be_found_by_each_of_its_runs(self, memory: Memory, found: Recall) -> None:
        """Verdicts of one key on two runs are one verdict on the recall; the last counts."""
        memory.link(found.id, "second")
        memory.link(found.id, "third")

        assert memory.feedback_for_run("second", 1.0) == 1
        assert utilities(memory) == [0.55, 0.55]
        assert memory.feedback_for_run("third", 0.0) == 1
        assert memory.feedback_for_run("first", 0.0) == 1
        assert utilities(memory) == [0.45, 0.45]
        memory.feedback_for_run("first", 1.0, key="thumb")
        assert utilities(memory) == [in_a_row(0, 1)] * 2
        assert memory.verify().ok

    def test_a_run_collects_what_was_served_in_it_and_linked_to_it(
        self, memory: Memory, found: Recall
    ) -> None:
        """Each recall takes the verdict once."""
        own = memory.recall("Bob", kinds=["relation"], run_id="second")
        memory.link(found.id, "second")
        memory.link(own.id, "second")

        assert memory.feedback_for_run("second", 1.0) == 2
        assert utilities(memory) == [in_a_row(1, 1)] * 2
        assert memory.feedback_for_run("first", 1.0) == 1

    def test_linking_twice_adds_nothing(self, memory: Memory, found: Recall) -> None:
        """Nor does linking to the run that it was served in; a number and its text are one run."""
        memory.link(found.id, "7")
        events = memory.stats().events
        memory.link(found.id, 7)  # type: ignore[arg-type]
        memory.link(found.id, " 7 ")
        memory.link(found.id, "first")

        assert memory.stats().events == events

    def test_an_id_of_a_host_may_be_a_uuid(self, memory: Memory, found: Recall) -> None:
        """As the object or as its text."""
        run = UUID(int=5)
        memory.link(found.id, run)  # type: ignore[arg-type]

        assert memory.feedback_for_run(str(run), 1.0) == 1

    @pytest.mark.parametrize("run", [None, True, 1.5, b"first", ["first"], object()])
    def test_what_names_no_run_is_refused(self, memory: Memory, found: Recall, run: Any) -> None:
        """`None` is no run called None, so no two turns meet there."""
        memory.flush()
        before = memory.stats().events
        why = "run_id must be text, a number or a UUID, not"
        with pytest.raises(TypeError, match=why):
            memory.link(found.id, run)
        with pytest.raises(TypeError, match=why):
            memory.feedback_for_run(run, 1.0)
        with pytest.raises(ValueError, match="run_id is empty"):
            memory.link(found.id, " ")
        assert memory.stats().events == before

    @pytest.mark.parametrize(
        ("recall_id", "error"),
        [("00" * 16, UnknownRecall), ("M1", ValueError), (None, ValueError)],
    )
    def test_an_unknown_recall_is_an_error(
        self, memory: Memory, recall_id: str | None, error: type[Exception]
    ) -> None:
        """And the run has nothing then."""
        with pytest.raises(error):
            memory.link(recall_id, "run")
        with pytest.raises(UnknownRecall):
            memory.feedback_for_run("run", 1.0)

    def test_an_expired_recall_can_be_linked_no_more(
        self, memory: Memory, found: Recall, clock: MovableClock
    ) -> None:
        """Not after 90 days; a link from before finds nothing either."""
        memory.link(found.id, "second")
        clock.advance(days=90, microseconds=1)

        with pytest.raises(UnknownRecall, match="expired"):
            memory.link(found.id, "third")
        with pytest.raises(UnknownRecall, match="no recall of this run has a receipt"):
            memory.feedback_for_run("second", 1.0)

    def test_two_namespaces_never_meet_in_a_run(self, memory: Memory, found: Recall) -> None:
        """A run of that name elsewhere has no recalls, and cannot link one from here."""
        memory.link(found.id, "run")
        bob = memory.namespace("bob")

        with pytest.raises(UnknownRecall):
            bob.feedback_for_run("run", 1.0)
        with pytest.raises(UnknownRecall):
            bob.link(found.id, "run")

    def test_threads_that_link_at_once_write_one_event(self, memory: Memory, found: Recall) -> None:
        """Eight threads behind a barrier, five times over."""
        memory.flush()
        before = memory.stats().events
        barrier = threading.Barrier(8)

        def work(_: int) -> None:
            for number in range(5):
                barrier.wait()
                memory.link(found.id, f"run {number}")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        assert memory.stats().events == before + 5

    def test_another_process_can_link_and_judge(self, tmp_path: Path) -> None:
        """While this one has the memory open, and sees the verdict with its next answer."""
        with opened(tmp_path, None) as memory:
            memory.remember(*FACTS[0])
            found = memory.recall("Alice", kinds=["relation"])
            memory.flush()
            done = subprocess.run(
                [sys.executable, "-c", LINK, str(tmp_path), str(found.id), "theirs"],
                capture_output=True,
                text=True,
                timeout=60,
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
            )
            assert (done.stdout.strip(), done.stderr) == ("1", "")
            assert utilities(memory) == [0.55]
            assert memory.feedback_for_run("theirs", 0.0, key="mine") == 1


class TestLinksInTheLog:
    def test_a_log_with_links_folds_as_one_without(
        self, tmp_path: Path, clock: MovableClock
    ) -> None:
        """A link moves no number, in this process or in a replay."""
        ends = []
        for name in ("with", "without"):
            with opened(tmp_path / name, clock) as memory:
                for fact in FACTS:
                    memory.remember(*fact)
                found = memory.recall("Alice", kinds=["relation"])
                if name == "with":
                    memory.link(found.id, "a")
                    memory.link(found.id, "b")
                memory.feedback(found.id, "success")
            with opened(tmp_path / name, clock) as memory:
                facts = [(r.alpha, r.beta, r.supports) for r in memory.relations()]
                hits = memory.recall("Alice", record_access=False)
                parts = sorted((hit.text, hit.score, str(hit.parts)) for hit in hits)
                assert memory.verify().ok
                ends.append((facts, parts))

        assert ends[0] == ends[1]

    def test_links_move_with_an_export(
        self, memory: Memory, found: Recall, tmp_path: Path, clock: MovableClock
    ) -> None:
        """A copy takes a verdict on a run that was linked; importing twice adds nothing."""
        memory.link(found.id, "second")
        memory.export(tmp_path / "m.jsonl")
        with opened(tmp_path / "copy", clock) as copy:
            assert copy.import_(tmp_path / "m.jsonl") == memory.stats().events
            assert copy.import_(tmp_path / "m.jsonl") == 0
            assert copy.feedback_for_run("second", 1.0) == 1
            assert utilities(copy) == [0.55, 0.55]

    def test_copies_that_linked_alike_are_joined(
        self, memory: Memory, found: Recall, tmp_path: Path, clock: MovableClock
    ) -> None:
        """Where both say so, in events of their own, the recall still takes one verdict."""
        memory.export(tmp_path / "m.jsonl")
        clock.advance(seconds=1)
        memory.link(found.id, "second")
        clock.advance(seconds=1)
        with opened(tmp_path / "copy", clock) as copy:
            copy.import_(tmp_path / "m.jsonl")
            copy.link(found.id, "second")
            copy.export(tmp_path / "c.jsonl")
        memory.import_(tmp_path / "c.jsonl")

        assert memory.feedback_for_run("second", 1.0) == 1
        assert utilities(memory) == [0.55, 0.55]
        assert memory.verify().ok

    def test_in_a_log_of_another_salt_runs_are_not_known(
        self, memory: Memory, found: Recall, tmp_path: Path
    ) -> None:
        """A run's name is not in the log; the recall keeps its receipt, and can be linked anew."""
        memory.link(found.id, "second")
        memory.export(tmp_path / "m.jsonl")
        other = memory.namespace("other")
        other.add_entity("Oslo")
        other.import_(tmp_path / "m.jsonl")
        with pytest.raises(UnknownRecall):
            other.feedback_for_run("second", 1.0)
        other.link(found.id, "second")

        assert other.feedback_for_run("second", 1.0) == 1
        assert utilities(other) == [0.55, 0.55]

    def test_forgetting_keeps_the_link_of_what_is_left(self, memory: Memory, found: Recall) -> None:
        """Of two hits one is forgotten; the run's verdict reaches the other, and only it."""
        memory.link(found.id, "second")
        memory.forget(entity="Alice")

        assert memory.feedback_for_run("second", 1.0) == 1
        assert utilities(memory) == [0.55]
        memory.forget(relation=FACTS[1])
        assert memory.feedback_for_run("second", 0.0) == 1  # of nothing
        assert memory.verify().ok

    def test_forgetting_everything_takes_the_links_along(
        self, memory: Memory, found: Recall
    ) -> None:
        """A new namespace of that name knows no run of the old one."""
        memory.link(found.id, "second")
        memory.forget(everything=True)

        with pytest.raises(UnknownRecall):
            memory.feedback_for_run("second", 1.0)


class TestMarkingWithoutReplacing:
    def test_an_earlier_marking_stays(self, memory: Memory, found: Recall) -> None:
        """It is returned, whatever the answer says; the next that replaces does."""
        memory.mark_used(found.id, used=["M2"])
        events = memory.stats().events
        kept = memory.mark_used(found.id, response="see [M1]", replace=False)

        assert (kept.used, kept.method) == ((found.hits[1].id,), "ids")
        assert memory.stats().events == events
        assert memory.mark_used(found.id, response="see [M1]").used == (found.hits[0].id,)

    def test_the_first_marking_is_taken(self, memory: Memory, found: Recall) -> None:
        """Without an earlier one there is nothing to spare."""
        for answer in ("[M1]", "[M2]"):
            kept = memory.mark_used(found.id, response=answer, replace=False)
            assert (kept.used, kept.method) == ((found.hits[0].id,), "citations")

    def test_after_a_verdict_what_is_known_stays(self, memory: Memory, found: Recall) -> None:
        """Also that nothing was marked; whoever wants to replace is told that it is too late."""
        memory.feedback(found.id, "success")
        kept = memory.mark_used(found.id, response="Acme [M1]", replace=False)

        assert (kept.used, kept.method, kept.echo) == ((), "unknown", True)
        with pytest.raises(NotAllowed):
            memory.mark_used(found.id, response="Acme [M1]")

    def test_a_bad_mark_is_an_error_all_the_same(self, memory: Memory, found: Recall) -> None:
        """What was not shown cannot have been used, whether or not it would be taken."""
        memory.mark_used(found.id, used=["M1"])

        with pytest.raises(ValueError, match="'M9' is not in this recall"):
            memory.mark_used(found.id, used=["M9"], replace=False)

    def test_of_threads_that_mark_at_once_one_is_taken(self, memory: Memory, found: Recall) -> None:
        """All of them are told which; nobody's marking gives way."""
        for _ in range(5):
            recall = memory.recall("Alice", kinds=["relation"])
            memory.flush()
            before = memory.stats().events
            barrier = threading.Barrier(4)

            def mark(number: int, recall: Recall = recall, barrier: Any = barrier) -> object:
                barrier.wait()
                alias = f"M{number % 2 + 1}"
                return memory.mark_used(recall.id, used=[alias], replace=False).used

            with ThreadPoolExecutor(4) as pool:
                assert len(set(pool.map(mark, range(4)))) == 1
            assert memory.stats().events == before + 1


SHOWN = [Shown(b"1", "M1", "Alice works at Acme"), Shown(b"2", "M2", "Bob plays chess")]


class TestEcho:
    @pytest.mark.parametrize(
        ("answer", "echo"),
        [
            ("", True),
            ("Yes.", True),
            ("Alice works at Acme [M1].", True),
            ("Acme [M1]; and Bob plays chess [M2, M1] 【M2】", True),
            ("Acme Oslo", False),  # one of two is news: half is enough
            ("Alice works, Acme Oslo", True),  # one of three is not: the question asked for Alice
            ("Acme moved to Oslo last spring, so she may commute.", False),
            ("No idea, sorry.", False),
            ("\ud83d", True),
        ],
    )
    def test_an_answer_is_an_echo_if_less_than_half_is_news(self, answer: str, echo: bool) -> None:
        """Counted are content words that are not the question's; marks are no words."""
        question = content_words("Where does Alice work?")

        assert NEWS_SHARE == 0.5
        assert echoed(SHOWN, answer, question) == echo

    @pytest.mark.parametrize(
        ("text", "answer", "echo"),
        [
            ("Аня работает в Осло", "Аня работает в Осло.", True),
            ("Аня работает в Осло", "Погода завтра будет хорошей", False),
            ("我喜欢喝茶", "你喜欢喝茶", True),
            ("我喜欢喝茶", "明天会下雨吗", False),
            ("Zoe\u0301 aime le thé", "ZOÉ AIME LE THÉ", True),
        ],
    )
    def test_other_scripts_are_read_alike(self, text: str, answer: str, echo: bool) -> None:
        """Words are found by the rules of Unicode, in any form and case."""
        assert echoed([Shown(b"1", "M1", text)], answer, frozenset()) == echo

    def test_where_nothing_was_shown_there_is_no_echo(self, memory: Memory) -> None:
        """An empty memory has said nothing, so no answer repeats it."""
        nothing = memory.recall("Alice", max_tokens=1)

        assert not memory.mark_used(nothing.id, response="").echo
        assert not memory.mark_used(nothing.id, response="Alice works at Acme").echo

    def test_without_an_answer_there_is_no_echo(self, memory: Memory, found: Recall) -> None:
        """What was used can be said by ids alone, and says nothing of the answer."""
        assert not memory.mark_used(found.id, used=["M1"]).echo
        assert memory.mark_used(found.id, response="At Acme.").echo
        told = "At Acme. The office in Oslo opens tomorrow morning."
        assert not memory.mark_used(found.id, response=told).echo
