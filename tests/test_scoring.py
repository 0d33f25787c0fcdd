"""Similarity, hotness and utility weigh what they are said to weigh."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_echo_core.scoring import Weights, hotness, reached, weighed

shares = st.floats(0.0, 1.0)
counts = st.integers(0, 10**9)
days = st.floats(0.0, 1e5)


@given(counts, days)
def test_hotness_is_a_sigmoid_of_accesses_that_fades(accesses: int, age: float) -> None:
    """sigmoid(ln(1 + n)) · exp(-ln 2 / 7 · days), as it is written."""
    level = 1.0 / (1.0 + math.exp(-math.log1p(accesses)))

    assert hotness(accesses, age) == pytest.approx(
        level * math.exp(-math.log(2.0) / 7.0 * age), rel=1e-9, abs=1e-300
    )


@given(counts, days)
def test_more_accesses_never_cool_and_time_never_heats(accesses: int, age: float) -> None:
    """It lies between 0 and 1."""
    heat = hotness(accesses, age)

    assert hotness(accesses, age + 1.0) <= heat <= hotness(accesses + 1, age) <= 1.0
    assert heat >= 0.0


@given(counts, st.floats(-1e5, 0.0))
def test_activity_in_the_future_counts_as_now(accesses: int, age: float) -> None:
    """A clock that was set back heats nothing beyond."""
    assert hotness(accesses, age) == hotness(accesses, 0.0)


def test_hotness_halves_in_a_week() -> None:
    """Never accessed is a half to begin with."""
    assert (hotness(0, 0.0), hotness(0, 7.0), hotness(0, 14.0)) == (0.5, 0.25, 0.125)


def test_the_weights() -> None:
    """0.45 similarity, 0.30 hotness, 0.25 utility."""
    assert Weights() == Weights(semantic=0.45, hotness=0.30, utility=0.25)
    assert [
        round(weighed(*one, Weights()).value, 12) for one in ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    ] == [
        0.45,
        0.30,
        0.25,
    ]


@given(st.floats(-1.0, 1.0), shares, shares, st.none() | shares)
def test_a_score_is_the_sum_of_its_weighed_parts(similarity, heat, utility, confidence) -> None:
    """Times the confidence, where there is one; less than no similarity counts as none."""
    weights = Weights(0.5, 0.2, 0.3)
    score = weighed(similarity, heat, utility, weights, confidence)
    similarity = max(0.0, similarity)
    total = 0.5 * similarity + 0.2 * heat + 0.3 * utility

    assert score.value == pytest.approx(total * (1.0 if confidence is None else confidence))
    parts = {"relevance": similarity, "hotness": heat, "utility": utility}
    assert score.parts == (parts if confidence is None else {**parts, "confidence": confidence})


@pytest.mark.parametrize(
    ("parent", "confidence", "expected"),
    [(0.84, 0.9, 0.756), (0.84, 0.6, 0.504), (0.71, 0.4, 0.284)],
)
def test_a_neighbour_scores_its_parent_times_the_path(parent, confidence, expected) -> None:
    """And keeps both as parts."""
    score = reached(parent, confidence)

    assert score.value == pytest.approx(expected, abs=1e-12)
    assert score.parts == {"parent": parent, "confidence": confidence}


@pytest.mark.parametrize("weight", [math.nan, math.inf, -math.inf, -0.1])
@pytest.mark.parametrize("name", ["semantic", "hotness", "utility"])
def test_a_weight_is_finite_and_not_negative(name: str, weight: float) -> None:
    """Anything else is refused by name."""
    with pytest.raises(ValueError, match="weights must be finite"):
        Weights(**{name: weight})


def test_something_has_to_count() -> None:
    """One weight alone will do; none will not."""
    assert Weights(0.0, 0.0, 1.0).utility == 1.0
    with pytest.raises(ValueError, match="not all 0"):
        Weights(0.0, 0.0, 0.0)
