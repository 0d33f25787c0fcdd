"""Which texts of one kind match a question, and how well?

The best by words and the best by meaning are the candidates, with the neighbours of episodes;
each is then weighed by both. What the index of vectors did not give for one of them is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from recall_echo_core.relevance import Asked, fused, placed

if TYPE_CHECKING:
    from recall_echo_core.catalogue import Catalogue
    from recall_echo_core.texts import Kind, TextKey

__all__ = ["Found", "Match", "matched"]


class Match(msgspec.Struct, frozen=True):
    """How well a text answers a question.

    Attributes:
        position: Of the text.
        relevance: On the scale of cosine similarity: that of the best match by meaning for the
            best match of all.
        parts: What it was made of.
    """

    position: int
    relevance: float
    parts: Mapping[str, float]


Found: TypeAlias = dict[bytes, Match]
Near: TypeAlias = Mapping[bytes, tuple[int, float]]  # item -> position of its text, cosine


def matched(
    kind: Kind,
    asked: Asked,
    near: Near,
    limit: int,
    catalogue: Catalogue,
    similarities: Callable[[Sequence[TextKey]], Mapping[TextKey, float]],
    content: Callable[[TextKey], str],
) -> Found:
    """Return what matches a question.

    Args:
        kind: Of the texts.
        asked: The question.
        near: The nearest by meaning.
        limit: Most candidates by words.
        catalogue: Words and surroundings of the texts.
        similarities: The cosine similarity of some texts to the question.
        content: What a text says.
    """
    lexical = catalogue.lexical[kind]
    scores = lexical.scores(asked.terms)
    meaning = _numbered(near, catalogue, kind)
    candidates = set(lexical.best(scores, limit)) | meaning.keys()
    if kind == "episode" and catalogue.closeness.lift:
        candidates |= set(_neighbours(candidates, catalogue))
    missing = {lexical.texts[number]: number for number in candidates - meaning.keys()}
    for text, similarity in similarities(sorted(missing)).items():
        meaning[missing[text]] = similarity
    words = {number: float(scores[number]) for number in candidates}
    short = catalogue.conversation.short if kind == "episode" else 1.0
    values = fused(words, meaning, short)
    if kind == "episode":
        values = placed(
            values,
            asked,
            catalogue.conversation,
            lexical,
            catalogue.closeness,
            lambda number: content(lexical.texts[number]),
        )
    return _scaled(values, words, meaning, lexical.texts)


def _numbered(near: Near, catalogue: Catalogue, kind: Kind) -> dict[int, float]:
    lexical = catalogue.lexical[kind]
    return {
        number: similarity
        for item, (position, similarity) in near.items()
        if (number := lexical.numbers.get(item)) is not None
        and lexical.texts[number].position == position
    }


def _neighbours(numbers: Iterable[int], catalogue: Catalogue) -> Iterable[int]:
    before, after = catalogue.conversation.before, catalogue.conversation.after
    for number in numbers:
        yield from (beside for beside in (before[number], after[number]) if beside >= 0)


def _scaled(
    values: Mapping[int, float],
    words: Mapping[int, float],
    meaning: Mapping[int, float],
    texts: Sequence[TextKey],
) -> Found:
    """Return values on the scale of cosine similarity, so that kinds can be compared."""
    best = max(values.values(), default=0.0)
    nearest = max(meaning.values(), default=0.0)
    scale = max(0.0, nearest) / best if best > 0.0 else 0.0
    told = max(words.values(), default=0.0) or 1.0
    return {
        texts[number].item: Match(
            texts[number].position,
            value * scale,
            {
                "similarity": max(0.0, meaning.get(number, 0.0)),
                "words": words.get(number, 0.0) / told,
            },
        )
        for number, value in values.items()
    }
