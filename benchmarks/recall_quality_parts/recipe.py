"""What does the recipe reach in plain numpy? The yardstick of the house.

`Recipe(**WRITTEN)` follows `recall_method.md` to the letter; the defaults are what measured better.
One set of constants for every store; what differs between stores follows from running sums over
them. Each part of the score can be left out, for the ablation. Section numbers are those of
`recall_method.md`, the written recipe.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from recall_quality_parts import terms as words
from recall_quality_parts.baselines import Scores, Words, beside, best
from recall_quality_parts.fuller import SENTENCE

if TYPE_CHECKING:
    from recall_quality_parts.sets import Corpus, Unit

Vectors: TypeAlias = "np.ndarray[Any, np.dtype[np.float32]]"


@dataclass(frozen=True, slots=True)
class Recipe:
    """The constants, each with what raising it does."""

    pool: int = 200  # candidates by words and by meaning each
    k1: float = 1.2  # lets a repeated word count for more
    b: float = 0.75  # holds the length of a text against it more
    floor: float = 60.0  # terms; shorter texts count as this long
    brief: float = 30.0  # terms; under it a unit is short
    lexical: float = 0.3  # weight of words beside meaning
    lexical_short: float = 0.15  # the same, times the share of short texts
    before: float = 0.5  # of the vector before, in the sum compared too; times the share of short
    neighbour: float = 0.4  # lets a unit gain more from the better of its neighbours
    lift: float = 0.2  # how much closer neighbours have to be for the full weight
    spread: float = 0.4  # lets a unit gain more from a seed it shares a name with
    seeds: int = 2  # units that lead to others
    summed: bool = True  # add what two seeds lead to, instead of the larger
    same: float = 0.2  # where units are this alike, or more, sharing a name says nothing
    lacking: tuple[float, float] = (0.3, 2.0)  # of what the seed lacks and the unit has
    session: float = 0.2  # lets a unit gain more from the best of its session
    voice: float = 0.3  # lets the voice asked for gain more
    roles: bool = True  # take the roles of the host, where given, instead of measured voices
    named: float = 0.03  # lets a speaker named in the question gain more
    answer: float = 0.1  # lets what follows a question gain more, times the share of short texts
    dates: bool = True  # index the date with the words
    triples: bool = False  # take subjects and objects of ready triples as names, too
    told: float = 2.0  # lets a name count for more when its sentence is about what is asked
    asking: bool = False  # leave words that only ask out of the question


WRITTEN = {
    "before": 0.0,
    "told": 0.0,
    "spread": 0.3,
    "summed": False,
    "roles": False,
    "asking": True,
}


@dataclass(frozen=True, slots=True)
class Statistics:
    """Running sums over a store (section 1)."""

    short: float  # share of short units
    same: float  # squared length of the mean vector: mean cosine of two units
    lift: float  # how much closer neighbours are than any two units
    voices: dict[str, float]  # share of first-person words of each speaker, beside the largest


class Store:
    """One store, ready to be asked.

    Args:
        corpus: Its units.
        vectors: One row a unit, of length 1.
        recipe: The constants.
        context: One row a unit with the end of the one before it, of length 1; optional.
        chunks: Rows of pieces of units, of length 1; optional.
        owners: Place of the unit of each piece.
    """

    def __init__(
        self,
        corpus: Corpus,
        vectors: Vectors,
        recipe: Recipe,
        *,
        context: Vectors | None = None,
        chunks: Vectors | None = None,
        owners: Sequence[int] = (),
    ) -> None:
        self.corpus, self.vectors, self.recipe = corpus, vectors, recipe
        self._context, self._chunks, self._owners = context, chunks, np.asarray(owners, dtype=int)
        self.count = len(corpus.units)
        indexed = [words.dated(u) if recipe.dates else u.said for u in corpus.units]
        texts = [words.terms_of(text) for text in indexed]
        self._terms = [frozenset(text) for text in texts]
        self._words = Words(texts)
        self._told = [self._sentences(unit) for unit in corpus.units]
        self._mentions = [
            frozenset(words.mentions_of(unit.text)) | told.keys()
            for unit, told in zip(corpus.units, self._told, strict=True)
        ]
        self._mentioning: dict[str, list[int]] = defaultdict(list)
        for place, names in enumerate(self._mentions):
            for name in names:
                self._mentioning[name].append(place)
        sessions = list(dict.fromkeys(unit.session for unit in corpus.units))
        self._session = np.array([sessions.index(unit.session) for unit in corpus.units])
        self._sessions = len(sessions)
        self.statistics = self._measured()
        self._with_before = self._summed_with_before()
        self._voice = np.array([self._voice_of(unit.speaker, unit.role) for unit in corpus.units])
        asks = np.array([float(u.text.rstrip().endswith("?")) for u in corpus.units])
        self._after_question = beside(corpus, asks)[0] > 0.0

    def _sentences(self, unit: Unit) -> dict[str, list[frozenset[str]]]:
        """Return the terms of a unit's sentences, and of its triples, by the names in each."""
        told: dict[str, list[frozenset[str]]] = defaultdict(list)
        for sentence in SENTENCE.split(unit.text):
            for name in words.mentions_of(sentence):
                told[name].append(frozenset(words.terms_of(sentence)))
        for triple in self.corpus.triples.get(unit.id, []) if self.recipe.triples else []:
            if len(triple) == 3:  # a model wrote them; some have more parts
                for name in triple[::2]:
                    told[name.lower()].append(frozenset(words.terms_of(" ".join(triple))))
        return told

    def _measured(self) -> Statistics:
        mean = self.vectors.mean(axis=0)
        same = float(mean @ mean)
        close = (self.vectors[1:] * self.vectors[:-1]).sum(axis=1)[np.diff(self._session) == 0]
        lift = max(0.0, (float(close.mean()) - same) / (1.0 - same)) if len(close) else 0.0
        said: dict[str, int] = defaultdict(int)
        own: dict[str, int] = defaultdict(int)
        for unit in self.corpus.units:
            if unit.speaker:
                spoken = words.words_of(unit.text)
                said[unit.speaker] += len(spoken)
                own[unit.speaker] += sum(word in words.FIRST_PERSON for word in spoken)
        rates = {who: own[who] / (said[who] + 50) for who in said}
        most = max(rates.values(), default=0.0) or 1.0
        return Statistics(
            short=float((self._words.lengths < self.recipe.brief).mean()),
            same=same,
            lift=lift,
            voices={who: rate / most for who, rate in rates.items()},
        )

    def _summed_with_before(self) -> Vectors:
        """Return each vector with part of the one before it in the session, of length 1 again."""
        summed = self.vectors.copy()
        same = np.flatnonzero(np.diff(self._session) == 0)
        summed[same + 1] += self.recipe.before * self.vectors[same]
        length: Vectors = np.linalg.norm(summed, axis=1, keepdims=True)
        return summed / length

    def _voice_of(self, speaker: str | None, role: str | None) -> float:
        if self.recipe.roles and role is not None:
            return float(role == "user")
        return self.statistics.voices.get(speaker or "", 0.0)

    def ask(self, text: str, vector: Vectors) -> Scores:
        """Return the score of every unit; 0 for what is no candidate."""
        recipe, measured = self.recipe, self.statistics
        terms = words.terms_of(text, asks=recipe.asking)
        lexical = self._words.bm25(terms, recipe.k1, recipe.b, recipe.floor)
        dense, near = self._dense(vector)
        pool = self._pool(lexical, near)
        # Words and meaning (1.1 to 1.3): each divided by its best.
        weight = recipe.lexical + recipe.lexical_short * measured.short
        core = weight * lexical / (lexical.max() or 1.0)
        core += (1.0 - weight) * dense / (dense.max() or 1.0)
        core[~pool] = 0.0
        # Neighbours (1.4): the better one.
        before, after = beside(self.corpus, core)
        close = recipe.neighbour * min(1.0, measured.lift / recipe.lift)
        score = np.where(pool, core + close * np.maximum(before, after), 0.0)
        # Names shared with the best (1.5) may bring in more; sessions (1.6), who speaks (1.7).
        spread = self._spread(text, terms, score)
        found = score + spread
        found += self._in_session(found)
        found += self._spoken(text, score)
        return np.where(pool | (spread > 0.0), found, 0.0)

    def _dense(self, vector: Vectors) -> tuple[Scores, list[Scores]]:
        """Return the meaning of every unit (1.2), and what candidates are taken from."""
        own = np.asarray(self.vectors @ vector, dtype=np.float64)
        parts = [own]
        if self._chunks is not None:
            chunk = np.full(self.count, -1.0)
            np.maximum.at(chunk, self._owners, self._chunks @ vector)
            parts.append(chunk)
        if self._context is not None and self._sessions > 1:
            parts.append(np.asarray(self._context @ vector, dtype=np.float64))
        meaning = np.sum(parts, axis=0)
        if self.recipe.before and self._sessions > 1:
            meaning = meaning + self.statistics.short * (self._with_before @ vector)
        return np.maximum(meaning, 0.0), parts

    def _pool(self, lexical: Scores, near: list[Scores]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        pool = np.zeros(self.count, dtype=bool)
        for scores in (lexical, *near):
            pool[best(scores, self.recipe.pool)] = True
        if self.statistics.lift > 0.0:
            before, after = beside(self.corpus, pool.astype(float))
            pool |= (before + after) > 0.0
        return pool

    def _spread(self, text: str, terms: Sequence[str], score: Scores) -> Scores:
        recipe, gained = self.recipe, np.zeros(self.count)
        weight = recipe.spread * max(0.0, 1.0 - self.statistics.same / recipe.same)
        idf = {
            term: float(self._words.idf[self._words.columns[term]])
            for term in set(terms)
            if term in self._words.columns
        }
        total = sum(idf.values())
        if not weight or not total:
            return gained

        def mass(terms: Iterable[str]) -> float:
            """Return how much of the question some terms are, by rarity."""
            return sum(idf[term] for term in terms if term in idf) / total

        asked, most = text.lower(), max(5.0, 0.02 * self.count)
        for seed in best(score, recipe.seeds):
            led = np.zeros(self.count)
            lacks = idf.keys() - self._terms[seed]
            for name in sorted(self._mentions[seed]):
                having = self._mentioning[name]
                if not 2 <= len(having) <= most or name in asked:
                    continue
                rare = math.log(self.count / len(having)) / math.log(self.count)
                about = max((mass(said) for said in self._told[seed].get(name, ())), default=0.0)
                rare *= 1.0 + recipe.told * about
                for place in having:
                    if place != seed:
                        more = mass(lacks & self._terms[place])
                        share = recipe.lacking[0] + recipe.lacking[1] * more
                        gain = weight * float(score[seed]) * rare * share
                        led[place] = max(led[place], gain)
            gained = gained + led if recipe.summed else np.maximum(gained, led)
        return gained

    def _in_session(self, score: Scores) -> Scores:
        if self._sessions < 2:
            return np.zeros(self.count)
        means = np.array(
            [
                np.sort(score[self._session == session])[-3:].sum() / 3
                for session in range(self._sessions)
            ]
        )
        gained: Scores = self.recipe.session * means[self._session]
        return gained

    def _spoken(self, text: str, score: Scores) -> Scores:
        recipe, asked = self.recipe, text.lower()
        gained = np.zeros(self.count)
        if not self.statistics.voices:
            return gained
        spoken = set(words.words_of(text))
        if words.ASKS_YOU.search(asked):
            gained += recipe.voice * (1.0 - self._voice)
        elif spoken & words.FIRST_PERSON:
            gained += recipe.voice * self._voice
        called = spoken | {word.removesuffix("'s") for word in spoken}
        named = [
            unit.speaker is not None and unit.speaker.lower().split()[0] in called
            for unit in self.corpus.units
        ]
        gained += recipe.named * np.array(named)
        before = beside(self.corpus, score)[0]
        gained += recipe.answer * self.statistics.short * before * self._after_question
        return gained
