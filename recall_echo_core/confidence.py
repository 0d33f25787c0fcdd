"""How belief in a relation moves: evidence for and against, fading with age, chaining along a path.

A relation's confidence is a Beta distribution, the conjugate prior of a coin's bias (Gelman et
al., *Bayesian Data Analysis*, 3rd ed., section 2.4): each piece of evidence adds its weight to
one of two numbers, and the mean is what we believe.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, Literal, get_args

import msgspec

__all__ = [
    "CONCENTRATION",
    "CONTEXTS",
    "DECAY_FLOOR",
    "HALF_LIFE_DAYS",
    "PRIOR_MEANS",
    "Beta",
    "Context",
    "decayed",
    "path_confidence",
    "prior",
    "rivals_share",
]

Context = Literal["authoritative", "explicit", "inferred", "speculative"]
CONTEXTS: Final[tuple[str, ...]] = get_args(Context)

PRIOR_MEANS: Final[Mapping[str, float]] = {
    "authoritative": 1.0,
    "explicit": 0.9,
    "inferred": 0.6,
    "speculative": 0.3,
}
CONCENTRATION: Final = 10.0
HALF_LIFE_DAYS: Final = 90.0
DECAY_FLOOR: Final = 0.05


class Beta(msgspec.Struct, frozen=True, gc=False):
    """A Beta distribution over how likely a relation is to hold.

    `alpha` counts evidence for, `beta` evidence against; the prior is counted in. Their sum, the
    concentration, says how hard the mean is to move. A `beta` of 0 is legal: full belief without
    variance, until the first contradiction.

    >>> belief = prior(0.6)
    >>> belief.supported().mean
    0.6363636363636364
    >>> round(belief.supported().supported().supported().opposed().mean, 3)
    0.643

    Raises:
        ValueError: a number is negative or not finite, or both are 0.
    """

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        total = self.alpha + self.beta
        if not (self.alpha >= 0.0 and self.beta >= 0.0 and 0.0 < total < math.inf):
            raise ValueError(
                f"Beta({self.alpha}, {self.beta}): both numbers must be finite and at least 0,"
                " and not both 0"
            )

    @property
    def mean(self) -> float:
        """The stored confidence, in [0, 1]."""
        return self.alpha / (self.alpha + self.beta)

    @property
    def concentration(self) -> float:
        """Evidence in all, the prior counted in; the higher, the less one more piece moves it."""
        return self.alpha + self.beta

    @property
    def variance(self) -> float:
        """Variance of the distribution; 0 when all evidence points one way from the prior on."""
        total = self.alpha + self.beta
        return self.alpha * self.beta / (total * total * (total + 1.0))

    def supported(self, weight: float = 1.0, *, max_concentration: float | None = None) -> Beta:
        """Return the posterior after evidence for the relation.

        Args:
            weight: How much this piece counts, in (0, 1]; raising it moves the mean further up.
            max_concentration: See `rescaled`; applied before the update.
        """
        capped = self.rescaled(max_concentration)
        return Beta(capped.alpha + checked_weight(weight), capped.beta)

    def opposed(self, weight: float = 1.0, *, max_concentration: float | None = None) -> Beta:
        """Return the posterior after evidence against the relation.

        >>> Beta(10.0, 0.0).opposed().mean == 10 / 11
        True
        """
        capped = self.rescaled(max_concentration)
        return Beta(capped.alpha, capped.beta + checked_weight(weight))

    def rescaled(self, max_concentration: float | None) -> Beta:
        """Return the same mean with at most `max_concentration` evidence behind it.

        The lower the cap, the faster old evidence is outweighed by new; `None` never forgets. A
        cap of 10 gives the recurrence c' = (10c + 1)/11 or 10c/11:

        >>> belief = prior(0.6)
        >>> for _ in range(3):
        ...     belief = belief.supported(max_concentration=10)
        >>> round(belief.mean, 4), round(belief.opposed(max_concentration=10).mean, 4)
        (0.6995, 0.6359)
        """
        total = self.alpha + self.beta
        if max_concentration is None or total <= max_concentration:
            return self
        return Beta(self.alpha * max_concentration / total, self.beta * max_concentration / total)

    def interval(self, mass: float = 0.95) -> tuple[float, float]:
        """Return the central credible interval holding `mass` of the distribution.

        Raising `mass` widens it. With no evidence against it is (1, 1), with none for it (0, 0).

        >>> low, high = Beta(9.0, 1.0).interval()
        >>> round(low, 3), round(high, 3)
        (0.664, 0.997)

        Raises:
            ValueError: `mass` is not inside (0, 1).
        """
        if not 0.0 < mass < 1.0:
            raise ValueError(f"mass must lie inside (0, 1), not {mass}")
        if self.beta == 0.0:
            return 1.0, 1.0
        if self.alpha == 0.0:
            return 0.0, 0.0
        from scipy.special import betaincinv  # scipy takes longer to import than we do

        tail = (1.0 - mass) / 2.0
        low, high = betaincinv(self.alpha, self.beta, (tail, 1.0 - tail))
        return float(low), float(high)


def prior(mean: float, concentration: float = CONCENTRATION) -> Beta:
    """Return the belief before any evidence: `Beta(n*mean, n*(1-mean))` with n = `concentration`.

    Raising `mean` starts it surer; raising `concentration` makes evidence move it less.

    >>> prior(0.9)
    Beta(alpha=9.0, beta=1.0)

    Raises:
        ValueError: `mean` outside [0, 1], or `concentration` not finite and above 0.
    """
    if not 0.0 <= mean <= 1.0:
        raise ValueError(f"a prior's mean must lie in [0, 1], not {mean}")
    if not 0.0 < concentration < math.inf:
        raise ValueError(f"a prior's concentration must be finite and above 0, not {concentration}")
    alpha = round(concentration * mean, 12)
    return Beta(alpha, round(concentration - alpha, 12))


def decayed(
    stored: float,
    days: float,
    half_life: float = HALF_LIFE_DAYS,
    floor: float = DECAY_FLOOR,
) -> float:
    """Return what is left of a confidence `days` after it was last confirmed.

    It halves every `half_life` days (exponential forgetting); a longer half-life fades slower.
    It never falls below `min(stored, floor)` and fading never raises it. Negative `days`, a
    confirmation in the future, do not fade.

    >>> decayed(0.8, days=90)
    0.4
    >>> decayed(0.8, days=3650), decayed(0.03, days=3650), decayed(0.8, days=-5)
    (0.05, 0.03, 0.8)

    Raises:
        ValueError: a number is not finite, `half_life` is not above 0, or `stored` or `floor`
            is outside [0, 1].
    """
    if not 0.0 < half_life < math.inf:
        raise ValueError(f"half_life must be a finite number of days above 0, not {half_life}")
    if not (0.0 <= stored <= 1.0 and 0.0 <= floor <= 1.0):
        raise ValueError(f"confidence and floor must lie in [0, 1], not {stored} and {floor}")
    if not math.isfinite(days):
        raise ValueError(f"age must be a finite number of days, not {days}")
    if days <= 0.0:
        return stored
    return max(stored * math.exp2(-days / half_life), min(stored, floor))


def path_confidence(confidences: Iterable[float]) -> float:
    """Return the confidence of a chain of relations: the product, 1 for an empty chain.

    Every further link can only lower it, so a chain is never surer than its weakest link.

    >>> round(path_confidence([0.8, 0.7, 0.9]), 3), path_confidence([])
    (0.504, 1.0)

    Raises:
        ValueError: a confidence is outside [0, 1].
    """
    product = 1.0
    for confidence in confidences:
        if not 0.0 <= confidence <= 1.0:
            raise ValueError(f"a confidence must lie in [0, 1], not {confidence}")
        product *= confidence
    return product


def rivals_share(confidences: Iterable[float]) -> list[float]:
    """Return the probabilities of values of which at most one can be true.

    Confidences that add up to at most 1 stay as they are, and the rest is "none of these";
    beyond that they are scaled down to add up to 1.

    >>> rivals_share([0.6, 0.2]), rivals_share([0.75, 0.75])
    ([0.6, 0.2], [0.5, 0.5])
    """
    values = list(confidences)
    total = sum(values)
    return values if total <= 1.0 else [value / total for value in values]


def checked_weight(weight: float) -> float:
    """Return `weight` if it lies in (0, 1], else raise `ValueError`."""
    if not 0.0 < weight <= 1.0:
        raise ValueError(f"the weight of evidence must lie in (0, 1], not {weight}")
    return weight
