"""Which more vectors has the full version? One of each unit in context, one of each piece."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recall_quality_parts.sets import Corpus

CONTEXT = PIECE = 40  # words; the written recipe's, an untuned first guess
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


def in_context(corpus: Corpus) -> list[str]:
    """Return each unit with the end of the one before it in its session."""
    texts = [unit.said for unit in corpus.units[:1]]
    for before, unit in pairwise(corpus.units):
        tail = " ".join(before.said.split()[-CONTEXT:])
        texts.append(f"{tail}\n{unit.said}" if before.session == unit.session else unit.said)
    return texts


def pieces(text: str) -> list[str]:
    """Return the sentences of a text, packed to about 40 words.

    >>> [len(piece.split()) for piece in pieces("One two three. " * 30)]
    [39, 39, 12]
    """
    packed: list[list[str]] = []
    for sentence in SENTENCE.split(text):
        said = sentence.split()
        if packed and len(packed[-1]) + len(said) <= PIECE:
            packed[-1] += said
        elif said:
            packed.append(said)
    return [" ".join(piece) for piece in packed]


def chunks(corpus: Corpus) -> tuple[list[str], list[int]]:
    """Return the pieces of all units and the place of each one's unit; a short unit is one."""
    texts, owners = [], []
    for place, unit in enumerate(corpus.units):
        parts = pieces(unit.text)
        for piece in parts if len(parts) > 1 else [unit.said]:
            texts.append(piece)
            owners.append(place)
    return texts, owners
