"""How well does each text answer the question, by its words, its meaning and its surroundings?

Words and meaning are each divided by their best, then added; what stands beside a good episode, in
a good session, or is told in the voice that the question asks for, gains. No constant knows what
kind of text there is: what differs between kinds follows from running sums over the store. See
docs/recall.md for where each constant comes from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from recall_echo_core.terms import terms_of

if TYPE_CHECKING:
    from recall_echo_core.closeness import Closeness
    from recall_echo_core.conversation import Conversation
    from recall_echo_core.lexical import Lexical

__all__ = ["POOL", "Asked", "fused", "placed"]

POOL: Final = 200  # best by words and by meaning each; 100 costs up to a point of recall
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
LACKING: Final = (0.3, 2.0)

_OWN: Final = re.compile(r"\b(?:i|me|my|mine|myself|we|us|our|ours|i'm|i've|i'd|i'll)\b", re.I)
# "did you recommend", not "can you list".
_YOURS: Final = re.compile(
    r"\b(?:did|had|have|were|was)\s+you\b|\byou\s+\w+ed\b|\byou (?:said|told|gave|made|wrote)\b",
    re.I,
)


class Asked(msgspec.Struct, frozen=True):
    """A question: its text and its terms."""

    text: str
    terms: Sequence[str]

    @classmethod
    def of(cls, text: str) -> Asked:
        """Return a question with its terms."""
        return cls(text, terms_of(text))

    @property
    def own(self) -> bool:
        """Whether the one who asks asks about what they said themselves."""
        return bool(_OWN.search(self.text)) and not self.yours

    @property
    def yours(self) -> bool:
        """Whether it asks what the one who is asked said or did."""
        return bool(_YOURS.search(self.text))


def fused(
    words: Mapping[int, float], meaning: Mapping[int, float], short: float
) -> dict[int, float]:
    """Return words and meaning together, each divided by its best.

    Args:
        words: BM25 of texts, by number.
        meaning: Their cosine similarity.
        short: Share of short texts; raising it gives words more weight.
    """
    weight = WORDS + WORDS_SHORT * short
    most_words = max(words.values(), default=0.0) or 1.0
    most_meaning = max(meaning.values(), default=0.0)
    most_meaning = most_meaning if most_meaning > 0.0 else 1.0
    return {
        number: weight * words.get(number, 0.0) / most_words
        + (1.0 - weight) * max(0.0, meaning.get(number, 0.0)) / most_meaning
        for number in words.keys() | meaning.keys()
    }


def placed(
    values: Mapping[int, float],
    asked: Asked,
    conversation: Conversation,
    lexical: Lexical,
    closeness: Closeness,
    content: Callable[[int], str],
) -> dict[int, float]:
    """Return the values of episodes with what their surroundings add.

    Args:
        values: Of each candidate, from `fused`.
        asked: The question.
        conversation: The episodes.
        lexical: Their terms.
        closeness: How alike they are.
        content: The text of an episode, by number; asked for the best two only.
    """
    with_neighbours = _beside(values, conversation, NEIGHBOUR * min(1.0, closeness.lift / LIFT))
    found = _spread(with_neighbours, asked, conversation, lexical, closeness, content)
    if conversation.many_sessions:
        found = _in_session(found, conversation)
    return _in_voice(found, with_neighbours, asked, conversation)


def _beside(
    values: Mapping[int, float], conversation: Conversation, weight: float
) -> dict[int, float]:
    before, after = conversation.before, conversation.after
    return {
        number: value
        + weight * max(values.get(before[number], 0.0), values.get(after[number], 0.0))
        for number, value in values.items()
    }


def _spread(
    values: dict[int, float],
    asked: Asked,
    conversation: Conversation,
    lexical: Lexical,
    closeness: Closeness,
    content: Callable[[int], str],
) -> dict[int, float]:
    """Let the best episodes lead to others that share a name with them and say what they lack."""
    weight = SPREAD * max(0.0, 1.0 - closeness.sameness / SPREAD_SAME)
    rarity = {term: lexical.rarity(term) for term in set(asked.terms)}
    total = sum(rarity.values())
    if not weight or not total:
        return values
    gained: dict[int, float] = {}
    seeds = sorted(values, key=lambda number: (-values[number], number))[:SPREAD_SEEDS]
    for seed in seeds:
        led: dict[int, float] = {}
        lacking = [term for term in rarity if not lexical.has(term, seed)]
        for rare, having in conversation.sharing(content(seed), asked.text):
            for number in having:
                if number != seed:
                    told = sum(rarity[term] for term in lacking if lexical.has(term, number))
                    share = LACKING[0] + LACKING[1] * told / total
                    gain = weight * values[seed] * rare * share
                    led[number] = max(led.get(number, 0.0), gain)
        for number, gain in led.items():
            gained[number] = gained.get(number, 0.0) + gain
    return values | {number: values.get(number, 0.0) + gain for number, gain in gained.items()}


def _in_session(values: Mapping[int, float], conversation: Conversation) -> dict[int, float]:
    sessions: dict[str | None, list[float]] = {}
    for number, value in values.items():
        sessions.setdefault(conversation.sessions[number], []).append(value)
    best = {
        session: SESSION * sum(sorted(found, reverse=True)[:SESSION_BEST]) / SESSION_BEST
        for session, found in sessions.items()
        if session is not None
    }
    return {
        number: value + best.get(conversation.sessions[number] or "", 0.0)
        for number, value in values.items()
    }


def _in_voice(
    values: Mapping[int, float],
    before: Mapping[int, float],
    asked: Asked,
    conversation: Conversation,
) -> dict[int, float]:
    voice_of, named = conversation.voices(), conversation.named(asked.text)
    found: dict[int, float] = {}
    for number, value in values.items():
        voice = voice_of(number) if asked.own or asked.yours else 0.0
        gain = VOICE * voice if asked.own else VOICE * (1.0 - voice) if asked.yours else 0.0
        gain += NAMED * (conversation.speakers[number] in named)
        previous = conversation.before[number]
        if previous >= 0 and conversation.asking[previous]:
            gain += ANSWER * conversation.short * before.get(previous, 0.0)
        found[number] = value + gain
    return found
