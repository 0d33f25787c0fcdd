"""The nouns: what a memory holds, as frozen values.

Ids are hex text, times are aware UTC `datetime`s.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias

import msgspec

from recall_echo_core.confidence import Beta, Context, decayed
from recall_echo_core.times import Moment, moment, to_datetime

__all__ = [
    "MODEL_ROLES",
    "Belief",
    "Entity",
    "EntityLike",
    "Episode",
    "Path",
    "Reach",
    "Relation",
    "Statement",
    "sentence",
    "spoken",
    "titled",
]

# Roles under which hosts keep what a model said. Adding one keeps more echoes out; a role that
# people speak under must not be here, or what they said earlier is no ground any more.
MODEL_ROLES: Final = frozenset({"agent", "ai", "assistant", "bot", "chatbot", "model"})


class Entity(msgspec.Struct, frozen=True):
    """A named thing: its abstract in a line, its overview in a paragraph, its content in full.

    Attributes:
        id: The same in every process that opens this namespace.
        name: As first spelt.
        key: What tells two entities of one name apart, if anything.
        kind: What sort of thing it is, such as `person`.
        abstract: L0, a line; what recall finds it by, with the name.
        overview: L1, a paragraph.
        content: L2, everything.
        utility: How useful it was when recalled, in [0, 1]; 0.5 when new.
        accesses: How often it was recalled.
        metadata: Whatever was attached.
    """

    id: str
    name: str
    key: str | None = None
    kind: str | None = None
    abstract: str | None = None
    overview: str | None = None
    content: str | None = None
    utility: float = 0.5
    accesses: int = 0
    metadata: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @property
    def text(self) -> str:
        """The name and, if there is one, the abstract: what is embedded and shown."""
        return titled(self.name, self.abstract)


EntityLike: TypeAlias = str | Entity


class Relation(msgspec.Struct, frozen=True):
    """A typed edge between two entities, during one period, and how far it is believed.

    Attributes:
        alpha: Evidence for, the prior counted in.
        beta: Evidence against, the prior counted in.
        context: How it was established; set its prior.
        source: Who confirmed it last, or first spoke of it.
        established_at: When it was first observed.
        reinforced_at: When it was last confirmed, if ever.
        valid_from: Since when it holds, if stated.
        valid_until: Until when it held, if stated; this moment is outside.
        supports: Statements for it, the establishing one counted in.
        opposes: Statements against it, those for a rival value counted in.
        read_at: The moment it was read at, the default of `effective`.
        half_life_days: Days in which its confidence halves unless confirmed.
        evidence_id: Id of the evidence the call that returned this value recorded, if it did.
    """

    id: str
    subject: str
    type: str
    object: str
    subject_id: str
    object_id: str
    alpha: float
    beta: float
    context: Context
    source: str
    established_at: datetime
    reinforced_at: datetime | None
    valid_from: datetime | None
    valid_until: datetime | None
    supports: int
    opposes: int
    read_at: datetime
    half_life_days: float
    decay_floor: float
    evidence_id: str | None = None

    @property
    def belief(self) -> Beta:
        """The posterior."""
        return Beta(self.alpha, self.beta)

    @property
    def confidence(self) -> float:
        """Mean of the posterior, as stored: without fading."""
        return self.alpha / (self.alpha + self.beta)

    @property
    def contested(self) -> bool:
        """Whether there is evidence on both sides."""
        return self.supports > 0 and self.opposes > 0

    @property
    def text(self) -> str:
        """The relation as a plain sentence: what is embedded and shown."""
        return sentence(self.subject, self.type, self.object)

    def interval(self, mass: float = 0.95) -> tuple[float, float]:
        """Return the central credible interval of the confidence; raising `mass` widens it."""
        return self.belief.interval(mass)

    def effective(self, now: Moment | None = None, *, half_life: float | None = None) -> float:
        """Return the confidence after fading since it was last confirmed.

        Args:
            now: The moment to judge at; when it was read, if not given.
            half_life: Days in which it halves; raising it fades slower.
        """
        since = self.reinforced_at or self.valid_from or self.established_at
        days = (self._moment(now) - since).total_seconds() / 86_400
        life = self.half_life_days if half_life is None else half_life
        return decayed(self.confidence, days, life, self.decay_floor)

    def holds(self, at: Moment | None = None) -> bool:
        """Whether a moment, the one it was read at by default, lies inside its period."""
        asked = self._moment(at)
        return (self.valid_from is None or self.valid_from <= asked) and (
            self.valid_until is None or asked < self.valid_until
        )

    def _moment(self, given: Moment | None) -> datetime:
        return self.read_at if given is None else to_datetime(moment(given))


def titled(name: str, abstract: str | None) -> str:
    """Return an entity as text.

    >>> titled("Acme", "A tool maker in Oslo"), titled("Acme", None)
    ('Acme: A tool maker in Oslo', 'Acme')
    """
    return f"{name}: {abstract}" if abstract else name


def spoken(speaker: str, content: str) -> str:
    """Return an episode as text.

    >>> spoken("Ann", "I moved to Oslo")
    'Ann: I moved to Oslo'
    """
    return f"{speaker}: {content}"


def sentence(subject: str, relation_type: str, object: str) -> str:
    """Return a relation as words.

    >>> sentence("Alice", "WORKS_AT", "Acme")
    'Alice works at Acme'
    """
    words = relation_type.replace("_", " ")
    return f"{subject} {words.lower() if words.isupper() else words} {object}"


class Episode(msgspec.Struct, frozen=True):
    """A piece of conversation or document, kept verbatim."""

    id: str
    content: str
    role: str
    name: str | None
    session_id: str | None
    time: datetime
    metadata: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @property
    def speaker(self) -> str:
        """Who said it: the name if one was given, else the role."""
        return self.name or self.role

    @property
    def text(self) -> str:
        """Speaker and content: what is embedded."""
        return spoken(self.speaker, self.content)


class Triple(msgspec.Struct, frozen=True):
    """What a statement is about."""

    subject: EntityLike
    type: str
    object: EntityLike


class Statement(Triple, frozen=True, kw_only=True):
    """One piece of evidence to record, as `observe` takes them.

    Attributes:
        subject: Name or entity.
        type: Relation type.
        object: Name or entity.
        supports: Whether it speaks for the relation or against it.
        establishes: Whether the earliest such statement is the prior itself (`remember`), or
            counts on top of it (`corroborate`). Ignored when it speaks against.
        weight: How much it counts, in (0, 1].
        context: Sets the prior if this is the earliest evidence.
        source: Who said it.
        observed_at: When; now if `None`.
        valid_from: Since when the relation holds.
        valid_until: Until when.
        statement_id: The same statement counts once. A new one if `None`.
        episode_id: The episode that says so; with it, triple and polarity name the statement.
        metadata: JSON values to keep with it.
    """

    supports: bool = True
    establishes: bool = True
    weight: float = 1.0
    context: Context = "explicit"
    source: str = "user"
    observed_at: Any = None
    valid_from: Any = None
    valid_until: Any = None
    statement_id: str | None = None
    episode_id: str | None = None
    metadata: Mapping[str, Any] | None = None


class Belief(msgspec.Struct, frozen=True):
    """One of the rival values of a subject and relation type.

    Attributes:
        object: Name of the value.
        probability: That this value is the true one, for single-valued types; else `None`.
        interval: 95 % credible interval of the confidence.
        confidence: Mean of the posterior.
        effective: The same after fading.
        relation: Everything else about it.
    """

    object: str
    probability: float | None
    interval: tuple[float, float]
    confidence: float
    effective: float
    relation: Relation


class Path(msgspec.Struct, frozen=True):
    """A chain of relations from one entity to another, and the product of their confidences."""

    entities: tuple[str, ...]
    relations: tuple[Relation, ...]
    confidence: float


class Reach(msgspec.Struct, frozen=True):
    """An entity within reach of another, by the surest path."""

    entity: Entity
    path: Path

    @property
    def confidence(self) -> float:
        """How sure the surest path is."""
        return self.path.confidence
