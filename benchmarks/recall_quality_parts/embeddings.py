"""Which vector has a text? Embedded once by the project's own model, kept in a folder.

The model is all-MiniLM-L6-v2 in int8; its numbers differ a little from those of fp32.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from recall_echo_core.stores.fastembed import FastEmbedder

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

    def of(self, texts: Sequence[str], what: str) -> np.ndarray[Any, np.dtype[np.float32]]:
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
            self._write()
        return np.stack([self._known[digest(text)] for text in texts])

    def _write(self) -> None:
        aside = self._path.with_suffix(".tmp.npz")
        np.savez(aside, digests=list(self._known), vectors=np.stack(list(self._known.values())))
        aside.replace(self._path)
