"""What does the picture of a namespace consist of?

These values change as events are folded; what is given to callers is made from them anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import msgspec

from recall_echo_core.fold import Observation, OrderKey, Period, Values
from recall_echo_core.settings import Folding
from recall_echo_core.utility import INITIAL

if TYPE_CHECKING:
    from recall_echo_core.events import EvidenceRetracted, FeedbackGiven

__all__ = [
    "NEVER",
    "Activity",
    "Edge",
    "EpisodeMark",
    "Group",
    "GroupKey",
    "Loader",
    "Node",
    "Picture",
    "RelationMark",
]

GroupKey: TypeAlias = tuple[bytes, str]
NEVER: Final[OrderKey] = (-(2**63), 0, b"")


class Node(msgspec.Struct):
    """An entity as the events left it; `text_position` is where its name or abstract last changed.

    `details` are the positions of the newest overview, content and metadata, 0 where there is none;
    they may be long and are read from the log when asked for.
    """

    id: bytes
    name: str
    key: str | None
    kind: str | None
    abstract: str | None
    first_position: int
    text_position: int
    details: tuple[int, int, int]
    seen_at: int


class Group(msgspec.Struct):
    """The rival values of one subject and relation type, and the item id of each as a text.

    `told` says in which episodes evidence for each was.
    """

    subject: bytes
    type: str
    key: str
    last: OrderKey
    values: Values
    items: dict[bytes, bytes]
    told: dict[bytes, list[bytes]] = msgspec.field(default_factory=dict)


class RelationMark(msgspec.Struct):
    """Where a relation's text first stood in the log."""

    group: Group
    object: bytes
    position: int


class EpisodeMark(msgspec.Struct, gc=False):
    """Where an episode stands in the log, and what it can be filtered by."""

    position: int
    time: int
    session: str | None
    role: str
    name: str | None


class Activity(msgspec.Struct):
    """How often an item was recalled, when last, and how useful it was."""

    accesses: int = 0
    at: int | None = None
    utility: float = INITIAL


class Edge(msgspec.Struct, frozen=True):
    """A relation as seen from one of its ends."""

    other: bytes
    subject: bytes
    object: bytes
    group: Group
    period: Period
    effective: float


class Picture(msgspec.Struct):
    """Everything a graph holds, as plain values; what a snapshot stores."""

    position: int
    folding: Folding
    nodes: list[Node]
    groups: list[tuple[Group, dict[bytes, int]]]
    episodes: dict[bytes, EpisodeMark]
    activity: dict[bytes, Activity]
    retired: dict[bytes, int]


class Loader(Protocol):
    """How a fold rereads what it did not keep, from the same part of the log."""

    def evidence(
        self, subjects: Collection[bytes]
    ) -> Iterable[tuple[int, Observation | EvidenceRetracted]]:
        """All evidence about some subjects and where it stands, in log order for each subject."""
        ...

    def feedback(self) -> Iterable[FeedbackGiven]:
        """All feedback, in log order."""
        ...
