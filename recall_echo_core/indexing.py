"""How do vectors and words follow the log?

Each text that the graph gives is cut, embedded and kept beside the log, then searched; its words
go to the catalogue. Whoever asks has everything brought up first, so you always find what you
wrote.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from recall_echo_core.contents import contents
from recall_echo_core.embedding import Stopped, embedded
from recall_echo_core.errors import CorruptLog, StoreErased, StoreError
from recall_echo_core.searching import Searching, keys_of
from recall_echo_core.texts import KINDS, Kind, TextKey

if TYPE_CHECKING:
    from recall_echo_core.asked import Asked
    from recall_echo_core.cataloguing import Cataloguing
    from recall_echo_core.frozen import Frozen
    from recall_echo_core.graph import Graph
    from recall_echo_core.leads import Leads
    from recall_echo_core.matching import Found
    from recall_echo_core.namespace import Namespace
    from recall_echo_core.ports import Embedder, Progress, VectorFolder, VectorIndex, Vectors
    from recall_echo_core.searching import Near
    from recall_echo_core.stores.embeddings import Embeddings

__all__ = ["Indexing"]

log = logging.getLogger(__name__)
BATCH: Final = 64


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
        catalogues: The words and surroundings of the texts.
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
        catalogues: Cataloguing,
        batch: int,
    ) -> None:
        self._namespace, self._embeddings, self._embedder = namespace, embeddings, embedder
        self._exact, self._catalogues = exact, catalogues
        self._begin_anew, self._same_model = begin_anew, same_model
        self._searching = Searching(embeddings, self._kept, exact, open_folder, batch)
        from recall_echo_core.similarity import Similarities  # loads numpy

        self._similarities = Similarities(embeddings, embedder.dimension)
        self._lock = threading.RLock()
        self._generation = -1
        self._pending: list[TextKey] | None = None
        self._reached = 0
        self._held: set[TextKey] = set()  # texts whose vectors are in memory only

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
            self._searching.store(target, due=True)

    def flush(self) -> None:
        """Embed every text and bring all vectors to the index on disk."""
        with self._lock:
            self.catch_up(durably=True)
            self._searching.store(self._reached)

    def search(
        self, kinds: Collection[Kind], asked: Asked, vector: Vectors, limit: int
    ) -> dict[Kind, tuple[Found, bool]]:
        """Return what matches a question best, and whether there may be more of it, by kind.

        Args:
            kinds: Of the items.
            asked: The question.
            vector: Its vector.
            limit: Most candidates by words, and by meaning; raising it finds more, more slowly.
        """
        from recall_echo_core.matching import matched  # loads numpy

        with self._lock:
            self._collect()
            catalogue = self._catalogues.current(self._reached)
            kinds = [kind for kind in kinds if len(catalogue.lexical[kind])]
            near = {kind: self._searching.nearest(kind, vector, limit) for kind in kinds}
            leads = None
            if "episode" in near:
                numbers = catalogue.lexical["episode"].numbers
                leads = self._leads(asked, vector, near, numbers, limit)
            found: dict[Kind, tuple[Found, bool]] = {}
            for kind, (nearest, more) in near.items():
                matches = matched(
                    kind,
                    asked,
                    nearest,
                    limit,
                    catalogue,
                    lambda texts: self._similarities.of(texts, vector),
                    lambda texts: contents(self._namespace, texts, speakers=False),
                    leads if kind == "episode" else None,
                )
                found[kind] = matches, more
        return found

    def _leads(
        self,
        asked: Asked,
        vector: Vectors,
        near: Mapping[Kind, tuple[Near, bool]],
        numbers: Mapping[bytes, int],
        limit: int,
    ) -> Leads | None:
        """Return what the nearest relations lead to; `None` where none was told in an episode."""
        from recall_echo_core.leads import Leads  # loads numpy

        with self._namespace.reading() as graph:
            if not graph.leading:
                return None
        nearest, _ = near.get("relation") or self._searching.nearest("relation", vector, limit)
        return Leads(
            nearest, asked.text, vector, numbers, self._namespace.reading, self._similarities.rows
        )

    def frozen(self, graph: Graph) -> Frozen:
        """Return a search of an earlier state."""
        from recall_echo_core.frozen import Frozen  # loads numpy

        return Frozen(graph, self._namespace, self._kept, self._exact, self._embedder.dimension)

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
            wrong += self._searching.miscounted()
            if wrong:
                self._begin_anew()
                self.close_folder()
                self.flush()
            return wrong

    def counts(self) -> dict[str, int]:
        """Return how many vectors are on disk, and how many wait to be."""
        with self._lock:
            self._collect()
            return self._searching.counts()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Keep vectors as they are: nothing is embedded or searched meanwhile."""
        with self._lock:
            yield

    def renew_folder(self) -> bool:
        """Begin the index on disk anew where it is stale; return whether nothing old is left."""
        with self._lock:
            self._held.clear()
            return self._searching.renew()

    def restart(self) -> None:
        """Drop every vector; the next use embeds each text again."""
        with self._lock:
            self.close_folder()
            self._embeddings.clear()
            self._begin_anew()
            self._catalogues.drop()
            self._pending, self._reached = None, 0

    def close(self) -> None:
        """Keep the catalogue, and let go of everything."""
        with self._lock:
            self._catalogues.keep(least=2_000)
            self.close_folder()

    def close_folder(self) -> None:
        """Let go of the index on disk until it is needed again."""
        with self._lock:
            self._searching.close()
            self._similarities.drop()
            self._held.clear()

    def rest(self) -> None:
        """Let go of everything that can be read again, unless somebody is using it just now."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._searching.open and self._namespace.rest():
                self.close_folder()
                self._catalogues.keep(least=2_000)
                self._catalogues.drop()
                self._pending = None
        finally:
            self._lock.release()

    def keep(self, least: int) -> None:
        """Keep the catalogue on disk if at least `least` positions are not there yet."""
        with self._lock:
            self._catalogues.keep(least)

    def _collect(self) -> int:
        """Take the texts given since last time, and return how far the log had come."""
        with self._namespace.reading() as graph:
            if self._generation != self._namespace.generation:
                if self._generation >= 0:  # something was forgotten, or all embedded again
                    self._same_model()
                self.close_folder()
                self._catalogues.drop()
                self._pending = None
                self._generation = self._namespace.generation
            fresh = sorted(graph.fresh)
            graph.fresh.clear()
            self._catalogues.expect(graph, fresh)
            if self._pending is None:
                self._reached = self._embeddings.position()
                self._pending = graph.texts_after(self._reached)
            else:
                self._pending += fresh
            target = graph.position
        if not self._searching.open:
            self._searching.load(self._reached)
        return target

    def _embed(self, batch: Sequence[TextKey], reached: int, stop: Callable[[], bool]) -> bool:
        """Embed and keep some texts; false when something was forgotten meanwhile."""
        known = self._embeddings.known(batch)
        rows = self._vectors_of([text for text in batch if text not in known], stop)
        if rows and not self._embeddings.save(rows, reached, self._generation):
            return False
        self._reached = reached
        self._searching.load(reached)
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
                yield keys_of(text, vectors), vectors

    def _hold(self) -> None:
        wanted = [text for text in self._pending or () if text not in self._held]
        for text, vectors in self._vectors_of(wanted):
            self._searching.hold(text, vectors)
        self._held.update(wanted)

    def _remake(self, damaged: Sequence[TextKey]) -> list[tuple[TextKey, Vectors]]:
        rows = self._vectors_of(damaged)
        self._embeddings.replace(damaged, rows, self._namespace.generation)
        return rows
