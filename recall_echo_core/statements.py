"""How does what somebody says become an event?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from recall_echo_core.arguments import (
    bounds,
    checked_name,
    checked_text,
    context_of,
    id_of,
    weight_of,
)
from recall_echo_core.events import EpisodeRecorded, EvidenceObserved, RelationEnded, type_key
from recall_echo_core.metadata import packed
from recall_echo_core.model import Entity, EntityLike, Statement
from recall_echo_core.names import end_id, identity, named_id, normalised, paired_id
from recall_echo_core.times import Moment, moment

__all__ = ["Message", "Speaker"]

Message: TypeAlias = Mapping[str, Any]
MESSAGE_KEYS: Final = ("role", "content", "name", "time", "id", "metadata")


class Speaker:
    """Turns statements and messages of one namespace into events, at one moment.

    Args:
        salt: Of the namespace.
        now: When it is said, unless the statement says otherwise.
        new_id: Makes a fresh random id.
    """

    def __init__(self, salt: bytes, now: int, new_id: Callable[[], bytes]) -> None:
        self._salt, self._now, self._new_id = salt, now, new_id
        self._entities: dict[str, bytes] = {}
        self.named: set[bytes] = set()  # ids made from what the caller calls things: may be known

    def entity(self, entity: EntityLike, what: str) -> tuple[bytes, str]:
        """Return id and name of an entity given by name or as a value of this namespace."""
        if isinstance(entity, Entity):
            id = self.entity_id(entity.name, entity.key)
            if id.hex() != entity.id:
                raise ValueError(
                    f"{what} {entity.name!r} belongs to another namespace; give its name, or the"
                    " value that get() returns here"
                )
            return id, entity.name
        name = checked_name(entity, what)
        if name not in self._entities:
            self._entities[name] = self.entity_id(name, None)
        return self._entities[name], name

    def entity_id(self, name: str, key: str | None) -> bytes:
        """Return the id of the entity of this name."""
        return identity(self._salt, "entity", normalised(name), key or "")

    def evidence(self, said: Statement) -> EvidenceObserved:
        """Return the event of a statement.

        Raises:
            TypeError: not a statement; a name is not text, or a time is not a time.
            ValueError: anything else that cannot be recorded as it is.
        """
        if not isinstance(said, Statement):
            raise TypeError(f"a statement must be a Statement, not {_type(said)}")
        for what, answer in (("supports", said.supports), ("establishes", said.establishes)):
            if not isinstance(answer, bool):
                raise TypeError(f"{what} must be True or False, not {answer!r:.60}")
        subject, subject_name = self.entity(said.subject, "subject")
        object, object_name = self.entity(said.object, "object")
        relation_type = checked_name(said.type, "relation type")
        start, end = bounds(said.valid_from, said.valid_until)
        episode = None if said.episode_id is None else id_of(said.episode_id, "episode_id")
        triple = (subject.hex(), type_key(relation_type), object.hex(), "+-"[not said.supports])
        return EvidenceObserved(
            id=self._statement_id(said, episode, triple),
            subject=subject,
            subject_name=subject_name,
            type=relation_type,
            object=object,
            object_name=object_name,
            observed_at=self._moment(said.observed_at, "observed_at"),
            supports=said.supports,
            establishes=said.supports and said.establishes,
            weight=weight_of(said.weight),
            context=context_of(said.context),
            source=checked_name(said.source, "source"),
            valid_from=start,
            valid_until=end,
            episode=episode,
            metadata=packed(said.metadata),
        )

    def beginning(self, said: EvidenceObserved, at: int) -> EvidenceObserved:
        """Return a statement as that of the new value of a change."""
        id = paired_id(said.id)
        if said.id in self.named:
            self.named.add(id)
        return msgspec.structs.replace(said, id=id, valid_from=at, begins=True)

    def ended(
        self, subject: EntityLike, type: str, object: EntityLike, at: int, said: EvidenceObserved
    ) -> RelationEnded:
        """Return the event of a relation that ended when another began."""
        subject_id, subject_name = self.entity(subject, "subject")
        object_id, object_name = self.entity(object, "the old value")
        end = end_id(said.id)
        if said.id in self.named:
            self.named.add(end)
        return RelationEnded(
            id=end,
            subject=subject_id,
            subject_name=subject_name,
            type=checked_name(type, "relation type"),
            object=object_id,
            object_name=object_name,
            observed_at=said.observed_at,
            at=at,
            context=said.context,
            source=said.source,
            episode=said.episode,
        )

    def episode(self, message: Message, number: int, session: str | None) -> EpisodeRecorded:
        """Return the event of a message; `number` names it in errors.

        Raises:
            TypeError, ValueError: the message, named by its number, cannot be recorded.
        """
        where = f"message {number}"
        if not isinstance(message, Mapping):
            raise TypeError(
                f"{where} must be a mapping with role and content, not {_type(message)}"
            )
        unknown = [key for key in message if key not in MESSAGE_KEYS]
        if unknown:
            raise ValueError(
                f"{where} has the key {unknown[0]!r}; known: {', '.join(MESSAGE_KEYS)}"
                " (anything else goes under metadata)"
            )
        content = checked_text(message.get("content"), f"content of {where}")
        if not content.strip():
            raise ValueError(f"{where} has no content; leave it out")
        name = message.get("name")
        return EpisodeRecorded(
            id=self._episode_id(message.get("id"), session, where),
            content=content,
            time=self._moment(message.get("time"), f"time of {where}"),
            role=checked_name(message.get("role", "user"), f"role of {where}"),
            name=None if name is None else checked_name(name, f"name of {where}"),
            session=session,
            metadata=packed(message.get("metadata")),
        )

    def _episode_id(self, given: object, session: str | None, where: str) -> bytes:
        if given is None:
            return self._new_id()
        if isinstance(given, int) and not isinstance(given, bool):
            given = str(given)
        return self._name("episode", session or "", checked_name(given, f"id of {where}"))

    def _statement_id(self, said: Statement, episode: bytes | None, triple: Sequence[str]) -> bytes:
        if said.statement_id is not None:
            name = checked_name(said.statement_id, "statement_id")
            return self._name("statement", name, *triple)
        if episode is not None:
            return self._name("said in", episode.hex(), *triple)
        return self._new_id()

    def _name(self, *parts: str) -> bytes:
        id = named_id(identity(self._salt, *parts))
        self.named.add(id)
        return id

    def _moment(self, value: Moment | None, what: str) -> int:
        return self._now if value is None else moment(value, what)


def _type(value: object) -> str:
    return type(value).__name__
