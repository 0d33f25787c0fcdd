"""How similar are some texts to a question by meaning?

The vectors that questions need again and again stay in memory, as many as there is room for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from recall_echo_core.ports import Vectors
    from recall_echo_core.stores.embeddings import Embeddings
    from recall_echo_core.texts import TextKey

__all__ = ["Similarities"]

MOST: Final = 16_384  # vectors; 25 MB of 384 dimensions
FIRST: Final = 1_024


class Similarities:
    """The vectors of one namespace, as far as questions have needed them. Its owner holds a lock.

    Args:
        embeddings: Where vectors are kept.
        dimension: Of the vectors.
        most: Vectors that stay in memory; raising it makes large memories answer faster.
    """

    def __init__(self, embeddings: Embeddings, dimension: int, most: int = MOST) -> None:
        self._embeddings, self._dimension, self._most = embeddings, dimension, most
        self.drop()

    def of(self, texts: Sequence[TextKey], vector: Vectors) -> dict[TextKey, float]:
        """Return the cosine similarity of some texts to a vector: of each the best chunk.

        A text without vectors, or whose vectors are damaged, is left out.
        """
        length = float(np.linalg.norm(vector))
        if not length:
            return {}
        if any(text not in self._places for text in texts):
            self._read(texts)
        found = [text for text in texts if text in self._places]
        if not found:
            return {}
        firsts, ends = np.array([self._places[text] for text in found]).T
        counts = ends - firsts
        before = np.cumsum(counts) - counts  # chunks of the texts before each
        chunks = np.arange(counts.sum()) + np.repeat(firsts - before, counts)
        cosines = self._rows[chunks] @ np.asarray(vector / length, dtype=np.float32)
        best = np.maximum.reduceat(cosines, before)
        return dict(zip(found, best.tolist(), strict=True))

    def rows(self, texts: Collection[TextKey]) -> dict[TextKey, Vectors]:
        """Return the vectors of some texts, of each the first chunk, of length 1."""
        if any(text not in self._places for text in texts):
            self._read(sorted(texts))
        return {t: self._rows[self._places[t][0]].copy() for t in texts if t in self._places}

    def drop(self) -> None:
        """Let go of all vectors: some may have been forgotten."""
        self._places: dict[TextKey, tuple[int, int]] = {}  # text -> first row, row after the last
        self._rows = np.empty((0, self._dimension), dtype=np.float32)
        self._used = 0

    def _read(self, texts: Sequence[TextKey]) -> None:
        """Take the vectors of some texts, in place of all others if there is no room."""
        read = self._embeddings.vectors([text for text in texts if text not in self._places])
        if self._used + sum(map(len, read.values())) > self._most:
            rows, places = self._rows, self._places
            read |= {text: rows[slice(*places[text])] for text in texts if text in places}
            self.drop()
        self._reserve(self._used + sum(map(len, read.values())))
        for text, vectors in read.items():
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            end = self._used + len(vectors)
            self._rows[self._used : end] = vectors / np.where(lengths > 0.0, lengths, 1.0)
            self._places[text] = self._used, end
            self._used = end

    def _reserve(self, count: int) -> None:
        if count > len(self._rows):
            size = max(count, min(self._most, max(FIRST, 2 * len(self._rows))))
            larger = np.empty((size, self._dimension), dtype=np.float32)
            larger[: self._used] = self._rows[: self._used]
            self._rows = larger
