"""What an episode gains by what surrounds it, one gain at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_echo_core.asked import Asked
from recall_echo_core.closeness import Closeness
from recall_echo_core.conversation import Conversation
from recall_echo_core.lexical import Lexical
from recall_echo_core.picture import EpisodeMark
from recall_echo_core.relevance import Valued, fused, placed
from recall_echo_core.terms import terms_of
from recall_echo_core.texts import TextKey


class Told:
    """Episodes, each in one session unless said otherwise, with words and no vectors."""

    def __init__(self, *texts: str, sessions: str = "", roles: Sequence[str] = ()) -> None:
        self.texts = texts
        self.conversation, self.lexical, self.closeness = Conversation(), Lexical(), Closeness(2)
        for number, text in enumerate(texts):
            role = roles[number] if roles else "user"
            mark = EpisodeMark(number, 0, (sessions or "s" * len(texts))[number], role, None)
            terms = Counter(terms_of(text))
            self.conversation.add(mark, text, sum(terms.values()))
            self.lexical.add(TextKey(number, bytes([number]), "episode"), terms)

    def close(self, *vectors: tuple[float, float]) -> Told:
        for number, vector in enumerate(vectors):
            self.closeness.add(number, np.array(vector), "s")
        return self

    def values(self, question: str, *values: float) -> list[float]:
        found = placed(
            Valued(np.arange(len(values)), np.array(values)),
            Asked.of(question),
            self.conversation,
            self.lexical,
            self.closeness,
            lambda numbers: [self.texts[number] for number in numbers],
        )
        return [round(value, 9) for value in found.at(np.arange(len(self.texts))).tolist()]


amounts = st.lists(st.floats(-1.0, 50.0), min_size=1, max_size=8)


@given(amounts, st.floats(0.01, 100.0), st.floats(0.0, 1.0), st.randoms())
def test_words_and_meaning_count_beside_their_best(amounts, scale, short, random) -> None:
    """Whatever their scale; the best in both is worth 1, and nothing is worth less than 0."""
    words = np.array(amounts)
    meaning = np.array(random.sample(amounts, len(amounts)))
    values = fused(words, meaning, short)

    assert ((values >= 0.0) & (values <= 1.0 + 1e-9)).all()
    np.testing.assert_allclose(fused(words * scale, meaning, short), values, atol=1e-9)
    if words.max() > 0.0:
        assert fused(words, words, short).max() == pytest.approx(1.0)


def test_where_texts_are_short_words_count_for_more() -> None:
    words, meaning = np.array([1.0, 0.0]), np.array([0.0, 1.0])

    assert fused(words, meaning, 0.0).tolist() == pytest.approx([0.3, 0.7])
    assert fused(words, meaning, 1.0).tolist() == pytest.approx([0.45, 0.55])


def test_the_better_neighbour_lends_some_of_its_value() -> None:
    """As far as neighbours are alike here; in a store of one session nothing else is added."""
    alike = [(1.0, 0.0), (1.0, 0.0), (-1.0, 0.0), (-1.0, 0.0)]
    long = " ".join(f"w{number}" for number in range(40))
    told = Told(*[long] * 4).close(*alike)
    assert told.closeness.lift == pytest.approx(1.0 / 3.0)

    assert told.values("x", 1.0, 0.0, 0.5, 0.0) == [1.0, 0.4, 0.5, 0.2]
    assert Told(*[long] * 4).values("x", 1.0, 0.0, 0.5, 0.0) == [1.0, 0.0, 0.5, 0.0]


def test_a_good_session_lifts_all_of_it() -> None:
    """By the mean of its best three."""
    long = " ".join(f"w{number}" for number in range(40))
    told = Told(*[long] * 5, sessions="aaaab")

    assert told.values("x", 0.9, 0.6, 0.3, 0.1, 0.0) == [1.02, 0.72, 0.42, 0.22, 0.0]


@pytest.mark.parametrize(
    ("question", "gains"),
    [
        ("What did I say?", [0.3, 0.0]),
        ("What did you say?", [0.0, 0.3]),
        ("What is tea?", [0.0, 0.0]),
        ("Can you list teas?", [0.0, 0.0]),
    ],
)
def test_the_voice_that_is_asked_for_gains(question: str, gains: list[float]) -> None:
    long = " ".join(f"w{number}" for number in range(40))
    told = Told(long, long, roles=["user", "assistant"])

    assert told.values(question, 0.0, 0.0) == gains


def test_what_follows_a_question_gains_where_texts_are_short() -> None:
    told = Told("Tea or coffee?", "Tea.", "Good.")

    assert told.values("x", 0.8, 0.1, 0.1) == [0.8, 0.18, 0.1]


BRIDGE = "Ada studied with Zoltan Kovacs in the north. Bob Stone cooked."
FILLER = [f"Nothing about number {number}" for number in range(20)]


def test_a_shared_name_leads_to_what_the_best_one_lacks() -> None:
    """Further where the name stands in a sentence about what is asked; the best ones only."""
    born = "Zoltan Kovacs was born in Pecs."
    cook = "Bob Stone was born in Hull."
    told = Told(BRIDGE, born, cook, *FILLER)
    values = told.values("Where was the one Ada studied with born?", 1.0)

    assert values[0] == 1.0
    assert values[1] > values[2] > 0.0
    assert set(values[3:]) == {0.0}


def test_what_it_lacks_counts_for_more_than_the_name_alone() -> None:
    told = Told(BRIDGE, "Zoltan Kovacs was born in Pecs.", "Zoltan Kovacs wrote.", *FILLER)
    values = told.values("Where was the one Ada studied with born?", 1.0)

    assert values[1] > 2 * values[2] > 0.0


@pytest.mark.parametrize("question", ["Where was Zoltan Kovacs born?", "?"])
def test_a_name_that_is_asked_for_leads_nowhere(question: str) -> None:
    """Words find it already; and a question without words lacks nothing."""
    told = Told(BRIDGE, "Zoltan Kovacs was born in Pecs.", *FILLER)

    assert told.values(question, 1.0)[1] == 0.0


def test_among_texts_that_are_all_alike_a_shared_name_says_nothing() -> None:
    born = "Zoltan Kovacs was born in Pecs."
    told = Told(BRIDGE, born, *FILLER).close(*[(1.0, 0.0)] * 5)
    assert told.closeness.sameness == pytest.approx(1.0)

    # What is left is what its neighbour lends.
    assert told.values("Where was the one Ada studied with born?", 1.0)[1] == 0.0
