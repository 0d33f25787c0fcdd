"""What has to go when something is forgotten?

A plan is made from the whole log: which events lose their payload, which are written again
without what is forgotten, and which items are gone when the rest is folded. It touches nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from recall_echo_core.events import (
    EntityDescribed,
    EpisodeRecorded,
    Erased,
    Event,
    EvidenceObserved,
    EvidenceRetracted,
    FeedbackGiven,
    RecallServed,
    RelationEnded,
    Stored,
    UsageMarked,
    kind_of,
    type_key,
)
from recall_echo_core.graph import Graph
from recall_echo_core.model import sentence, titled
from recall_echo_core.names import identity
from recall_echo_core.words import mentions

if TYPE_CHECKING:
    from recall_echo_core.fold import Observation
    from recall_echo_core.texts import TextKey

__all__ = ["ListLoader", "Plan", "Selection", "planned"]


class Selection(msgspec.Struct, frozen=True):
    """What to forget: an entity with the names it was called by, or one of the others.

    `keep_episodes` spares the episodes that name a forgotten entity.
    """

    entity: bytes | None = None
    names: tuple[str, ...] = ()
    relation: tuple[bytes, str, bytes] | None = None
    session: str | None = None
    source: str | None = None
    episode: bytes | None = None
    keep_episodes: bool = False


class Plan(msgspec.Struct, frozen=True):
    """What forgetting does to the log, and to what is built from it.

    Attributes:
        blanked: Positions whose payload goes.
        rewritten: Events that stay, without what is forgotten.
        gone: Items that no longer exist.
        respelt: Items that are shown otherwise, since they were first named in what goes.
        graph: The fold of what is left.
        embed_after: Texts past this position may need vectors again.
        counts: How much goes, by kind of event.
        mentions: How many texts that stay still name the forgotten entity.
    """

    blanked: frozenset[int]
    rewritten: dict[int, Event]
    gone: frozenset[bytes]
    respelt: frozenset[bytes]
    graph: Graph
    embed_after: int
    counts: dict[str, int]
    mentions: int


class ListLoader:
    """Rereads evidence and feedback from events in memory."""

    def __init__(self, log: Iterable[Stored]) -> None:
        self._evidence: dict[bytes, list[tuple[int, Observation | EvidenceRetracted]]] = {}
        self._feedback: list[FeedbackGiven] = []
        for stored in log:
            event = stored.event
            if isinstance(event, (EvidenceObserved, RelationEnded, EvidenceRetracted)):
                self._evidence.setdefault(event.subject, []).append((stored.position, event))
            elif isinstance(event, FeedbackGiven):
                self._feedback.append(event)

    def evidence(
        self, subjects: Collection[bytes]
    ) -> Iterator[tuple[int, Observation | EvidenceRetracted]]:
        """All evidence about some subjects, with its positions."""
        for subject in subjects:
            yield from self._evidence.get(subject, ())

    def feedback(self) -> list[FeedbackGiven]:
        """All feedback, in log order."""
        return self._feedback


def planned(log: Sequence[Stored], salt: bytes, selection: Selection) -> Plan:
    """Return what has to go; the plan is empty when nothing matches."""
    names = _names_of(log, selection.entity) | set(selection.names)
    gone = _directly(log, selection, names)
    gone |= _resting_on(log, gone, selection)
    left = [stored if stored.position not in gone else _blank(stored) for stored in log]
    before, after = _folded(log, salt), _folded(left, salt)
    # A relation that had been taken back before is still named by receipts.
    lost = frozenset(_items(before) - _items(after)) | (_related(log, salt) - _related(left, salt))
    rewritten = {
        stored.position: changed
        for stored in left
        if (changed := _without(stored.event, lost)) is not stored.event
    }
    if rewritten:
        left = [_with(stored, rewritten) for stored in left]
        after = _folded(left, salt)
    texts, known = _texts(after), _texts(before)
    fresh = [text for text, shown in texts.items() if known.get(text) != shown]
    first = min((text.position for text in fresh), default=after.position + 1)
    return Plan(
        blanked=frozenset(gone),
        rewritten=rewritten,
        gone=lost,
        respelt=frozenset(text.item for text in fresh if text in known),
        graph=after,
        embed_after=first - 1,
        counts=_counted(log, gone),
        mentions=sum(_mentioned(stored.event, names) for stored in left) if names else 0,
    )


def _directly(log: Sequence[Stored], selection: Selection, names: Collection[str]) -> set[int]:
    """Return the positions that the selection itself names."""
    episodes = {
        stored.event.id
        for stored in log
        if isinstance(stored.event, EpisodeRecorded)
        and _episode_goes(stored.event, selection, names)
    }
    return {stored.position for stored in log if _goes(stored.event, selection, episodes)}


def _episode_goes(episode: EpisodeRecorded, selection: Selection, names: Collection[str]) -> bool:
    if selection.entity is not None:
        if selection.keep_episodes:
            return False
        return _mentioned(episode, names)
    return (
        (selection.episode is not None and episode.id == selection.episode)
        or (selection.session is not None and episode.session == selection.session)
        or (selection.source is not None and selection.source in (episode.role, episode.name))
    )


def _goes(event: Event, selection: Selection, episodes: Collection[bytes]) -> bool:
    if isinstance(event, EpisodeRecorded):
        return event.id in episodes
    if isinstance(event, EntityDescribed):
        return event.id == selection.entity
    if isinstance(event, (EvidenceObserved, RelationEnded)):
        triple = (event.subject, type_key(event.type), event.object)
        return (
            selection.entity in (event.subject, event.object)
            or triple == selection.relation
            or (selection.source is not None and event.source == selection.source)
            or event.episode in episodes
        )
    if isinstance(event, FeedbackGiven):
        return selection.source is not None and event.source == selection.source
    return False


def _resting_on(log: Sequence[Stored], gone: set[int], selection: Selection) -> set[int]:
    """Return the positions of what makes no sense without what goes."""
    events = [(stored.position, stored.event) for stored in log]
    goes: set[bytes] = set()
    stays: set[bytes] = set()
    for position, event in events:
        if isinstance(event, (EvidenceObserved, RelationEnded)):
            (goes if position in gone else stays).add(event.id)
    goes -= stays
    positions = {
        position
        for position, event in events
        if isinstance(event, EvidenceRetracted) and event.evidence in goes
    }
    if selection.relation is not None or selection.entity is not None:
        return positions  # how others are described is theirs
    touched: set[bytes] = set()
    supported: set[bytes] = set()
    for position, event in events:
        if isinstance(event, (EvidenceObserved, RelationEnded)):
            (touched if position in gone else supported).update((event.subject, event.object))
    orphans = touched - supported
    return positions | {
        position
        for position, event in events
        if isinstance(event, EntityDescribed) and event.id in orphans
    }


def _names_of(log: Sequence[Stored], entity: bytes | None) -> frozenset[str]:
    """Return every spelling under which an entity was named."""
    names: set[str] = set()
    for stored in log if entity is not None else ():
        event = stored.event
        if isinstance(event, EntityDescribed) and event.id == entity:
            names.add(event.name)
        elif isinstance(event, (EvidenceObserved, RelationEnded)):
            if event.subject == entity:
                names.add(event.subject_name)
            if event.object == entity:
                names.add(event.object_name)
    return frozenset(names)


def _mentioned(event: Event, names: Collection[str]) -> bool:
    """Return whether what somebody wrote, or attached, names one of some things."""
    texts: list[str | None] = []
    if isinstance(event, EpisodeRecorded):
        texts = [event.content, event.name, *_strings(event.metadata)]
    elif isinstance(event, EntityDescribed):
        texts = [event.abstract, event.overview, event.content, *_strings(event.metadata)]
    elif isinstance(event, EvidenceObserved):
        texts = [event.source, *_strings(event.metadata)]
    elif isinstance(event, RelationEnded):
        texts = [event.source]
    return any(text is not None and mentions(text, names) for text in texts)


def _strings(value: Any) -> Iterator[str]:
    """Yield the texts in metadata, keys among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _without(event: Event, lost: Collection[bytes]) -> Event:
    """Return an event about a recall without items that are gone; the same one if it had none."""
    if isinstance(event, RecallServed):
        return event.without(lambda item: item in lost)
    if isinstance(event, UsageMarked):
        used = [item for item in event.used if item not in lost]
        if len(used) < len(event.used):
            return msgspec.structs.replace(event, used=used)
    elif isinstance(event, FeedbackGiven):
        used = [item for item in event.used if item not in lost]
        unused = [item for item in event.unused if item not in lost]
        if len(used) + len(unused) < len(event.used) + len(event.unused):
            return msgspec.structs.replace(event, used=used, unused=unused)
    return event


def _with(stored: Stored, rewritten: dict[int, Event]) -> Stored:
    event = rewritten.get(stored.position)
    return stored if event is None else msgspec.structs.replace(stored, event=event)


def _blank(stored: Stored) -> Stored:
    return msgspec.structs.replace(stored, event=Erased(kind_of(stored.event)))


def _folded(log: Sequence[Stored], salt: bytes) -> Graph:
    graph = Graph(salt)
    graph.fold(log, ListLoader(log))
    return graph


def _items(graph: Graph) -> set[bytes]:
    return {*graph.nodes, *graph.relations, *graph.episodes}


def _related(log: Iterable[Stored], salt: bytes) -> set[bytes]:
    """Return the items of all relations that a log has evidence about, taken back or not."""
    triples = {
        (event.subject, type_key(event.type), event.object)
        for stored in log
        if isinstance(event := stored.event, (EvidenceObserved, RelationEnded))
    }
    return {identity(salt, "relation", s.hex(), type, o.hex()) for s, type, o in triples}


def _texts(graph: Graph) -> dict[TextKey, str]:
    """Return what is embedded, each with the text; of an episode, which never changes, without."""
    texts: dict[TextKey, str] = {}
    for text in graph.texts_after(0):
        shown = ""
        if text.kind == "entity":
            node = graph.nodes[text.item]
            shown = titled(node.name, node.abstract)
        elif text.kind == "relation":
            mark = graph.relations[text.item]
            ends = graph.nodes[mark.group.subject].name, graph.nodes[mark.object].name
            shown = sentence(ends[0], mark.group.type, ends[1])
        texts[text] = shown
    return texts


def _counted(log: Sequence[Stored], gone: Collection[int]) -> dict[str, int]:
    counts = {"entities": 0, "evidence": 0, "episodes": 0}
    for stored in log:
        if stored.position in gone:
            if isinstance(stored.event, EpisodeRecorded):
                counts["episodes"] += 1
            elif isinstance(stored.event, (EvidenceObserved, RelationEnded)):
                counts["evidence"] += 1
            elif isinstance(stored.event, EntityDescribed):
                counts["entities"] += 1
    return counts
