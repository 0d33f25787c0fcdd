"""How does a log move to another folder, machine or namespace?

As JSON lines: a header, one line an event, and an end that seals what came before with a digest.
Importing checks the seal before anything is written, goes on where it stopped, and adds nothing
that is here already, whichever way it came. Ids are made anew where the target has another salt.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec

from recall_echo_core.errors import BadExport, CorruptLog, StoreError, UnsupportedShape
from recall_echo_core.events import (
    ERASED_SHAPE,
    SHAPES,
    EpisodeRecorded,
    Erased,
    Event,
    EvidenceObserved,
    EvidenceRetracted,
    FeedbackGiven,
    RecallLinked,
    RecallServed,
    RelationEnded,
    SettingsChanged,
    UsageMarked,
    from_json,
    kind_of,
    to_json,
)
from recall_echo_core.reidentify import Reidentified

if TYPE_CHECKING:
    from recall_echo_core.engine import Engine, Room
    from recall_echo_core.events import Stored
    from recall_echo_core.ports import Progress
    from recall_echo_core.stores.sql import NamespaceKey, SqlLog, Writer

__all__ = ["export_log", "import_log"]

FORMAT: Final = 1
BATCH: Final = 1_000
MIRROR: Final = "mirror"  # how long the log was when it was still nothing but an imported one
SALT_BYTES: Final = 64  # the most that ids can be made with
TOLD_ONCE: Final = ("evidence", "ended", "episode", "recall")  # kinds that an id is given to once


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
            count = _write(file, room, skip_damaged=skip_damaged, progress=progress)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        raise StoreError(f"writing {path} failed: {error}") from error
    finally:
        with suppress(OSError):  # where it could not be made, it cannot be removed either
            aside.unlink(missing_ok=True)
    return count


def _write(file: BinaryIO, room: Room, *, skip_damaged: bool, progress: Progress | None) -> int:
    log, key = room.namespace.log, room.namespace.key
    _, head = log.head(key)
    header = _encode(Header(FORMAT, key.name, key.salt.hex(), head)) + b"\n"
    file.write(header)
    digest = hashlib.blake2b(header, digest_size=16)
    written = 0
    for found in _whole(log, key, head):
        if not isinstance(found, CorruptLog):
            line = _line_of(found)
            written += 1
        elif skip_damaged:
            line = Line(found.position, damaged=str(found))
        else:
            raise found
        if progress is not None and (line.position % BATCH == 0 or line.position == head):
            progress(line.position, head)
        text = _encode(line) + b"\n"
        file.write(text)
        digest.update(text)
    file.write(_encode(End(head, digest.hexdigest())) + b"\n")
    return written


def _whole(log: SqlLog, key: NamespaceKey, head: int) -> Iterator[Stored | CorruptLog]:
    """Yield what stands at every position up to `head`, or what is wrong there."""
    expected = 1
    for found in log.scan(key, upto=head):
        yield from _missing(log, key, range(expected, found.position))
        yield found
        expected = found.position + 1
    yield from _missing(log, key, range(expected, head + 1))


def _missing(log: SqlLog, key: NamespaceKey, positions: range) -> Iterator[CorruptLog]:
    if positions:
        log.head(key)  # raises if the whole namespace has been forgotten meanwhile
    for position in positions:
        yield CorruptLog(key.name, position, "the event is missing")


def _line_of(stored: Stored) -> Line:
    event, kind = stored.event, kind_of(stored.event)
    shape = ERASED_SHAPE if isinstance(event, Erased) else SHAPES[kind]
    text = to_json(event)
    if isinstance(event, SettingsChanged):  # which holds a set, whose order is another each time
        text = msgspec.json.encode(event, order="deterministic")
    return Line(stored.position, kind, shape, stored.recorded_at, msgspec.Raw(text))


def import_log(engine: Engine, name: str, path: Path, *, progress: Progress | None = None) -> int:
    """Append the events of an exported file that the namespace does not have yet.

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
    renamed = Reidentified(salt, room.namespace.key.salt)
    added = 0
    holes = False
    for batch in _batches(path, header):
        holes = holes or any(line.damaged for line in batch)
        added += _append(room, batch, renamed, salt, holes=holes)
        if progress is not None:
            progress(batch[-1].position, header.events)
    return added


def _batches(path: Path, header: Header) -> Iterator[list[Line]]:
    try:
        with path.open("rb") as file:
            next(file)
            lines = islice(file, header.events)
            while batch := [_line.decode(text) for text in islice(lines, BATCH)]:
                yield batch
    except OSError as error:
        raise StoreError(f"reading {path} failed: {error}") from error


def _append(
    room: Room,
    batch: Sequence[Line],
    renamed: Reidentified,
    salt: bytes,
    *,
    holes: bool,
) -> int:
    """Append a batch and, in the same transaction, how far the file has been read."""
    namespace = room.namespace
    view, last = f"import:{salt.hex()}", batch[-1].position

    def decide(writer: Writer) -> list[tuple[int, Event]]:
        done = writer.progress(view)
        _, head = namespace.log.head(namespace.key)
        same = salt == namespace.key.salt
        exact = same and writer.progress(MIRROR) == head
        new = [
            (line, renamed(from_json(line.kind, line.shape, line.event)))
            for line in batch
            if not line.damaged
        ]
        old = [(line, event) for line, event in new if line.position <= done]
        # Copies of one log share its salt, and may have gone on differently since.
        exact = exact and (holes or _same_log(room, old, head))
        if exact:
            new = new[len(old) :]
        else:
            new = [item for item in new if not isinstance(item[1], (SettingsChanged, Erased))]
            forgotten = _forgotten(room, batch, head) if same else set()
            new = [item for item in new if _place(item[0]) not in forgotten]
            new = _unheard(writer, new)
        writer.set_progress(view, max(done, last))
        if exact:
            writer.set_progress(MIRROR, head + len(new))
        return [(line.recorded_at, event) for line, event in new]

    return len(namespace.append_dated(decide))


def _same_log(room: Room, old: Sequence[tuple[Line, Event]], head: int) -> bool:
    """Return whether lines read before stand in the log as they do in the file."""
    namespace = room.namespace
    if old and old[-1][0].position > head:
        return False
    held = namespace.log.at(namespace.key, [line.position for line, _ in old])
    return all(
        isinstance(held[line.position].event, Erased)
        or isinstance(event, Erased)
        or (held[line.position].recorded_at, held[line.position].event) == (line.recorded_at, event)
        for line, event in old
    )


def _place(line: Line) -> tuple[int, str, int]:
    return line.position, line.kind, line.recorded_at


def _forgotten(room: Room, batch: Sequence[Line], head: int) -> set[tuple[int, str, int]]:
    """Return the places in a file of this very log where something was forgotten here since."""
    log, key = room.namespace.log, room.namespace.key
    after, upto = batch[0].position - 1, min(head, batch[-1].position)
    return {
        (stored.position, kind_of(stored.event), stored.recorded_at)
        for stored in log.read(key, after=after, upto=upto)
        if isinstance(stored.event, Erased)
    }


def _unheard(writer: Writer, new: Sequence[tuple[Line, Event]]) -> list[tuple[Line, Event]]:
    """Return what the log does not hold yet, whichever file or log it came from first."""
    known = writer.known([ref for _, event in new if (ref := _about(event))], TOLD_ONCE)
    others = [ref for _, event in new if (ref := _about(event)) and not _told_once(event)]
    held: set[object] = set()
    for ref in writer.known(others, [kind for kind in SHAPES if kind not in TOLD_ONCE]):
        for stored in writer.about(ref):
            held.add(_told(stored.recorded_at, stored.event))
    return [
        (line, event)
        for line, event in new
        if (
            _about(event) not in known
            if _told_once(event)
            else _told(line.recorded_at, event) not in held
        )
    ]


def _about(event: Event) -> bytes | None:
    """Return the id that the log finds an event by."""
    if isinstance(event, EvidenceRetracted):
        return event.evidence
    if isinstance(event, (RecallLinked, UsageMarked, FeedbackGiven)):
        return event.recall
    if isinstance(event, (SettingsChanged, Erased)):
        return None
    return event.id


def _told_once(event: Event) -> bool:
    return isinstance(event, (EvidenceObserved, RelationEnded, EpisodeRecorded, RecallServed))


def _told(recorded_at: int, event: Event) -> object:
    """Return what makes an event the same one, also when some of its items were forgotten."""
    if isinstance(event, EvidenceRetracted):
        return event.evidence
    if isinstance(event, UsageMarked):
        return recorded_at, event.recall, event.method
    if isinstance(event, FeedbackGiven):
        return recorded_at, event.recall, event.source, event.reward
    return recorded_at, msgspec.msgpack.encode(event)


def _checked(path: Path) -> Header:
    """Read a file once and return its header, if it is a whole export that we can read."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            first = next(file, b"")
            header = msgspec.json.decode(first, type=Header)
            if header.recall_echo > FORMAT:
                raise UnsupportedShape("The export", header.recall_echo, FORMAT)
            whole = 0 < len(bytes.fromhex(header.salt)) <= SALT_BYTES
            digest.update(first)
            count, text = 0, b""
            for text in file:
                if text.startswith(b'{"end"'):
                    break
                count += 1
                whole = _readable(_line.decode(text)) == count and whole
                digest.update(text)
            end = msgspec.json.decode(text, type=End)
            whole = whole and not file.read(1)
    except OSError as error:
        raise StoreError(f"reading {path} failed: {error}") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise BadExport(str(path), f"it is cut off or not an export ({error})") from error
    if not whole or (end.end, end.digest) != (count, digest.hexdigest()) or count != header.events:
        raise BadExport(str(path), "its end does not match what comes before; export it again")
    return header


def _readable(line: Line) -> int:
    """Return the position of a line whose event we can read."""
    if line.shape < ERASED_SHAPE:
        raise ValueError(f"position {line.position} has the shape {line.shape}")
    if not line.damaged:
        from_json(line.kind, line.shape, line.event)
    return line.position
