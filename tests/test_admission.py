"""What a model gathered from a turn: evidence, or what it read in its own memory?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from recall_echo_core import Memory, Recall, Statement, open_memory
from recall_echo_core.errors import UnknownEntity

if TYPE_CHECKING:
    from conftest import MovableClock

ALONE = {"vectors": {"background": False}}
FACT = ("Alice", "WORKS_AT", "Acme")
SAYS = Statement(*FACT)
LIFE = Statement("Alice", "LIVES_IN", "Oslo")


def letters(texts: list[str]) -> list[list[float]]:
    """Texts of the same letters are near; the meaning of words does not matter here."""
    signs = "abcdefghijklmnopqrstuvwxyz0123456789"
    return [[0.01, *(float(text.casefold().count(sign)) for sign in signs)] for text in texts]


@pytest.fixture
def memory(tmp_path: Path, clock: MovableClock) -> Iterator[Memory]:
    """A new memory, whose clock stands still."""
    with open_memory(tmp_path, embedding=letters, clock=clock, settings=ALONE) as memory:
        yield memory


def recalled(memory: Memory, text: str = "Where does Alice work?", **how: Any) -> Recall:
    found = memory.recall(text, k=20, **how)
    assert found.id is not None
    return found


def posterior(memory: Memory, *fact: str) -> tuple[float, float]:
    relation = memory.explain(*(fact or FACT)).relation
    return relation.alpha, relation.beta


class TestWhatWasRecalled:
    def test_repeating_a_recalled_relation_is_no_evidence(self, memory: Memory) -> None:
        """Row 11: recalled, told again by the model, twenty times: nothing is recorded at all."""
        memory.remember(*FACT)
        before = posterior(memory)
        for _ in range(20):
            found = recalled(memory)
            memory.flush()
            events = memory.stats().events
            assert memory.admit(SAYS, heard="Where does Alice work?", recalls=[found.id]) is None
            assert memory.stats().events == events

        assert posterior(memory) == before == (9.0, 1.0)

    def test_repeating_a_recalled_entity_is_no_evidence(self, memory: Memory) -> None:
        """A name, or an abstract that names the object, was read and not heard."""
        memory.add_entity("Alice", abstract="Engineer at Acme since 2019")
        memory.add_entity("Oslo")
        found = recalled(memory, kinds=["entity"])

        for statement in (SAYS, LIFE):
            assert memory.admit(statement, heard="Tell me about her", recalls=[found.id]) is None
        assert memory.relations() == []

    def test_an_episode_that_says_so_counts_once(self, memory: Memory) -> None:
        """Row 11: recalled and told twenty times, in any words around it, it is one statement."""
        (episode,) = memory.record([{"role": "user", "content": "Alice is with ACME now"}])
        for turn in range(20):
            found = recalled(memory)
            told = Statement(*FACT, statement_id=f"turn {turn}")
            relation = memory.admit(told, heard=f"turn {turn}: where is she?", recalls=[found.id])
            assert relation is not None
            assert (relation.alpha, relation.beta, relation.supports) == (9.0, 1.0, 1)

        (move,) = memory.explain(*FACT).moves
        assert move.reason == "prior"
        assert [e.id for e in memory.episodes()] == [episode]

    def test_two_episodes_that_say_so_count_once_each(self, memory: Memory) -> None:
        """Said on two days is two statements, whichever is recalled first."""
        for text in ("Alice joined Acme", "At Acme, Alice said"):
            memory.record([{"content": text}])
            for _ in range(3):
                found = recalled(memory, text, kinds=["episode"])
                memory.admit(SAYS, heard="", recalls=[found.id])
        for episode in memory.episodes():
            found = memory.recall(episode.content, k=1, kinds=["episode"])
            memory.admit(SAYS, heard="", recalls=[found.id])

        assert posterior(memory) == (10.0, 1.0)

    def test_an_episode_gives_evidence_of_its_own_time(
        self, memory: Memory, clock: MovableClock
    ) -> None:
        """Old news that is recalled is not confirmed today: it has faded, and is no newer value."""
        memory.record([{"content": "Alice is in Oslo", "time": "2025-12-01T12:00Z"}])
        memory.record([{"content": "Alice is at Acme"}])
        clock.advance(days=90)
        found = recalled(memory)
        old = memory.admit(LIFE, heard="", recalls=[found.id])
        new = memory.admit(SAYS, heard="", recalls=[found.id])
        stated = memory.admit(
            Statement("Alice", "MET", "Acme", observed_at="2026-01-05T00:00Z"),
            heard="",
            recalls=[found.id],
        )

        assert old is not None and new is not None and stated is not None
        assert old.established_at == datetime(2025, 12, 1, 12, tzinfo=UTC)
        assert old.effective() == pytest.approx(0.9 * 0.25, abs=1e-12)
        assert new.established_at == clock() - timedelta(days=90)
        assert stated.established_at == datetime(2026, 1, 5, tzinfo=UTC)

    @pytest.mark.parametrize("role", ["assistant", "AI", "agent", "Bot"])
    def test_what_the_model_itself_said_is_no_ground(self, memory: Memory, role: str) -> None:
        """Row 11: its answers are kept and recalled, and tell nothing that it did not read."""
        memory.remember(*FACT)
        for turn in range(20):
            memory.record([{"role": role, "content": f"Answer {turn}: Alice works at Acme"}])
            found = recalled(memory)
            assert memory.admit(SAYS, heard="Where is she?", recalls=[found.id]) is None

        assert posterior(memory) == (9.0, 1.0)

    def test_a_person_beside_the_model_is_a_ground(self, memory: Memory) -> None:
        """Of a recalled conversation what the user said counts, wherever it stands in it."""
        ids = memory.record(
            [
                {"role": "assistant", "content": "Does Alice work at Acme?"},
                {"role": "user", "name": "Bo", "content": "Yes, at Acme"},
            ]
        )
        found = recalled(memory)
        relation = memory.admit(SAYS, heard="", recalls=[found.id])
        assert relation is not None
        memory.forget(episode=ids[1])

        assert memory.relations() == []  # so it was that episode

    def test_what_was_taken_back_does_not_return_with_the_episode(self, memory: Memory) -> None:
        """Recalled and told again it stays taken back; nobody is stopped for telling it."""
        memory.record([{"content": "Alice is with Acme now"}])
        found = recalled(memory)
        relation = memory.admit(SAYS, heard="", recalls=[found.id])
        assert relation is not None and relation.evidence_id is not None
        memory.retract(relation.evidence_id)
        events = memory.stats().events

        assert memory.admit(SAYS, heard="", recalls=[found.id]) is None
        assert memory.relations() == []
        assert memory.stats().events == events

    def test_the_hits_that_were_not_shown_hide_nothing(self, memory: Memory) -> None:
        """A memory that no budget had room for was not read, so it is not repeated either."""
        memory.remember(*FACT)
        found = memory.recall("Alice", max_tokens=1)
        memory.admit(SAYS, heard="", recalls=[found.id])

        assert posterior(memory) == (10.0, 1.0)


class TestWhatWasSaid:
    @pytest.mark.parametrize(
        "heard", ["I work at ACME", "acme's office", "\uff21\uff43\uff4d\uff45!", "x\ud83d Acme"]
    )
    def test_what_the_user_names_counts(self, memory: Memory, heard: str) -> None:
        """Whatever the case, the form and the signs around it, and though it was recalled."""
        memory.remember(*FACT)
        found = recalled(memory)
        relation = memory.admit(SAYS, heard=heard, recalls=[found.id])

        assert relation is not None
        assert (relation.alpha, relation.beta) == (10.0, 1.0)

    def test_part_of_a_word_is_not_the_name(self, memory: Memory) -> None:
        """Acmeville is not Acme."""
        memory.remember(*FACT)
        found = recalled(memory)

        assert memory.admit(SAYS, heard="Is Acmeville nice?", recalls=[found.id]) is None

    def test_what_is_in_no_recalled_memory_counts(self, memory: Memory) -> None:
        """A conclusion in words of its own was not read."""
        memory.remember("Bo", "PLAYS", "chess")
        found = recalled(memory)

        assert memory.admit(SAYS, heard="hm", recalls=[found.id]) is not None

    @pytest.mark.parametrize(
        ("asked", "answer", "counts"),
        [
            ("alice", "Acme, second floor", True),
            ("Does Alice work at Acme?", "Acme, second floor", False),
            ("alice", "As noted: Alice works at Acme.", False),
            ("alice", "[M1] Acme", False),
            ("alice", "nobody of that name", False),
        ],
        ids=["says it", "was told it", "quotes a memory", "cites a memory", "does not say it"],
    )
    def test_a_tool_is_a_witness_of_what_it_found_itself(
        self, memory: Memory, asked: str, answer: str, counts: bool
    ) -> None:
        memory.remember(*FACT)
        found = recalled(memory)
        tools = [("", "nothing"), (asked, answer)]
        relation = memory.admit(SAYS, heard="hm", recalls=[found.id], found=tools)

        assert (relation is not None) is counts

    @pytest.mark.parametrize("recalls", [[], ["00" * 16], ["00" * 16, "ff" * 16]])
    def test_recalls_that_are_not_known_are_passed_over(
        self, memory: Memory, recalls: list[str]
    ) -> None:
        """Without a receipt nothing says that it was read."""
        memory.remember(*FACT)
        memory.admit(SAYS, heard="", recalls=recalls)

        assert posterior(memory) == (10.0, 1.0)

    def test_expired_recalls_are_passed_over(self, memory: Memory, clock: MovableClock) -> None:
        """Beside one that still has its receipt, that one decides."""
        memory.remember(*FACT)
        old = recalled(memory)
        memory.flush()
        clock.advance(days=91)
        new = recalled(memory)

        assert memory.admit(SAYS, heard="", recalls=[old.id, new.id]) is None
        assert memory.admit(SAYS, heard="", recalls=[old.id]) is not None

    def test_a_contradiction_always_counts(self, memory: Memory) -> None:
        """Whoever doubts what was recalled repeats nothing."""
        memory.remember(*FACT)
        found = recalled(memory)
        relation = memory.admit(Statement(*FACT, supports=False), heard="", recalls=[found.id])

        assert relation is not None
        assert (relation.alpha, relation.beta, relation.contested) == (9.0, 2.0, True)

    def test_the_same_statement_counts_once(self, memory: Memory) -> None:
        """A repeated call, with the turn's episode or an id of its own, adds nothing."""
        (episode,) = memory.record([{"content": "Alice works at Acme"}])
        for _ in range(3):
            memory.admit(Statement(*FACT, episode_id=episode), heard="at Acme")
            memory.admit(Statement(*FACT, statement_id="m1"), heard="at Acme")

        assert posterior(memory) == (10.0, 1.0)

    def test_the_object_may_be_an_entity(self, memory: Memory) -> None:
        """Its name is what has to have been said."""
        acme = memory.add_entity("Acme")
        said = Statement("Alice", "WORKS_AT", acme)
        found = recalled(memory)

        assert memory.admit(said, heard="", recalls=[found.id]) is None
        assert memory.admit(said, heard="acme", recalls=[found.id]) is not None
        assert posterior(memory) == (9.0, 1.0)


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("statement", "error", "why"),
        [
            (5, TypeError, "a statement must be a Statement, not int"),
            (None, TypeError, "a statement must be a Statement, not NoneType"),
            (FACT, TypeError, "a statement must be a Statement, not tuple"),
            (Statement("a", "b", None), TypeError, "object must be text"),  # type: ignore[arg-type]
            (Statement(5, "b", "c"), TypeError, "subject must be text"),  # type: ignore[arg-type]
            (Statement("a", " ", "Acme"), ValueError, "relation type is empty"),
            (Statement("a", "b", "\ud800"), ValueError, "half a surrogate pair"),
            (Statement(*FACT, weight=2), ValueError, "weight"),
            (Statement(*FACT, supports=None), TypeError, "supports"),  # type: ignore[arg-type]
            (Statement(*FACT, valid_from="soon"), ValueError, "valid_from"),
            (Statement(*FACT, episode_id="00" * 16), ValueError, "not in this namespace"),
            (Statement(*FACT, episode_id="m1"), ValueError, "is not an id"),
        ],
    )
    def test_a_bad_statement_is_an_error_also_where_it_is_an_echo(
        self, memory: Memory, statement: Any, error: type[Exception], why: str
    ) -> None:
        """What cannot be recorded is said, whether or not it would have been."""
        memory.remember(*FACT)
        found = recalled(memory)
        memory.flush()
        before = memory.stats().events
        for heard in ("", "Acme c"):
            with pytest.raises(error, match=why):
                memory.admit(statement, heard=heard, recalls=[found.id])

        assert memory.stats().events == before

    @pytest.mark.parametrize(
        ("arguments", "error", "why"),
        [
            ({"heard": None}, TypeError, "heard must be text, not NoneType"),
            ({"heard": ["Acme"]}, TypeError, "heard must be text, not list"),
            ({"heard": "", "recalls": "00" * 16}, TypeError, "recalls must be a list of ids"),
            ({"heard": "", "recalls": ["M1"]}, ValueError, "recall_id 'M1' is not an id"),
            ({"heard": "", "recalls": [None]}, ValueError, "this recall has no receipt"),
        ],
    )
    def test_a_bad_turn_is_an_error(
        self, memory: Memory, arguments: Any, error: type[Exception], why: str
    ) -> None:
        """What is no text and no list of ids is refused, and leaves nothing."""
        with pytest.raises(error, match=why):
            memory.admit(SAYS, **arguments)
        assert memory.relations() == []

    def test_an_entity_of_another_namespace_is_refused(self, memory: Memory) -> None:
        """Also where the statement would have been an echo."""
        theirs = memory.namespace("bob").add_entity("Acme")
        memory.remember(*FACT)
        found = recalled(memory)

        with pytest.raises(ValueError, match="belongs to another namespace"):
            memory.admit(Statement("Alice", "WORKS_AT", theirs), heard="", recalls=[found.id])
        with pytest.raises(UnknownEntity):
            memory.namespace("bob").get("Alice")

    def test_what_was_heard_may_be_longer_than_a_message(self, memory: Memory) -> None:
        """It is read and not kept, so the output of a tool has no limit."""
        assert memory.admit(SAYS, heard="x " * 600_000 + "Acme") is not None
