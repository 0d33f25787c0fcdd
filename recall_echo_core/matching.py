"""Which texts of one kind match a question, and how well?

The best by words and the best by meaning are the candidates, with the neighbours of episodes;
each is then weighed by both. What the index of vectors did not give for one of them is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import numpy as np

from recall_echo_core.relevance import Numbers, Valued, Values, fused, placed

if TYPE_CHECKING:
    from recall_echo_core.asked import Asked
    from recall_echo_core.catalogue import Catalogue
    from recall_echo_core.leads import Leads
    from recall_echo_core.texts import Kind, TextKey

__all__ = ["Found", "Match", "matched"]


class Match(msgspec.Struct, frozen=True, gc=False):
    """How well a text answers a question.

    Attributes:
        position: Of the text.
        relevance: On the scale of cosine similarity: that of the best match by meaning for the
            best match of all.
        similarity: By meaning: cosine similarity; below 0 counts as 0.
        words: By words, as a share of the best.
    """

    position: int
    relevance: float
    similarity: float
    words: float


Found: TypeAlias = dict[bytes, Match]
Near: TypeAlias = Mapping[bytes, tuple[int, float]]  # item -> position of its text, cosine


def matched(
    kind: Kind,
    asked: Asked,
    near: Near,
    limit: int,
    catalogue: Catalogue,
    similarities: Callable[[Sequence[TextKey]], Mapping[TextKey, float]],
    contents: Callable[[Sequence[TextKey]], Mapping[TextKey, str]],
    leads: Leads | None = None,
) -> Found:
    """Return what matches a question.

    Args:
        kind: Of the texts.
        asked: The question.
        near: The nearest by meaning.
        limit: Most candidates by words.
        catalogue: Words and surroundings of the texts.
        similarities: The cosine similarity of some texts to the question.
        contents: What some texts say.
        leads: What relations lead to, for episodes.
    """
    lexical = catalogue.lexical[kind]
    scores = lexical.scores(asked.terms)
    meaning = _numbered(near, catalogue, kind)
    numbers = np.union1d(lexical.best(scores, limit), sorted(meaning)).astype(np.int64)
    if kind == "episode" and catalogue.closeness.lift:
        numbers = np.union1d(numbers, np.concatenate(catalogue.conversation.beside(numbers)))
        numbers = numbers[numbers >= 0]
    missing = {lexical.texts[n]: n for n in numbers.tolist() if n not in meaning}
    for text, similarity in similarities(list(missing)).items():
        meaning[missing[text]] = similarity
    short = catalogue.conversation.short if kind == "episode" else 1.0
    similar = np.array([meaning.get(number, 0.0) for number in numbers.tolist()])
    meant = similar
    if kind == "episode" and catalogue.conversation.many_sessions and short:
        meant = similar + short * _after(numbers, meaning, similar, catalogue, similarities)
    if leads is not None:
        meant = meant + leads.nearness(numbers)
    values = fused(scores[numbers], meant, short)
    found = Valued(numbers, values)
    if kind == "episode":
        found = placed(
            found,
            asked,
            catalogue.conversation,
            lexical,
            catalogue.closeness,
            lambda numbers: _said(contents, [lexical.texts[number] for number in numbers]),
        )
        if leads is not None:
            found = found.plus(leads.onward(found))
    return _scaled(found, scores, Valued(numbers, similar), lexical.texts)


def _after(
    numbers: Numbers,
    meaning: Mapping[int, float],
    similar: Values,
    catalogue: Catalogue,
    similarities: Callable[[Sequence[TextKey]], Mapping[TextKey, float]],
) -> Values:
    """Return how similar episodes are together with the ones before them.

    A short answer says little without its question.
    """
    texts = catalogue.lexical["episode"].texts
    before, _ = catalogue.conversation.beside(numbers)
    missing = {texts[n]: n for n in before.tolist() if n >= 0 and n not in meaning}
    more = {missing[text]: found for text, found in similarities(list(missing)).items()}
    known = {**meaning, **more}
    earlier = np.array([known.get(number, math.nan) for number in before.tolist()])
    together = catalogue.closeness.together(numbers, similar, earlier)
    return np.where(np.isnan(together), similar, together)


def _said(
    contents: Callable[[Sequence[TextKey]], Mapping[TextKey, str]], texts: Sequence[TextKey]
) -> list[str]:
    said = contents(texts)
    return [said.get(text, "") for text in texts]


def _numbered(near: Near, catalogue: Catalogue, kind: Kind) -> dict[int, float]:
    lexical = catalogue.lexical[kind]
    return {
        number: similarity
        for item, (position, similarity) in near.items()
        if (number := lexical.numbers.get(item)) is not None
        and lexical.texts[number].position == position
    }


def _scaled(found: Valued, scores: Values, similar: Valued, texts: Sequence[TextKey]) -> Found:
    """Return values on the scale of cosine similarity, so that kinds can be compared."""
    best = found.values.max(initial=0.0)
    similarities = np.maximum(similar.at(found.numbers), 0.0)
    scale = similarities.max(initial=0.0) / best if best > 0.0 else 0.0
    words = scores[found.numbers]
    told = words.max(initial=0.0) or 1.0
    columns = (
        found.numbers.tolist(),
        (found.values * scale).tolist(),
        similarities.tolist(),
        (words / told).tolist(),
    )
    return {
        texts[number].item: Match(texts[number].position, value, similarity, word)
        for number, value, similarity, word in zip(*columns, strict=True)
    }
