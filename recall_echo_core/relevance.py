"""How well does each text answer the question, by its words, its meaning and its surroundings?

Words and meaning are each divided by their best, then added; what stands beside a good episode, in
a good session, or is told in the voice that the question asks for, gains. No constant knows what
kind of text there is: what differs between kinds follows from running sums over the store. See
docs/recall.md for where each constant comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from recall_echo_core.terms import mentions_in, sentences_in, terms_of

if TYPE_CHECKING:
    from recall_echo_core.asked import Asked
    from recall_echo_core.closeness import Closeness
    from recall_echo_core.conversation import Conversation
    from recall_echo_core.lexical import Lexical

__all__ = ["Numbers", "Valued", "Values", "fused", "placed"]

WORDS: Final = 0.3  # weight of words beside meaning where texts are long
WORDS_SHORT: Final = 0.15  # more where they are short
NEIGHBOUR: Final = 0.4
LIFT: Final = 0.2  # how much closer neighbours have to be for the full weight
SESSION: Final = 0.2
SESSION_BEST: Final = 3
VOICE: Final = 0.3
NAMED: Final = 0.03
ANSWER: Final = 0.1
SPREAD: Final = 0.4
SPREAD_SEEDS: Final = 2
SPREAD_SAME: Final = 0.2  # where texts are this alike, or more, sharing a name says nothing
SPREAD_TOLD: Final = 2.0
LACKING: Final = (0.3, 2.0)

Numbers: TypeAlias = NDArray[np.int64]
Values: TypeAlias = NDArray[np.float64]


class Valued(msgspec.Struct, frozen=True):
    """Texts and what each is worth.

    Attributes:
        numbers: Of the texts, ascending.
        values: One for each.
    """

    numbers: Numbers
    values: Values

    def at(self, wanted: Numbers) -> Values:
        """Return the values of some texts; 0 for those that are not here."""
        if not len(self.numbers):
            return np.zeros(len(wanted))
        places = np.minimum(np.searchsorted(self.numbers, wanted), len(self.numbers) - 1)
        return np.where(self.numbers[places] == wanted, self.values[places], 0.0)

    def plus(self, gained: Mapping[int, float]) -> Valued:
        """Return the values with more for some texts, which need not be here yet."""
        if not gained:
            return self
        more = Valued(np.array(sorted(gained)), np.array([gained[n] for n in sorted(gained)]))
        numbers = np.union1d(self.numbers, more.numbers)
        return Valued(numbers, self.at(numbers) + more.at(numbers))


def fused(words: Values, meaning: Values, short: float) -> Values:
    """Return words and meaning together, each divided by its best.

    Args:
        words: BM25 of each text.
        meaning: Its cosine similarity; below 0 counts as 0.
        short: Share of short texts; raising it gives words more weight.
    """
    weight = WORDS + WORDS_SHORT * short
    return weight * _of_best(words) + (1.0 - weight) * _of_best(meaning)


def placed(
    found: Valued,
    asked: Asked,
    conversation: Conversation,
    lexical: Lexical,
    closeness: Closeness,
    contents: Callable[[Sequence[int]], Sequence[str]],
) -> Valued:
    """Return the values of episodes with what their surroundings add.

    Args:
        found: Each candidate, with its value of `fused`.
        asked: The question.
        conversation: The episodes.
        lexical: Their terms.
        closeness: How alike they are.
        contents: What some episodes say, by number; asked for the best two only.
    """
    with_neighbours = _beside(found, conversation, NEIGHBOUR * min(1.0, closeness.lift / LIFT))
    found = _spread(with_neighbours, asked, conversation, lexical, closeness, contents)
    gains = _of_voice(found, with_neighbours, asked, conversation)
    if conversation.many_sessions:
        gains += _of_session(found, conversation)
    return Valued(found.numbers, found.values + gains)


def _of_best(values: Values) -> Values:
    best = values.max(initial=0.0)
    return np.maximum(values, 0.0) / best if best > 0.0 else np.zeros(len(values))


def _beside(found: Valued, conversation: Conversation, weight: float) -> Valued:
    before, after = conversation.beside(found.numbers)
    better = np.maximum(found.at(before), found.at(after))
    return Valued(found.numbers, found.values + weight * better)


def _spread(
    found: Valued,
    asked: Asked,
    conversation: Conversation,
    lexical: Lexical,
    closeness: Closeness,
    contents: Callable[[Sequence[int]], Sequence[str]],
) -> Valued:
    """Let the best episodes lead to others that share a name with them and say what they lack.

    A name leads further when its sentence is about what is asked.
    """
    weight = SPREAD * max(0.0, 1.0 - closeness.sameness / SPREAD_SAME)
    rarity = {term: lexical.rarity(term) for term in set(asked.terms)}
    total = sum(rarity.values())
    if not weight or not total:
        return found
    gained: dict[int, float] = {}
    best = np.argsort(-found.values, kind="stable")[:SPREAD_SEEDS]
    seeds: list[int] = found.numbers[best].tolist()
    for seed, value, content in zip(seeds, found.values[best], contents(seeds), strict=True):
        led: dict[int, float] = {}
        lacking = [term for term in rarity if not lexical.has(term, seed)]
        told = _told(content, rarity)
        for name, rare, having in conversation.sharing(content, asked.text):
            lead = weight * float(value) * rare * (1.0 + SPREAD_TOLD * told.get(name, 0.0) / total)
            for number in having:
                if number != seed:
                    more = sum(rarity[term] for term in lacking if lexical.has(term, number))
                    gain = lead * (LACKING[0] + LACKING[1] * more / total)
                    led[number] = max(led.get(number, 0.0), gain)
        for number, gain in led.items():
            gained[number] = gained.get(number, 0.0) + gain
    return found.plus(gained)


def _told(content: str, rarity: Mapping[str, float]) -> dict[str, float]:
    """Return how much of a question stands in one sentence with each name of a text."""
    told: dict[str, float] = {}
    for sentence in sentences_in(content):
        asked = sum(rarity[term] for term in set(terms_of(sentence)) if term in rarity)
        for name in mentions_in(sentence):
            told[name] = max(told.get(name, 0.0), asked)
    return told


def _of_session(found: Valued, conversation: Conversation) -> Values:
    """Return what each gains by the best of its session; what has no session gains nothing."""
    sessions = conversation.session_numbers(found.numbers)
    order = np.lexsort((-found.values, sessions))
    ordered, values = sessions[order], found.values[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    place = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    values = np.where(place < SESSION_BEST, values, 0.0)
    best = np.bincount(np.maximum(ordered, 0), values * (ordered >= 0))
    return np.where(sessions >= 0, best[np.maximum(sessions, 0)], 0.0) * SESSION / SESSION_BEST


def _of_voice(found: Valued, before: Valued, asked: Asked, conversation: Conversation) -> Values:
    """Return what each gains by who speaks, and by the question that it may answer."""
    previous, _ = conversation.beside(found.numbers)
    answers = conversation.asks(previous)
    gains = ANSWER * conversation.short * np.where(answers, before.at(previous), 0.0)
    if asked.own:
        gains += VOICE * conversation.voices(found.numbers)
    elif asked.yours:
        gains += VOICE * (1.0 - conversation.voices(found.numbers))
    return gains + NAMED * conversation.spoken_by_named(found.numbers, asked.text)
