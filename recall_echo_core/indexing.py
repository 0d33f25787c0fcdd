"""How do vectors follow the log?

Each text that the graph gives is cut, embedded and kept beside the log. The newest vectors are
searched exactly; once there are enough of them they go to the index on disk in one batch, since
single writes to it are slow. A search looks at both, so you always find what you wrote.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from recall_echo_core.contents import contents
from recall_echo_core.embedding import Stopped, embedded
from recall_echo_core.errors import CorruptLog, StoreBusy, StoreErased, StoreError
from recall_echo_core.texts import KINDS, Kind, TextKey, parse_key, vector_key

if TYPE_CHECKING:
    from recall_echo_core.namespace import Namespace
    from recall_echo_core.ports import Embedder, Progress, VectorFolder, VectorIndex, Vectors
    from recall_echo_core.stores.embeddings import Embeddings

__all__ = ["Found", "Indexing", "best_chunks"]

log = logging.getLogger(__name__)
BATCH: Final = 64
T = TypeVar("T")

Found = dict[bytes, tuple[int, float]]  # item -> position of its text, similarity


class Indexing:
    """The vectors of one namespace. Safe from any thread.

    Args:
        namespace: Whose texts.
        embeddings: Where vectors are kept.
        embedder: What makes them.
        exact: Makes an empty exact index.
        open_folder: Opens the index on disk; `None` when there is none and `create` is false.
        begin_anew: Makes the index on disk stale, so that it opens empty.
        same_model: Raises unless the model is still the one that the store's vectors come from.
        batch: How many new vectors make it worth writing to the index on disk.
    """

    def __init__(
        self,
        namespace: Namespace,
        embeddings: Embeddings,
        embedder: Embedder,
        exact: Callable[[], VectorIndex],
        open_folder: Callable[[bool], VectorFolder | None],
        begin_anew: Callable[[], None],
        same_model: Callable[[], None],
        batch: int,
    ) -> None:
        self._namespace, self._embeddings, self._embedder = namespace, embeddings, embedder
        self._exact, self._open_folder = exact, open_folder
        self._begin_anew, self._same_model, self._batch = begin_anew, same_model, batch
        self._due = batch  # how many vectors have to wait until they go to the index on disk
        self._lock = threading.RLock()
        self._generation = -1
        self._pending: list[TextKey] | None = None
        self._reached = 0
        self._newest: dict[Kind, VectorIndex] = {}
        self._held: set[TextKey] = set()  # texts whose vectors are in memory only
        self._folder: VectorFolder | None = None

    def catch_up(
        self,
        stop: Callable[[], bool] = lambda: False,
        progress: Progress | None = None,
        *,
        durably: bool = False,
    ) -> None:
        """Embed every text given so far; give up in between when `stop` says so.

        `progress` is called with how many texts are done, and how many there are. Vectors that
        cannot be kept, as on a full disk, are searched from memory, or an error if `durably`.
        """
        with self._lock:
            target = self._collect()
            total = len(self._pending or ())
            while self._pending:
                if progress is not None:
                    progress(total - len(self._pending), total)
                batch = self._pending[:BATCH]
                rest = self._pending[BATCH:]
                try:
                    kept = self._embed(batch, rest[0].position - 1 if rest else target, stop)
                except Stopped:
                    return
                except StoreError as error:
                    if durably or isinstance(error, (CorruptLog, StoreErased)):
                        raise
                    log.exception("vectors cannot be kept now; searching them from memory")
                    self._hold()
                    return
                if kept:
                    self._pending = rest
                else:
                    target = self._collect()
            self._held.clear()
            if progress is not None:
                progress(total, total)
            self._reached = target  # kept on disk with the next vectors only: a write is dear
            if self._waiting() >= self._due:
                self._store_newest()

    def flush(self) -> None:
        """Embed every text and bring all vectors to the index on disk."""
        with self._lock:
            self.catch_up(durably=True)
            self._store_newest()

    def search(self, kind: Kind, vector: Vectors, limit: int) -> tuple[Found, bool]:
        """Return the items nearest to a vector, and whether there may be more of them."""
        with self._lock:
            self._collect()
            pairs, more = self._surely(lambda: self._nearest(kind, vector, limit))
        return best_chunks(pairs), more

    def _surely(self, read: Callable[[], T]) -> T:
        """Read from the index on disk; if it fails, from what is there after opening it again.

        A damaged index is no loss: it then opens empty, and all is searched exactly.
        """
        try:
            return read()
        except StoreError:
            log.exception("the index on disk failed; going on without it")
            self.close_folder()
            self._collect()
            return read()

    def _nearest(
        self, kind: Kind, vector: Vectors, limit: int
    ) -> tuple[list[tuple[str, float]], bool]:
        newest, stored = self._newest[kind].search(vector, limit), self._stored_index(kind)
        older = [] if stored is None else stored.search(vector, limit)
        return newest + older, limit in (len(newest), len(older))

    def everything(self, kind: Kind, accept: Callable[[bytes, int], bool]) -> VectorIndex:
        """Return an exact index of all vectors, of whatever version, that `accept` takes."""
        index = self._exact()
        for keys, vectors in self._kept(kind):
            places = [i for i, key in enumerate(keys) if accept(*parse_key(key))]
            index.upsert([keys[i] for i in places], vectors[places])
        return index

    def texts_of(self, items: Sequence[bytes]) -> dict[bytes, str]:
        """Return the texts that items have now."""
        with self._namespace.reading() as graph:
            keys = [
                TextKey(position, item, graph.kind_of(item))
                for item in items
                if (position := graph.text_position(item)) is not None
            ]
        return {key.item: text for key, text in contents(self._namespace, keys).items()}

    def mended(self) -> list[str]:
        """Compare vectors with texts, make those that lack, and return what was wrong."""
        with self._lock:
            self.catch_up()
            wrong: list[str] = []
            with self._namespace.reading() as graph:
                texts = graph.texts_after(0)
            lacking = sorted(set(texts) - self._embeddings.known(texts))
            if lacking:
                self._pending = lacking
                self.catch_up()
                mended = len(self._embeddings.known(lacking))
                wrong += [f"{mended} texts had no vectors"] if mended else []
            for kind in KINDS:
                damaged: list[TextKey] = []
                for _ in self._embeddings.load(kind, damaged):
                    pass
                if damaged:
                    self._remake(damaged)
                    wrong.append(f"the vectors of {len(damaged)} {kind} texts were damaged")
            wrong += self._surely(self._miscounted)
            if wrong:
                self._begin_anew()
                self.close_folder()
                self.flush()
            return wrong

    def _miscounted(self) -> list[str]:
        wrong: list[str] = []
        for kind, stored in self._stored():
            have, kept = stored.count(), self._embeddings.count(kind, stored.position)
            # Killed before it noted how far it got, it holds more, and that is no fault.
            if not kept <= have <= self._embeddings.count(kind):
                wrong.append(f"the index on disk held {have} of {kept} {kind} vectors")
        return wrong

    def counts(self) -> dict[str, int]:
        """Return how many vectors are on disk, and how many wait to be."""
        with self._lock:
            self._collect()
            on_disk = self._surely(lambda: sum(index.count() for _, index in self._stored()))
            return {"indexed": on_disk, "waiting": self._waiting()}

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Keep vectors as they are: nothing is embedded or searched meanwhile."""
        with self._lock:
            yield

    def renew_folder(self) -> bool:
        """Begin the index on disk anew where it is stale; return whether nothing old is left."""
        with self._lock:
            self.close_folder()
            try:
                folder = self._open_folder(False)
            except StoreBusy:
                return False
            if folder is None:
                return True
            clean = not folder.leftovers()
            folder.close()
            return clean

    def restart(self) -> None:
        """Drop every vector; the next use embeds each text again."""
        with self._lock:
            self.close_folder()
            self._embeddings.clear()
            self._begin_anew()
            self._pending, self._reached, self._newest = None, 0, {}

    def close_folder(self) -> None:
        """Let go of the index on disk until it is needed again."""
        with self._lock:
            if self._folder is not None:
                self._folder.close()
            self._folder = None
            self._newest = {}
            self._held.clear()

    def rest(self) -> None:
        """Let go of everything that can be read again, unless somebody is using it just now."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._newest and self._namespace.rest():
                self.close_folder()
                self._pending = None
        finally:
            self._lock.release()

    def _collect(self) -> int:
        """Take the texts given since last time, and return how far the log had come."""
        with self._namespace.reading() as graph:
            if self._generation != self._namespace.generation:
                if self._generation >= 0:  # something was forgotten, or all embedded again
                    self._same_model()
                self.close_folder()
                self._pending = None
                self._generation = self._namespace.generation
            if self._pending is None:
                self._reached = self._embeddings.position()
                self._pending = graph.texts_after(self._reached)
            else:
                self._pending += sorted(graph.fresh)
            graph.fresh.clear()
            target = graph.position
        if not self._newest:
            self._open_newest()
        return target

    def _open_newest(self) -> None:
        self._folder = self._opened_folder(create=False)
        self._newest = {kind: self._exact() for kind in KINDS}
        self._load_newest()

    def _load_newest(self) -> None:
        for kind, newest in self._newest.items():
            stored = self._stored_index(kind)
            done = 0 if stored is None else stored.position
            for keys, vectors in self._kept(kind, after=max(done, newest.position)):
                newest.upsert(keys, vectors)
            newest.advance(max(done, self._reached))

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

    def _waiting(self) -> int:
        return sum(index.count() for index in self._newest.values())

    def _stored_index(self, kind: Kind) -> VectorIndex | None:
        return None if self._folder is None else self._folder.index(kind)

    def _embed(self, batch: Sequence[TextKey], reached: int, stop: Callable[[], bool]) -> bool:
        """Embed and keep some texts; false when something was forgotten meanwhile."""
        known = self._embeddings.known(batch)
        rows = self._vectors_of([text for text in batch if text not in known], stop)
        if rows and not self._embeddings.save(rows, reached, self._generation):
            return False
        self._reached = reached
        self._load_newest()
        return True

    def _vectors_of(
        self, wanted: Sequence[TextKey], stop: Callable[[], bool] = lambda: False
    ) -> list[tuple[TextKey, Vectors]]:
        return embedded(self._embedder, contents(self._namespace, wanted), stop)

    def _kept(
        self, kind: Kind, after: int = 0, upto: int | None = None
    ) -> Iterator[tuple[list[str], Vectors]]:
        """Yield the kept vectors of a kind, the damaged ones made again."""
        damaged: list[TextKey] = []
        yield from self._embeddings.load(kind, damaged, after=after, upto=upto)
        if damaged:
            log.warning("%d damaged embeddings are made again", len(damaged))
            for text, vectors in self._remake(damaged):
                yield _keys(text, vectors), vectors

    def _hold(self) -> None:
        wanted = [text for text in self._pending or () if text not in self._held]
        for text, vectors in self._vectors_of(wanted):
            self._newest[text.kind].upsert(_keys(text, vectors), vectors)
        self._held.update(wanted)

    def _remake(self, damaged: Sequence[TextKey]) -> list[tuple[TextKey, Vectors]]:
        rows = self._vectors_of(damaged)
        self._embeddings.replace(damaged, rows, self._namespace.generation)
        return rows

    def _store_newest(self) -> None:
        if not self._newest or not any(index.count() for index in self._newest.values()):
            return
        try:
            self._folder = self._folder or self._opened_folder(create=True)
            for kind, stored in self._stored():
                for keys, vectors in self._kept(kind, stored.position, self._reached):
                    stored.upsert(keys, vectors)
                stored.advance(self._reached)
        except StoreError:
            # The vectors are safe beside the log; what may be broken is opened again when needed.
            log.exception("bringing vectors to the index on disk failed; trying again later")
            self._due = self._waiting() + self._batch
            self.close_folder()
            return
        self._due = self._batch if self._folder else self._waiting() + self._batch
        for kind, stored in self._stored():
            self._newest[kind] = self._exact()
            self._newest[kind].advance(stored.position)


def _keys(text: TextKey, vectors: Vectors) -> list[str]:
    return [vector_key(text.position, text.item, chunk) for chunk in range(len(vectors))]


def best_chunks(pairs: Sequence[tuple[str, float]]) -> Found:
    """Return the best chunk of the newest version of each item."""
    found: Found = {}
    for key, similarity in pairs:
        item, position = parse_key(key)
        known = found.get(item)
        if known is None or (position, similarity) > known:
            found[item] = position, similarity
    return found
