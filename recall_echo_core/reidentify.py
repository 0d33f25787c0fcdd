"""What are the ids of a log's things in a namespace with another salt?

Names are in the log, so ids can be made anew from them. Ids that name nothing (of evidence,
episodes and recalls) stay as they are.
"""

from __future__ import annotations

import msgspec

from recall_echo_core.events import (
    EntityDescribed,
    Event,
    EvidenceObserved,
    EvidenceRetracted,
    FeedbackGiven,
    RecallServed,
    RelationEnded,
    UsageMarked,
    type_key,
)
from recall_echo_core.names import identity, normalised

__all__ = ["Reidentified"]


class Reidentified:
    """Gives events, in log order, the ids they have under another salt."""

    def __init__(self, old: bytes, new: bytes) -> None:
        self._old, self._new = old, new
        self._ids: dict[bytes, bytes] = {}

    def __call__(self, event: Event) -> Event:
        """Return an event with the ids of the new salt."""
        if self._old == self._new:
            return event
        if isinstance(event, EntityDescribed):
            return msgspec.structs.replace(event, id=self._entity(event.id, event.name, event.key))
        if isinstance(event, (EvidenceObserved, RelationEnded)):
            subject = self._entity(event.subject, event.subject_name, None)
            value = self._entity(event.object, event.object_name, None)
            self._relation(event, subject, value)
            return msgspec.structs.replace(event, subject=subject, object=value)
        if isinstance(event, EvidenceRetracted):
            return msgspec.structs.replace(event, subject=self._known(event.subject))
        if isinstance(event, RecallServed):
            hits = [(self._known(item), kind, score) for item, kind, score in event.hits]
            return msgspec.structs.replace(event, hits=hits)
        if isinstance(event, UsageMarked):
            return msgspec.structs.replace(event, used=[self._known(item) for item in event.used])
        if isinstance(event, FeedbackGiven):
            return msgspec.structs.replace(
                event,
                used=[self._known(item) for item in event.used],
                unused=[self._known(item) for item in event.unused],
            )
        return event

    def _known(self, item: bytes) -> bytes:
        return self._ids.get(item, item)

    def _entity(self, old: bytes, name: str, key: str | None) -> bytes:
        if old not in self._ids:
            named = normalised(name), key or ""
            # One whose key is not known, since its description is lost, is nobody else.
            known = identity(self._old, "entity", *named) == old
            self._ids[old] = identity(self._new, "entity", *named) if known else old
        return self._ids[old]

    def _relation(
        self, event: EvidenceObserved | RelationEnded, subject: bytes, value: bytes
    ) -> None:
        key = type_key(event.type)
        old = identity(self._old, "relation", event.subject.hex(), key, event.object.hex())
        if old not in self._ids:
            self._ids[old] = identity(self._new, "relation", subject.hex(), key, value.hex())
