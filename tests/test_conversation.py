"""Which episodes stand beside which, who speaks how, and how alike they are."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_echo_core.closeness import Closeness, ClosenessPicture
from recall_echo_core.conversation import Conversation, ConversationPicture
from recall_echo_core.picture import EpisodeMark


def said(
    content: str, session: str | None = "s", role: str = "user", name: str | None = None
) -> tuple[EpisodeMark, str]:
    return EpisodeMark(1, 0, session, role, name), content


def conversation(*episodes: tuple[EpisodeMark, str]) -> Conversation:
    talk = Conversation()
    for mark, content in episodes:
        talk.add(mark, content, len(content.split()))
    return talk


def test_neighbours_are_those_of_the_session() -> None:
    """Whatever was said in between elsewhere; what has no session stands alone."""
    talk = conversation(said("a"), said("b", "t"), said("c"), said("d", None), said("e", None))

    assert list(talk.before) == [-1, -1, 0, -1, -1]
    assert list(talk.after) == [2, -1, -1, -1, -1]
    assert talk.many_sessions


def test_the_roles_of_the_host_say_who_speaks() -> None:
    talk = conversation(said("Try tea."), said("I, me, mine", role="assistant"))

    assert talk.voices(np.arange(2)).tolist() == [1.0, 0.0]


def test_without_roles_the_words_say_it() -> None:
    """By the rate of first-person words, beside who has most of them."""
    talk = conversation(said("I like my tea " * 20, name="Ann"), said("tea is good", name="Bob"))

    assert talk.voices(np.arange(2)).round(2).tolist() == [1.0, 0.0]


def test_what_stands_before_may_ask_and_nothing_asks_nothing() -> None:
    talk = conversation(said("Tea?"), said("Yes."), said("No?", None))
    before, after = talk.beside(np.arange(3))

    assert talk.asks(before).tolist() == [False, True, False]
    assert talk.asks(after).tolist() == [False, False, False]


def test_speakers_are_named_by_their_first_name() -> None:
    talk = conversation(said("a", name="Ann Lee"), said("b", name="Bob"))

    assert talk.named("What is Ann's job?") == {"ann lee"}
    assert talk.named("announcements") == frozenset()


def test_a_rare_name_leads_to_others_and_a_common_one_does_not() -> None:
    """Nor one that the question has, or that nobody else mentions."""
    filler = [said(f"Paris {number}") for number in range(20)]
    talk = conversation(said("Zoe met Max"), said("Max cooks"), said("Zoe sings"), *filler)

    led = list(talk.sharing("Zoe and Max in Paris with Kim", "Who is Zoe?"))
    assert [(name, list(numbers)) for name, _, numbers in led] == [("max", [0, 1])]
    assert 0 < led[0][1] < 1


@given(st.lists(st.tuples(st.sampled_from([None, "s", "t"]), st.text(max_size=20)), max_size=8))
def test_pictures_give_the_same(episodes: list[tuple[str | None, str]]) -> None:
    """Of the conversation and of the closeness, through bytes; and both go on from there."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(len(episodes) + 1, 4)).astype(np.float32)
    talk, close = conversation(*(said(text, session) for session, text in episodes)), Closeness(4)
    for number, (session, _) in enumerate(episodes):
        close.add(number, vectors[number], session)

    kept = msgspec.msgpack.encode((talk.picture(), close.picture()))
    shape = tuple[ConversationPicture, ClosenessPicture]
    first, second = msgspec.msgpack.decode(kept, type=shape)
    talks, closes = [talk, Conversation.of(first)], [close, Closeness.of(second)]
    for one, other in zip(talks, closes, strict=True):
        one.add(*said("Ann?", "s"), 1)
        other.add(len(episodes), vectors[-1], "s")
    assert talks[0].picture() == talks[1].picture()
    assert list(talks[0].before) == list(talks[1].before)
    assert closes[0].picture() == closes[1].picture()


def test_sameness_is_the_mean_cosine_of_two_episodes() -> None:
    """And lift says how much more alike neighbours are."""
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(40, 8)).astype(np.float32) + 0.5
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    close = Closeness(8)
    for number, vector in enumerate(vectors):
        close.add(number, vector * 3, f"s{number // 20}")

    assert close.sameness == pytest.approx(float((unit @ unit.T).mean()), abs=1e-6)
    pairs = [float(unit[i] @ unit[i + 1]) for i in range(39) if i != 19]
    lift = (np.mean(pairs) - close.sameness) / (1 - close.sameness)
    assert close.lift == pytest.approx(max(0.0, float(lift)), abs=1e-6)
    assert (Closeness(8).sameness, Closeness(8).lift) == (0.0, 0.0)


def test_an_episode_and_the_one_before_are_compared_together() -> None:
    """As if the sum of their vectors were; where none is known before, nothing is said."""
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(6, 8)).astype(np.float32)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    question, close = unit[5], Closeness(8)
    for number, session in enumerate(["s", "t", "s", None, "s"]):
        close.add(number, vectors[number], session)
    before = [-1, -1, 0, -1, 2]
    cosines = unit @ question
    earlier = np.array([cosines[b] if b >= 0 else np.nan for b in before])

    for one in (close, Closeness.of(close.picture())):
        found = one.together(np.arange(5), cosines[:5], earlier)
        assert np.isnan(found[[0, 1, 3]]).all()
        for number in (2, 4):
            both = unit[number] + 0.5 * unit[before[number]]
            assert found[number] == pytest.approx(both @ question / np.linalg.norm(both), abs=1e-6)
        assert np.isnan(one.together(np.array([9]), cosines[:1], cosines[:1])).all()


def test_a_vector_of_zeros_says_nothing() -> None:
    close = Closeness(2)
    close.add(0, np.zeros(2, dtype=np.float32), "s")

    assert (close.sameness, close.lift) == (0.0, 0.0)
