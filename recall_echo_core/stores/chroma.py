"""Vectors in a folder, kept and searched by Chroma.

One collection per kind holds ids and vectors, nothing else. Its metadata says how far it has
followed the log, how many vectors it then held, and what it was made from. Everything here can
be rebuilt from the log: what is damaged, or was made from something else, is begun anew at
position 0, and whoever follows the log fills it again.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chromadb
import numpy as np
from chromadb.config import Settings

from recall_echo_core.errors import RecallEchoError, StoreClosed, StoreError
from recall_echo_core.ports import VectorIndex
from recall_echo_core.stores.exact import ExactIndex
from recall_echo_core.stores.hnsw_files import blank_spare, damage_in
from recall_echo_core.stores.vectors import best_first, checked_query, checked_rows
from recall_echo_core.stores.view_folder import ViewFolder

if TYPE_CHECKING:
    from recall_echo_core.ports import Vectors

__all__ = ["ChromaFolder", "ChromaIndex"]

_LOG = logging.getLogger(__name__)
_PREFIX = "kind-"
_KIND = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")
_PROBE = 2500  # more than Chroma holds outside the graph, so a lost graph shows
_TIE_ROOM = 16  # neighbours asked for beyond the limit, to see ties that reach across it
_SMALL = 20_000  # up to here comparing all vectors is as fast as the graph
_users: set[int] = set()  # this process and those it was forked from, if they have used Chroma
# Raising any of these finds more of the true neighbours; the first also slows searches, the
# second writes, the third both.
_HNSW = {"space": "cosine", "ef_search": 200, "ef_construction": 200, "max_neighbors": 16}


class ChromaFolder:
    """The Chroma indexes of one namespace, one for each kind of thing, in one folder.

    `identity` names what the vectors are made from: the log, its generation, the model; `mark`
    tells one event at a position from another, in case an older state of the log was put back.
    An index of up to `exact_up_to` vectors is read into memory and searched there, which is faster.
    Raising `dimension` makes disk, memory and searches cost proportionally more. Not usable
    across a `fork`.

    Raises `StoreBusy` when the folder is in use, `StoreError` when it cannot be made, or in a
    fork of a process that has used Chroma.
    """

    def __init__(
        self,
        path: Path,
        dimension: int,
        *,
        identity: str,
        mark: Callable[[int], str] = lambda _: "",
        exact_up_to: int = 4_096,
    ) -> None:
        if dimension < 1:
            raise ValueError(f"dimension must be at least 1, not {dimension}")
        self.dimension, self.identity, self._mark = dimension, identity, mark
        self.exact_up_to = exact_up_to
        if _users - {os.getpid()}:
            raise StoreError(
                "Chroma hangs in a fork of a process that has used it; start processes by 'spawn'"
            )
        self._process, self._lock = os.getpid(), threading.RLock()
        self._client: Any = None  # chromadb's types do not cover embeddings as numpy rows
        self._indexes: dict[str, ChromaIndex] = {}
        self._folder = ViewFolder(Path(path))
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    @property
    def path(self) -> Path:
        """Where the folder is."""
        return self._folder.path

    def index(self, kind: str) -> ChromaIndex:
        """The index of one kind, made when it is first asked for; `kind` is a short word."""
        if len(kind) > 64 or not _KIND.fullmatch(kind):
            raise ValueError(f"kind must be a short lower-case ASCII word, not {kind!r}")
        with self._lock, self._chroma("make a collection"):
            if kind not in self._indexes:
                collection = self._client.create_collection(
                    _PREFIX + kind,
                    embedding_function=None,
                    configuration={"hnsw": dict(_HNSW)},
                    metadata=self._marks(0, 0),
                )
                self._indexes[kind] = ChromaIndex(self, collection)
            return self._indexes[kind]

    def leftovers(self) -> list[Path]:
        """Older sub folders that could not be removed; they still hold their vectors."""
        return self._folder.leftovers()

    def close(self) -> None:
        """Release the folder; closing twice does nothing."""
        with self._lock:
            client, self._client = self._client, None
            try:
                if client is not None and self._process == os.getpid():
                    client.close()
            finally:
                self._folder.release()

    def _open(self) -> None:
        newest = self._folder.newest()
        if newest is None:
            self._connect(self._folder.begin())
            return
        try:
            self._open_old(newest)
        except StoreError as reason:
            level = logging.INFO if isinstance(reason, _Stale) else logging.WARNING
            _LOG.log(level, "Starting the vectors of %s over: %s", newest, reason)
            if self._client is not None:
                self._client.close()
            self._indexes.clear()
            self._connect(self._folder.begin())
        self._folder.sweep()

    def _open_old(self, folder: Path) -> None:
        if reason := self._folder.distrusted():
            raise StoreError(reason)
        graphs = [child for child in folder.iterdir() if child.is_dir()]
        for graph in graphs:  # before Chroma loads them: it may crash on a damaged one
            if problem := damage_in(graph, self.dimension):
                raise StoreError(problem)
        self._connect(folder)
        with self._chroma("read the collections"):
            names = [collection.name for collection in self._client.list_collections()]
            if len(names) < len(graphs):
                raise StoreError("collections are missing")
            for name in names:
                collection = self._client.get_collection(name, embedding_function=None)
                index = ChromaIndex(self, collection)
                index._verify()
                self._indexes[name.removeprefix(_PREFIX)] = index

    def _connect(self, folder: Path) -> None:
        _users.add(os.getpid())
        with _translated(f"open {folder}"):
            settings = Settings(anonymized_telemetry=False)
            self._client = chromadb.PersistentClient(str(folder), settings)
            self._batch = int(self._client.get_max_batch_size())

    @contextmanager
    def _chroma(self, doing: str, *, reading: bool = False) -> Iterator[None]:
        """Translate errors; one while `reading` means that what is stored cannot be trusted."""
        if self._process != os.getpid():
            raise StoreError(f"{self.path} was opened before a fork; open it again in this process")
        if self._client is None:
            raise StoreClosed("This vector index")
        try:
            with _translated(f"{doing} in {self.path}"):
                yield
        except StoreError as error:
            if self._client is None:  # closed meanwhile, by another thread
                raise StoreClosed("This vector index") from error
            if reading:
                self._folder.distrust(str(error))
            raise

    def _blank_spare(self) -> None:
        newest = self._folder.newest()
        for graph in newest.iterdir() if newest else ():
            if graph.is_dir():
                blank_spare(graph)

    def _marks(self, position: int, count: int) -> dict[str, str | int]:
        marks: dict[str, str | int] = {"identity": self.identity, "dimension": self.dimension}
        return marks | {"position": position, "count": count, "event": self._mark(position)}


class _Stale(StoreError):
    """The vectors are whole, but of another log, generation or model."""


class ChromaIndex(VectorIndex):
    """The vectors of one kind; made by `ChromaFolder.index`."""

    def __init__(self, folder: ChromaFolder, collection: Any) -> None:
        self._folder, self._collection = folder, collection
        self._marks: dict[str, Any] = dict(collection.metadata or {})
        self._twin: ExactIndex | None = None

    @property
    def position(self) -> int:
        """The log position up to which this index holds everything; 0 when new."""
        return int(self._marks["position"])

    def advance(self, position: int) -> None:
        """Record that everything up to `position` is held, in the same file as the vectors."""
        if position < 0:
            raise ValueError(f"position must not be negative, not {position}")
        with self._folder._lock, self._folder._chroma("record the position"):
            self._record(position, self._collection.count())

    def upsert(self, keys: Sequence[str], vectors: Vectors) -> None:
        """Add vectors, replacing those of keys already held; one large batch is much faster."""
        unique, rows = checked_rows(keys, vectors, self._folder.dimension)
        with self._folder._lock, self._folder._chroma("store vectors"):
            for start in range(0, len(unique), self._folder._batch):
                chunk = slice(start, start + self._folder._batch)
                self._collection.upsert(unique[chunk], embeddings=rows[chunk])
            if self._twin is not None:
                self._twin.upsert(unique, rows)
            self._folder._blank_spare()

    def delete(self, keys: Sequence[str]) -> None:
        """Remove keys; keys that are not held are ignored."""
        unique = list(dict.fromkeys(keys))
        with self._folder._lock, self._folder._chroma("remove vectors"):
            if not unique:
                return
            # Lowered first: a crash in between must not look like lost vectors.
            self._record(self.position, max(0, self._marks["count"] - len(unique)))
            for start in range(0, len(unique), self._folder._batch):
                self._collection.delete(unique[start : start + self._folder._batch])
            if self._twin is not None:
                self._twin.delete(unique)

    def search(self, vector: Vectors, limit: int) -> list[tuple[str, float]]:
        """At most `limit` (key, cosine similarity) pairs, best first, ties by key.

        Raising `limit` above 200 makes the search wider, slower and closer to exact. Raises
        `StoreError` when vectors have been lost; opening the folder again then starts over.

        The graph works badly when a tenth of the vectors or more are equal. Where that shows in
        an answer, all vectors are read into memory and compared; better, give equal texts one key.
        """
        query = checked_query(vector, limit, self._folder.dimension)
        with self._folder._chroma("search", reading=True):
            if not limit:
                return []
            if not query.any():  # similar to nothing, so every key ties
                keys = sorted(self._collection.get(include=[])["ids"])
                return [(key, 0.0) for key in keys[:limit]]
            if self._marks["count"] <= self._folder.exact_up_to:
                return self._exact().search(query, limit)
            return self._nearest(query, limit)

    def count(self) -> int:
        """How many vectors are held; takes milliseconds when there are many."""
        with self._folder._chroma("count"):
            return int(self._collection.count())

    def _verify(self) -> None:
        """Raise `StoreError` when this was made from something else, or has lost vectors."""
        try:
            recorded, position = int(self._marks["count"]), int(self._marks["position"])
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError("the recorded position is missing") from error
        if self._marks != self._folder._marks(position, recorded):
            raise _Stale(f"made from {self._marks}, not {self._folder._marks(position, recorded)}")
        found = self._collection.count()
        if found < recorded:
            raise StoreError(f"{recorded} vectors were recorded, {found} are there")
        if found:
            any_vector = np.ones(self._folder.dimension, dtype=np.float32)
            self._nearest(any_vector / np.linalg.norm(any_vector), _PROBE)

    def _nearest(self, query: Vectors, limit: int) -> list[tuple[str, float]]:
        twin = self._twin  # kept once the graph has failed
        if twin is not None and twin.count() <= _SMALL:
            return twin.search(query, limit)
        wanted = limit + _TIE_ROOM
        found = best_first(self._ask(query, wanted), wanted)
        if len(found) < wanted:
            # All there are; or the graph has lost some, or has some that no link leads to.
            reliable = len(found) >= self._collection.count()
        else:
            # Many equal vectors link to each other only, and so hide what else is near. Ties
            # across the limit, too, can be ordered by key only with all of them at hand.
            distinct = len({similarity for _, similarity in found})
            reliable = found[limit - 1][1] > found[-1][1] and distinct > len(found) // 2
        return found[:limit] if reliable else self._exact().search(query, limit)

    def _ask(self, query: Vectors, wanted: int) -> list[tuple[str, float]]:
        answer = self._collection.query(
            query_embeddings=query[np.newaxis], n_results=wanted, include=["distances"]
        )
        distances = np.asarray(answer["distances"][0], dtype=np.float64)
        similarities = np.clip(1.0 - distances, -1.0, 1.0).tolist()
        return list(zip(answer["ids"][0], similarities, strict=True))

    def _exact(self) -> ExactIndex:
        """The same vectors in memory, for searches in which the graph cannot be relied on."""
        with self._folder._lock:
            if self._twin is None:
                expected = self._collection.count()
                held = self._collection.get(include=["embeddings"])
                if min(len(held["ids"]), len(held["embeddings"])) < expected:
                    raise StoreError(f"{expected} vectors should be there, some are not")
                twin = ExactIndex(self._folder.dimension)
                twin.upsert(held["ids"], held["embeddings"])
                self._twin = twin
            return self._twin

    def _record(self, position: int, count: int) -> None:
        marks = self._folder._marks(position, count)
        self._collection.modify(metadata=marks)
        self._marks = marks


@contextmanager
def _translated(doing: str) -> Iterator[None]:
    """Turn whatever Chroma raises into `StoreError`."""
    try:
        yield
    except (RecallEchoError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic of its native part is no Exception
        raise StoreError(f"Chroma could not {doing}: {error}") from error
