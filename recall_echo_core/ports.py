"""What is needed from outside: a place for vectors, and a model that makes them.

Each port has a contract suite in `recall_echo_core.testing`; whoever writes another
implementation runs it there. The log has no port of its own: it is SQL, and the database is
chosen by URL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]

__all__ = ["Embedder", "Progress", "VectorFolder", "VectorIndex"]

Progress: TypeAlias = Callable[[int, int], None]  # how many are done, how many there are


@runtime_checkable
class Embedder(Protocol):
    """A model that turns texts into vectors of one dimension.

    The same text must give the same vector whatever else is in the batch. Vectors need not be
    normalised. All methods may be called from any thread.
    """

    @property
    def model_id(self) -> str:
        """Name of the model and its variant; a store refuses to mix two of them."""
        ...

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        ...

    @property
    def max_tokens(self) -> int:
        """Longest text, in tokens of this model, that `embed` reads whole."""
        ...

    def count_tokens(self, text: str) -> int:
        """How many of `max_tokens` this text takes."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row per text: shape `(len(texts), dimension)`, float32."""
        ...


@runtime_checkable
class VectorIndex(Protocol):
    """Vectors by key, searched by cosine similarity, that knows how far it has followed the log.

    Keys are short ASCII strings. All methods may be called from any thread.
    """

    @property
    def position(self) -> int:
        """The log position up to which this index holds everything; 0 when new."""
        ...

    def advance(self, position: int) -> None:
        """Record that everything up to `position` is held, as durably as the vectors."""
        ...

    def upsert(self, keys: Sequence[str], vectors: Vectors) -> None:
        """Add vectors, replacing those of keys already held. A batch of any size."""
        ...

    def delete(self, keys: Sequence[str]) -> None:
        """Remove keys; keys that are not held are ignored."""
        ...

    def search(self, vector: Vectors, limit: int) -> list[tuple[str, float]]:
        """At most `limit` (key, cosine similarity in [-1, 1]) pairs, best first, ties by key."""
        ...

    def count(self) -> int:
        """How many vectors are held."""
        ...


class VectorFolder(Protocol):
    """The vector indexes of one namespace, one for each kind of item, kept on disk."""

    def index(self, kind: str) -> VectorIndex:
        """The index of one kind, made when it is first asked for."""
        ...

    def leftovers(self) -> Sequence[object]:
        """What could not be removed of an older state; it may hold vectors of forgotten texts."""
        ...

    def close(self) -> None:
        """Let go of the folder; what was upserted stays."""
        ...
