"""Which episodes do the relations that match a question lead to?

A relation leads to the episodes it was told in; and through a thing that the question does not
name on to other relations at that thing, and to the episodes those were told in. So a question
that takes two steps finds the second, which shares no word with it. What relations hold, and how
sure they are, does not matter here: an episode is a record of what was said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from recall_echo_core.names import normalised
from recall_echo_core.texts import TextKey

if TYPE_CHECKING:
    from recall_echo_core.graph import Graph
    from recall_echo_core.ports import Vectors
    from recall_echo_core.relevance import Numbers, Valued, Values

__all__ = ["Leads"]

TOLD: Final = 0.5  # weight of a relation's nearness for the episodes it was told in
ONWARD: Final = 0.2  # weight of two relations together for the episodes of the second
FIRST: Final = 10  # relations that lead on
BY_EPISODE: Final = 0.5  # weight of the value of its episodes when they are chosen
MOST: Final = 200  # relations looked at for one thing; one with more says nothing


class _Fact(msgspec.Struct, frozen=True):
    """A relation, and the numbers of the episodes it was told in."""

    text: TextKey
    similarity: float
    told: Sequence[int]


class _Step(msgspec.Struct, frozen=True):
    """From one relation on to another, by a thing that is as rare as said."""

    first: _Fact
    second: TextKey
    told: Sequence[int]
    rare: float


class Leads:
    """What the relations nearest to a question lead to.

    Args:
        near: The nearest relations: position of their texts, cosine similarity.
        question: The question.
        vector: Its vector.
        numbers: The number of each episode, by item.
        reading: Holds the graph.
        vectors: Returns the vectors of some relations, of length 1.
    """

    def __init__(
        self,
        near: Mapping[bytes, tuple[int, float]],
        question: str,
        vector: Vectors,
        numbers: Mapping[bytes, int],
        reading: Callable[[], AbstractContextManager[Graph]],
        vectors: Callable[[Collection[TextKey]], Mapping[TextKey, Vectors]],
    ) -> None:
        self._asked, self._vector, self._numbers = normalised(question), vector, numbers
        self._reading, self._vectors = reading, vectors
        self._last = min((similarity for _, similarity in near.values()), default=0.0)
        self._facts: list[_Fact] = []
        with reading() as graph:
            for item, (position, similarity) in near.items():
                told = self._told(graph, item)
                if told and graph.text_position(item) == position:
                    text = TextKey(position, item, "relation")
                    self._facts.append(_Fact(text, similarity, told))

    def nearness(self, numbers: Numbers) -> Values:
        """Return what episodes gain in meaning by the nearest relation they tell.

        By how much nearer that is than the last one there is, so that being one of many whose
        relations were never gathered is no drawback.
        """
        best: dict[int, float] = {}
        for fact in self._facts:
            gain = TOLD * (fact.similarity - self._last)
            for number in fact.told:
                best[number] = max(best.get(number, 0.0), gain)
        return np.array([best.get(number, 0.0) for number in numbers.tolist()])

    def onward(self, found: Valued) -> dict[int, float]:
        """Return what episodes gain by two relations that together are near the question.

        Args:
            found: The value of each episode so far.
        """
        most = found.values.max(initial=0.0)
        if not self._facts or most <= 0.0:
            return {}
        share = {fact.text: self._value(fact, found) / most for fact in self._facts}
        first = sorted(
            self._facts,
            key=lambda fact: (-fact.similarity - BY_EPISODE * share[fact.text], fact.text),
        )[:FIRST]
        with self._reading() as graph:
            steps = [step for fact in first for step in self._steps(graph, fact)]
        rows = self._vectors({step.first.text for step in steps} | {s.second for s in steps})
        gained: dict[int, float] = {}
        for step in steps:
            one, two = rows.get(step.first.text), rows.get(step.second)
            if one is not None and two is not None:
                near = _together(one, two, self._vector) * step.rare * share[step.first.text]
                for number in step.told:
                    gained[number] = max(gained.get(number, 0.0), ONWARD * most * near)
        return {number: gain for number, gain in gained.items() if gain > 0.0}

    def _steps(self, graph: Graph, fact: _Fact) -> list[_Step]:
        found: list[_Step] = []
        mark = graph.relations[fact.text.item]
        limit = max(5.0, 0.02 * len(self._numbers))
        for thing in dict.fromkeys((mark.group.subject, mark.object)):
            others = list(islice(graph.at_entity(thing), MOST))
            if len(others) == MOST or normalised(graph.nodes[thing].name) in self._asked:
                continue
            told = {item: self._told(graph, item) for item in others}
            naming = {number for numbers in told.values() for number in numbers}
            if not naming or len(naming) > limit:
                continue
            rare = math.log(len(self._numbers) / len(naming)) / math.log(len(self._numbers) + 1)
            for item, numbers in told.items():
                elsewhere = [number for number in numbers if number not in fact.told]
                if elsewhere:
                    text = TextKey(graph.relations[item].position, item, "relation")
                    found.append(_Step(fact, text, elsewhere, rare))
        return found

    def _told(self, graph: Graph, item: bytes) -> list[int]:
        episodes = graph.told_in(item)
        return [self._numbers[one] for one in episodes if one in self._numbers]

    def _value(self, fact: _Fact, found: Valued) -> float:
        return float(found.at(np.array(fact.told)).max())


def _together(one: Vectors, two: Vectors, question: Vectors) -> float:
    """Return the cosine similarity of a question to two relations together; at least 0."""
    both = one + two
    length = float(np.linalg.norm(both)) * float(np.linalg.norm(question))
    return max(0.0, float(both @ question) / length) if length else 0.0
