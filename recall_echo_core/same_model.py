"""Is this the model the store's vectors were made with?

Names can lie: a function keeps its name when its model changes. So beside name and dimension the
store keeps the vector of one fixed sentence, and the model's first work is to repeat it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from recall_echo_core.errors import (
    EmbedderMismatch,
    EmbedderUnavailable,
    RecallEchoError,
    StoreError,
)
from recall_echo_core.ports import Embedder

if TYPE_CHECKING:
    from recall_echo_core.ports import Vectors
    from recall_echo_core.stores.sql import SqlLog

__all__ = ["SENTENCE", "SameModel", "read"]

SENTENCE: Final = "The store remembers how its model reads this sentence."
# Cosine below which two readings of the sentence are two models. The same weights on another
# processor, or another quantisation of them, agree to .9995.
SAME: Final = 0.99


class SameModel(Embedder):
    """An embedder that refuses to add to, or search, the vectors of another one.

    Args:
        embedder: What does the work.
        log: Where the store keeps its notes.

    Raises:
        EmbedderMismatch: name or dimension differ; the reading is compared on first use.
    """

    def __init__(self, embedder: Embedder, log: SqlLog) -> None:
        self._embedder, self._log = embedder, log
        self._lock = threading.Lock()
        self._verified = False
        self._compare_names()

    @property
    def model_id(self) -> str:
        """Name of the model."""
        return self._embedder.model_id

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        return self._embedder.dimension

    @property
    def max_tokens(self) -> int:
        """Longest text, in tokens, that is read whole."""
        return self._embedder.max_tokens

    def count_tokens(self, text: str) -> int:
        """How many of `max_tokens` this text takes."""
        return self._embedder.count_tokens(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row per text, once the model is known to be the store's."""
        with self._lock:
            if not self._verified:
                self._compare_reading()
                self._verified = True
        return read(self._embedder, texts)

    def verify(self) -> None:
        """Compare the reading now; for a model that costs nothing to load."""
        with self._lock:
            self._compare_reading(record=False)

    def _compare_names(self) -> None:
        stored, dimension = self._log.note("model"), self._log.note("dimension")
        if stored is None or dimension is None:
            return
        if stored != self.model_id:
            raise EmbedderMismatch(stored, self.model_id, "another model")
        if dimension != str(self.dimension):
            reason = f"vectors of {self.dimension} numbers instead of {dimension}"
            raise EmbedderMismatch(stored, self.model_id, reason)

    def _compare_reading(self, *, record: bool = True) -> None:
        import numpy as np

        self._compare_names()  # another process may have been the first to write
        reading = read(self._embedder, [SENTENCE])[0].astype("<f4")
        known = self._log.note("reading")
        if known is not None:
            try:
                stored = np.frombuffer(bytes.fromhex(known), dtype="<f4").astype(float)
                norms = float(np.linalg.norm(stored) * np.linalg.norm(reading))
                cosine = float(stored @ reading) / norms if norms else 0.0
            except ValueError as error:
                raise StoreError(
                    f"The store's note of how {self.model_id} reads is damaged;"
                    " open_memory(..., reindex=True) makes it and all vectors anew."
                ) from error
            if not cosine >= SAME:  # a damaged number may be none at all
                reason = f"it reads a known sentence differently, cosine {cosine:.2f}"
                raise EmbedderMismatch(self.model_id, self.model_id, reason)
        elif record:
            notes = {"model": self.model_id, "dimension": str(self.dimension)}
            self._log.set_notes({**notes, "reading": reading.tobytes().hex()})


def read(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Embed texts; whatever the model raises becomes `EmbedderUnavailable`."""
    try:
        return embedder.embed(texts)
    except RecallEchoError:
        raise
    except Exception as error:
        raise EmbedderUnavailable(
            f"the model {embedder.model_id} failed ({type(error).__name__}: {error})"
        ) from error
