"""What do simple rankers reach? BM25, one vector a unit, their sum, neighbours, dates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy import sparse

from recall_quality_parts.terms import baseline_terms, dated

if TYPE_CHECKING:
    from recall_quality_parts.sets import Corpus

Scores: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"


class Words:
    """How often stands each term in each text? A matrix, one row a text."""

    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        self.columns: dict[str, int] = {}
        rows, columns, values = [], [], []
        for row, terms in enumerate(texts):
            for term, times in Counter(terms).items():
                rows.append(row)
                columns.append(self.columns.setdefault(term, len(self.columns)))
                values.append(times)
        shape = len(texts), len(self.columns)
        self.times = sparse.csc_array((values, (rows, columns)), shape=shape, dtype=np.float64)
        self.lengths = np.array([len(terms) for terms in texts], dtype=np.float64)
        having = np.diff(self.times.indptr)
        self.idf = np.log1p((len(texts) - having + 0.5) / (having + 0.5))

    def bm25(self, terms: Sequence[str], k1: float, b: float, floor: float = 0.0) -> Scores:
        """Return the score of every text: sum of idf tf/(tf+K), the Okapi formula without (k1+1).

        Args:
            terms: Of the question, each counted once.
            k1: Raising it lets a repeated word count for more.
            b: Raising it holds the length of a text against it more.
            floor: Shorter texts count as this long, and so does a shorter mean.
        """
        mean = max(self.lengths.mean(), floor, 1.0)
        saturation = k1 * (1.0 - b + b * np.maximum(self.lengths, floor) / mean)
        scores = np.zeros(len(self.lengths))
        for term in dict.fromkeys(terms):
            column = self.columns.get(term)
            if column is not None:
                start, end = self.times.indptr[column : column + 2]
                rows, times = self.times.indices[start:end], self.times.data[start:end]
                scores[rows] += self.idf[column] * times / (times + saturation[rows])
        return scores


def best(scores: Scores, count: int) -> Sequence[int]:
    """Return the places of the highest scores, best first; ties by place."""
    return np.argsort(-scores, kind="stable")[:count].tolist()


def beside(corpus: Corpus, scores: Scores) -> tuple[Scores, Scores]:
    """Return the score of the unit before and of the one after, in the same session; else 0."""
    same = np.array(
        [a.session == b.session for a, b in zip(corpus.units, corpus.units[1:], strict=False)]
    )
    before, after = np.zeros(len(scores)), np.zeros(len(scores))
    before[1:][same] = scores[:-1][same]
    after[:-1][same] = scores[1:][same]
    return before, after


def scaled(scores: Scores) -> Scores:
    spread = scores.max() - scores.min()
    return (scores - scores.min()) / spread if spread else np.zeros(len(scores))


NAMES = (
    "BM25 k1 1.5, b .75",
    "BM25 k1 .9, b 0",
    "dense",
    "min-max sum, BM25 1.5/.75",
    "min-max sum, BM25 .9/0",
    "  + .3 × two neighbours",
    "  + dates in the text",
)
Ranker: TypeAlias = Callable[[str, "np.ndarray[Any, Any]"], Scores]


def rankers(corpus: Corpus, vectors: np.ndarray[Any, Any]) -> dict[str, Ranker]:
    """Return each of `NAMES`: of a question and its vector, the score of every unit."""
    plain = Words([baseline_terms(unit.said) for unit in corpus.units])
    with_dates = Words([baseline_terms(dated(unit)) for unit in corpus.units])

    def lexical(words: Words, k1: float, b: float) -> Ranker:
        return lambda text, vector: words.bm25(baseline_terms(text), k1, b)

    def dense(text: str, vector: np.ndarray[Any, Any]) -> Scores:
        return np.asarray(vectors @ vector, dtype=np.float64)

    def summed(first: Ranker) -> Ranker:
        return lambda text, vector: (
            0.5 * scaled(first(text, vector)) + 0.5 * scaled(dense(text, vector))
        )

    def neighbours(ranker: Ranker) -> Ranker:
        def ranked(text: str, vector: np.ndarray[Any, Any]) -> Scores:
            scores = ranker(text, vector)
            before, after = beside(corpus, scores)
            return scores + 0.3 * (before + after)

        return ranked

    near = neighbours(summed(lexical(plain, 0.9, 0.0)))
    near_with_dates = neighbours(summed(lexical(with_dates, 0.9, 0.0)))
    every = (
        lexical(plain, 1.5, 0.75),
        lexical(plain, 0.9, 0.0),
        dense,
        summed(lexical(plain, 1.5, 0.75)),
        summed(lexical(plain, 0.9, 0.0)),
        near,
        near_with_dates,
    )
    return dict(zip(NAMES, every, strict=True))
