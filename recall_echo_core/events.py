"""What can happen, as it stands in the log.

Events are facts in the past tense that carry deltas ("one more for this relation"), never
results, so that concurrent writers cannot overwrite one another and replay is exact. Each kind
has a shape number; older shapes are lifted step by step when read (`UPCASTS`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias, get_args

import msgspec

from recall_echo_core.confidence import Context
from recall_echo_core.errors import UnsupportedShape
from recall_echo_core.names import normalised
from recall_echo_core.settings import Folding

__all__ = [
    "ERASED_SHAPE",
    "SETTINGS_REF",
    "SHAPES",
    "EntityDescribed",
    "EpisodeRecorded",
    "Erased",
    "Event",
    "EvidenceObserved",
    "EvidenceRetracted",
    "FeedbackGiven",
    "RecallLinked",
    "RecallServed",
    "RelationEnded",
    "SettingsChanged",
    "Stored",
    "UsageMarked",
    "decoded",
    "encoded",
    "from_json",
    "kind_of",
    "to_json",
    "type_key",
]

Metadata: TypeAlias = dict[str, Any]
SETTINGS_REF: Final = b"settings"  # what all changes of settings are about, so they can be found
type_key: Final = lru_cache(maxsize=4096)(normalised)


class EntityDescribed(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entity was given a name and perhaps texts; what is `None` was not said."""

    id: bytes
    name: str
    key: str | None = None
    kind: str | None = None
    abstract: str | None = None
    overview: str | None = None
    content: str | None = None
    metadata: Metadata | None = None


class EvidenceObserved(msgspec.Struct, frozen=True, omit_defaults=True):
    """Somebody said, or a tool found, that a relation holds or does not.

    `establishes` marks a statement that it holds: the earliest one of a relation *is* its prior,
    later ones support it. Other evidence counts on top of the prior from the first piece on.
    `begins` marks the new value of a change, told together with the end of the old one.
    """

    id: bytes
    subject: bytes
    subject_name: str
    type: str
    object: bytes
    object_name: str
    observed_at: int
    supports: bool = True
    establishes: bool = False
    begins: bool = False
    weight: float = 1.0
    context: Context = "inferred"
    source: str = "user"
    valid_from: int | None = None
    valid_until: int | None = None
    episode: bytes | None = None
    metadata: Metadata | None = None


class RelationEnded(msgspec.Struct, frozen=True, omit_defaults=True):
    """A relation stopped holding at `at`: it was true, and no longer is."""

    id: bytes
    subject: bytes
    subject_name: str
    type: str
    object: bytes
    object_name: str
    observed_at: int
    at: int
    context: Context = "inferred"
    source: str = "user"
    episode: bytes | None = None


class EvidenceRetracted(msgspec.Struct, frozen=True):
    """One piece of evidence was taken back; the log keeps both."""

    evidence: bytes
    subject: bytes
    type: str


class EpisodeRecorded(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of conversation or document, verbatim."""

    id: bytes
    content: str
    time: int
    role: str = "user"
    name: str | None = None
    session: str | None = None
    metadata: Metadata | None = None


class SettingsChanged(msgspec.Struct, frozen=True):
    """From here on all evidence is folded with these constants."""

    folding: Folding


class RecallServed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A recall was answered with these (item, kind, score) hits; no text is kept.

    A forgotten one leaves a gap, an empty item, so that the others keep their marks.
    """

    id: bytes
    at: int
    hits: list[tuple[bytes, str, float]]
    run: bytes | None = None

    def items(self) -> list[bytes]:
        """Return what was shown and has not been forgotten."""
        return [item for item, _, _ in self.hits if item]

    def without(self, lost: Callable[[bytes], bool]) -> RecallServed:
        """Return the event with gaps for what is lost; the same one if it showed none of it."""
        if not any(lost(item) for item in self.items()):
            return self
        hits = [(b"", "", 0.0) if lost(hit[0]) else hit for hit in self.hits]
        return msgspec.structs.replace(self, hits=hits)


class RecallLinked(msgspec.Struct, frozen=True):
    """A recall belongs to this run of the host too, besides the one it was served in."""

    recall: bytes
    run: bytes


class UsageMarked(msgspec.Struct, frozen=True):
    """Which hits of a recall the answer used, and how that was decided."""

    recall: bytes
    used: list[bytes]
    method: str


class FeedbackGiven(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a turn ended, resolved to the items it credits.

    `replaces` is the position of the verdict of the same source that this one takes the place of.
    """

    recall: bytes
    source: str
    reward: float
    used: list[bytes]
    unused: list[bytes]
    replaces: int | None = None


class Erased(msgspec.Struct, frozen=True):
    """Something stood here and was forgotten; only its kind and position are left."""

    kind: str


Event: TypeAlias = (
    EntityDescribed
    | EvidenceObserved
    | RelationEnded
    | EvidenceRetracted
    | EpisodeRecorded
    | SettingsChanged
    | RecallServed
    | RecallLinked
    | UsageMarked
    | FeedbackGiven
    | Erased
)


class Stored(msgspec.Struct, frozen=True, gc=False):
    """An event in its place in the log."""

    position: int
    recorded_at: int
    event: Event


_KINDS: Final[Mapping[str, type[Any]]] = {
    "entity": EntityDescribed,
    "evidence": EvidenceObserved,
    "ended": RelationEnded,
    "retraction": EvidenceRetracted,
    "episode": EpisodeRecorded,
    "settings": SettingsChanged,
    "recall": RecallServed,
    "link": RecallLinked,
    "usage": UsageMarked,
    "feedback": FeedbackGiven,
}
if {*_KINDS.values(), Erased} != set(get_args(Event)):  # a kind that could be written but not read
    raise AssertionError("every event needs a kind")
_KIND_OF: Final = {shape: kind for kind, shape in _KINDS.items()}
_DECODERS: Final = {kind: msgspec.msgpack.Decoder(shape) for kind, shape in _KINDS.items()}
_encoder: Final = msgspec.msgpack.Encoder()

SHAPES: Final[Mapping[str, int]] = dict.fromkeys(_KINDS, 1)
ERASED_SHAPE: Final = 0  # of a row whose payload was forgotten

Upcast: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
# (kind, shape) -> how its payload becomes one of the next shape. Empty while all shapes are 1.
UPCASTS: Final[dict[tuple[str, int], Upcast]] = {}


def kind_of(event: Event) -> str:
    """Return the word a kind of event is stored under."""
    return event.kind if isinstance(event, Erased) else _KIND_OF[type(event)]


def encoded(event: Event) -> bytes:
    """Return an event's payload: MessagePack with field names, defaults left out."""
    return _encoder.encode(event)


def decoded(
    kind: str,
    shape: int,
    payload: bytes,
    *,
    shapes: Mapping[str, int] = SHAPES,
    upcasts: Mapping[tuple[str, int], Upcast] = UPCASTS,
) -> Event:
    """Return the event of a payload, lifting an older shape step by step.

    Raises:
        UnsupportedShape: kind or shape come from a newer version.
        msgspec.MsgspecError: the payload is not what its kind and shape promise.
    """
    if kind not in _KINDS:
        raise UnsupportedShape(f"An event of kind {kind!r}", shape, 0)
    if shape == ERASED_SHAPE:
        return Erased(kind)
    if shape == shapes[kind]:
        event: Event = _DECODERS[kind].decode(payload)
        return event
    if shape > shapes[kind]:
        raise UnsupportedShape(f"An event of kind {kind!r}", shape, shapes[kind])
    return _lifted(kind, shape, msgspec.msgpack.decode(payload), shapes, upcasts)


def to_json(event: Event) -> bytes:
    """Return an event as a JSON object; bytes are base64, defaults left out."""
    return b"{}" if isinstance(event, Erased) else msgspec.json.encode(event)


def from_json(kind: str, shape: int, text: bytes | msgspec.Raw) -> Event:
    """Return the event of a JSON object, lifting an older shape step by step.

    Raises:
        UnsupportedShape: kind or shape come from a newer version.
        msgspec.MsgspecError: the object is not what its kind and shape promise.
    """
    if kind not in _KINDS or shape > SHAPES[kind]:
        raise UnsupportedShape(f"An event of kind {kind!r}", shape, SHAPES.get(kind, 0))
    if shape == ERASED_SHAPE:
        return Erased(kind)
    return _lifted(kind, shape, msgspec.json.decode(text), SHAPES, UPCASTS)


def _lifted(
    kind: str,
    shape: int,
    fields: Any,
    shapes: Mapping[str, int],
    upcasts: Mapping[tuple[str, int], Upcast],
) -> Event:
    for step in range(shape, shapes[kind]):
        fields = upcasts[kind, step](fields)
    lifted: Event = msgspec.convert(fields, _KINDS[kind])
    return lifted
