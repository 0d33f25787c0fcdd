"""Where are the vectors of a namespace searched?

The newest are searched exactly; once there are enough of them they go to the index on disk in one
batch, since single writes to it are slow. A search looks at both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from recall_echo_core.errors import StoreBusy, StoreErased, StoreError
from recall_echo_core.texts import KINDS, Kind, TextKey, parse_key, vector_key

if TYPE_CHECKING:
    from recall_echo_core.ports import VectorFolder, VectorIndex, Vectors
    from recall_echo_core.stores.embeddings import Embeddings

__all__ = ["Near", "Searching", "best_chunks", "keys_of"]

log = logging.getLogger(__name__)
T = TypeVar("T")

Near = dict[bytes, tuple[int, float]]  # item -> position of its text, cosine similarity
Kept = Callable[[Kind, int, int | None], Iterator[tuple[list[str], "Vectors"]]]


class Searching:
    """The vectors of one namespace that can be searched. Its owner holds a lock.

    Args:
        embeddings: Where vectors are kept.
        kept: Yields the kept vectors of a kind, after one position and up to another.
        exact: Makes an empty exact index.
        open_folder: Opens the index on disk; `None` when there is none and `create` is false.
        batch: How many new vectors make it worth writing to the index on disk.
    """

    def __init__(
        self,
        embeddings: Embeddings,
        kept: Kept,
        exact: Callable[[], VectorIndex],
        open_folder: Callable[[bool], VectorFolder | None],
        batch: int,
    ) -> None:
        self._embeddings, self._kept = embeddings, kept
        self._exact, self._open_folder = exact, open_folder
        self._batch = self._due = batch
        self._reached = 0
        self._newest: dict[Kind, VectorIndex] = {}
        self._folder: VectorFolder | None = None

    @property
    def open(self) -> bool:
        """Whether there is something to search."""
        return bool(self._newest)

    def load(self, reached: int) -> None:
        """Take the vectors kept up to a position, opening what has to be."""
        self._reached = reached
        if not self._newest:
            self._folder = self._opened_folder(create=False)
            self._newest = {kind: self._exact() for kind in KINDS}
        for kind, newest in self._newest.items():
            stored = self._stored_index(kind)
            done = 0 if stored is None else stored.position
            for keys, vectors in self._kept(kind, max(done, newest.position), None):
                newest.upsert(keys, vectors)
            newest.advance(max(done, reached))

    def nearest(self, kind: Kind, vector: Vectors, limit: int) -> tuple[Near, bool]:
        """Return the items nearest to a vector, and whether there may be more of them."""
        pairs, more = self._surely(lambda: self._nearest(kind, vector, limit))
        return best_chunks(pairs), more

    def hold(self, text: TextKey, vectors: Vectors) -> None:
        """Search vectors that cannot be kept now."""
        self._newest[text.kind].upsert(keys_of(text, vectors), vectors)

    def store(self, reached: int, *, due: bool = False) -> None:
        """Bring the newest vectors to the index on disk; with `due`, if there are enough."""
        if not self._waiting() or (due and self._waiting() < self._due):
            return
        try:
            self._folder = self._folder or self._opened_folder(create=True)
            for kind, stored in self._stored():
                for keys, vectors in self._kept(kind, stored.position, reached):
                    stored.upsert(keys, vectors)
                stored.advance(reached)
        except StoreError:
            # The vectors are safe beside the log; what may be broken is opened again when needed.
            log.exception("bringing vectors to the index on disk failed; trying again later")
            self._due = self._waiting() + self._batch
            self.close()
            return
        self._due = self._batch if self._folder else self._waiting() + self._batch
        for kind, stored in self._stored():
            self._newest[kind] = self._exact()
            self._newest[kind].advance(stored.position)

    def counts(self) -> dict[str, int]:
        """Return how many vectors are on disk, and how many wait to be."""
        on_disk = self._surely(lambda: sum(index.count() for _, index in self._stored()))
        return {"indexed": on_disk, "waiting": self._waiting()}

    def miscounted(self) -> list[str]:
        """Return where the index on disk holds another number of vectors than it should."""
        return self._surely(self._miscounted)

    def renew(self) -> bool:
        """Begin the index on disk anew where it is stale; return whether nothing old is left."""
        self.close()
        try:
            folder = self._open_folder(False)
        except StoreBusy:
            return False
        if folder is None:
            return True
        clean = not folder.leftovers()
        folder.close()
        return clean

    def close(self) -> None:
        """Let go of everything until it is needed again."""
        if self._folder is not None:
            self._folder.close()
        self._folder = None
        self._newest = {}

    # Inside

    def _surely(self, read: Callable[[], T]) -> T:
        """Read from the index on disk; if it fails, from what is there after opening it again.

        A damaged index is no loss: it then opens empty, and all is searched exactly.
        """
        try:
            return read()
        except StoreError:
            log.exception("the index on disk failed; going on without it")
            self.close()
            self.load(self._reached)
            return read()

    def _nearest(
        self, kind: Kind, vector: Vectors, limit: int
    ) -> tuple[list[tuple[str, float]], bool]:
        newest, stored = self._newest[kind].search(vector, limit), self._stored_index(kind)
        older = [] if stored is None else stored.search(vector, limit)
        return newest + older, limit in (len(newest), len(older))

    def _miscounted(self) -> list[str]:
        wrong: list[str] = []
        for kind, stored in self._stored():
            have, kept = stored.count(), self._embeddings.count(kind, stored.position)
            # Killed before it noted how far it got, it holds more, and that is no fault.
            if not kept <= have <= self._embeddings.count(kind):
                wrong.append(f"the index on disk held {have} of {kept} {kind} vectors")
        return wrong

    def _opened_folder(self, *, create: bool) -> VectorFolder | None:
        try:
            return self._open_folder(create)
        except StoreErased:
            raise
        except StoreError as error:
            level = logging.INFO if isinstance(error, StoreBusy) else logging.WARNING
            log.log(level, "%s; searching exactly instead", error)
        return None

    def _stored(self) -> list[tuple[Kind, VectorIndex]]:
        return [(kind, self._folder.index(kind)) for kind in KINDS] if self._folder else []

    def _stored_index(self, kind: Kind) -> VectorIndex | None:
        return None if self._folder is None else self._folder.index(kind)

    def _waiting(self) -> int:
        return sum(index.count() for index in self._newest.values())


def keys_of(text: TextKey, vectors: Vectors) -> list[str]:
    """Return the keys of the chunks of a text."""
    return [vector_key(text.position, text.item, chunk) for chunk in range(len(vectors))]


def best_chunks(pairs: Sequence[tuple[str, float]]) -> Near:
    """Return the best chunk of the newest version of each item."""
    found: Near = {}
    for key, similarity in pairs:
        item, position = parse_key(key)
        known = found.get(item)
        if known is None or (position, similarity) > known:
            found[item] = position, similarity
    return found
