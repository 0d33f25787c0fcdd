"""Why is a relation believed as it is?

An account lists every move of the belief, from the prior on, so that whoever reads it can do the
sum again: `Explanation.recomputed()` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from recall_echo_core.confidence import Beta, Context, decayed
from recall_echo_core.events import RelationEnded
from recall_echo_core.metadata import unpacked
from recall_echo_core.model import Relation
from recall_echo_core.render import neutralised
from recall_echo_core.times import to_datetime

if TYPE_CHECKING:
    from recall_echo_core.fold import Period, Step

__all__ = ["Account", "Explanation", "Move", "account"]

Account: TypeAlias = Literal["prior", "supports", "opposes", "rival", "ended"]


class Move(msgspec.Struct, frozen=True):
    """One move of a belief.

    Attributes:
        reason: `prior` starts it; `supports` and `opposes` are evidence about the relation;
            `rival` is evidence for another value of a single-valued type; `ended` closes it.
        source: Who said it.
        weight: How much it counted.
        observed_at: When it was observed.
        recorded_at: When the memory learned it.
        evidence_id: What `retract` takes.
        statement: What was said, as a sentence; of a rival, the rival's.
        alpha: Evidence for, after this move.
        beta: Evidence against, after this move.
        metadata: Whatever was attached to the statement.
    """

    reason: Account
    source: str
    weight: float
    observed_at: datetime
    recorded_at: datetime
    evidence_id: str
    statement: str
    alpha: float
    beta: float
    metadata: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @property
    def confidence(self) -> float:
        """Mean after this move."""
        return self.alpha / (self.alpha + self.beta)


class Explanation(msgspec.Struct, frozen=True):
    """The account of one relation during one period.

    Attributes:
        relation: The relation as it is shown.
        context: How it was established; set the prior.
        prior: Belief before any evidence.
        moves: Every move, in the order folded.
        max_concentration: The cap in force, if any.
        faded_since: Since when it fades.
        days: For how long it has faded, at the moment asked.
        effective: What is left.
    """

    relation: Relation
    context: Context
    prior: Beta
    moves: tuple[Move, ...]
    max_concentration: float | None
    faded_since: datetime
    days: float
    effective: float

    def __str__(self) -> str:
        lines = [neutralised(self.relation.text)]
        for move in self.moves:
            belief = f"Beta({move.alpha:g}, {move.beta:g}) = {move.confidence:.1%}"
            lines.append(
                f"  {move.observed_at:%Y-%m-%d}  {move.reason:8}  {belief}"
                f"  {neutralised(move.source)}: {neutralised(move.statement)}"
            )
        fading = f"after {self.days:.0f} days at a half-life of {self.relation.half_life_days:g}"
        lines.append(f"  {self.relation.read_at:%Y-%m-%d}  {fading}: {self.effective:.1%}")
        return "\n".join(lines)

    def recomputed(self) -> float:
        """Do the sum again, from the prior through every move to the effective confidence."""
        belief = self.prior
        cap = self.max_concentration
        for move in self.moves:
            if move.reason == "supports":
                belief = belief.supported(move.weight, max_concentration=cap)
            elif move.reason in ("opposes", "rival"):
                belief = belief.opposed(move.weight, max_concentration=cap)
        relation = self.relation
        return decayed(belief.mean, self.days, relation.half_life_days, relation.decay_floor)


def account(
    relation: Relation,
    value: bytes,
    period: Period,
    steps: Sequence[Step],
    recorded: dict[bytes, int],
    prior: Beta,
    max_concentration: float | None,
) -> Explanation:
    """Return the account of a relation's period from the steps of its fold.

    Args:
        relation: The relation as shown.
        value: Id of the object.
        period: The period to account for.
        steps: Every step of the fold of its subject and type.
        recorded: When each piece of evidence was recorded, by id.
        prior: The prior of its context.
        max_concentration: The cap in force.
    """
    own = [step for step in steps if step.object == value]
    moves = tuple(
        _move(step, relation, recorded[step.cause.id])
        for step in own
        if step.period.origin == period.origin
    )
    since = relation.reinforced_at or relation.valid_from or relation.established_at
    return Explanation(
        relation=relation,
        context=period.context,
        prior=prior,
        moves=moves,
        max_concentration=max_concentration,
        faded_since=since,
        days=(relation.read_at - since).total_seconds() / 86_400,
        effective=relation.effective(),
    )


def _move(step: Step, relation: Relation, recorded_at: int) -> Move:
    cause = step.cause
    negated = not isinstance(cause, RelationEnded) and not cause.supports
    statement = f"{cause.subject_name} {cause.type} {cause.object_name}"
    return Move(
        reason=step.reason,
        source=cause.source,
        weight=1.0 if isinstance(cause, RelationEnded) else cause.weight,
        observed_at=to_datetime(cause.observed_at),
        recorded_at=to_datetime(recorded_at),
        evidence_id=cause.id.hex(),
        statement=f"not: {statement}" if negated else statement,
        alpha=step.period.alpha,
        beta=step.period.beta,
        metadata={} if isinstance(cause, RelationEnded) else unpacked(cause.metadata),
    )
