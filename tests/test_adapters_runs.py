"""How the end of a run is judged, whom that credits, and what is known of runs that go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from recall_echo_adapters.open_runs import OpenRuns
from recall_echo_adapters.verdicts import Recalled, Run, Verdicts, credit
from recall_echo_core import Memory, Recall, open_memory

if TYPE_CHECKING:
    from conftest import MovableClock

ALONE = {"vectors": {"background": False}}


def letters(texts: list[str]) -> list[list[float]]:
    """Texts of the same letters are near; the meaning of words does not matter here."""
    signs = "abcdefghijklmnopqrstuvwxyz0123456789"
    return [[0.01, *(float(text.casefold().count(sign)) for sign in signs)] for text in texts]


@pytest.fixture
def memory(tmp_path: Path, clock: MovableClock) -> Iterator[Memory]:
    with open_memory(tmp_path, embedding=letters, clock=clock, settings=ALONE) as memory:
        yield memory


@pytest.fixture
def found(memory: Memory) -> Recall:
    """A recall of two relations."""
    memory.remember("Alice", "WORKS_AT", "Acme")
    memory.remember("Bob", "PLAYS", "chess")
    return memory.recall("Where does Alice work?", kinds=["relation"])


def utilities(memory: Memory) -> dict[str, float]:
    hits = memory.recall("?", k=9, kinds=["relation"], record_access=False)
    return {hit.text: hit.parts["utility"] for hit in hits}


ERROR = RuntimeError("no")


class TestVerdicts:
    @pytest.mark.parametrize(
        ("verdicts", "run", "verdict"),
        [
            (Verdicts(), Run("r"), None),
            (Verdicts(), Run("r", tool_errors=("x",)), None),
            (Verdicts(), Run("r", error=ERROR), 0.0),
            (Verdicts(), Run("r", error=ERROR, neutral=True), None),
            (Verdicts(on_success=1.0), Run("r"), 1.0),
            (Verdicts(on_success=1.0), Run("r", neutral=True), None),
            (Verdicts(on_success=1.0), Run("r", tool_errors=("x",)), None),
            (Verdicts(on_success=True, on_tool_error=False), Run("r"), 1.0),
            (Verdicts(on_success=1.0, on_tool_error=False), Run("r", tool_errors=("x",)), 0.0),
            (Verdicts(on_error=None), Run("r", error=ERROR), None),
            (Verdicts(on_error=False), Run("r", error=ERROR), 0.0),
            (Verdicts(outcome=lambda run: run.text == "ok"), Run("r", text="ok"), 1.0),
            (Verdicts(outcome=lambda run: run.text == "ok"), Run("r", text="hm"), 0.0),
            (Verdicts(outcome=lambda _: "partial"), Run("r", tool_errors=("x",)), "partial"),
            (Verdicts(outcome=lambda _: 0), Run("r"), 0),
            (Verdicts(outcome=lambda _: None, on_success=0.7), Run("r"), 0.7),
            (Verdicts(outcome=lambda _: 1 / 0), Run("r", error=ERROR), 0.0),  # type: ignore[arg-type, return-value]
            (Verdicts(outcome=lambda _: 1 / 0), Run("r", neutral=True), None),
        ],
    )
    def test_the_end_of_a_run_is_judged_by_the_table(
        self, verdicts: Verdicts, run: Run, verdict: object
    ) -> None:
        """A pause says nothing, an error comes before the outcome, a clean end says nothing."""
        given = verdicts.of(run)

        assert given == verdict
        assert not isinstance(given, bool)


class TestCredit:
    def test_recalls_of_two_namespaces_are_credited_each_in_its_own(self, memory: Memory) -> None:
        """One run that served two users; both can be found by the run later."""
        recalls = []
        for name in ("ann", "bob"):
            own = memory.namespace(name)
            own.remember(name, "LIKES", "tea")
            recalls.append(Recalled(name, str(own.recall(name, kinds=["relation"]).id)))
        credit(memory, Run("r", recalls=tuple(recalls)), Verdicts(on_success=1.0))

        for name in ("ann", "bob"):
            assert utilities(memory.namespace(name)) == {f"{name} likes tea": 0.55}
            assert memory.namespace(name).feedback_for_run("r", 0.0, key="thumb") == 1
        assert utilities(memory) == {}

    def test_a_pause_is_no_verdict_and_keeps_the_link(self, memory: Memory, found: Recall) -> None:
        """Nothing is marked by a half answer, and a rating of the run finds the recall."""
        paused = Run("r1", text="Alice is at [M1]", recalls=self.at(found), neutral=True)
        credit(memory, paused, Verdicts(on_success=1.0))
        assert set(utilities(memory).values()) == {0.5}
        resumed = Run("r2", text="Bob plays [M2]", recalls=self.at(found))
        credit(memory, resumed, Verdicts(on_success=1.0))

        assert utilities(memory) == {"Alice works at Acme": 0.49, "Bob plays chess": 0.55}
        assert memory.feedback_for_run("r1", 1.0) == 1

    def test_who_told_better_what_was_used_is_believed(self, memory: Memory, found: Recall) -> None:
        """The text of the run decides only where nobody has marked, and none after a verdict."""
        memory.mark_used(found.id, used=["M2"])
        run = Run("r", text="see [M1] \ud83d", recalls=self.at(found))
        for _ in range(2):  # the same verdict twice is one
            credit(memory, run, Verdicts(on_success=1.0))

        assert utilities(memory) == {"Alice works at Acme": 0.49, "Bob plays chess": 0.55}

    def test_a_failed_run_marks_nothing(self, memory: Memory, found: Recall) -> None:
        """All that was recalled shares the failure."""
        run = Run("r", text="half an ans", error=ERROR, recalls=self.at(found))
        credit(memory, run, Verdicts())

        assert set(utilities(memory).values()) == {0.45}

    def test_what_is_gone_is_passed_over(self, memory: Memory, found: Recall) -> None:
        """An unknown receipt, and a namespace that was forgotten, which is not made anew."""
        bob = memory.namespace("bob")
        bob.remember("Bob", "LIKES", "tea")
        theirs = Recalled("bob", str(bob.recall("Bob").id))
        bob.forget(everything=True)
        asked: list[Run] = []
        verdicts = Verdicts(outcome=lambda run: asked.append(run))  # type: ignore[func-returns-value]
        gone = (theirs, Recalled("default", "00" * 16))
        credit(memory, Run("r", recalls=gone), verdicts)
        assert asked == []
        credit(memory, Run("r", recalls=(*gone, *self.at(found))), Verdicts(on_success=1.0))

        assert memory.namespaces() == ["default"]
        assert set(utilities(memory).values()) == {0.55}

    @staticmethod
    def at(found: Recall) -> tuple[Recalled, ...]:
        return (Recalled("default", str(found.id)),)


class TestOpenRuns:
    def test_what_happens_in_any_step_counts_for_the_outermost_run(self) -> None:
        """Three levels, recalls in each, a repeated one counted once."""
        runs = OpenRuns()
        for step, parent in (("a", None), ("b", "a"), ("c", "b")):
            runs.start(step, parent)
            runs.recalled(step, Recalled("n", step))
        runs.recalled("c", Recalled("n", "a"))
        runs.tool_failed("c", "timeout")
        assert runs.end("c", error=ERROR) is None
        assert runs.end("b", stopped=True) is None
        ended = runs.end("a", outputs={"x": 1}, text="x")

        assert ended == Run(
            "a", {"x": 1}, "x", None, ("timeout",), tuple(Recalled("n", s) for s in "abc")
        )
        assert (len(runs), runs._roots) == (0, {})

    @pytest.mark.parametrize("way", ["neutral in a step", "stopped at the end"])
    def test_a_run_that_was_paused_is_neutral(self, way: str) -> None:
        """Whether a step said so or the end did."""
        runs = OpenRuns()
        runs.start("a", None)
        runs.start("b", "a")
        if way == "neutral in a step":
            runs.neutral("b")
        ended = runs.end("a", stopped=way == "stopped at the end")

        assert ended is not None
        assert ended.neutral

    def test_steps_of_unknown_parents_are_runs_of_their_own(self) -> None:
        """A handler that is passed to one step only sees that step as the outermost."""
        runs = OpenRuns()
        runs.start("b", "never seen")
        runs.start("c", "b")
        runs.recalled("c", Recalled("n", "1"))

        assert runs.end("c") is None
        ended = runs.end("b")
        assert ended is not None
        assert ended.recalls == (Recalled("n", "1"),)

    def test_what_is_not_open_is_passed_over(self) -> None:
        """Ends without a start, ends twice, and news of steps that ended."""
        runs = OpenRuns()
        runs.recalled("x", Recalled("n", "1"))
        runs.tool_failed("x", "no")
        runs.neutral("x")
        assert runs.end("x") is None
        runs.start("a", None)
        runs.start("b", "a")
        assert runs.end("a") == Run("a")
        runs.recalled("b", Recalled("n", "1"))

        assert (runs.end("a"), runs.end("b"), len(runs), runs._roots) == (None, None, 0, {})

    def test_runs_that_never_end_are_let_go_oldest_first(self) -> None:
        """The number of open runs is bounded, with all their steps."""
        runs = OpenRuns(most=3)
        for number in range(1_000):
            runs.start(f"{number}", None)
            runs.start(f"{number} step", f"{number}")

        assert (len(runs), len(runs._roots)) == (3, 6)
        assert runs.end("996") is None
        assert [runs.end(str(n)) for n in (997, 998, 999)] == [Run("997"), Run("998"), Run("999")]
        assert runs._roots == {}
        with pytest.raises(ValueError, match="at least one open run"):
            OpenRuns(most=0)

    def test_what_follows_in_a_run_that_was_let_go_is_no_run(self) -> None:
        """Its later steps, and theirs, would otherwise be judged as runs of their own."""
        runs = OpenRuns(most=1)
        runs.start("old", None)
        runs.start("new", None)
        runs.start("step", "old")
        runs.start("step of it", "step")
        runs.recalled("step of it", Recalled("n", "1"))

        assert [runs.end(step) for step in ("step of it", "step", "old")] == [None] * 3
        assert runs.end("new") == Run("new")
        for number in range(1_000):
            runs.start(f"{number}", None)
        assert len(runs._lost) <= 4

    def test_steps_that_ended_are_dropped_while_the_run_goes_on(self) -> None:
        """A run of a month has as many entries as it has open steps."""
        runs = OpenRuns()
        runs.start("a", None)
        for number in range(1_000):
            runs.start(f"{number}", "a")
            runs.end(f"{number}")

        assert runs._roots == {"a": "a"}
        assert runs._open["a"].steps == {"a"}

    def test_thousands_of_runs_in_threads_end_empty(self) -> None:
        """Each gets its own recalls and nobody else's, and nothing is left of it."""
        runs = OpenRuns()
        barrier = threading.Barrier(8)

        def work(thread: int) -> bool:
            barrier.wait()
            right = True
            for number in range(500):
                run = f"{thread}/{number}"
                runs.start(run, None)
                for step in "xy":
                    runs.start(run + step, run)
                    runs.recalled(run + step, Recalled(run, step))
                    runs.end(run + step)
                ended = runs.end(run)
                expected = (Recalled(run, "x"), Recalled(run, "y"))
                right = right and ended is not None and ended.recalls == expected
            return right

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(work, range(8))) == [True] * 8
        assert (len(runs), runs._roots) == (0, {})
