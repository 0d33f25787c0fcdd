"""How does a log move to another folder, machine or namespace?

As JSON lines: a header, one line an event, and an end that seals what came before with a digest.
Importing checks the seal before anything is written, goes on where it stopped, and adds nothing
the second time. Ids are made anew where the target has another salt.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from recall_echo_core.errors import BadExport, CorruptLog, StoreError, UnsupportedShape
from recall_echo_core.events import (
    ERASED_SHAPE,
    SHAPES,
    Erased,
    Event,
    SettingsChanged,
    from_json,
    kind_of,
    to_json,
)
from recall_echo_core.reidentify import Reidentified

if TYPE_CHECKING:
    from recall_echo_core.engine import Engine, Room
    from recall_echo_core.events import Stored
    from recall_echo_core.ports import Progress
    from recall_echo_core.stores.sql import Writer

__all__ = ["export_log", "import_log"]

FORMAT: Final = 1
BATCH: Final = 1_000


class Header(msgspec.Struct, frozen=True):
    """The first line: which log this is. `events` is the position of its newest event."""

    recall_echo: int
    namespace: str
    salt: str
    events: int


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event in its place; shape 0 was forgotten, `damaged` could not be read."""

    position: int
    kind: str = ""
    shape: int = 0
    recorded_at: int = 0
    event: msgspec.Raw = msgspec.Raw(b"{}")
    damaged: str = ""


class End(msgspec.Struct, frozen=True):
    """The last line: a digest of all before it."""

    end: int
    digest: str


_encode: Final = msgspec.json.Encoder().encode
_line: Final = msgspec.json.Decoder(Line)


def export_log(
    room: Room, path: Path, *, skip_damaged: bool = False, progress: Progress | None = None
) -> int:
    """Write the log of a namespace to a file, which appears whole or not at all.

    Returns how many events were written.

    Raises:
        CorruptLog: an event is damaged, unless `skip_damaged`, which notes its position instead.
        StoreError: the file cannot be written.
    """
    aside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with aside.open("wb") as file:
            count = 0
            digest = hashlib.blake2b(digest_size=16)
            for line in _lines(room, skip_damaged=skip_damaged, progress=progress):
                file.write(line)
                digest.update(line)
                count += 1
            file.write(_encode(End(count - 1, digest.hexdigest())) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        raise StoreError(f"writing {path} failed: {error}") from error
    finally:
        aside.unlink(missing_ok=True)
    return count - 1


def _lines(room: Room, *, skip_damaged: bool, progress: Progress | None) -> Iterator[bytes]:
    namespace = room.namespace
    log, key = namespace.log, namespace.key
    _, head = log.head(key)
    yield _encode(Header(FORMAT, key.name, key.salt.hex(), head)) + b"\n"
    for found in log.scan(key, upto=head):
        if isinstance(found, CorruptLog):
            if not skip_damaged:
                raise found
            line = Line(found.position, damaged=str(found))
        else:
            line = _line_of(found)
        if progress is not None and (line.position % BATCH == 0 or line.position == head):
            progress(line.position, head)
        yield _encode(line) + b"\n"


def _line_of(stored: Stored) -> Line:
    kind = kind_of(stored.event)
    shape = ERASED_SHAPE if isinstance(stored.event, Erased) else SHAPES[kind]
    event = msgspec.Raw(to_json(stored.event))
    return Line(stored.position, kind, shape, stored.recorded_at, event)


def import_log(engine: Engine, name: str, path: Path, *, progress: Progress | None = None) -> int:
    """Append the events of an exported file that the namespace does not have from it yet.

    Into a namespace that holds nothing the log comes exactly as it was. Otherwise it is added to
    what is there, its settings left out. Returns how many events were added.

    Raises:
        BadExport: the file is not a whole export; nothing was written.
        UnsupportedShape: it comes from a newer version; nothing was written.
    """
    header = _checked(path)
    salt = bytes.fromhex(header.salt)
    if engine.log.begin_with(engine.room(name).namespace.key, salt):
        engine.evict(name)
    room = engine.room(name)
    with room.namespace.reading() as graph:
        bare = not graph.nodes and not graph.episodes
    renamed = Reidentified(salt, room.namespace.key.salt)
    view = f"import:{header.salt}"
    added = 0
    batch: list[Line] = []
    with path.open("rb") as file:
        next(file)
        for text in islice(file, header.events):
            line = _line.decode(text)
            batch.append(line)
            if len(batch) == BATCH or line.position == header.events:
                added += _append(room, batch, renamed, view, bare=bare)
                batch = []
                if progress is not None:
                    progress(line.position, header.events)
    return added


def _append(room: Room, batch: list[Line], renamed: Reidentified, view: str, *, bare: bool) -> int:
    """Append a batch and, in the same transaction, how far the file has been read."""

    def decide(writer: Writer) -> list[tuple[int, Event]]:
        done = writer.progress(view)
        new: list[tuple[int, Event]] = []
        for line in batch:
            if line.damaged:
                continue
            event = renamed(from_json(line.kind, line.shape, line.event))
            if line.position > done and (bare or _travels(event)):
                new.append((line.recorded_at, event))
        writer.set_progress(view, max(done, batch[-1].position))
        return new

    return len(room.namespace.append_dated(decide))


def _travels(event: Event) -> bool:
    return not isinstance(event, (SettingsChanged, Erased))


def _checked(path: Path) -> Header:
    """Read a file once and return its header, if it is a whole export that we can read."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            first = next(file, b"")
            header = msgspec.json.decode(first, type=Header)
            if header.recall_echo > FORMAT:
                raise UnsupportedShape("The export", header.recall_echo, FORMAT)
            digest.update(first)
            count, text = 0, b""
            for text in file:
                if text.startswith(b'{"end"'):
                    break
                line = _line.decode(text)
                if not line.damaged:
                    from_json(line.kind, line.shape, line.event)
                digest.update(text)
                count += 1
            end = msgspec.json.decode(text, type=End)
    except OSError as error:
        raise StoreError(f"reading {path} failed: {error}") from error
    except msgspec.MsgspecError as error:
        raise BadExport(str(path), f"it is cut off or not an export ({error})") from error
    if (end.end, end.digest) != (count, digest.hexdigest()):
        raise BadExport(str(path), "its end does not match what comes before; export it again")
    return header
