"""Open a memory on disk with the standard parts: SQLite, Chroma, fastembed.

The one place that names concrete stores, reads the real clock and makes random ids.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from recall_echo_core.arguments import checked_name
from recall_echo_core.engine import Engine, Room
from recall_echo_core.erasure import finish
from recall_echo_core.errors import StoreError
from recall_echo_core.indexing import Indexing
from recall_echo_core.memory import Lease, Memory
from recall_echo_core.namespace import Namespace
from recall_echo_core.picture import Picture
from recall_echo_core.ports import Embedder, VectorFolder
from recall_echo_core.receipts import Receipts
from recall_echo_core.same_model import SENTENCE, SameModel, read
from recall_echo_core.settings import load_settings
from recall_echo_core.stores.folders import Folders

if TYPE_CHECKING:
    from recall_echo_core.stores.sql import SqlLog
    from recall_echo_core.times import Clock

__all__ = ["Embedding", "open_memory"]

Embedding = str | Embedder | Callable[[list[str]], Any]

LOG_FILE: Final = "log.sqlite3"
HEADER_BYTES: Final = 100  # of any SQLite file that has something in it
ROUND: Final = "round"  # how often the indexes on disk were begun anew

_lock = threading.RLock()
_engines: dict[Path, tuple[Engine, int]] = {}
_inherited: list[Engine] = []  # a parent's, kept lest their destructors touch its files and locks


def open_memory(
    path: str | os.PathLike[str],
    *,
    namespace: str = "default",
    embedding: Embedding | None = None,
    single_valued: Collection[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
    reindex: bool = False,
) -> Memory:
    """Open the memory in a folder, making it if it is not there.

    Opening one folder twice in a process shares everything but the handle.

    Args:
        path: The folder; its log is `log.sqlite3`, its settings `.recall-echo.toml`.
        namespace: Whose memory, usually a user's name or id.
        embedding: The model: a fastembed name, an `Embedder`, or a function from a list of texts
            to vectors. By default all-MiniLM-L6-v2 out of an installed package, offline.
        single_valued: Relation types of which a subject has one value at a time; kept in the
            log, so it need not be said again. Replaces what was said before.
        settings: Overrides of `.recall-echo.toml`, in the same tables.
        clock: What time it is; the machine's clock by default.
        reindex: Embed every text again, with `embedding`, whatever model was used before.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, open_memory(folder) as memory:
    ...     relation = memory.remember("Alice", "WORKS_AT", "Acme")
    ...     relation.confidence, memory.beliefs("Alice", "WORKS_AT")[0].object
    (0.9, 'Acme')

    Raises:
        ValueError: a setting is wrong, or the folder is open in this process with others.
        EmbedderMismatch: the store was built with another model.
        StoreError: the folder or its database cannot be opened; it is left as it is.
    """
    folder = _folder(path)
    checked_name(namespace, "namespace")
    if clock is not None and not callable(clock):
        raise TypeError(f"clock must be a function that returns a datetime, not {clock!r}")
    overrides = _overrides(settings, single_valued)
    with _lock:
        known = _engines.get(folder)
        if known is None:
            engine, users = _new_engine(folder, embedding, overrides, clock, reindex=reindex), 0
        else:
            engine, users = known
            _check_same(engine, folder, embedding, overrides, clock, reindex=reindex)
        _engines[folder] = engine, users + 1
    lease = Lease(lambda: _release(folder, engine))
    try:
        return Memory(engine, engine.room(namespace), lease)
    except BaseException:
        lease.end()
        raise


def _folder(path: str | os.PathLike[str]) -> Path:
    if not os.fspath(path):
        raise ValueError("path is empty; name the folder of the memory")
    return Path(path).expanduser().resolve()


def _overrides(
    settings: Mapping[str, Any] | None, single_valued: Collection[str] | None
) -> dict[str, Any]:
    """Return the settings given as arguments, as the tables of the file."""
    given: object = {} if settings is None else settings
    if not isinstance(given, Mapping):
        raise TypeError(f"settings must be a mapping of tables, not {type(given).__name__}")
    overrides = dict(given)
    if single_valued is not None:
        table = overrides.get("graph", {})
        if not isinstance(table, Mapping):
            raise ValueError(f"settings['graph'] must be a table, not {table!r}")
        overrides["graph"] = {**table, "single_valued": _names(single_valued)}
    return overrides


def _names(given: Collection[str]) -> list[str]:
    if isinstance(given, str):
        raise ValueError(f"single_valued takes relation types; write {{{given!r}}}")
    return [checked_name(name, "a single-valued relation type") for name in given]


def _release(folder: Path, used: Engine) -> None:
    with _lock:
        engine, users = _engines.get(folder, (None, 0))
        if engine is not used:  # closed at the end of the program, or a parent process's
            return
        if users > 1:
            _engines[folder] = engine, users - 1
            return
        del _engines[folder]
        engine.close()


def _new_engine(
    folder: Path,
    embedding: Embedding | None,
    overrides: Mapping[str, Any],
    clock: Clock | None,
    *,
    reindex: bool,
) -> Engine:
    from recall_echo_core.stores.embeddings import drop_all
    from recall_echo_core.stores.sql import SqlLog, sqlite_url

    constants = load_settings(folder, overrides)
    embedder = _embedder(embedding)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder} cannot be used as a folder: {error}") from error
    _check_log(folder)
    log = SqlLog(sqlite_url(folder / LOG_FILE))
    try:
        if reindex:
            read(embedder, [SENTENCE])  # the new model has to work before the old vectors go
            drop_all(log)
            _begin_anew(log, ROUND)
        same = SameModel(embedder, log)
        if not isinstance(embedding, str) and embedding is not None:
            same.verify()
    except BaseException:
        log.close()
        raise
    engine = Engine(
        log,
        same,
        constants,
        clock=clock or _machine_clock,
        new_id=_new_id,
        make=lambda engine, name: _room(folder, engine, name),
        folders=Folders(folder),
    )
    finish(engine)
    return engine


def _check_log(folder: Path) -> None:
    """Refuse to begin an empty log beside what was made from one that is gone."""
    log = folder / LOG_FILE
    empty = not log.exists() or log.stat().st_size < HEADER_BYTES
    if empty and any((folder / view).is_dir() for view in ("snapshots", "vectors")):
        raise StoreError(
            f"{log} is gone or empty, but what was made from it is still there; restore it from a"
            " backup, or remove the folder to begin anew"
        )


def _forked() -> None:
    """Forget, in a child process, the engines of its parent: their files are not its own."""
    global _lock
    _lock = threading.RLock()
    _inherited.extend(engine for engine, _ in _engines.values())
    _engines.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


@atexit.register
def _close_all() -> None:
    """Close what a program left open, so that receipts are kept and no thread outlives it."""
    with _lock:
        for engine, _ in _engines.values():
            engine.close()
        _engines.clear()


def _check_same(
    engine: Engine,
    folder: Path,
    embedding: Embedding | None,
    overrides: Mapping[str, Any],
    clock: Clock | None,
    *,
    reindex: bool,
) -> None:
    """Refuse to share an engine with somebody who asks for another one."""
    other = None
    if overrides and load_settings(folder, overrides) != engine.settings:
        other = "settings"
    elif clock is not None and clock is not engine.clock:
        other = "clock"
    elif embedding is not None and not _same_embedder(engine, embedding):
        other = "embedding"
    elif reindex:
        other = "model"
    if other is not None:
        raise ValueError(f"{folder} is open in this process with another {other}; close it first")


def _same_embedder(engine: Engine, embedding: Embedding) -> bool:
    """Whether a model is the engine's; of what is not named by fastembed, by its reading too."""
    given = _embedder(embedding)
    if given.model_id == engine.embedder.model_id and not isinstance(embedding, str):
        engine.embedder.embed([SENTENCE])  # so that the store knows how its model reads
        SameModel(given, engine.log).verify()
    return given.model_id == engine.embedder.model_id


def _embedder(embedding: Embedding | None) -> Embedder:
    from recall_echo_core.stores.callable import CallableEmbedder
    from recall_echo_core.stores.fastembed import FastEmbedder

    if embedding is None or isinstance(embedding, str):
        return FastEmbedder(embedding)
    if isinstance(embedding, Embedder):
        return embedding
    if callable(embedding):
        return CallableEmbedder(embedding)
    raise TypeError(
        "embedding must be the name of a fastembed model, an Embedder, or a function from a"
        f" list of texts to vectors, not {type(embedding).__name__}"
    )


def _room(folder: Path, engine: Engine, name: str) -> Room:
    from recall_echo_core.catalogue import CataloguePicture
    from recall_echo_core.cataloguing import Cataloguing
    from recall_echo_core.stores.embeddings import Embeddings
    from recall_echo_core.stores.exact import ExactIndex
    from recall_echo_core.stores.snapshots import Snapshots
    from recall_echo_core.terms import TERMS

    log, embedder = engine.log, engine.embedder
    key = log.namespace(name, _new_salt)
    folders = Folders(folder)
    vectors = folders.vectors(key.id)
    own_round = f"{ROUND}:{key.id}"

    def identity(generation: int) -> str:
        return f"{key.salt.hex()}:{generation}"

    def mark(position: int) -> str:
        return log.mark(key, position)

    kept = folders.snapshots(key.id)

    def snapshots(generation: int) -> Snapshots[Picture]:
        return Snapshots(Picture, kept, identity(generation), mark)

    def catalogues(generation: int) -> Snapshots[CataloguePicture]:
        made_from = f"{identity(generation)}:{embedder.model_id}:{TERMS}"
        return Snapshots(CataloguePicture, kept / "words", made_from, mark)

    namespace = Namespace(log, key, snapshots)

    def open_folder(create: bool) -> VectorFolder | None:
        if not create and not vectors.exists():
            return None
        from recall_echo_core.stores.chroma import ChromaFolder  # half a second to import

        generation, _ = log.head(key)
        rounds = f"{log.note(ROUND) or 0}.{log.note(own_round) or 0}"
        made_from = f"{identity(generation)}:{embedder.model_id}:{rounds}"
        return ChromaFolder(vectors, embedder.dimension, identity=made_from, mark=mark)

    embeddings = Embeddings(log, key.id, embedder.dimension)
    indexing = Indexing(
        namespace,
        embeddings,
        embedder,
        lambda: ExactIndex(embedder.dimension),
        open_folder,
        lambda: _begin_anew(log, own_round),
        lambda: _still_the_model(engine),
        Cataloguing(namespace, embeddings, embedder.dimension, catalogues),
        engine.settings.index_batch,
    )
    receipts = Receipts()
    namespace.taken = receipts.settle
    namespace.moved_on = lambda graph: receipts.thin_out(
        lambda item: graph.text_position(item) is not None
    )
    return Room(namespace, indexing, receipts)


def _still_the_model(engine: Engine) -> None:
    """Raise `EmbedderMismatch` if another process has embedded all texts with another model."""
    SameModel(engine.embedder, engine.log).embed([SENTENCE])


def _begin_anew(log: SqlLog, round: str) -> None:
    """Make indexes on disk stale, to be filled again from the kept embeddings."""
    log.set_notes({round: str(int(log.note(round) or 0) + 1)})


def _machine_clock() -> datetime:
    return datetime.now(UTC)


class _OrderedIds:
    """Fresh ids that sort in the order they were made: eight bytes of time, eight of chance.

    Evidence observed at one moment folds by id, and so in the order it was told.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._last = 0

    def __call__(self) -> bytes:
        with self._lock:
            self._last = max(self._last + 1, time.time_ns())
            return self._last.to_bytes(8, "big") + os.urandom(8)


_new_id: Final = _OrderedIds()


def _new_salt() -> bytes:
    return os.urandom(16)
