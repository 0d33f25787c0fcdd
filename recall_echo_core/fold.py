"""What does the evidence about one subject and one relation type add up to?

Evidence folds by `(observed_at, id)`, whatever order it arrived in, so every process and every
replay reaches the same numbers. The values of one subject and type fold together, since in a
single-valued type evidence for one value counts against its rivals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sys import intern
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from recall_echo_core.confidence import Beta, Context, decayed
from recall_echo_core.events import EvidenceObserved, EvidenceRetracted, RelationEnded, type_key
from recall_echo_core.names import is_named
from recall_echo_core.times import days_between

if TYPE_CHECKING:
    from recall_echo_core.settings import Folding

__all__ = [
    "Observation",
    "OrderKey",
    "Period",
    "Reason",
    "Step",
    "Values",
    "apply",
    "effective",
    "folded",
    "order",
    "period_at",
    "standing",
]

Observation: TypeAlias = EvidenceObserved | RelationEnded
OrderKey: TypeAlias = tuple[int, int, bytes]
Reason: TypeAlias = Literal["prior", "supports", "opposes", "rival", "ended"]


class Period(msgspec.Struct, frozen=True, gc=False):
    """One stretch of time in which a relation holds, and the belief that it does.

    `origin` is the id of the evidence that opened it. A bound of `None` was never stated.
    `reinforced_at` is when it was last confirmed, `source` who did so, or who first spoke of it.
    """

    origin: bytes
    alpha: float
    beta: float
    context: Context
    source: str
    established_at: int
    observed_at: int
    reinforced_at: int | None
    valid_from: int | None
    valid_until: int | None
    supports: int
    opposes: int

    @property
    def belief(self) -> Beta:
        """The posterior."""
        return Beta(self.alpha, self.beta)

    def holds(self, at: int) -> bool:
        """Whether `at` lies inside the period, its end excluded."""
        return (self.valid_from is None or self.valid_from <= at) and (
            self.valid_until is None or at < self.valid_until
        )

    def meets(self, start: int | None, end: int | None) -> bool:
        """Whether the period shares a moment with [start, end)."""
        return (self.valid_until is None or start is None or start < self.valid_until) and (
            self.valid_from is None or end is None or self.valid_from < end
        )


Values: TypeAlias = dict[bytes, tuple[Period, ...]]


class Step(msgspec.Struct, frozen=True):
    """One move of one value's belief, for `explain`."""

    cause: Observation
    object: bytes
    reason: Reason
    period: Period


def order(observation: Observation) -> OrderKey:
    """Return the key evidence folds by: when it was observed, then its id.

    Fresh ids sort as they were told. Ids made from what callers call their statements follow in an
    arbitrary, fixed order, statements that a relation holds before others.
    """
    rank = 0
    if is_named(observation.id):
        rank = 2
        if isinstance(observation, EvidenceObserved):
            rank = 1 if observation.establishes and not observation.begins else 2
    return observation.observed_at, rank, observation.id


def standing(events: Iterable[Observation | EvidenceRetracted]) -> list[Observation]:
    """Return the evidence that counts, in folding order: each id once, nothing taken back.

    Of two pieces with one id the earlier observed counts, whichever arrived first.
    """
    retracted: set[bytes] = set()
    observations: list[Observation] = []
    for event in events:
        if isinstance(event, EvidenceRetracted):
            retracted.add(event.evidence)
        else:
            observations.append(event)
    observations.sort(key=order)
    kept: dict[bytes, Observation] = {}
    for observation in observations:
        first = kept.setdefault(observation.id, observation)
        if first is not observation and order(first) == order(observation):
            kept[observation.id] = min(first, observation, key=msgspec.msgpack.encode)
    return [item for item in kept.values() if item.id not in retracted]


def folded(
    observations: Sequence[Observation],
    folding: Folding,
    trace: list[Step] | None = None,
) -> Values:
    """Return the periods of every value, from evidence in folding order."""
    values: Values = {}
    for observation in observations:
        apply(values, observation, folding, trace)
    return values


def apply(
    values: Values,
    observation: Observation,
    folding: Folding,
    trace: list[Step] | None = None,
) -> None:
    """Fold one more observation, the latest in folding order, into `values`."""
    if isinstance(observation, RelationEnded):
        _end(values, observation, folding, trace)
        return
    periods = values.get(observation.object, ())
    place = _place(periods, observation)
    if place is None:
        reason: Reason = "prior"
        period = _opened(periods, observation, folding)
        # The statement that establishes a relation is its prior; other evidence counts on top.
        if not observation.establishes:
            _note(trace, observation, observation.object, reason, period)
            period, reason = _moved(period, observation, folding)
        periods = _sorted((*periods, period))
    else:
        period, reason = _moved(_widened(periods, place, observation), observation, folding)
        periods = (*periods[:place], period, *periods[place + 1 :])
    values[observation.object] = periods
    _note(trace, observation, observation.object, reason, period)
    if observation.supports and type_key(observation.type) in folding.single_valued:
        _count_against_rivals(values, observation, folding, trace)


def effective(
    period: Period, now: int, folding: Folding, relation_type: str, half_life: float | None = None
) -> float:
    """Return a period's confidence at `now`, faded since it was last confirmed."""
    since = period.reinforced_at
    if since is None:
        since = period.established_at if period.valid_from is None else period.valid_from
    days = days_between(since, now)
    life = folding.half_life(relation_type) if half_life is None else half_life
    return decayed(period.alpha / (period.alpha + period.beta), days, life, folding.decay_floor)


def period_at(periods: Sequence[Period], at: int) -> Period | None:
    """Return the period that holds at a moment, if one does."""
    return next((period for period in periods if period.holds(at)), None)


def _note(
    trace: list[Step] | None, cause: Observation, value: bytes, reason: Reason, period: Period
) -> None:
    if trace is not None:
        trace.append(Step(cause, value, reason, period))


def _sorted(periods: Iterable[Period]) -> tuple[Period, ...]:
    return tuple(
        sorted(periods, key=lambda period: (period.valid_from is not None, period.valid_from or 0))
    )


def _place(periods: Sequence[Period], evidence: EvidenceObserved) -> int | None:
    """Return which period a piece of evidence speaks about; `None` opens a new one."""
    if not periods:
        return None
    start, end = evidence.valid_from, evidence.valid_until
    if start is not None or end is not None:
        return next((i for i, period in enumerate(periods) if period.meets(start, end)), None)
    at = evidence.observed_at
    ended = -1
    for i, period in enumerate(periods):
        if period.holds(at):
            return i
        if period.valid_until is not None and period.valid_until <= at:
            ended = i
    if ended < 0:
        return 0  # all still to come: the next one
    # Stated again after it had ended, it holds again; other evidence is about what was.
    return None if evidence.supports and evidence.establishes else ended


def _opened(periods: Sequence[Period], evidence: EvidenceObserved, folding: Folding) -> Period:
    start, end = evidence.valid_from, evidence.valid_until
    if start is None and end is None and periods:
        start = evidence.observed_at
        start, end = _clipped(periods, start, start, end)
    confirmed = evidence.observed_at if evidence.establishes else None
    return _established(evidence, folding, start, end, confirmed)


def _established(
    cause: Observation, folding: Folding, start: int | None, end: int | None, confirmed: int | None
) -> Period:
    belief = folding.prior(cause.context)
    return Period(
        origin=cause.id,
        alpha=belief.alpha,
        beta=belief.beta,
        context=cause.context,
        source=intern(cause.source),
        established_at=cause.observed_at,
        observed_at=cause.observed_at,
        reinforced_at=confirmed,
        valid_from=start,
        valid_until=end,
        supports=0 if confirmed is None else 1,
        opposes=0,
    )


def _moved(period: Period, evidence: EvidenceObserved, folding: Folding) -> tuple[Period, Reason]:
    cap = folding.max_concentration
    if not evidence.supports:
        return _opposed(period, evidence, folding), "opposes"
    belief = period.belief.supported(evidence.weight, max_concentration=cap)
    moved = msgspec.structs.replace(
        period,
        alpha=belief.alpha,
        beta=belief.beta,
        observed_at=evidence.observed_at,
        reinforced_at=evidence.observed_at,
        source=intern(evidence.source),
        supports=period.supports + 1,
    )
    return moved, "supports"


def _opposed(period: Period, evidence: EvidenceObserved, folding: Folding) -> Period:
    belief = period.belief.opposed(evidence.weight, max_concentration=folding.max_concentration)
    return msgspec.structs.replace(
        period,
        alpha=belief.alpha,
        beta=belief.beta,
        observed_at=evidence.observed_at,
        opposes=period.opposes + 1,
    )


def _widened(periods: Sequence[Period], place: int, evidence: EvidenceObserved) -> Period:
    """Return the period with the bounds a statement adds: the widest of those ever stated."""
    period = periods[place]
    start, end = evidence.valid_from, evidence.valid_until
    if (start is None and end is None) or not evidence.supports:
        return period
    if start is None or (period.valid_from is not None and period.valid_from < start):
        start = period.valid_from
    if end is None or (period.valid_until is not None and period.valid_until > end):
        end = period.valid_until
    if evidence.begins:
        start = evidence.valid_from  # the last word about when it began
    others = (*periods[:place], *periods[place + 1 :])
    start, end = _clipped(others, _inside(period), start, end)
    return msgspec.structs.replace(period, valid_from=start, valid_until=end)


def _inside(period: Period) -> int:
    if period.valid_from is not None:
        return period.valid_from
    return period.observed_at if period.valid_until is None else period.valid_until - 1


def _clipped(
    others: Iterable[Period], inside: int, start: int | None, end: int | None
) -> tuple[int | None, int | None]:
    """Return bounds around `inside`, cut where they would run into another period."""
    for other in others:
        if other.valid_until is not None and other.valid_until <= inside:
            start = other.valid_until if start is None else max(start, other.valid_until)
        elif other.valid_from is not None and other.valid_from > inside:
            end = other.valid_from if end is None else min(end, other.valid_from)
    return start, end


def _end(values: Values, ended: RelationEnded, folding: Folding, trace: list[Step] | None) -> None:
    """Close the last period begun by then; a later end corrects an earlier one.

    What is said to have ended before it began never held: its period is empty.
    """
    periods = values.get(ended.object, ())
    if periods:
        begun = [i for i, p in enumerate(periods) if (p.valid_from or ended.at) <= ended.at]
        place = begun[-1] if begun else 0
        others = (*periods[:place], *periods[place + 1 :])
        start = periods[place].valid_from
        at = ended.at if start is None else max(start, ended.at)
        start, end = _clipped(others, at - 1 if start is None else start, start, at)
        period = msgspec.structs.replace(
            periods[place], valid_until=end, observed_at=ended.observed_at
        )
        values[ended.object] = (*periods[:place], period, *periods[place + 1 :])
    else:
        start, end = _clipped(periods, ended.at - 1, None, ended.at)
        period = _established(ended, folding, start, end, None)
        values[ended.object] = _sorted((*periods, period))
        _note(trace, ended, ended.object, "prior", period)
    _note(trace, ended, ended.object, "ended", period)


def _count_against_rivals(
    values: Values, evidence: EvidenceObserved, folding: Folding, trace: list[Step] | None
) -> None:
    start, end = evidence.valid_from, evidence.valid_until
    if start is None and end is None:
        start, end = evidence.observed_at, evidence.observed_at + 1
    for rival, periods in values.items():
        if rival == evidence.object:
            continue
        changed = list(periods)
        for i, period in enumerate(periods):
            if period.meets(start, end):
                changed[i] = _opposed(period, evidence, folding)
                _note(trace, evidence, rival, "rival", changed[i])
        values[rival] = tuple(changed)
