"""How does an event stand in a row of the database?"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Any

import msgspec

from recall_echo_core.errors import CorruptLog
from recall_echo_core.events import (
    ERASED_SHAPE,
    SETTINGS_REF,
    SHAPES,
    EntityDescribed,
    EpisodeRecorded,
    Erased,
    Event,
    EvidenceObserved,
    EvidenceRetracted,
    FeedbackGiven,
    RecallLinked,
    RecallServed,
    RelationEnded,
    Stored,
    UsageMarked,
    decoded,
    encoded,
    kind_of,
)

if TYPE_CHECKING:
    from sqlalchemy import Row

__all__ = ["NamespaceKey", "blank_row", "row_of", "stored_of"]


class NamespaceKey(msgspec.Struct, frozen=True):
    """What identifies a namespace in the database, and the salt its ids are made with."""

    id: int
    name: str
    salt: bytes


def row_of(key: NamespaceKey, item: Stored) -> dict[str, Any]:
    """Return the row of an event."""
    event = item.event
    kind = kind_of(event)
    if isinstance(event, Erased):
        place = {"namespace": key.id, "position": item.position, "kind": kind}
        blank = blank_row(key, item.position, kind, item.recorded_at)
        return {**place, "recorded_at": item.recorded_at, **blank}
    ref, subject, run = _columns(event)
    payload = encoded(event)
    shape = SHAPES[kind]
    return {
        "namespace": key.id,
        "position": item.position,
        "kind": kind,
        "shape": shape,
        "recorded_at": item.recorded_at,
        "ref": ref,
        "subject": subject,
        "run": run,
        "payload": payload,
        "checksum": _checksum(
            key, item.position, item.recorded_at, kind, shape, ref, subject, run, payload
        ),
    }


def blank_row(key: NamespaceKey, position: int, kind: str, recorded_at: int) -> dict[str, Any]:
    """Return what is left of a row when its event is forgotten: its place, kind and time."""
    shape, payload = ERASED_SHAPE, b""
    return {
        "shape": shape,
        "ref": None,
        "subject": None,
        "run": None,
        "payload": payload,
        "checksum": _checksum(key, position, recorded_at, kind, shape, None, None, None, payload),
    }


def _columns(event: Event) -> tuple[bytes | None, bytes | None, bytes | None]:
    if isinstance(event, (EvidenceObserved, RelationEnded)):
        return event.id, event.subject, None
    if isinstance(event, EvidenceRetracted):
        return event.evidence, event.subject, None
    if isinstance(event, RecallServed):
        return event.id, None, event.run
    if isinstance(event, RecallLinked):
        return event.recall, None, event.run
    if isinstance(event, (UsageMarked, FeedbackGiven)):
        return event.recall, None, None
    if isinstance(event, (EntityDescribed, EpisodeRecorded)):
        return event.id, None, None
    return SETTINGS_REF, None, None


def _checksum(
    key: NamespaceKey,
    position: int,
    recorded_at: int,
    kind: str,
    shape: int,
    ref: bytes | None,
    subject: bytes | None,
    run: bytes | None,
    payload: bytes,
) -> bytes:
    """Return a keyed digest over every column, so a flipped, moved or swapped row shows."""
    digest = hashlib.blake2b(key=key.salt, digest_size=8)
    digest.update(struct.pack("<qqi", position, recorded_at, shape))
    for part in (kind.encode(), ref, subject, run, payload):
        digest.update(b"\0" if part is None else struct.pack("<i", len(part)) + part)
    return digest.digest()


def stored_of(key: NamespaceKey, row: Row[Any]) -> Stored:
    """Return the event of a row.

    Raises:
        CorruptLog: the row is not what was written.
    """
    position = row.position
    try:
        _, position, kind, shape, recorded_at, ref, subject, run, payload, checksum = tuple(row)
        whole = checksum == _checksum(
            key, position, recorded_at, kind, shape, ref, subject, run, payload
        )
    except (TypeError, AttributeError, ValueError, OverflowError, struct.error):
        whole = False  # a column holds what no event has
    if not whole:
        raise CorruptLog(key.name, position, "its checksum does not match")
    try:
        return Stored(position, recorded_at, decoded(kind, shape, payload))
    except msgspec.MsgspecError as error:
        raise CorruptLog(key.name, position, f"its payload cannot be read ({error})") from error
