"""Usefulness moves towards what came of using a memory."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_echo_core.utility import INITIAL, OUTCOMES, after_outcome, reward_of

shares = st.floats(0.0, 1.0)


def test_the_constants() -> None:
    """It starts at a half; success is 1, partial .5, failed 0."""
    assert INITIAL == 0.5
    assert {word: reward_of(word) for word in OUTCOMES} == {
        "success": 1.0,
        "partial": 0.5,
        "failed": 0.0,
    }


@pytest.mark.parametrize("reward", [0.0, 0.25, 0.5, 1.0, 0, 1])
def test_a_number_is_its_own_reward(reward: float) -> None:
    """Any number from 0 to 1, as a float."""
    assert reward_of(reward) == reward
    assert type(reward_of(reward)) is float


@given(shares, shares)
def test_used_moves_a_tenth_of_the_way_to_the_reward(utility: float, reward: float) -> None:
    """u += 0.1 (r - u)."""
    moved = after_outcome(utility, reward, used=True)

    assert moved == pytest.approx(utility + 0.1 * (reward - utility), abs=1e-12)


@given(shares, shares)
def test_unused_moves_a_twentieth_of_the_way_to_three_tenths(utility, reward) -> None:
    """u += 0.05 (0.3 - u), whatever the outcome."""
    moved = after_outcome(utility, reward, used=False)

    assert moved == pytest.approx(utility + 0.05 * (0.3 - utility), abs=1e-12)


@given(shares, st.lists(st.tuples(shares, st.booleans()), max_size=50))
def test_it_stays_between_0_and_1(utility: float, outcomes) -> None:
    """Whatever comes of it, however often."""
    for reward, used in outcomes:
        utility = after_outcome(utility, reward, used=used)

        assert 0.0 <= utility <= 1.0


@given(shares, shares, shares)
def test_a_better_outcome_never_leaves_it_lower(utility: float, one: float, other: float) -> None:
    """Of two outcomes the better is the better."""
    worse, better = sorted((one, other))

    assert after_outcome(utility, worse, used=True) <= after_outcome(utility, better, used=True)


def test_about_fifty_successes_pass_99_hundredths() -> None:
    """38 do, and 30 do not."""
    utility, after = INITIAL, []
    for _ in range(50):
        utility = after_outcome(utility, 1.0, used=True)
        after.append(utility)

    assert after[29] < 0.99 < after[37] < after[49] < 1.0


@pytest.mark.parametrize(
    "outcome", ["", "Success", "ok", -0.01, 1.01, math.nan, math.inf, -math.inf]
)
def test_an_unknown_outcome_is_refused(outcome: str | float) -> None:
    """A word that is none of the three, or a number outside [0, 1]."""
    with pytest.raises(ValueError, match="outcome"):
        reward_of(outcome)


@pytest.mark.parametrize("outcome", [None, True, False, [1.0], b"success", 1j])
def test_what_is_no_outcome_is_refused(outcome: object) -> None:
    """A bool, too: success of what?"""
    with pytest.raises(TypeError, match="outcome"):
        reward_of(outcome)
