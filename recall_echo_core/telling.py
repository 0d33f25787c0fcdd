"""What can a memory be told?

Whatever is told is checked, appended to the log in one durable transaction, and taken into the
graph, in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

from recall_echo_core.arguments import checked_name, checked_text, id_of
from recall_echo_core.errors import NotAllowed, UnknownEvidence
from recall_echo_core.events import (
    EntityDescribed,
    EpisodeRecorded,
    Event,
    EvidenceObserved,
    EvidenceRetracted,
    RelationEnded,
    Stored,
)
from recall_echo_core.fold import period_at
from recall_echo_core.metadata import packed
from recall_echo_core.model import Entity, EntityLike, Relation, Statement
from recall_echo_core.names import end_id
from recall_echo_core.portray import relation_of
from recall_echo_core.statements import Message, Speaker
from recall_echo_core.times import Moment, moment
from recall_echo_core.view import View

if TYPE_CHECKING:
    from recall_echo_core.confidence import Context
    from recall_echo_core.stores.sql import Writer

__all__ = ["Details", "Telling"]

BATCH: Final = 1_000
REPEATABLE: Final = ("evidence", "ended", "episode")  # kinds a caller may tell twice


class Details(TypedDict, total=False):
    """What every statement may say about itself; see `Telling.remember`."""

    source: str
    weight: float
    observed_at: Moment | None
    valid_from: Moment | None
    valid_until: Moment | None
    statement_id: str | None
    episode_id: str | None
    metadata: Mapping[str, Any] | None


class Telling(View):
    """A view of now that can be told things."""

    # Evidence

    def remember(
        self,
        subject: EntityLike,
        type: str,
        object: EntityLike,
        *,
        context: Context = "explicit",
        source: str = "user",
        weight: float = 1.0,
        observed_at: Moment | None = None,
        valid_from: Moment | None = None,
        valid_until: Moment | None = None,
        statement_id: str | None = None,
        episode_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Relation:
        """State that a relation holds; return what is believed now.

        A new relation starts at the prior of its context; stating a known one corroborates it.

        Args:
            subject: Name, or an entity of this namespace.
            type: Relation type, such as `WORKS_AT`.
            object: Name, or an entity of this namespace.
            context: How it was established: authoritative, explicit, inferred or speculative.
            source: Who says so.
            weight: How much it counts, in (0, 1]; raising it moves a known relation further.
            observed_at: When it was observed; now if not given.
            valid_from: Since when it holds; a bare date means that day's start.
            valid_until: Until when; a bare date means that day's end.
            statement_id: Names the statement; the same statement counts once.
            episode_id: The episode that says so; it, the triple and the polarity name the
                statement then.
            metadata: JSON values to keep with it.

        Raises:
            TypeError, ValueError: something cannot be recorded as it is; nothing was.
        """
        return self._state(
            Statement(
                subject=subject,
                type=type,
                object=object,
                context=context,
                source=source,
                weight=weight,
                observed_at=observed_at,
                valid_from=valid_from,
                valid_until=valid_until,
                statement_id=statement_id,
                episode_id=episode_id,
                metadata=metadata,
            )
        )

    def corroborate(
        self,
        subject: EntityLike,
        type: str,
        object: EntityLike,
        *,
        context: Context = "inferred",
        **details: Unpack[Details],
    ) -> Relation:
        """Add evidence for a relation; an unknown one starts at its prior, then this counts.

        Takes the arguments of `remember`.
        """
        return self._state(
            _statement(subject, type, object, details, context=context, establishes=False)
        )

    def contradict(
        self,
        subject: EntityLike,
        type: str,
        object: EntityLike,
        *,
        context: Context = "inferred",
        **details: Unpack[Details],
    ) -> Relation:
        """Add evidence against a relation; an unknown one starts at its prior, then this counts.

        Takes the arguments of `remember`. It moves belief, and deletes nothing.
        """
        return self._state(
            _statement(subject, type, object, details, context=context, supports=False)
        )

    def supersede(
        self,
        subject: EntityLike,
        type: str,
        old: EntityLike,
        new: EntityLike,
        *,
        at: Moment | None = None,
        context: Context = "explicit",
        **details: Unpack[Details],
    ) -> Relation:
        """State that one value gave way to another; return the new relation.

        The old one was true and ended, so its confidence stays. Takes the arguments of
        `remember`, except `valid_from`, which is `at`.

        Args:
            subject: Whose relation changed.
            type: Its type.
            old: The value until then.
            new: The value since.
            at: When it changed, a bare date meaning that day's start; now if not given.
            context: How the change was established.
            details: See `remember`.
        """
        if "valid_from" in details:
            raise TypeError("supersede() takes at= instead of valid_from=")
        speaker = self._telling()
        changed = self._engine.now() if at is None else moment(at, "at", day="start")
        said = speaker.evidence(_statement(subject, type, new, details, context=context))
        until = said.valid_until
        if until is not None and until <= changed:
            raise ValueError("valid_until must be later than the change")
        said = speaker.beginning(said, changed)
        ended = speaker.ended(subject, type, old, changed, said)
        if ended.object == said.object:
            raise ValueError(f"old and new are the same value, {said.object_name!r}")
        self._check_episodes([said])
        self._append_new([ended, said], speaker)
        return self._relation(said)

    def observe(self, statements: Iterable[Statement]) -> list[str]:
        """Record many pieces of evidence, in durable batches; return their ids in order.

        Much faster than one call each. All are checked before the first is written.
        """
        speaker = self._telling()
        evidence = [speaker.evidence(said) for said in statements]
        self._check_episodes(evidence)
        for start in range(0, len(evidence), BATCH):
            self._append_new(evidence[start : start + BATCH], speaker)
        return [event.id.hex() for event in evidence]

    def retract(self, evidence_id: str) -> None:
        """Take one piece of evidence back; the log keeps both, belief forgets it.

        Taking back what `supersede` told also takes back the end of the old value.

        Raises:
            UnknownEvidence: there is no evidence of this id; `explain` lists the ids.
        """
        self._check_open()
        id = id_of(evidence_id, "evidence_id")

        def decide(writer: Writer) -> list[Event]:
            about = [stored.event for stored in writer.about(id)]
            if any(isinstance(event, EvidenceRetracted) for event in about):
                return []
            for event in about:
                if isinstance(event, RelationEnded):
                    return [EvidenceRetracted(id, event.subject, event.type)]
                if isinstance(event, EvidenceObserved):
                    gone = [id, end_id(id)] if event.begins else [id]
                    return [EvidenceRetracted(one, event.subject, event.type) for one in gone]
            raise UnknownEvidence(evidence_id)

        self._append(decide)

    # Entities and episodes

    def add_entity(
        self,
        name: str,
        *,
        kind: str | None = None,
        abstract: str | None = None,
        overview: str | None = None,
        content: str | None = None,
        key: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Entity:
        """Describe an entity, new or known; what is not given stays as it was.

        Args:
            name: Identifies it, whatever the case, the spacing and the Unicode form.
            kind: What sort of thing it is.
            abstract: A line; recall finds the entity by name and abstract.
            overview: A paragraph.
            content: Everything.
            key: Tells it apart from another entity of the same name.
            metadata: JSON values; replaces what was attached before.
        """
        speaker = self._telling()
        texts = {"abstract": abstract, "overview": overview, "content": content}
        for what, text in texts.items():
            if text is not None:
                checked_text(text, what)
        name = checked_name(name, "name")
        key = None if key is None else checked_name(key, "key")
        event = EntityDescribed(
            id=speaker.entity_id(name, key),
            name=name,
            key=key,
            kind=None if kind is None else checked_name(kind, "kind"),
            abstract=abstract,
            overview=overview,
            content=content,
            metadata=packed(metadata),
        )
        self._append(lambda _: [event])
        return self.get(name, key=key)

    def record(
        self, messages: Iterable[Message] | Message, *, session_id: str | None = None
    ) -> list[str]:
        """Keep messages verbatim as episodes; return their ids in order.

        Args:
            messages: Mappings with `content` and, if known, `role`, `name`, `time`, `id` and
                `metadata`. A message with an `id` is kept once per session.
            session_id: The conversation they belong to.

        Raises:
            TypeError, ValueError: a message, named by its number, cannot be kept; none was.
        """
        if isinstance(messages, str):
            raise TypeError('record() takes messages; write [{"role": "user", "content": ...}]')
        if isinstance(messages, Mapping):
            messages = [messages]
        session = None if session_id is None else checked_name(session_id, "session_id")
        speaker = self._telling()
        episodes = [
            speaker.episode(message, number, session) for number, message in enumerate(messages)
        ]
        for start in range(0, len(episodes), BATCH):
            self._append_new(episodes[start : start + BATCH], speaker)
        return [episode.id.hex() for episode in episodes]

    # Inside

    def _telling(self) -> Speaker:
        self._check_open()
        return Speaker(self._room.namespace.key.salt, self._engine.now(), self._engine.new_id)

    def _append(self, decide: Callable[[Writer], Sequence[Event]]) -> list[Stored]:
        stored = self._room.namespace.append(self._engine.now(), decide)
        self._engine.written(self._room)
        return stored

    def _append_new(
        self,
        events: Sequence[EvidenceObserved | RelationEnded | EpisodeRecorded],
        speaker: Speaker,
    ) -> None:
        """Append events, leaving out those the caller named that the log has already."""

        def decide(writer: Writer) -> Sequence[Event]:
            named = [event.id for event in events if event.id in speaker.named]
            if not named:
                return events
            known = writer.known(named, REPEATABLE)
            first = {event.id: event for event in reversed(events) if event.id not in known}
            return [event for event in events if first.get(event.id) is event]

        self._append(decide)

    def _state(self, statement: Statement) -> Relation:
        speaker = self._telling()
        said = speaker.evidence(statement)
        self._check_episodes([said])
        self._append_new([said], speaker)
        return self._relation(said)

    def _check_episodes(self, evidence: Iterable[EvidenceObserved]) -> None:
        episodes = {event.episode for event in evidence if event.episode is not None}
        if episodes:
            with self._reading() as graph:
                for episode in episodes - graph.episodes.keys():
                    raise ValueError(f"episode_id {episode.hex()!r} is not in this namespace")

    def _relation(self, said: EvidenceObserved) -> Relation:
        """Return the relation a statement was about, as it is believed now."""
        now = self._engine.now()
        with self._reading() as graph:
            group = graph.group_of(said.subject, said.type)
            periods = () if group is None else group.values.get(said.object, ())
            if group is None or not periods:
                raise NotAllowed(
                    f"{said.subject_name!r} {said.type} {said.object_name!r}: this statement was"
                    " taken back; tell it again under another statement_id"
                )
            about = said.observed_at if said.valid_from is None else said.valid_from
            period = period_at(periods, about) or periods[-1]
            return relation_of(graph, group, said.object, period, now, said.id)


def _statement(
    subject: EntityLike, type: str, object: EntityLike, details: Mapping[str, Any], **more: Any
) -> Statement:
    for name in details:
        if name not in Details.__annotations__:
            known = ", ".join(Details.__annotations__)
            raise TypeError(f"unexpected keyword {name!r}; known: {known}")
    return Statement(subject=subject, type=type, object=object, **details, **more)
