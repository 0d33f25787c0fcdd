"""What both adapters share: whose memory, what a turn leaves, and what its end says."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import Enum, StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from recall_echo_adapters.namespaces import memory_of
from recall_echo_adapters.turns import close_turn, record_said
from recall_echo_core import Memory, Recall, open_memory

if TYPE_CHECKING:
    from conftest import MovableClock

ALONE = {"vectors": {"background": False}}
QUESTION = {"role": "user", "content": "Where does Alice work?", "id": "q1"}
NEWS = {"role": "assistant", "content": "I shall call the Oslo office on Monday.", "id": "a1"}
ECHO = {"role": "assistant", "content": "Alice works at Acme [M1].", "id": "a1"}


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


def kept(memory: Memory) -> list[str]:
    return [episode.content for episode in memory.episodes()]


def utilities(memory: Memory) -> dict[str, float]:
    hits = memory.recall("?", k=9, kinds=["relation"], record_access=False)
    return {hit.text: hit.parts["utility"] for hit in hits}


class User(str, Enum):  # noqa: UP042 many programs still do
    """An id as some programs keep it."""

    ANN = "ann"


class Customer(StrEnum):
    """An id as others do."""

    ANN = "ann"


class TestWhoseMemory:
    @pytest.mark.parametrize(
        ("places", "name"),
        [
            ([], "default"),
            ([None, {}, SimpleNamespace()], "default"),
            ([{"user_id": None}], "default"),
            ([{"user_id": "ann"}, {"user_id": "bob"}], "ann"),
            ([None, {"user_id": None}, {"user_id": "bob"}], "bob"),
            ([SimpleNamespace(user_id="ann"), {"user_id": "bob"}], "ann"),
            ([{"other": "eve"}, SimpleNamespace(user_id="bob")], "bob"),
            ([{"user_id": 42}], "42"),
            ([{"user_id": 0}, {"user_id": "bob"}], "0"),
            ([{"user_id": UUID(int=7)}], "00000000-0000-0000-0000-000000000007"),
            ([{"user_id": " ann "}], "ann"),
            ([{"user_id": "default"}], "default"),
            ([{"user_id": User.ANN}], "ann"),
            ([{"user_id": Customer.ANN}], "ann"),
        ],
    )
    def test_the_first_place_that_names_somebody_decides(
        self, memory: Memory, places: list[Any], name: str
    ) -> None:
        """Mappings and objects alike; where nobody is named it is the memory itself."""
        assert memory_of(memory, "user_id", *places).name == name

    @pytest.mark.parametrize("required", [False, True])
    @pytest.mark.parametrize(
        ("named", "error", "why"),
        [
            ("", ValueError, "user_id is empty"),
            (" \t", ValueError, "user_id is empty"),
            (True, TypeError, "user_id must be text or a number, not True"),
            (False, TypeError, "user_id must be text or a number, not False"),
            (1.5, TypeError, "not 1.5"),
            (b"ann", TypeError, "not b'ann'"),
            (["ann"], TypeError, r"not \['ann'\]"),
            ("\ud800", ValueError, "half a surrogate pair"),
            ("x" * 1_001, ValueError, "1,001 characters"),
        ],
    )
    def test_an_id_that_names_nobody_is_an_error(
        self, memory: Memory, named: Any, error: type[Exception], why: str, required: bool
    ) -> None:
        """It is never taken to mean somebody else, nor the next place asked."""
        with pytest.raises(error, match=why):
            memory_of(memory, "user_id", {"user_id": named}, {"user_id": "b"}, required=required)
        assert memory.namespaces() == ["default"]

    def test_where_somebody_has_to_be_named_nobody_is_an_error(self, memory: Memory) -> None:
        """The error says how to name them, by the key that was looked for."""
        with pytest.raises(ValueError, match=r'no tenant: .*\{"configurable": \{"tenant": "al'):
            memory_of(memory, "tenant", None, {"user_id": "ann"}, required=True)
        assert memory_of(memory, "tenant", {"tenant": "a"}, required=True).name == "a"

    def test_two_users_never_meet(self, memory: Memory) -> None:
        """In two hundred calls from eight threads each finds what is theirs and nothing else."""

        def call(number: int) -> set[str]:
            user = f"user {number % 4}"
            own = memory_of(memory, "user_id", {"user_id": user})
            own.record([{"content": f"{user} says {number}"}])
            found = own.recall("what was said?", k=100)
            return {hit.text.split(" says")[0].removeprefix("user: ") for hit in found} - {user}

        with ThreadPoolExecutor(8) as pool:
            strangers = list(pool.map(call, range(200)))
        assert strangers == [set()] * 200
        assert kept(memory) == []


class TestClosingATurn:
    @pytest.mark.parametrize(
        ("save", "expected"),
        [("both", [QUESTION, NEWS]), ("user", [QUESTION]), ("none", [])],
    )
    def test_what_is_kept_is_what_was_chosen(
        self, memory: Memory, found: Recall, save: Any, expected: list[dict[str, str]]
    ) -> None:
        """And what was used is marked, whatever is kept; closing twice keeps nothing twice."""
        for _ in range(2):
            self.close(memory, found, NEWS, save=save, actions="see [M2]")

        assert kept(memory) == [message["content"] for message in expected]
        assert {episode.session_id for episode in memory.episodes()} <= {"s1"}
        memory.feedback(found.id, "success")
        assert utilities(memory) == {"Alice works at Acme": 0.49, "Bob plays chess": 0.55}

    def test_an_answer_that_is_an_echo_is_not_kept(self, memory: Memory, found: Recall) -> None:
        """What it used is marked all the same."""
        self.close(memory, found, ECHO)

        assert kept(memory) == [QUESTION["content"]]
        memory.feedback(found.id, "success")
        assert utilities(memory) == {"Alice works at Acme": 0.55, "Bob plays chess": 0.49}

    def test_an_echo_is_not_kept_either_when_feedback_came_first(
        self, memory: Memory, found: Recall
    ) -> None:
        """The verdict stands as it was resolved, and the turn closes."""
        memory.feedback(found.id, "success")
        self.close(memory, found, ECHO)
        assert kept(memory) == [QUESTION["content"]]
        self.close(memory, found, NEWS)

        assert kept(memory) == [QUESTION["content"], NEWS["content"]]
        assert set(utilities(memory).values()) == {0.55}

    def test_twenty_echoes_leave_the_memory_as_it_was(self, memory: Memory, found: Recall) -> None:
        """Row 11: recalled, said again by the model, kept never."""
        before = [(r.alpha, r.beta) for r in memory.relations()]
        for turn in range(20):
            again = memory.recall("Where does Alice work?", k=3)
            self.close(memory, again, ECHO | {"id": f"a{turn}"}, said=[])

        assert kept(memory) == []
        assert [(r.alpha, r.beta) for r in memory.relations()] == before

    @pytest.mark.parametrize("recalls", [[], ["00" * 16]])
    def test_without_a_receipt_the_turn_closes(self, memory: Memory, recalls: list[str]) -> None:
        """Nothing says that the answer is an echo, so it is kept."""
        close_turn(
            memory, recalls, question="?", response="x", said=[QUESTION], answer=ECHO,
            session_id=None, save="both",
        )  # fmt: skip

        assert kept(memory) == [QUESTION["content"], ECHO["content"]]

    @pytest.mark.parametrize("order", [1, -1])
    def test_repeating_the_hits_of_one_recall_is_enough(
        self, memory: Memory, found: Recall, order: int
    ) -> None:
        """Of several recalls any may make the answer an echo, whichever came first."""
        other = memory.recall("Bob", max_tokens=1)
        self.close(memory, found, ECHO, recalls=[found.id, other.id][::order])

        assert kept(memory) == [QUESTION["content"]]

    def test_an_expired_receipt_among_others_is_passed_over(
        self, memory: Memory, found: Recall, clock: MovableClock
    ) -> None:
        """The others are marked, and tell whether the answer is an echo."""
        memory.flush()
        clock.advance(days=91)
        new = memory.recall("Where does Alice work?", kinds=["relation"])
        self.close(memory, found, ECHO, recalls=[found.id, new.id])

        assert kept(memory) == [QUESTION["content"]]

    def test_empty_and_broken_messages_lose_no_turn(self, memory: Memory) -> None:
        """Empty ones are left out; half a surrogate pair becomes a replacement character."""
        said = [{"content": " "}, {"content": "a \ud83d b"}, {"content": ""}]
        answer = {"role": "assistant", "content": "\U0001f600 \udc00"}
        found = memory.recall("anything")
        close_turn(
            memory, [str(found.id)], question="a \ud83d b", response="\udc00", said=said,
            answer=answer, session_id="s", save="both",
        )  # fmt: skip

        assert kept(memory) == ["a \ufffd b", "\U0001f600 \ufffd"]
        assert said[1] == {"content": "a \ud83d b"}
        assert record_said(memory, [{"content": "\n"}], None, "both") == []

    @staticmethod
    def close(
        memory: Memory,
        found: Recall,
        answer: dict[str, str],
        *,
        recalls: list[Any] | None = None,
        said: list[dict[str, str]] | None = None,
        actions: str = "",
        save: Any = "both",
    ) -> None:
        close_turn(
            memory,
            [found.id] if recalls is None else recalls,
            question=QUESTION["content"],
            response=answer["content"],
            actions=actions,
            said=[QUESTION] if said is None else said,
            answer=answer,
            session_id="s1",
            save=save,
        )
