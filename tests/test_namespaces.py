"""Many users in one store: the same names and the same words, and nothing in common."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from recall_echo_core import Memory, open_memory
from recall_echo_core.errors import StoreClosed, UnknownEntity, UnknownEvidence

if TYPE_CHECKING:
    from conftest import MovableClock


def lengths(texts: list[str]) -> list[list[float]]:
    """Texts of the same length are alike, which is all these tests need."""
    return [[1.0, float(len(text) % 17)] for text in texts]


@pytest.fixture
def memory(tmp_path: Path, clock: MovableClock) -> Iterator[Memory]:
    with open_memory(tmp_path, embedding=lengths, clock=clock) as opened:
        yield opened


@pytest.fixture
def alice(memory: Memory) -> Memory:
    return memory.namespace("alice")


@pytest.fixture
def bob(memory: Memory) -> Memory:
    return memory.namespace("bob")


def numbers(memory: Memory) -> dict[str, tuple[float, float]]:
    return {r.text: (r.alpha, r.beta) for r in memory.relations()}


class TestTwoUsers:
    def test_shared_names_are_different_entities(self, alice: Memory, bob: Memory) -> None:
        """Charlie of Alice and Charlie of Bob share a name, and neither id nor texts."""
        alice.add_entity("Charlie", kind="colleague", abstract="sits by the door", content="long")
        bob.add_entity("Charlie", kind="cat")

        mine, theirs = alice.get("charlie"), bob.get("CHARLIE")
        assert mine.name == theirs.name == "Charlie"
        assert mine.id != theirs.id
        assert (mine.kind, mine.abstract, mine.content) == (
            "colleague",
            "sits by the door",
            "long",
        )
        assert (theirs.kind, theirs.abstract, theirs.content) == ("cat", None, None)

    def test_identical_facts_have_different_ids_and_their_own_numbers(
        self, alice: Memory, bob: Memory
    ) -> None:
        """The same statements count for whom they were made to, and no id is the same."""
        for _ in range(3):
            mine = alice.remember("Charlie", "LIKES", "tea", statement_id=None)
        theirs = bob.remember("Charlie", "LIKES", "tea")
        bob.contradict("Charlie", "LIKES", "tea")

        assert numbers(alice) == {"Charlie likes tea": (11.0, 1.0)}
        assert numbers(bob) == {"Charlie likes tea": (9.0, 2.0)}
        ids = [mine.id, mine.subject_id, mine.object_id, mine.evidence_id]
        assert set(ids).isdisjoint(
            [theirs.id, theirs.subject_id, theirs.object_id, theirs.evidence_id]
        )

    def test_identical_messages_have_different_ids(self, alice: Memory, bob: Memory) -> None:
        """One text under one message id in one session is one episode for each of them."""
        message = {"content": "I like tea", "id": "m1"}
        mine = alice.record([message, message], session_id="s")
        theirs = bob.record([message], session_id="s")

        assert mine[0] == mine[1]
        assert set(mine).isdisjoint(theirs)
        assert [e.content for e in alice.episodes()] == ["I like tea"]
        assert [e.content for e in bob.episodes()] == ["I like tea"]

    def test_taking_back_leaves_the_same_words_of_another(self, alice: Memory, bob: Memory) -> None:
        """Retracting all that Alice said of Charlie removes nothing of what Bob said."""
        said = [alice.remember("Charlie", "LIKES", thing) for thing in ("tea", "rum")]
        for thing in ("tea", "rum"):
            bob.remember("Charlie", "LIKES", thing)
        before = bob.recall("tea", record_access=False), bob.relations(), bob.stats()
        for relation in said:
            assert relation.evidence_id is not None
            with pytest.raises(UnknownEvidence):
                bob.retract(relation.evidence_id)
            alice.retract(relation.evidence_id)

        assert alice.relations() == []
        assert alice.beliefs("Charlie", "LIKES") == []
        assert (bob.recall("tea", record_access=False), bob.relations(), bob.stats()) == before
        assert alice.verify().ok
        assert bob.verify().ok

    def test_outcomes_stay_with_whom_they_befell(self, alice: Memory, bob: Memory) -> None:
        """A failure of Alice's moves no utility and no hotness of Bob's."""
        for user in (alice, bob):
            user.add_entity("Charlie")
        before = bob.get("Charlie"), bob.recall("Charlie", record_access=False)
        found = alice.recall("Charlie")
        alice.feedback(found.id, "failed")

        assert (alice.get("Charlie").utility, alice.get("Charlie").accesses) == (0.45, 1)
        assert (bob.get("Charlie"), bob.recall("Charlie", record_access=False)) == before

    @pytest.mark.parametrize(
        "use",
        [
            lambda memory, entity: memory.remember(entity, "LIKES", "tea"),
            lambda memory, entity: memory.remember("tea", "LIKED_BY", entity),
            lambda memory, entity: memory.corroborate(entity, "LIKES", "tea"),
            lambda memory, entity: memory.contradict("tea", "LIKED_BY", entity),
            lambda memory, entity: memory.supersede("Ann", "KNOWS", entity, "Bo"),
            lambda memory, entity: memory.supersede("Ann", "KNOWS", "Bo", entity),
            lambda memory, entity: memory.beliefs(entity, "LIKES"),
            lambda memory, entity: memory.explain(entity, "LIKES", "tea"),
            lambda memory, entity: memory.explain("tea", "LIKED_BY", entity),
            lambda memory, entity: memory.traverse(entity),
            lambda memory, entity: memory.paths(entity, "tea"),
            lambda memory, entity: memory.paths("tea", entity),
            lambda memory, entity: memory.relations(entity),
            lambda memory, entity: memory.as_of("2026-03-02").beliefs(entity, "LIKES"),
        ],
    )
    @pytest.mark.parametrize("key", [None, "the cat"])
    def test_an_entity_of_another_namespace_is_refused(
        self, alice: Memory, bob: Memory, use, key: str | None
    ) -> None:
        """A value that Bob's memory gave is an error in Alice's, also where she knows the name."""
        for user in (alice, bob):
            user.add_entity("Charlie", key=key)
            user.add_entity("tea")
        theirs, events = bob.get("Charlie", key=key), alice.stats().events

        with pytest.raises(ValueError, match="'Charlie' belongs to another namespace"):
            use(alice, theirs)
        assert alice.stats().events == events
        assert bob.beliefs(theirs, "LIKES") == []  # and is at home where it came from

    def test_settings_hold_in_every_namespace(self, tmp_path: Path, clock: MovableClock) -> None:
        """Single-valued types of the folder count rivals in each namespace, also in later ones."""
        with open_memory(
            tmp_path, embedding=lengths, clock=clock, single_valued={"LIVES_IN"}
        ) as memory:
            memory.namespace("alice").remember("Ann", "LIVES_IN", "Paris")
        with open_memory(tmp_path, embedding=lengths, clock=clock) as memory:
            memory.namespace("alice").remember("Ann", "LIVES_IN", "Oslo")

            assert numbers(memory.namespace("alice")) == {
                "Ann lives in Paris": (9.0, 2.0),
                "Ann lives in Oslo": (9.0, 1.0),
            }

    def test_a_namespace_is_found_again_with_its_ids(
        self, tmp_path: Path, clock: MovableClock
    ) -> None:
        """After reopening each user has the same ids, from whichever handle they are asked."""
        ids = {}
        with open_memory(tmp_path, embedding=lengths, clock=clock) as memory:
            for name in ("alice", "bob"):
                ids[name] = memory.namespace(name).add_entity("Charlie").id

        for name in ("bob", "alice"):
            with open_memory(tmp_path, namespace=name, embedding=lengths, clock=clock) as memory:
                assert memory.get("Charlie").id == ids[name]
                assert memory.namespaces() == ["alice", "bob", "default"]


class TestHandles:
    def test_closing_a_child_closes_that_one_only(self, memory: Memory) -> None:
        """The parent and other handles of the same namespace go on; the closed one refuses."""
        one, two = memory.namespace("alice"), memory.namespace("alice")
        one.add_entity("Charlie")
        one.close()
        one.close()

        with pytest.raises(StoreClosed):
            one.get("Charlie")
        with pytest.raises(StoreClosed):
            one.namespace("bob")
        assert two.get("Charlie").name == "Charlie"
        assert memory.namespace("alice").get("Charlie").name == "Charlie"

    def test_a_child_in_a_with_block_leaves_the_parent_open(self, memory: Memory) -> None:
        """`with memory.namespace(...)` ends the child at the end of the block."""
        with memory.namespace("alice") as alice:
            alice.add_entity("Charlie")

        with pytest.raises(StoreClosed):
            alice.entities()
        assert memory.stats().entities == 0

    def test_a_child_of_a_child_hangs_on_the_one_that_was_opened(
        self, tmp_path: Path, clock: MovableClock
    ) -> None:
        """A grandchild outlives the child's handle, and ends with the memory that was opened."""
        with open_memory(tmp_path, embedding=lengths, clock=clock) as memory:
            child = memory.namespace("alice")
            grandchild = child.namespace("bob")
            child.close()
            assert grandchild.add_entity("Charlie").name == "Charlie"

        with pytest.raises(StoreClosed):
            grandchild.entities()

    def test_a_view_of_the_past_ends_with_its_handle(self, memory: Memory) -> None:
        """A past view that a closed child gave refuses, as the child does."""
        alice = memory.namespace("alice")
        past = alice.as_of("2026-03-01")
        alice.close()

        with pytest.raises(StoreClosed):
            past.entities()


NAMES = [
    "alice",
    "Alice",
    "ALICE",
    "Zoë",
    "Алиса",
    "愛麗絲",
    "アリス",
    "앨리스",
    "أليس",
    "אליס",
    "ऐलिस",
    "👩‍👩‍👧‍👦",
    "a b\tc",
    "user:42@example.com",
    "../../etc/passwd",
    "C:\\Users\\alice",
    "'; drop table events; --",
    "%41lice",
    "con",
    ".",
    "-",
    "x" * 1_000,
]


class TestNames:
    def test_a_user_may_be_called_anything(self, tmp_path: Path, clock: MovableClock) -> None:
        """Names in any script, or that mean something to a file system, are 22 separate users."""
        with open_memory(tmp_path / "store", embedding=lengths, clock=clock) as memory:
            for number, name in enumerate(NAMES):
                user = memory.namespace(name)
                user.remember("me", "LIKES", f"thing {number}")
            for name in NAMES[::5]:
                memory.namespace(name).flush()  # an index on disk

        assert [path.name for path in tmp_path.iterdir()] == ["store"]
        with open_memory(tmp_path / "store", embedding=lengths, clock=clock) as memory:
            assert memory.namespaces() == sorted([*NAMES, "default"])
            for number, name in enumerate(NAMES):
                user = memory.namespace(name)
                assert user.name == name
                assert numbers(user) == {f"me likes thing {number}": (9.0, 1.0)}
                found = user.recall(f"thing {number}", kinds=["relation"])
                assert [hit.text for hit in found] == [f"me likes thing {number}"]

    @pytest.mark.parametrize(
        ("name", "error", "why"),
        [
            ("", ValueError, "namespace is empty; give it a name"),
            (" \t\n", ValueError, "namespace is empty; give it a name"),
            ("x" * 1_001, ValueError, "namespace has 1,001 characters; the limit is 1,000"),
            ("half \ud83d", ValueError, "half a surrogate pair at index 5"),
            (None, TypeError, "namespace must be text, not NoneType"),
            (42, TypeError, "namespace must be text, not int"),
        ],
    )
    def test_a_name_that_cannot_be_kept_is_an_error(
        self, memory: Memory, tmp_path: Path, name, error: type[Exception], why: str
    ) -> None:
        """Nothing is made under a bad name, and the message says what is wrong with it."""
        with pytest.raises(error, match=why):
            memory.namespace(name)
        with pytest.raises(error, match=why):
            open_memory(tmp_path / "other", namespace=name, embedding=lengths)

        assert memory.namespaces() == ["default"]
        assert not (tmp_path / "other").exists()

    def test_white_space_around_a_name_is_not_part_of_it(
        self, tmp_path: Path, clock: MovableClock
    ) -> None:
        """`alice` and ` alice ` are one user: what one handle recalls the other can judge."""
        quiet = {"vectors": {"background": False}}
        with open_memory(tmp_path, embedding=lengths, clock=clock, settings=quiet) as memory:
            one, two = memory.namespace("alice"), memory.namespace(" alice ")
            one.add_entity("Charlie")
            found = one.recall("Charlie")
            two.feedback(found.id, "success")

            assert one.get("Charlie").utility == two.get("Charlie").utility == 0.55
            assert memory.namespaces() == ["alice", "default"]

    @pytest.mark.parametrize(
        ("spelling", "same"),
        [("zoë  SMITH", True), ("ZOE\u0308 smith", True), ("Zoe Smith", False)],
    )
    def test_names_of_entities_are_matched_within_a_user_only(
        self, alice: Memory, bob: Memory, spelling: str, same: bool
    ) -> None:
        """Case, spacing and Unicode form do not matter for Alice, and Bob knows nobody."""
        first = alice.add_entity("Zoë Smith")

        again = alice.add_entity(spelling)
        assert (again.id == first.id) == same
        assert again.name == ("Zoë Smith" if same else spelling)
        with pytest.raises(UnknownEntity):
            bob.get("Zoë Smith")


def test_many_users_rest_when_others_are_asked(tmp_path: Path, clock: MovableClock) -> None:
    """Of 40 users 32 are kept in memory; the others answer as before when their turn comes."""
    quiet = {"vectors": {"background": False, "index_batch": 4}}
    with open_memory(tmp_path, embedding=lengths, clock=clock, settings=quiet) as memory:
        users = [memory.namespace(f"user {number}") for number in range(40)]
        for number, user in enumerate(users):
            user.remember(f"Ann {number}", "LIKES", "Cats")
            user.recall("Ann")
        held = [user._room.namespace._graph is not None for user in users[8:]]
        rested = [room.namespace._graph is None for room in memory._engine._rooms.values()]

        assert sum(rested) >= 40 - 32
        assert any(held)
        for number, user in enumerate(users):
            assert [b.object for b in user.beliefs(f"Ann {number}", "LIKES")] == ["Cats"]
            assert f"Ann {number}" in {hit.text for hit in user.recall("Ann")}
            assert user.stats().relations == 1
