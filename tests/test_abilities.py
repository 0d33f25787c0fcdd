"""What a model can do with a memory of its own accord, and what it cannot do by mistake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from recall_echo_adapters.abilities import ABILITIES, AbilityName, Call, Receipt, relation_type
from recall_echo_core import Memory, Statement, open_memory

if TYPE_CHECKING:
    from conftest import MovableClock

ALONE = {"vectors": {"background": False}}
FACT = {"subject": "Alice", "relation": "works at", "object": "Acme"}
SAID = [
    {"role": "user", "content": "Hello", "id": "m1"},
    {"role": "user", "content": "Alice works at Acme", "id": "m2"},
]


def letters(texts: list[str]) -> list[list[float]]:
    """Texts of the same letters are near; the meaning of words does not matter here."""
    signs = "abcdefghijklmnopqrstuvwxyz0123456789"
    return [[0.01, *(float(text.casefold().count(sign)) for sign in signs)] for text in texts]


@pytest.fixture
def memory(tmp_path: Path, clock: MovableClock) -> Iterator[Memory]:
    with open_memory(tmp_path, embedding=letters, clock=clock, settings=ALONE) as memory:
        yield memory


def use(ability: AbilityName, call: Call | Memory, **given: Any) -> tuple[str, Receipt]:
    return ABILITIES[ability].run(call if isinstance(call, Call) else Call(call), given)


def posterior(memory: Memory) -> tuple[float, float]:
    (relation,) = memory.relations()
    return relation.alpha, relation.beta


class TestEach:
    def test_a_fact_goes_through_all_of_them(self, memory: Memory) -> None:
        """Noted, noted again, recalled, doubted, explained, forgotten: each says what it did."""
        noted, receipt = use("remember", memory, **FACT)
        assert noted == "Noted: Alice works at Acme, 90% sure now (1 for, 0 against)"
        assert (receipt["namespace"], receipt["counted"], receipt["confidence"]) == (
            "default",
            True,
            0.9,
        )
        text, receipt = use("recall", memory, query="Where does Alice work?")
        assert "] Alice works at Acme (90% sure" in text
        assert receipt["ids"][0] in {relation.id for relation in memory.relations()} | {
            entity.id for entity in memory.entities()
        }
        memory.feedback(receipt["recall_id"], "success")
        doubted, _ = use("contradict", memory, **FACT)
        assert doubted == "Noted as doubted: Alice works at Acme, 82% sure now (1 for, 1 against)"
        why, _ = use("explain", memory, **FACT)
        assert why == str(memory.explain("Alice", "WORKS_AT", "Acme"))
        gone, receipt = use("forget", memory, subject="Alice")
        assert gone == "Forgotten (pieces of evidence: 2, messages: 0)."
        assert receipt == {
            "namespace": "default",
            "status": "complete",
            "events": 2,
            "forgot": True,
        }

        assert use("recall", memory, query="Alice")[0] == "Nothing is remembered about that."
        assert use("forget", memory, subject="Alice")[0] == "Nothing was known about Alice."
        assert "Alice" in use("explain", memory, **FACT)[0]

    @pytest.mark.parametrize(
        "spelt", ["works at", "WORKS_AT", "works-at", " Works  At ", "worksAt", "works_at"]
    )
    def test_a_relation_is_the_same_however_it_is_spelt(self, memory: Memory, spelt: str) -> None:
        """Models are not consistent, and a fact must not come apart for it."""
        memory.remember("Alice", "WORKS_AT", "Acme")
        use("remember", memory, **FACT | {"relation": spelt})
        assert relation_type(spelt) == "WORKS_AT"
        assert posterior(memory) == (10.0, 1.0)
        gone, _ = use("forget", memory, **FACT | {"relation": spelt})

        assert gone == "Forgotten (pieces of evidence: 2, messages: 0)."
        assert memory.relations() == []

    @pytest.mark.parametrize("ability", ["remember", "contradict"])
    def test_what_the_model_concluded_weighs_less(self, memory: Memory, ability: Any) -> None:
        """Its prior is that of an inference, and its source is the agent."""
        use(ability, memory, **FACT, said_by_user=False)
        (relation,) = memory.relations()

        assert relation.context == "inferred"
        assert relation.source == "agent"

    @pytest.mark.parametrize(("since", "known"), [("2020-05-01", True), ("", False), (None, False)])
    def test_since_when_is_kept_if_it_is_said(
        self, memory: Memory, since: str | None, known: bool
    ) -> None:
        """An empty text is how models leave it out."""
        use("remember", memory, **FACT, since=since)
        (relation,) = memory.relations()

        assert (relation.valid_from is not None) == known

    def test_a_recall_shows_no_more_than_there_is_room_for(self, memory: Memory) -> None:
        """Hits, tokens and the run are the call's."""
        for number in range(9):
            use("remember", memory, subject="Alice", relation="knows", object=f"Bob {number}")
        call = Call(memory, k=3, max_tokens=80, run_id="run")
        text, receipt = use("recall", call, query="Alice")

        assert 0 < len(receipt["ids"]) <= 3
        assert len(text.encode()) <= 240
        assert memory.feedback_for_run("run", 1.0) == 1


class TestInATurn:
    @pytest.mark.parametrize("save", ["both", "user", "none"])
    @pytest.mark.parametrize("ability", ["remember", "contradict"])
    def test_the_same_call_twice_counts_once(self, memory: Memory, ability: Any, save: Any) -> None:
        """A turn that is run again, as after a crash, is the same turn."""
        call = Call(memory, heard="Alice works at Acme", said=SAID, session_id="s", save=save)
        first = use(ability, call, **FACT)
        again = [use(ability, call, **FACT) for _ in range(3)]

        assert again[0][0] == first[0]
        assert posterior(memory) == ((9.0, 1.0) if ability == "remember" else (9.0, 2.0))
        (relation,) = memory.relations()
        assert relation.supports + relation.opposes == 1
        assert len(memory.episodes()) == (0 if save == "none" else 2)

    @pytest.mark.parametrize("save", ["both", "none"])
    @pytest.mark.parametrize("other", [{"session_id": "t"}, {"said": [SAID[1] | {"id": 3}]}])
    def test_another_turn_counts_again(
        self, memory: Memory, save: Any, other: dict[str, Any]
    ) -> None:
        """Of another message, a numbered one too, and of the same id in another session."""
        turn: dict[str, Any] = {"heard": "At Acme", "said": SAID, "session_id": "s", "save": save}
        use("remember", Call(memory, **turn), **FACT)
        use("remember", Call(memory, **turn | other), **FACT)

        assert posterior(memory) == (10.0, 1.0)

    def test_what_was_only_read_is_not_counted(self, memory: Memory) -> None:
        """The model is told so, the program too, and nothing moves; doubting it is allowed."""
        use("remember", memory, **FACT)
        found = memory.recall("Where does Alice work?")
        call = Call(memory, heard="Where does she work?", recalls=[str(found.id)])
        for _ in range(20):
            text, receipt = use("remember", call, **FACT)
            assert text.startswith("Not counted: this was recalled from memory")
            assert receipt == {"namespace": "default", "counted": False}
        assert posterior(memory) == (9.0, 1.0)
        use("contradict", call, **FACT)

        assert posterior(memory) == (9.0, 2.0)

    @pytest.mark.parametrize("ability", ["remember", "contradict"])
    def test_what_was_taken_back_stays_so(self, memory: Memory, ability: Any) -> None:
        """A turn that is run again after that tells it in vain, and goes on."""
        call = Call(memory, heard="At Acme", said=SAID, save="user")
        _, receipt = use(ability, call, **FACT)
        memory.retract(receipt["evidence_id"])
        text, receipt = use(ability, call, **FACT)

        assert text.startswith("Not counted")
        assert receipt == {"namespace": "default", "counted": False}
        assert memory.relations() == []

    def test_outside_a_turn_what_is_told_is_taken_as_heard(self, memory: Memory) -> None:
        """Nobody knows what was said there, so the tool does as it is told."""
        memory.observe([Statement("Alice", "WORKS_AT", "Acme")])
        found = memory.recall("Alice")
        use("remember", Call(memory, recalls=[str(found.id)]), **FACT)

        assert posterior(memory) == (10.0, 1.0)


class TestMistakes:
    @pytest.mark.parametrize(
        ("ability", "given", "why"),
        [
            ("remember", FACT | {"since": "last week"}, "valid_from"),
            ("remember", FACT | {"since": "2026-13-01"}, "valid_from"),
            ("remember", FACT | {"subject": " "}, "subject is empty"),
            ("remember", FACT | {"object": ""}, "object is empty"),
            ("remember", FACT | {"relation": "_-"}, "relation type is empty"),
            ("remember", FACT | {"object": "\ud800"}, "half a surrogate pair"),
            ("remember", FACT | {"object": "x" * 1_001}, "1,001 characters"),
            ("contradict", FACT | {"subject": ""}, "subject is empty"),
            ("explain", FACT | {"relation": ""}, "relation type is empty"),
            ("explain", FACT | {"subject": " "}, "is empty"),
            ("forget", {"subject": ""}, "is empty"),
            ("forget", {"subject": "Alice", "relation": "KNOWS"}, "relation and object both"),
            ("forget", {"subject": "Alice", "object": "Bob"}, "relation and object both"),
            ("forget", {"subject": "Alice", "relation": "", "object": ""}, "is empty"),
        ],
    )
    def test_what_cannot_be_done_is_said_and_changes_nothing(
        self, memory: Memory, ability: Any, given: dict[str, Any], why: str
    ) -> None:
        """A `ValueError` that a model can read; what was known stays as it was."""
        memory.remember("Alice", "KNOWS", "Bob")
        before = memory.stats(), memory.relations()
        with pytest.raises(ValueError, match=why):
            use(ability, memory, **given)

        assert (memory.stats(), memory.relations()) == before

    @pytest.mark.parametrize(
        ("ability", "given"),
        [
            ("remember", {}),
            ("remember", FACT | {"object": 5}),
            ("remember", FACT | {"since": 2020}),
            ("contradict", {"subject": "Alice"}),
            ("recall", {}),
            ("recall", {"query": None}),
            ("explain", {"subject": "Alice"}),
            ("forget", {}),
        ],
    )
    def test_arguments_of_another_shape_are_refused(
        self, memory: Memory, ability: Any, given: dict[str, Any]
    ) -> None:
        """By the model of the arguments, before anything is asked of the memory."""
        with pytest.raises(ValidationError):
            use(ability, memory, **given)
        assert memory.stats().events == 0

    def test_two_users_are_two_memories(self, memory: Memory) -> None:
        """What one forgets or remembers is nothing to the other, and the receipt says whose."""
        ann, bob = memory.namespace("ann"), memory.namespace("bob")
        for own in (ann, bob):
            assert use("remember", own, **FACT)[1]["namespace"] == own.name
        use("forget", ann, subject="Alice")

        assert ann.relations() == []
        assert posterior(bob) == (9.0, 1.0)
        assert memory.relations() == []
