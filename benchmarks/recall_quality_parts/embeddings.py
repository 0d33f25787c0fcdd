"""Which vector has a text? Embedded once by the project's own model, kept in a folder.

The model is all-MiniLM-L6-v2 in int8; its numbers differ a little from those of fp32.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from rich.progress import track

from recall_echo_core.stores.fastembed import FastEmbedder

Vectors: TypeAlias = "np.ndarray[Any, np.dtype[np.float32]]"

MODEL = "minilm-int8-256"
BATCH = 256


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Embeddings:
    """Unit vectors of texts, in a file that grows.

    Args:
        folder: Where the file stands.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{MODEL}.npz"
        self._known: dict[str, np.ndarray[Any, np.dtype[np.float32]]] = {}
        if self._path.is_file():
            kept = np.load(self._path)
            self._known = dict(zip(kept["digests"].tolist(), kept["vectors"], strict=True))

    def of(self, texts: Sequence[str], what: str) -> Vectors:
        """Return one row a text, of length 1; what is not known yet is embedded and kept."""
        wanted = {digest(text): text for text in texts}
        new = sorted(
            (text for key, text in wanted.items() if key not in self._known),
            key=lambda text: (len(text), text),  # like with like: less padding
        )
        if new:
            model = FastEmbedder()
            starts = range(0, len(new), BATCH)
            for start in track(starts, description=f"embedding {len(new)} {what}"):
                batch = new[start : start + BATCH]
                vectors = model.embed(batch).astype(np.float32)
                vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
                self._known |= {digest(t): v for t, v in zip(batch, vectors, strict=True)}
            self.write()
        return np.stack([self._known[digest(text)] for text in texts])

    def through(self, texts: Sequence[str], embed: Callable[[Sequence[str]], Vectors]) -> Vectors:
        """Return one row a text; what is not known goes through `embed`, and is kept by `write`."""
        new = [text for text in dict.fromkeys(texts) if digest(text) not in self._known]
        if new:
            self._known |= {digest(t): v for t, v in zip(new, embed(new), strict=True)}
        return np.stack([self._known[digest(text)] for text in texts])

    def write(self) -> None:
        """Keep all that is known on disk."""
        aside = self._path.with_suffix(".tmp.npz")
        np.savez(aside, digests=list(self._known), vectors=np.stack(list(self._known.values())))
        aside.replace(self._path)


class KeptEmbedder(FastEmbedder):
    """The project's own model, which looks into what is kept before it computes."""

    def __init__(self, kept: Embeddings) -> None:
        super().__init__()
        self._kept = kept

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row a text, of length 1."""
        return self._kept.through(texts, super().embed) if texts else super().embed(texts)
