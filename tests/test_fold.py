"""Evidence adds up to the same numbers whatever order it arrives in."""

from __future__ import annotations

import itertools
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import SUBJECT, VALUES, bodies

from recall_echo_core.events import EvidenceObserved, EvidenceRetracted, RelationEnded
from recall_echo_core.fold import apply, effective, folded, order, period_at, standing
from recall_echo_core.names import end_id, named_id, paired_id
from recall_echo_core.settings import Folding
from recall_echo_core.times import DAY, moment

SINGLE = Folding(single_valued=frozenset({"lives_in"}))
MANY = Folding()
JAN, FEB, APR, JUN, JUL = (moment(f"2026-{month:02}-01", day="start") for month in (1, 2, 4, 6, 7))


def said(number: int, value: int = 0, at: int = 0, **changes: object) -> EvidenceObserved:
    given = {"establishes": True, "context": "inferred", **changes}
    return EvidenceObserved(
        id=number.to_bytes(16, "big"),
        subject=SUBJECT,
        subject_name="S",
        type="LIVES_IN",
        object=VALUES[value],
        object_name="value",
        observed_at=at,
        **given,
    )


def against(number: int, value: int = 0, at: int = 0, **changes: object) -> EvidenceObserved:
    return said(number, value, at, supports=False, establishes=False, **changes)


@given(bodies(), st.randoms(use_true_random=False), st.sampled_from([SINGLE, MANY]))
def test_any_arrival_order_gives_the_same_periods(body, rng: random.Random, folding) -> None:
    """Shuffling what arrives changes nothing, bit for bit."""
    shuffled = body[:]
    rng.shuffle(shuffled)

    assert folded(standing(body), folding) == folded(standing(shuffled), folding)


@given(bodies(), st.sampled_from([SINGLE, MANY]))
def test_folding_one_at_a_time_equals_folding_at_once(body, folding) -> None:
    """The incremental path takes the same steps as the replay."""
    values: dict = {}
    for observation in standing(body):
        apply(values, observation, folding)

    assert values == folded(standing(body), folding)


@given(bodies(), st.integers(0, 11))
def test_taking_evidence_back_equals_never_having_had_it(body, number: int) -> None:
    """A retraction leaves the numbers of the log without that evidence."""
    gone = number.to_bytes(16, "big")
    without = [item for item in body if item.id != gone]
    retracted = [*body, EvidenceRetracted(gone, SUBJECT, "LIVES_IN")]

    assert folded(standing(retracted), SINGLE) == folded(standing(without), SINGLE)


@given(bodies(), st.data())
def test_the_same_statement_counts_once(body, data) -> None:
    """A repeated id changes nothing, wherever in the order the copy arrives."""
    if not body:
        return
    copy = data.draw(st.sampled_from(body))
    doubled = [*body]
    doubled.insert(data.draw(st.integers(0, len(body))), copy)

    assert folded(standing(doubled), SINGLE) == folded(standing(body), SINGLE)


@given(bodies())
def test_periods_of_one_relation_never_overlap(body) -> None:
    """Whatever is stated, no moment lies in two periods of one relation."""
    for periods in folded(standing(body), SINGLE).values():
        for earlier, later in itertools.pairwise(periods):
            assert earlier.valid_until is not None
            assert later.valid_from is not None
            assert earlier.valid_until <= later.valid_from


@given(bodies())
def test_no_period_ends_before_it_begins(body) -> None:
    """One that ended when it began, or before, is empty, and holds at no moment."""
    for periods in folded(standing(body), MANY).values():
        for period in periods:
            if period.valid_from is not None and period.valid_until is not None:
                assert period.valid_from <= period.valid_until


@given(bodies())
def test_a_multi_valued_type_keeps_each_value_to_itself(body) -> None:
    """Without rivals, a value's numbers are those of its own evidence alone."""
    together = folded(standing(body), MANY)
    for value in VALUES:
        alone = folded(standing([item for item in body if item.object == value]), MANY)

        assert alone.get(value) == together.get(value)


def test_the_worked_example() -> None:
    """inferred .600, then .636, .667, .692, and .643 after one contradiction."""
    body = [said(0, at=0), said(1, at=1), said(2, at=2), said(3, at=3), against(4, at=4)]
    trace: list = []
    folded(standing(body), MANY, trace)

    assert [round(step.period.belief.mean, 3) for step in trace] == [
        0.6,
        0.636,
        0.667,
        0.692,
        0.643,
    ]


def test_the_earliest_observation_sets_the_prior_however_late_it_arrives() -> None:
    """The prior belongs to the first observed statement, not to the first to arrive."""
    late_but_first = said(9, at=-DAY, context="speculative")

    (period,) = folded(standing([said(1), late_but_first]), MANY)[VALUES[0]]

    assert (period.alpha, period.beta) == (4.0, 7.0)


def test_contradicting_the_unknown_starts_from_its_prior() -> None:
    """Evidence against something never stated counts against its prior."""
    (period,) = folded([against(1)], MANY)[VALUES[0]]

    assert (period.alpha, period.beta, period.reinforced_at) == (6.0, 5.0, None)


def test_corroborating_the_unknown_counts_on_top_of_its_prior() -> None:
    """Only a statement that establishes is swallowed by the prior."""
    (period,) = folded([said(1, establishes=False)], MANY)[VALUES[0]]

    assert (period.alpha, period.beta) == (7.0, 4.0)


def test_authoritative_belief_gives_way_to_a_contradiction() -> None:
    """Beta(10, 0) is legal and one contradiction makes it 10/11."""
    (period,) = folded([said(1, context="authoritative"), against(2, at=1)], MANY)[VALUES[0]]

    assert period.belief.mean == 10 / 11


def test_evidence_for_one_value_counts_against_its_active_rivals_only() -> None:
    """A rival known before loses; one that ended, or comes later, does not."""
    paris, oslo, rome = said(1, 0, at=JAN), said(2, 1, at=FEB), said(3, 2, at=APR)
    left = RelationEnded(
        id=b"e" * 16, subject=SUBJECT, subject_name="S", type="LIVES_IN", object=VALUES[0],
        object_name="value", observed_at=APR - 1, at=APR - 1,
    )  # fmt: skip

    values = folded(standing([paris, oslo, left, rome]), SINGLE)

    assert [values[VALUES[i]][0].beta for i in range(3)] == [5.0, 5.0, 4.0]


def test_contradicting_a_value_leaves_its_rivals_alone() -> None:
    """Not living in Paris says nothing about Oslo."""
    values = folded(standing([said(1, 0), said(2, 1, at=1), against(3, 0, at=2)]), SINGLE)

    assert values[VALUES[1]][0].belief.mean == 0.6


def test_a_relation_can_hold_in_two_disjoint_periods() -> None:
    """January and June are two beliefs; April is neither."""
    body = [
        said(1, at=JAN, valid_from=JAN, valid_until=FEB),
        said(2, at=JUN, valid_from=JUN, valid_until=JUL),
    ]

    periods = folded(standing(body), MANY)[VALUES[0]]

    assert [(p.valid_from, p.valid_until) for p in periods] == [(JAN, FEB), (JUN, JUL)]
    assert period_at(periods, APR) is None
    assert [p.belief.mean for p in periods] == [0.6, 0.6]


def test_stating_it_again_after_it_ended_opens_a_new_period() -> None:
    """Moving back to Paris is a second period, believed afresh."""
    left = RelationEnded(
        id=b"e" * 16, subject=SUBJECT, subject_name="S", type="LIVES_IN", object=VALUES[0],
        object_name="value", observed_at=FEB, at=FEB,
    )  # fmt: skip

    periods = folded(standing([said(1, at=JAN), left, said(2, at=JUN)]), MANY)[VALUES[0]]

    assert [(p.valid_from, p.valid_until) for p in periods] == [(None, FEB), (JUN, None)]


def test_a_later_end_corrects_an_earlier_one() -> None:
    """The last word about when it ended counts."""
    ends = [
        RelationEnded(
            id=bytes([n]) * 16, subject=SUBJECT, subject_name="S", type="LIVES_IN",
            object=VALUES[0], object_name="value", observed_at=JUN + n, at=at,
        )
        for n, at in enumerate([APR, FEB])
    ]  # fmt: skip

    (period,) = folded(standing([said(1, at=JAN), *ends]), MANY)[VALUES[0]]

    assert period.valid_until == FEB


def test_the_cap_forgets_as_the_recurrence_says() -> None:
    """A concentration capped at 10 gives .600 .636 .669 .700 .636 (design, to 3 decimals)."""
    body = [said(0, at=0), said(1, at=1), said(2, at=2), said(3, at=3), against(4, at=4)]
    trace: list = []
    folded(standing(body), Folding(max_concentration=10.0), trace)

    means = [step.period.belief.mean for step in trace]
    assert means == pytest.approx([0.6, 0.636, 0.669, 0.7, 0.636], abs=6e-4)


def test_corroboration_resets_the_clock_and_contradiction_does_not() -> None:
    """Fading counts from the last confirmation."""
    confirmed, doubted = said(2, at=10 * DAY), against(3, at=20 * DAY)

    (period,) = folded(standing([said(1), confirmed, doubted]), MANY)[VALUES[0]]

    assert period.reinforced_at == 10 * DAY
    assert effective(period, 100 * DAY, MANY, "lives_in") == pytest.approx(period.belief.mean / 2)


def test_without_confirmation_fading_counts_from_the_start_of_the_period() -> None:
    """A relation known only by contradiction fades from valid_from."""
    doubted = against(1, at=JUN, valid_from=JAN)

    (period,) = folded([doubted], MANY)[VALUES[0]]

    assert effective(period, JAN + 90 * DAY, MANY, "lives_in") == period.belief.mean / 2


def test_half_lives_can_differ_by_type_and_by_call() -> None:
    """A declared half-life beats the general one, the call's beats both."""
    (period,) = folded([said(1)], MANY)[VALUES[0]]
    fast = Folding(half_lives={"lives_in": 30.0})

    assert effective(period, 30 * DAY, fast, "lives_in") == 0.3
    assert effective(period, 30 * DAY, fast, "other") > 0.3
    assert effective(period, 30 * DAY, fast, "lives_in", half_life=15) == 0.15


def ended(id: bytes, value: int = 0, at: int = 0) -> RelationEnded:
    return RelationEnded(
        id=id, subject=SUBJECT, subject_name="S", type="LIVES_IN", object=VALUES[value],
        object_name="value", observed_at=at, at=at,
    )  # fmt: skip


def test_fresh_evidence_of_one_moment_sorts_as_it_was_told() -> None:
    """Fresh ids begin with the time they were made, and nothing else decides."""
    told = [against(1), ended((2).to_bytes(16, "big")), said(3, 1, valid_from=0), said(4)]

    assert sorted(told, key=order) == told


def test_named_evidence_of_one_moment_sorts_by_what_it_says() -> None:
    """After fresh evidence: plain statements first, and an end just before its own statement."""
    ids = [named_id(bytes([n]) * 16) for n in range(4)]
    plain = msgspec.structs.replace(said(0), id=ids[3])
    begins = msgspec.structs.replace(said(0, 1, valid_from=0), id=paired_id(ids[1]), begins=True)
    end, doubt = ended(end_id(begins.id)), msgspec.structs.replace(against(0), id=ids[2])

    assert sorted([doubt, begins, end, plain, said(9)], key=order) == [
        said(9), plain, end, begins, doubt,
    ]  # fmt: skip
