"""Belief moves, fades and chains by the numbers that are promised."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from recall_echo_core.confidence import (
    CONTEXTS,
    PRIOR_MEANS,
    Beta,
    decayed,
    path_confidence,
    prior,
    rivals_share,
)

NOT_NUMBERS = [math.nan, math.inf, -math.inf]
means = st.floats(0.0, 1.0)
weights = st.floats(1e-6, 1.0)
caps = st.none() | st.floats(0.1, 1_000.0)
days = st.floats(0.0, 1e5)
half_lives = st.floats(1e-3, 1e5)
betas = st.builds(Beta, st.floats(0.01, 1_000.0), st.floats(0.01, 1_000.0))
moves = st.lists(st.tuples(st.booleans(), weights), max_size=12)


def moved(belief: Beta, evidence, cap: float | None = None) -> Beta:
    for supports, weight in evidence:
        move = belief.supported if supports else belief.opposed
        belief = move(weight, max_concentration=cap)
    return belief


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ("authoritative", (10.0, 0.0)),
        ("explicit", (9.0, 1.0)),
        ("inferred", (6.0, 4.0)),
        ("speculative", (3.0, 7.0)),
    ],
)
def test_the_priors(context: str, expected: tuple[float, float]) -> None:
    """1, .9, .6 and .3, each resting on 10 pieces of evidence, exactly."""
    belief = prior(PRIOR_MEANS[context])

    assert (belief.alpha, belief.beta) == expected
    assert set(PRIOR_MEANS) == set(CONTEXTS)


@pytest.mark.parametrize(
    ("cap", "expected", "tolerance"),
    [
        (None, [0.600, 0.636, 0.667, 0.692, 0.643], 5e-4),
        (14.0, [0.600, 0.636, 0.667, 0.692, 0.643], 5e-4),
        (10.0, [0.600, 0.636, 0.669, 0.700, 0.636], 6e-4),
    ],
)
def test_the_worked_example(cap, expected: list[float], tolerance: float) -> None:
    """Three for and one against: what never forgets, and what has a cap of 10."""
    evidence = [(True, 1.0), (True, 1.0), (True, 1.0), (False, 1.0)]
    found = [moved(prior(0.6), evidence[:n], cap).mean for n in range(5)]

    assert found == pytest.approx(expected, abs=tolerance)
    assert cap == 10.0 or found[-1] == 9 / 14


def test_the_cap_of_10_is_the_recurrence() -> None:
    """c' = (10c + 1)/11 after evidence for, 10c/11 after evidence against."""
    belief = prior(0.6)
    for supports in (True, True, True, False, True, False):
        mean = belief.mean
        belief = moved(belief, [(supports, 1.0)], 10.0)
        assert belief.mean == pytest.approx((10 * mean + supports) / 11, abs=1e-12)


def test_the_authoritative_gives_way() -> None:
    """Full belief without variance, until one contradiction makes it 10/11."""
    belief = prior(1.0)

    assert (belief.mean, belief.variance, belief.interval()) == (1.0, 0.0, (1.0, 1.0))
    assert belief.opposed().mean == 10 / 11
    assert belief.opposed().interval()[0] < 10 / 11 < belief.opposed().interval()[1] < 1.0


@given(betas, weights, caps)
def test_evidence_moves_belief_its_own_way(belief: Beta, weight: float, cap) -> None:
    """Supporting never lowers the mean, opposing never raises it; one more piece is kept."""
    up = belief.supported(weight, max_concentration=cap)
    down = belief.opposed(weight, max_concentration=cap)

    assert up.mean >= belief.mean - 1e-12
    assert down.mean <= belief.mean + 1e-12
    if cap is None:
        total = pytest.approx(belief.concentration + weight)
        assert [up.concentration, down.concentration] == [total, total]


@given(betas, moves, st.randoms(use_true_random=False))
def test_evidence_of_one_age_commutes(belief: Beta, evidence, rng) -> None:
    """Without a cap the order of what is added does not matter."""
    shuffled = evidence[:]
    rng.shuffle(shuffled)
    one, other = moved(belief, evidence), moved(belief, shuffled)

    assert (one.alpha, one.beta) == pytest.approx((other.alpha, other.beta), rel=1e-12)


@given(betas, st.floats(0.1, 1_000.0))
def test_rescaling_keeps_the_mean(belief: Beta, cap: float) -> None:
    """And leaves at most the cap, or what there was."""
    capped = belief.rescaled(cap)

    assert capped.mean == pytest.approx(belief.mean, rel=1e-12)
    assert capped.concentration == pytest.approx(min(cap, belief.concentration), rel=1e-12)
    assert belief.rescaled(None) is belief


@given(betas, st.floats(0.01, 0.98))
def test_the_interval_is_that_of_scipy(belief: Beta, mass: float) -> None:
    """Central, inside [0, 1], wider with more mass."""
    low, high = belief.interval(mass)
    wider = belief.interval(mass + 0.01)

    expected = stats.beta.interval(mass, belief.alpha, belief.beta)
    assert (low, high) == pytest.approx(expected, abs=1e-9)
    assert 0.0 <= wider[0] <= low <= high <= wider[1] <= 1.0


@given(betas)
def test_the_moments_are_those_of_scipy(belief: Beta) -> None:
    """Mean and variance of the Beta distribution."""
    expected = stats.beta.stats(belief.alpha, belief.beta)

    assert (belief.mean, belief.variance) == pytest.approx([float(x) for x in expected], rel=1e-9)


def test_without_any_evidence_for_it_the_interval_is_at_0() -> None:
    """The mirror of full belief."""
    assert Beta(0.0, 3.0).interval() == (0.0, 0.0)


@given(means, days, days, half_lives, means)
def test_fading_only_lowers_and_stops_at_the_floor(stored, one, other, half_life, floor) -> None:
    """It never raises a value, never falls below min(stored, floor), never rises with age."""
    younger, older = sorted((one, other))
    fresh, faded = (
        decayed(stored, younger, half_life, floor),
        decayed(stored, older, half_life, floor),
    )

    assert min(stored, floor) <= faded <= fresh <= stored


@given(means, half_lives, st.floats(-1e5, 0.0))
def test_the_future_does_not_fade(stored: float, half_life: float, age: float) -> None:
    """What will be confirmed later has lost nothing."""
    assert decayed(stored, age, half_life) == stored


@given(st.floats(0.1, 1.0), half_lives)
def test_half_is_left_after_the_half_life(stored: float, half_life: float) -> None:
    """Down to the floor of .05."""
    assert decayed(stored, half_life, half_life) == stored / 2
    assert decayed(stored, 40 * half_life, half_life) == 0.05


def test_ninety_days_is_the_usual_half_life() -> None:
    """Days are fractional; what is below the floor stays where it is."""
    assert decayed(0.8, 90.0) == 0.4
    assert decayed(0.8, 0.5) == pytest.approx(0.8 * 0.5 ** (0.5 / 90))
    assert decayed(0.03, 10_000.0) == 0.03


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ([0.8, 0.7, 0.9], 0.504),
        ([0.9] * 2, 0.81),
        ([0.7] * 4, 0.2401),
        ([0.84, 0.9], 0.756),
        ([0.84, 0.6], 0.504),
        ([0.71, 0.4], 0.284),
        ([], 1.0),
    ],
)
def test_a_path_multiplies(edges: list[float], expected: float) -> None:
    """Two hops of .9 beat four of .7; the empty path is certain."""
    assert path_confidence(edges) == pytest.approx(expected, abs=1e-12)


@given(st.lists(means, min_size=1))
def test_a_path_is_never_surer_than_its_weakest_edge(edges: list[float]) -> None:
    """Every further link can only lower it."""
    assert path_confidence(edges) <= min(edges)


@given(st.lists(means))
def test_rivals_share_at_most_certainty(confidences: list[float]) -> None:
    """What adds up to no more than 1 is left alone; no order changes."""
    shares = rivals_share(confidences)

    assert sum(shares) <= 1.0 + 1e-9
    assert sum(confidences) > 1.0 or shares == confidences
    assert all(share <= own for share, own in zip(shares, confidences, strict=True))


@pytest.mark.parametrize("weight", [*NOT_NUMBERS, 0.0, -1.0, 1.0001, 2])
def test_a_weight_lies_above_0_and_up_to_1(weight: float) -> None:
    """Anything else is refused, whichever way it points."""
    for move in (prior(0.6).supported, prior(0.6).opposed):
        with pytest.raises(ValueError, match="weight of evidence"):
            move(weight)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (Beta, [(value, 1.0) for value in (*NOT_NUMBERS, -1.0)]),
        (Beta, [(1.0, value) for value in (*NOT_NUMBERS, -1.0)] + [(0.0, 0.0)]),
        (prior, [(value,) for value in (*NOT_NUMBERS, -0.1, 1.1)]),
        (prior, [(0.5, value) for value in (*NOT_NUMBERS, 0.0, -1.0)]),
        (decayed, [(value, 1.0) for value in (*NOT_NUMBERS, -0.1, 1.1)]),
        (decayed, [(0.5, value) for value in NOT_NUMBERS]),
        (decayed, [(0.5, 1.0, value) for value in (*NOT_NUMBERS, 0.0, -1.0)]),
        (decayed, [(0.5, 1.0, 1.0, value) for value in (*NOT_NUMBERS, -0.1, 1.1)]),
        (path_confidence, [([0.5, value],) for value in (*NOT_NUMBERS, -0.1, 1.1)]),
        (Beta(1.0, 1.0).interval, [(value,) for value in (*NOT_NUMBERS, 0.0, 1.0, -1.0)]),
        (Beta(1.0, 1.0).rescaled, [(value,) for value in (math.nan, 0.0, -1.0)]),
    ],
)
def test_what_is_no_number_of_this_kind_is_refused(function, arguments) -> None:
    """NaN, infinities and what lies outside are a `ValueError`."""
    for given_ in arguments:
        with pytest.raises(ValueError):
            function(*given_)
