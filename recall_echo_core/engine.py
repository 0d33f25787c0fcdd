"""What do all namespaces of one folder share?"""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from recall_echo_core.arguments import checked_name
from recall_echo_core.background import Background
from recall_echo_core.errors import CorruptLog, StoreClosed, StoreErased, StoreError
from recall_echo_core.events import SettingsChanged
from recall_echo_core.indexing import Indexing
from recall_echo_core.namespace import Namespace
from recall_echo_core.receipts import Receipts
from recall_echo_core.times import Clock, moment

if TYPE_CHECKING:
    from recall_echo_core.ports import Embedder
    from recall_echo_core.settings import Settings
    from recall_echo_core.stores.folders import Folders
    from recall_echo_core.stores.sql import SqlLog

__all__ = ["Engine", "Room"]

log = logging.getLogger(__name__)
# Namespaces whose graph, vectors and Chroma folder are kept in memory; see docs/decisions/0006.
OPEN_ROOMS: Final = 32


class Room(msgspec.Struct, frozen=True):
    """Everything this process holds of one namespace."""

    namespace: Namespace
    indexing: Indexing
    receipts: Receipts


class Engine:
    """The log, the model and the open namespaces of one folder. Safe from any thread.

    Args:
        log: Where events are kept.
        embedder: What turns texts into vectors.
        settings: Constants; a namespace whose log says otherwise is told when it opens.
        clock: What time it is.
        new_id: Makes a fresh random id of 16 bytes.
        make: Builds what a namespace needs on disk.
        folders: Where views lie on disk.
    """

    def __init__(
        self,
        log: SqlLog,
        embedder: Embedder,
        settings: Settings,
        *,
        clock: Clock,
        new_id: Callable[[], bytes],
        make: Callable[[Engine, str], Room],
        folders: Folders,
    ) -> None:
        self._folders = folders
        self.log, self.embedder, self.settings = log, embedder, settings
        self.clock, self.new_id = clock, new_id
        self.background = Background(active=settings.background)
        self._make = make
        self._lock = threading.RLock()
        self._rooms: OrderedDict[str, Room] = OrderedDict()
        self._closed = False
        self._process = os.getpid()

    def now(self) -> int:
        """Return the clock's moment."""
        return moment(self.clock(), "the clock's time")

    def room(self, name: str) -> Room:
        """Return a namespace, opening it when it is first asked for."""
        if os.getpid() != self._process:
            raise StoreError(
                "This memory was opened before a fork; call open_memory(...) in this process."
            )
        name = checked_name(name, "namespace")
        with self._lock:
            if self._closed:
                raise StoreClosed()
            room = self._rooms.get(name)
            if room is None:
                room = self._make(self, name)
                room.namespace.erased = lambda: self.evict(name)
                self._tell_settings(room.namespace)
                self._rooms[name] = room
            self._rooms.move_to_end(name)
            idle = next(islice(reversed(self._rooms.values()), OPEN_ROOMS, None), None)
        if idle is not None:
            idle.indexing.rest()
        return room

    def evict(self, name: str) -> None:
        """Let go of a namespace that is no more."""
        with self._lock:
            room = self._rooms.pop(name, None)
        if room is not None:
            room.receipts.clear()
            room.indexing.close_folder()

    def drop_snapshots(self) -> None:
        """Throw away every snapshot; graphs are folded from the log again."""
        self._folders.drop_snapshots()

    def clean_views(self, numbers: Collection[int]) -> bool:
        """Throw away views of namespaces that may hold what was forgotten; tell if all are gone."""
        keys = self.log.keys()
        clean = self._folders.drop_snapshots()
        for key in keys:
            if key.id in numbers and self._folders.vectors(key.id).exists():
                clean = self.room(key.name).indexing.renew_folder() and clean
        return self._folders.drop_strangers([key.id for key in keys]) and clean

    def written(self, room: Room) -> None:
        """Have the work done that follows a write, behind the turn."""
        self.background.submit(room.namespace.key.name, lambda: self._follow(room))

    def save_receipts(self, room: Room) -> None:
        """Make the waiting receipts of a namespace durable."""
        with room.receipts.saving:
            if not room.receipts.waiting():
                return
            with room.namespace.reading():  # notices what has been forgotten since
                waiting = room.receipts.waiting()
            room.namespace.append(self.now(), lambda _: waiting)

    def close(self) -> None:
        """Make receipts durable, keep snapshots, and let go of every file."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self.background.stop()
        failed: list[StoreError] = []
        for room in list(self._rooms.values()):
            for step in (self.save_receipts, self._snapshot, lambda room: room.indexing.close()):
                try:
                    step(room)
                except StoreErased:  # by another process; nothing of it is kept
                    break
                except StoreError as error:  # of one step; the others are no worse off
                    failed.append(error)
        self.log.close()
        if failed:
            raise failed[0]

    def _snapshot(self, room: Room, **least: int) -> None:
        try:
            room.namespace.snapshot(**least)
        except StoreError:  # it is a shortcut only
            log.exception("keeping a snapshot failed; the log will be read instead")

    def _follow(self, room: Room) -> None:
        try:
            self.save_receipts(room)
            room.indexing.catch_up(lambda: self.background.stopping)
            self._snapshot(room, least=20_000)
            room.indexing.keep(least=20_000)
        except StoreErased:
            return  # forgotten meanwhile; there is nothing to follow any more

    def _tell_settings(self, namespace: Namespace) -> None:
        """Log the settings that evidence folds with, if they are not the log's already."""
        if not self.settings.declared:
            return
        try:
            with namespace.reading() as graph:
                wanted = self.settings.folding(graph.folding)
                if graph.folding == wanted:
                    return
            namespace.append(self.now(), lambda _: [SettingsChanged(wanted)])
        except CorruptLog:
            log.exception("settings cannot be folded; verify() and export() still work")
