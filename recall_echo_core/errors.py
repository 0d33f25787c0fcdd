"""Everything that can go wrong, under one root.

```
RecallEchoError
├─ NotFound (LookupError)          a thing that was asked for by name or id is not there
│  ├─ UnknownEntity
│  ├─ UnknownRelation
│  ├─ UnknownEvidence
│  └─ UnknownRecall
├─ NotAllowed                      the request is well formed, but its moment has passed
├─ StoreError                      the disk, the database or the vector index said no
│  ├─ StoreClosed
│  ├─ StoreErased                  the whole namespace was forgotten by somebody else
│  ├─ StoreBusy                    another process holds what this one needs
│  ├─ CorruptLog                   a stored event is not what was written
│  └─ UnsupportedShape             the store was written by a newer version
├─ BadExport                       a file to import is cut off, changed, or not ours
├─ EmbedderUnavailable             no model to turn text into vectors
└─ EmbedderMismatch                the store was built with another model
```

Bad arguments (a weight of 2, an empty name) are plain `ValueError` or `TypeError`, raised before
anything is written.
"""

from __future__ import annotations

__all__ = [
    "BadExport",
    "CorruptLog",
    "EmbedderMismatch",
    "EmbedderUnavailable",
    "NotAllowed",
    "NotFound",
    "RecallEchoError",
    "StoreBusy",
    "StoreClosed",
    "StoreErased",
    "StoreError",
    "UnknownEntity",
    "UnknownEvidence",
    "UnknownRecall",
    "UnknownRelation",
    "UnsupportedShape",
]


class RecallEchoError(Exception):
    """Root of every error this package raises on purpose."""


class NotFound(RecallEchoError, LookupError):
    """A thing asked for by name or id is not in this namespace."""


class UnknownEntity(NotFound):
    """No entity of this name; `name` and the closest `known` names are attributes."""

    def __init__(self, name: str, known: tuple[str, ...] = ()) -> None:
        self.name, self.known = name, known
        hint = f" Did you mean {', '.join(map(repr, known))}?" if known else ""
        super().__init__(f"No entity named {name!r} in this namespace.{hint}")


class UnknownRelation(NotFound):
    """No such relation; `subject`, `type` and `object` are attributes."""

    def __init__(self, subject: str, type: str, object: str) -> None:
        self.subject, self.type, self.object = subject, type, object
        super().__init__(
            f"No relation {subject!r} {type} {object!r} in this namespace;"
            " state it with remember() first."
        )


class UnknownEvidence(NotFound):
    """No piece of evidence with this id; `evidence_id` is an attribute."""

    def __init__(self, evidence_id: str) -> None:
        self.evidence_id = evidence_id
        super().__init__(
            f"No evidence with id {evidence_id!r} in this namespace; explain() lists the ids."
        )


class UnknownRecall(NotFound):
    """No recall receipt with this id, or it has expired; `recall_id` is an attribute."""

    def __init__(self, recall_id: str, reason: str = "no such receipt in this namespace") -> None:
        self.recall_id = recall_id
        super().__init__(f"Recall {recall_id!r}: {reason}.")


class NotAllowed(RecallEchoError):
    """The request is well formed, but this is not the moment for it."""


class StoreError(RecallEchoError):
    """The disk, the database or the vector index refused; the cause is chained."""


class StoreClosed(StoreError):
    """A memory was used after `close()`."""

    def __init__(self, what: str = "This memory") -> None:
        super().__init__(f"{what} is closed; open it again with open_memory(...).")


class StoreErased(StoreError):
    """A namespace was forgotten whole while it was open; `namespace` is an attribute."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        super().__init__(
            f"Namespace {namespace!r} was forgotten while it was open; ask again to begin it anew."
        )


class StoreBusy(StoreError):
    """Another process holds the file this one needs; `path` is an attribute."""

    def __init__(self, path: str, advice: str) -> None:
        self.path = path
        super().__init__(f"{path} is held by another process; {advice}")


class CorruptLog(StoreError):
    """A stored event is not what was written; `namespace` and `position` are attributes."""

    def __init__(self, namespace: str, position: int, reason: str) -> None:
        self.namespace, self.position = namespace, position
        super().__init__(
            f"The log of namespace {namespace!r} is damaged at position {position}: {reason}."
            " Nothing was changed; restore the file from a backup."
        )


class UnsupportedShape(StoreError):
    """The store, or one event in it, was written by a newer version of this package."""

    def __init__(self, what: str, found: int, known: int) -> None:
        self.found, self.known = found, known
        super().__init__(
            f"{what} has shape {found}, this version reads up to {known};"
            " upgrade recall-echo-adapters."
        )


class BadExport(RecallEchoError):
    """A file cannot be imported; nothing of it was. `path` is an attribute."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        super().__init__(f"{path} cannot be imported: {reason}.")


class EmbedderUnavailable(RecallEchoError):
    """No model to turn text into vectors; the message says how to get one."""


class EmbedderMismatch(RecallEchoError):
    """The store's vectors come from another model; `stored` and `given` are attributes."""

    def __init__(self, stored: str, given: str, reason: str) -> None:
        self.stored, self.given = stored, given
        super().__init__(
            f"This memory was embedded with {stored}, but was opened with {given} ({reason})."
            " Open it with the first one, or call open_memory(..., reindex=True)"
            " to embed every text again with the second."
        )
