"""Which texts share the question's words, and how much do those words tell?

An inverted index in memory, filled from the terms that are kept beside the log. Scores are Okapi
BM25 (Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework") with a floor under text
lengths: among short texts length says nothing, among long ones it does.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
import numpy as np

from recall_echo_core.texts import TextKey

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["K1", "LENGTH_FLOOR", "Lexical", "LexicalPicture"]

K1: Final = 1.2  # textbook; raising it lets a repeated word count for more
B: Final = 0.75  # textbook; raising it holds the length of a text against it more
LENGTH_FLOOR: Final = 60  # terms; shorter texts count as this long

Scores: TypeAlias = "NDArray[np.float64]"


class LexicalPicture(msgspec.Struct, array_like=True):
    """Everything a lexical index holds, as plain values: postings of all terms end to end."""

    texts: list[TextKey]
    lengths: bytes
    terms: list[str]
    spans: bytes
    numbers: bytes
    times: bytes


class Lexical:
    """The texts of one kind by their terms. Its owner holds a lock.

    Texts are numbered in the order added; `texts[n]` is the n-th, `numbers[item]` the number of an
    item's text. What has been replaced or removed keeps its number, and counts no more.
    """

    def __init__(self) -> None:
        self.texts: list[TextKey] = []
        self.numbers: dict[bytes, int] = {}
        self.lengths = array("I")
        self._postings: dict[str, tuple[array[int], array[int]]] = {}
        self._gone: Counter[str] = Counter()  # of a term's texts, those that count no more
        self._total = 0  # terms of all that counts

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, text: TextKey, terms: Mapping[str, int]) -> int:
        """Add a text with how often each term stands in it; return its number."""
        number = len(self.texts)
        length = sum(terms.values())
        self.remove(text.item)
        self.texts.append(text)
        self.numbers[text.item] = number
        self.lengths.append(length)
        self._total += length
        for term, times in terms.items():
            postings = self._postings.get(term)
            if postings is None:
                postings = self._postings[term] = (array("I"), array("I"))
            postings[0].append(number)
            postings[1].append(times)
        return number

    def remove(self, item: bytes) -> None:
        """Leave a text out from now on; items that are not held are ignored.

        Terms are looked for one by one, which takes as long as there are terms.
        """
        number = self.numbers.pop(item, None)
        if number is not None:
            self._total -= self.lengths[number]
            self._gone.update(term for term in self._postings if self.has(term, number))

    def picture(self) -> LexicalPicture:
        """Return everything this holds."""
        if self._gone:
            return self._compact().picture()
        postings = self._postings.values()
        return LexicalPicture(
            self.texts,
            self.lengths.tobytes(),
            list(self._postings),
            array("I", (len(numbers) for numbers, _ in postings)).tobytes(),
            b"".join(numbers.tobytes() for numbers, _ in postings),
            b"".join(times.tobytes() for _, times in postings),
        )

    @classmethod
    def of(cls, picture: LexicalPicture) -> Lexical:
        """Return the index a picture was taken of."""
        index = cls()
        index.texts = picture.texts
        index.lengths.frombytes(picture.lengths)
        index.numbers = {text.item: number for number, text in enumerate(index.texts)}
        index._total = sum(index.lengths)
        spans, start = array("I"), 0
        spans.frombytes(picture.spans)
        for term, span in zip(picture.terms, spans, strict=True):
            end = start + span * index.lengths.itemsize
            numbers, times = array("I"), array("I")
            numbers.frombytes(picture.numbers[start:end])
            times.frombytes(picture.times[start:end])
            index._postings[term] = numbers, times
            start = end
        return index

    def rarity(self, term: str) -> float:
        """Return how much a term tells: the higher, the fewer texts have it; 0 if none has."""
        postings = self._postings.get(term)
        if postings is None:
            return 0.0
        having, count = len(postings[0]) - self._gone[term], len(self.numbers)
        return math.log(1.0 + (count - having + 0.5) / (having + 0.5))

    def has(self, term: str, number: int) -> bool:
        """Return whether a text has a term."""
        postings = self._postings.get(term)
        if postings is None:
            return False
        numbers = np.array(postings[0], dtype=np.uint32)
        place = int(np.searchsorted(numbers, number))
        return place < len(numbers) and int(numbers[place]) == number

    def scores(self, question: Iterable[str]) -> Scores:
        """Return the score of every text, by number."""
        found = np.zeros(len(self.texts))
        if not self.numbers:
            return found
        mean = max(self._total / len(self.numbers), LENGTH_FLOOR)
        lengths = np.maximum(np.array(self.lengths, dtype=np.uint32), LENGTH_FLOOR)
        saturation = K1 * (1.0 - B + B * lengths / mean)
        for term, wanted in Counter(question).items():
            postings = self._postings.get(term)
            if postings is not None:
                numbers = np.array(postings[0], dtype=np.uint32)
                times = np.array(postings[1], dtype=np.uint32)
                told = times / (times + saturation[numbers])
                found[numbers] += min(wanted, 1) * self.rarity(term) * told
        return found

    def best(self, scores: Scores, limit: int) -> Sequence[int]:
        """Return the numbers of the best texts that count still, ties by age."""
        having = np.flatnonzero(scores > 0.0)
        order = having[np.argsort(-scores[having], kind="stable")].tolist()
        counting = (n for n in order if self.numbers.get(self.texts[n].item) == n)
        return list(islice(counting, limit))

    def _compact(self) -> Lexical:
        """Return an index of what counts only."""
        counts: dict[int, dict[str, int]] = {number: {} for number in self.numbers.values()}
        for term, (numbers, times) in self._postings.items():
            for number, often in zip(numbers, times, strict=True):
                if number in counts:
                    counts[number][term] = often
        index = Lexical()
        for number in sorted(counts):
            index.add(self.texts[number], counts[number])
        return index
