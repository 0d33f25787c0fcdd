"""What came of a recall: which memories were used, how it ended, and what that may change."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from recall_echo_core import Memory, Recall, open_memory
from recall_echo_core.errors import NotAllowed, UnknownRecall

if TYPE_CHECKING:
    from conftest import MovableClock

ROOT = Path(__file__).parents[1]
QUESTION = "Where does Alice work?"
FACTS = [
    ("Alice", "WORKS_AT", "Acme"),
    ("Bob", "WORKS_AT", "Globex"),
    ("Carol", "PLAYS", "chess"),
]


def letters(texts: list[str]) -> list[list[float]]:
    """Texts of the same letters are near; the meaning of words does not matter here."""
    signs = "abcdefghijklmnopqrstuvwxyz0123456789"
    return [[0.01, *(float(text.casefold().count(sign)) for sign in signs)] for text in texts]


def opened(
    folder: Path, clock: Callable[[], datetime], *, background: bool = True, **graph: object
) -> Memory:
    settings = {"vectors": {"background": background}, "graph": graph}
    return open_memory(folder, embedding=letters, clock=clock, settings=settings)


@pytest.fixture
def memory(tmp_path: Path, clock: MovableClock) -> Iterator[Memory]:
    """A memory of three relations, whose ids `shown` gives in the order told."""
    with opened(tmp_path, clock) as memory:
        for fact in FACTS:
            memory.remember(*fact)
        yield memory


@pytest.fixture
def found(memory: Memory) -> Recall:
    """A recall that shows the three relations as M1, M2 and M3."""
    recall = memory.recall(QUESTION, kinds=["relation"])
    assert len(recall) == 3
    return recall


def utilities(memory: Memory) -> dict[str, float]:
    """The utility of every item, as the next recall sees it."""
    hits = memory.recall("anything", k=100, record_access=False)
    return {hit.id: hit.parts["utility"] for hit in hits if "utility" in hit.parts}


def texts(found: Recall, ids: tuple[str, ...]) -> set[str]:
    return {hit.text for hit in found if hit.id in ids}


USED, UNUSED = 0.55, 0.49  # after one success, from 0.5


class TestUsage:
    def test_ids_and_aliases_name_what_was_used(self, memory: Memory, found: Recall) -> None:
        """Ids and aliases can be mixed, are reported in the order shown, and win over the text."""
        first, _, third = found.hits

        receipt = memory.mark_used(found.id, used=["M3", first.id, "M1"], response="see [M2]")
        assert (receipt.recall_id, receipt.used, receipt.method) == (
            found.id,
            (first.id, third.id),
            "ids",
        )

    def test_an_empty_list_says_that_none_was_used(self, memory: Memory, found: Recall) -> None:
        """`used=[]` is knowledge: every hit moves towards 0.3, none towards the outcome."""
        receipt = memory.mark_used(found.id, used=[])
        memory.feedback(found.id, "success")

        assert (receipt.used, receipt.method) == ((), "ids")
        assert {utilities(memory)[hit.id] for hit in found} == {UNUSED}

    @pytest.mark.parametrize(
        ("response", "cited"),
        [
            ("She works at Acme [M1].", [0]),
            ("She works at Acme [M1, M3].", [0, 2]),
            ("[M3][M1]", [0, 2]),
            ("[M1,M2;M3]", [0, 1, 2]),
            ("[ m2 ] in small letters", [1]),
            ("[M1, 3]", [0, 2]),
            ("so it is (M1)", [0]),
            ("[M1 and M2]", [0, 1]),
            ("\u3010M2\u3011, \uff08M3\uff09", [1, 2]),
            ("[M1000000002] names nothing, [M2] does", [1]),
            ("[M2] and a stranger [M17]", [1]),
            ("[M1] though Globex and chess are named too", [0]),
        ],
    )
    def test_citations_come_before_words(
        self, memory: Memory, found: Recall, response: str, cited: list[int]
    ) -> None:
        """Marks in the answer decide, one or several in a bracket, whatever its words say."""
        receipt = memory.mark_used(found.id, response=response)

        assert receipt.method == "citations"
        assert receipt.used == tuple(found.hits[place].id for place in cited)

    @pytest.mark.parametrize(
        ("response", "used"),
        [
            ("She is at Acme.", {"Alice works at Acme"}),
            ("ACME, I believe; and Carol plays.", {"Alice works at Acme", "Carol plays chess"}),
            ("Alice does work somewhere, and Bob at Globex", {"Bob works at Globex"}),
            ("[M17] is not here, but chess is", {"Carol plays chess"}),
        ],
    )
    def test_words_decide_where_nothing_is_cited(
        self, memory: Memory, found: Recall, response: str, used: set[str]
    ) -> None:
        """A hit is used if the answer shares a word with it that the question does not have."""
        receipt = memory.mark_used(found.id, response=response)

        assert receipt.method == "overlap"
        assert texts(found, receipt.used) == used

    @pytest.mark.parametrize(
        "response",
        ["", "Where does Alice work?", "Alice? Work? Where?", "It is not so.", "No idea, sorry."],
    )
    def test_an_answer_without_words_of_its_own_says_nothing(
        self, memory: Memory, found: Recall, response: str
    ) -> None:
        """What repeats the question, or shares nothing with a hit, leaves usage unknown."""
        receipt = memory.mark_used(found.id, response=response)

        assert (receipt.method, receipt.used) == ("unknown", ())

    @pytest.mark.parametrize("marked", [False, True])
    def test_while_usage_is_unknown_all_count_as_used(
        self, memory: Memory, found: Recall, marked: bool
    ) -> None:
        """Without a mark, or with one that says nothing, a success moves every hit up a tenth."""
        if marked:
            assert memory.mark_used(found.id).method == "unknown"
        memory.feedback(found.id, "success")

        assert {utilities(memory)[hit.id] for hit in found} == {USED}

    @pytest.mark.parametrize(
        ("outcome", "used"), [("success", 0.55), ("partial", 0.5), ("failed", 0.45), (0.25, 0.475)]
    )
    def test_used_and_unused_move_by_their_formulas(
        self, memory: Memory, found: Recall, outcome: str | float, used: float
    ) -> None:
        """Used: u + 0.1 (r - u). Recalled and not used: u + 0.05 (0.3 - u), whatever r is."""
        first, second, third = found.hits
        memory.mark_used(found.id, used=["M2"])
        memory.feedback(found.id, outcome)

        now = utilities(memory)
        assert now[second.id] == pytest.approx(used, abs=1e-12)
        assert now[first.id] == now[third.id] == pytest.approx(0.49, abs=1e-12)
        assert {now[item] for item in now.keys() - {hit.id for hit in found}} == {0.5}

    @pytest.mark.parametrize(
        ("arguments", "error", "why"),
        [
            ({"used": ["M4"]}, ValueError, "'M4' is not in this recall; it showed M1, M2, M3"),
            ({"used": ["ab" * 16]}, ValueError, "is not in this recall"),
            ({"used": "M1"}, ValueError, r"write used=\['M1'\]"),
            ({"response": 3}, TypeError, "response must be text"),
        ],
    )
    def test_a_bad_mark_is_an_error_and_leaves_nothing(
        self, memory: Memory, found: Recall, arguments, error: type[Exception], why: str
    ) -> None:
        """A hit that was not shown, or what is no text, is refused before anything is written."""
        memory.flush()
        before = memory.stats().events

        with pytest.raises(error, match=why):
            memory.mark_used(found.id, **arguments)
        assert memory.stats().events == before

    def test_the_last_mark_before_the_verdict_counts(self, memory: Memory, found: Recall) -> None:
        """A mark can be corrected until feedback is given; repeating it adds nothing."""
        memory.mark_used(found.id, used=["M1"])
        memory.mark_used(found.id, used=["M3"])
        events = memory.stats().events
        memory.mark_used(found.id, used=["M3"])
        assert memory.stats().events == events
        memory.feedback(found.id, "success")

        assert [utilities(memory)[hit.id] for hit in found] == [UNUSED, UNUSED, USED]

    def test_a_mark_after_the_verdict_is_refused(self, memory: Memory, found: Recall) -> None:
        """Feedback was resolved with the usage known then, so usage cannot change any more."""
        memory.mark_used(found.id, used=["M1"])
        memory.feedback(found.id, "success")
        before = memory.stats().events, utilities(memory)

        with pytest.raises(NotAllowed, match=r"mark_used\(\) comes before feedback\(\)"):
            memory.mark_used(found.id, used=["M2"])
        with pytest.raises(NotAllowed):
            memory.mark_used(found.id, response="see [M3]")
        assert (memory.stats().events, utilities(memory)) == before
        assert memory.mark_used(found.id, used=["M1"]).method == "ids"  # what is known already

    def test_a_question_can_be_given_again(
        self, memory: Memory, found: Recall, tmp_path: Path, clock: MovableClock
    ) -> None:
        """No question is kept on disk: after reopening, words decide only if it is said again."""
        memory.close()
        with opened(tmp_path, clock) as again:
            response = "Alice does work somewhere, and Bob at Globex"
            unknown = again.mark_used(found.id, response=response)
            told = again.mark_used(found.id, response=response, question=QUESTION)

            assert (unknown.method, unknown.used) == ("unknown", ())
            assert told.method == "overlap"
            assert texts(found, told.used) == {"Bob works at Globex"}
            assert again.mark_used(found.id, response="[M2]").method == "citations"
        log = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        for word in (b"Where does", b"somewhere"):
            assert word not in log


class TestFeedback:
    def test_the_same_verdict_counts_once(self, memory: Memory, found: Recall) -> None:
        """A source that says the same again, in a word or a number, adds no event."""
        memory.feedback(found.id, "success")
        before = memory.stats().events, utilities(memory)
        memory.feedback(found.id, "success")
        memory.feedback(found.id, 1.0, source=" user ")

        assert (memory.stats().events, utilities(memory)) == before

    def test_each_source_counts(self, memory: Memory, found: Recall) -> None:
        """A user and a tool that agree are two steps: 0.5, 0.55, 0.595."""
        memory.feedback(found.id, "success")
        memory.feedback(found.id, "success", source="tool:judge")

        assert {utilities(memory)[hit.id] for hit in found} == {0.55 + 0.1 * (1.0 - 0.55)}

    def test_of_one_source_the_last_verdict_counts(
        self, memory: Memory, tmp_path: Path, clock: MovableClock
    ) -> None:
        """A changed mind gives, bit for bit, what only the last word would; so does a replay."""
        recalls = [memory.recall(QUESTION, kinds=["relation"]) for _ in range(3)]
        said: list[tuple[int, str | float, str]] = [
            (0, "success", "user"),
            (1, "failed", "user"),
            (0, "partial", "judge"),
            (2, 0.9, "user"),
            (0, "failed", "user"),  # instead of success, in its place
            (1, 0.3, "judge"),
            (1, "success", "user"),  # instead of failed
            (0, 0.123, "user"),  # instead of failed
        ]
        for place in (0, 2):
            memory.mark_used(recalls[place].id, used=["M1", "M3"])
        for place, outcome, source in said:
            memory.feedback(recalls[place].id, outcome, source=source)

        rewards = {"success": 1.0, "partial": 0.5, "failed": 0.0}
        last: dict[tuple[int, str], float] = {}
        for place, outcome, source in said:  # a mind changed keeps the place of its first word
            last[place, source] = rewards[outcome] if isinstance(outcome, str) else outcome
        expected = {hit.id: 0.5 for hit in recalls[0]}
        for (place, _), reward in last.items():
            for hit in recalls[place]:
                used = place == 1 or hit.alias in ("M1", "M3")
                u = expected[hit.id]
                expected[hit.id] = u + 0.1 * (reward - u) if used else u + 0.05 * (0.3 - u)
        now = utilities(memory)
        assert {id: now[id] for id in expected} == expected
        assert memory.verify().ok
        memory.close()
        with opened(tmp_path, clock) as again:  # a fresh replay of the log
            assert utilities(again) == now

    def test_a_changed_mind_gives_what_saying_it_at_once_would(
        self, tmp_path: Path, clock: MovableClock
    ) -> None:
        """Two stores, one with detours and one without, end with the same utilities."""
        ends = []
        for number, detours in enumerate([["failed", 0.2, "success"], ["success"]]):
            with opened(tmp_path / str(number), clock) as memory:
                memory.add_entity("Acme")
                found = memory.recall("Acme")
                for outcome in detours:
                    memory.feedback(found.id, outcome)
                ends.append(memory.get("Acme").utility)

        assert ends == [0.55, 0.55]

    @pytest.mark.parametrize(
        ("outcome", "error", "why"),
        [
            ("great", ValueError, "must be one of success, partial, failed, not 'great'"),
            (1.5, ValueError, r"must lie in \[0, 1\]"),
            (-0.1, ValueError, r"must lie in \[0, 1\]"),
            (float("nan"), ValueError, r"must lie in \[0, 1\]"),
            (True, TypeError, "must be a word or a number"),
            (None, TypeError, "must be a word or a number"),
        ],
    )
    def test_a_bad_outcome_is_an_error_and_leaves_nothing(
        self, memory: Memory, found: Recall, outcome, error: type[Exception], why: str
    ) -> None:
        """What is neither a known word nor a number in [0, 1] is refused."""
        memory.flush()
        before = memory.stats().events

        with pytest.raises(error, match=why):
            memory.feedback(found.id, outcome)
        assert memory.stats().events == before

    @pytest.mark.parametrize(
        ("recall_id", "error", "why"),
        [
            ("00" * 16, UnknownRecall, "no such receipt"),
            ("M1", ValueError, "is not an id"),
            ("", ValueError, "is not an id"),
            (None, ValueError, "has no receipt"),
        ],
    )
    def test_an_unknown_recall_is_an_error(
        self, memory: Memory, recall_id: str | None, error: type[Exception], why: str
    ) -> None:
        """Ids that no recall gave are refused by both verbs."""
        with pytest.raises(error, match=why):
            memory.feedback(recall_id, "success")
        with pytest.raises(error, match=why):
            memory.mark_used(recall_id, used=[])

    def test_a_verdict_may_come_at_once_without_a_thread(
        self, tmp_path: Path, clock: MovableClock
    ) -> None:
        """The receipt of the recall just made is known to feedback, with nothing in between."""
        with opened(tmp_path, clock, background=False) as memory:
            memory.add_entity("Acme")
            found = memory.recall("Acme")
            memory.feedback(found.id, "success")

            assert memory.get("Acme").utility == 0.55
            assert memory.stats().events == 3  # entity, receipt, verdict

    def test_a_recall_without_hits_can_be_judged(self, tmp_path: Path, clock: MovableClock) -> None:
        """Nothing was shown, so nothing is credited, and nobody has to look first."""
        with opened(tmp_path, clock) as memory:
            found = memory.recall("anything")
            assert found.hits == ()
            assert found.as_text() == ""

            assert memory.mark_used(found.id, response="I do not know").used == ()
            memory.feedback(found.id, "failed")
            assert memory.verify().ok

    def test_late_feedback_from_another_process(self, tmp_path: Path) -> None:
        """A thumbs-up given the next day by another process is credited as if given here."""
        with open_memory(tmp_path) as memory:  # the default model, so both processes have it
            for fact in FACTS:
                memory.remember(*fact)
            found = memory.recall(QUESTION, kinds=["relation"])
            memory.mark_used(found.id, used=["M1"])

            assert in_another_process(tmp_path, found.id, "success") == "success"
            ids = [hit.id for hit in found]
            assert [utilities(memory)[id] for id in ids] == [USED, UNUSED, UNUSED]  # while open
        assert in_another_process(tmp_path, found.id, "failed") == "failed"
        assert in_another_process(tmp_path, found.id, "failed") == "failed"

        with open_memory(tmp_path) as memory:
            assert [utilities(memory)[id] for id in ids] == [0.45, UNUSED, UNUSED]
            assert memory.verify().ok
            with pytest.raises(NotAllowed):
                memory.mark_used(found.id, used=["M2"])

    @pytest.mark.parametrize("waits", [False, True])
    def test_a_receipt_that_was_closed_over_is_kept(
        self, tmp_path: Path, clock: MovableClock, waits: bool
    ) -> None:
        """Closing makes receipts durable, whether or not a thread has done so before."""
        with opened(tmp_path, clock, background=not waits) as memory:
            memory.add_entity("Acme")
            found = memory.recall("Acme")
        clock.advance(days=1)

        with opened(tmp_path, clock) as memory:
            memory.feedback(found.id, "success")
            assert memory.get("Acme").utility == 0.55


def in_another_process(folder: Path, recall_id: str, outcome: str) -> str:
    """Give a verdict from a process of its own, and return what it printed."""
    code = (
        "import sys; from recall_echo_core import open_memory\n"
        "with open_memory(sys.argv[1]) as memory: memory.feedback(sys.argv[2], sys.argv[3])\n"
        "print(sys.argv[3])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), recall_id, outcome],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class TestExpiry:
    def test_a_receipt_is_good_for_90_days_of_the_clock(
        self, memory: Memory, found: Recall, clock: MovableClock
    ) -> None:
        """To the microsecond: at 90 days feedback counts, just past them the receipt is gone."""
        memory.flush()
        clock.advance(days=90)
        memory.mark_used(found.id, used=["M1"])
        memory.feedback(found.id, "success")
        before = memory.stats().events
        clock.advance(microseconds=1)

        with pytest.raises(UnknownRecall, match="its receipt expired after 90 days"):
            memory.feedback(found.id, "failed")
        with pytest.raises(UnknownRecall, match="its receipt expired after 90 days"):
            memory.mark_used(found.id, used=["M2"])
        assert memory.stats().events == before
        assert utilities(memory)[found.hits[0].id] == USED  # what was said in time stands

    def test_the_time_can_be_set(self, tmp_path: Path, clock: MovableClock) -> None:
        """`recall.receipt_days` makes it shorter."""
        settings = {"recall": {"receipt_days": 1.5}}
        with open_memory(tmp_path, embedding=letters, clock=clock, settings=settings) as memory:
            memory.add_entity("Acme")
            found = memory.recall("Acme")
            memory.flush()
            clock.advance(days=1.5)
            memory.feedback(found.id, "failed")
            clock.advance(seconds=1)

            with pytest.raises(UnknownRecall, match=r"expired after 1\.5 days"):
                memory.feedback(found.id, "success")


class TestRuns:
    def test_a_verdict_on_a_run_reaches_each_of_its_recalls(self, memory: Memory) -> None:
        """Three recalls of a run are three verdicts; other runs and keys are left alone."""
        mine = [memory.recall(QUESTION, kinds=["relation"], run_id="run 1") for _ in range(3)]
        memory.recall("who plays?", kinds=["entity"], run_id="run 2")
        entities = {entity.id: entity.utility for entity in memory.entities()}

        assert memory.feedback_for_run("run 1", 1.0) == 3
        utility = 0.5
        for _ in mine:
            utility += 0.1 * (1.0 - utility)
        assert {utilities(memory)[hit.id] for hit in mine[0]} == {utility}
        assert {entity.id: entity.utility for entity in memory.entities()} == entities

    def test_it_is_idempotent_for_each_key(self, memory: Memory) -> None:
        """Repeating a key adds nothing, changing its score replaces it, another key adds."""
        found = memory.recall(QUESTION, kinds=["relation"], run_id="run")
        memory.feedback_for_run("run", 1.0)
        events = memory.stats().events
        memory.feedback_for_run("run", 1.0)
        assert memory.stats().events == events
        assert {utilities(memory)[hit.id] for hit in found} == {USED}
        memory.feedback_for_run("run", 0.0)
        assert {utilities(memory)[hit.id] for hit in found} == {0.45}
        memory.feedback_for_run("run", True, key="thumb")

        assert {utilities(memory)[hit.id] for hit in found} == {0.45 + 0.1 * (1.0 - 0.45)}
        assert memory.stats().events == events + 2
        assert memory.verify().ok

    def test_the_run_is_found_from_another_handle(
        self, tmp_path: Path, clock: MovableClock
    ) -> None:
        """The host's id is enough, a day later, and no id of ours is needed."""
        with opened(tmp_path, clock) as memory:
            memory.add_entity("Acme")
            memory.recall("Acme", run_id="3f2b")
        clock.advance(days=1)

        with opened(tmp_path, clock) as memory:
            assert memory.feedback_for_run("3f2b", 0.0) == 1
            assert memory.get("Acme").utility == 0.45

    def test_an_expired_recall_of_a_run_is_passed_over(
        self, memory: Memory, clock: MovableClock
    ) -> None:
        """Of a run that went on for months, the recalls that still can take the verdict."""
        memory.recall("Carol", kinds=["entity"], run_id="run")
        memory.flush()
        clock.advance(days=80)
        found = memory.recall(QUESTION, kinds=["relation"], run_id="run")
        memory.flush()
        clock.advance(days=20)

        assert memory.feedback_for_run("run", 1.0) == 1
        assert {utilities(memory)[hit.id] for hit in found} == {USED}
        assert {entity.utility for entity in memory.entities()} == {0.5}
        clock.advance(days=80)
        with pytest.raises(UnknownRecall, match="no recall of this run has a receipt"):
            memory.feedback_for_run("run", 0.0)

    @pytest.mark.parametrize(
        ("run", "score", "error"),
        [
            ("other", 1.0, UnknownRecall),
            ("run", 1.1, ValueError),
            ("run", float("nan"), ValueError),
            ("", 1.0, ValueError),
        ],
    )
    def test_what_cannot_be_credited_is_an_error(
        self, memory: Memory, run: str, score: float, error: type[Exception]
    ) -> None:
        """A run without recalls and a score out of range leave nothing behind."""
        memory.recall(QUESTION, run_id="run")
        memory.flush()
        before = memory.stats().events

        with pytest.raises(error):
            memory.feedback_for_run(run, score)
        assert memory.stats().events == before


class TestTraces:
    def test_without_record_access_nothing_is_left(
        self, memory: Memory, tmp_path: Path, clock: MovableClock
    ) -> None:
        """No receipt, no event, no hotness: any number of such readings is as if none."""
        memory.recall(QUESTION)
        memory.flush()
        before = memory.stats(), memory.entities(), memory.recall(QUESTION, record_access=False)
        for _ in range(5):
            unseen = memory.recall(QUESTION, record_access=False)
            memory.as_of().recall(QUESTION)
        memory.flush()

        assert unseen.id is None
        assert unseen == before[2]
        assert (memory.stats(), memory.entities()) == before[:2]
        assert memory.recall(QUESTION, record_access=False) == before[2]
        with pytest.raises(ValueError, match="record_access=False leaves none"):
            memory.feedback(unseen.id, "success")

    def test_outcomes_change_utility_only(self, memory: Memory) -> None:
        """No verdict moves an alpha, a beta, an effective confidence or any other reading of it."""
        memory.contradict("Bob", "WORKS_AT", "Globex", weight=0.3)

        def believed() -> list[object]:
            return [
                memory.relations(),
                [memory.beliefs(subject, relation) for subject, relation, _ in FACTS],
                [memory.explain(*fact) for fact in FACTS],
                memory.traverse("Alice"),
            ]

        before = believed()
        for outcome in ("failed", "success", 0.3, "failed", "failed"):
            found = memory.recall(QUESTION, k=20)
            memory.mark_used(found.id, response="Acme, says [M1]")
            memory.feedback(found.id, outcome)
            memory.feedback(found.id, "failed", source="judge")

        after = believed()
        assert after[:3] == before[:3]
        assert [(r.path, r.confidence) for r in after[3]] == [
            (r.path, r.confidence) for r in before[3]
        ]
        assert {round(u, 6) for u in utilities(memory).values()} != {0.5}

    def test_reading_changes_the_next_reading_by_hotness_only(
        self, tmp_path: Path, clock: MovableClock
    ) -> None:
        """Of two recalls of the same question only hotness differs, and it rises 1/2, 2/3, 3/4."""
        alone = {"min_confidence": 1.0}  # every entity is found by its own text
        with opened(tmp_path, clock, background=False, expansion=alone) as memory:
            for fact in FACTS:
                memory.remember(*fact)
            memory.record([{"content": "Alice works hard"}])
            first, second, third = (memory.recall(QUESTION, k=20) for _ in range(3))

        levels: dict[str, list[float]] = {}
        for recall in (first, second, third):
            assert len(recall) == len(first)
            for hit in recall:
                levels.setdefault(hit.kind, []).append(hit.parts["hotness"])
                assert rest(hit) == next(rest(other) for other in first if other.id == hit.id)
                assert hit.score == pytest.approx(
                    (
                        0.45 * hit.parts["relevance"]
                        + 0.3 * hit.parts["hotness"]
                        + 0.25 * hit.parts["utility"]
                    )
                    * hit.parts.get("confidence", 1.0),
                    abs=1e-12,
                )
        assert levels["entity"] == [1 / 2] * 6 + [2 / 3] * 6 + [3 / 4] * 6
        assert levels["relation"] == [1 / 2] * 3 + [2 / 3] * 3 + [3 / 4] * 3
        # An episode is a record of the past: only being recalled makes it hot.
        assert levels["episode"] == [0.0, 2 / 3, 3 / 4]

    def test_hotness_halves_in_a_week_without_activity(
        self, memory: Memory, clock: MovableClock
    ) -> None:
        """After n accesses it is (1 + n) / (2 + n), halved every 7 days since the last."""
        for _ in range(3):
            memory.recall("Carol plays chess", kinds=["relation"], k=1)
            memory.flush()
            clock.advance(days=1)
        clock.advance(days=6)

        (hit,) = memory.recall("Carol plays chess", kinds=["relation"], k=1, record_access=False)
        assert hit.text == "Carol plays chess"
        assert hit.parts["hotness"] == pytest.approx(4 / 5 * 0.5, abs=1e-12)

    def test_a_reading_clock_of_its_own_moves_the_reading(
        self, memory: Memory, clock: MovableClock
    ) -> None:
        """`now=` reads as of that moment: half a relation's confidence is left after 90 days."""
        later = clock() + timedelta(days=90)

        def sure(now: datetime | None) -> float | None:
            found = memory.recall(
                "Carol plays chess", kinds=["relation"], k=1, now=now, record_access=False
            )
            assert found.now == (now or clock())
            return found.hits[0].confidence

        assert sure(None) == 0.9
        assert sure(later) == pytest.approx(0.45, abs=1e-12)
        assert sure(datetime(2027, 1, 1, tzinfo=UTC)) < 0.45


def rest(hit) -> tuple[object, ...]:
    """Everything of a hit but its score and its place, hotness and accesses left out."""
    parts = {name: value for name, value in hit.parts.items() if name != "hotness"}
    item = hit.item
    said = (item.name, item.abstract, item.utility) if hit.kind == "entity" else item
    return hit.kind, hit.id, hit.text, hit.confidence, hit.path, parts, said
