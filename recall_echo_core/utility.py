"""How usefulness moves: an exponential moving average of what came of using a memory.

The average gives each new outcome a fixed share of the say (Roberts, "Control chart tests based
on geometric moving averages", *Technometrics* 1, 1959), so old outcomes fade geometrically.
Outcomes move utility only; confidence moves only through evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["INITIAL", "OUTCOMES", "UNUSED_REWARD", "after_outcome", "reward_of"]

INITIAL: Final = 0.5
RATE_USED: Final = 0.1
RATE_UNUSED: Final = 0.05
UNUSED_REWARD: Final = 0.3
OUTCOMES: Final[Mapping[str, float]] = {"success": 1.0, "partial": 0.5, "failed": 0.0}


def reward_of(outcome: str | float) -> float:
    """Return the reward in [0, 1] of an outcome: success, partial, failed, or a number.

    >>> reward_of("success"), reward_of("partial"), reward_of(0.25)
    (1.0, 0.5, 0.25)

    Raises:
        ValueError: an unknown word, or a number outside [0, 1].
        TypeError: neither a word nor a number (a bool is neither: say which outcome it was).
    """
    if isinstance(outcome, str):
        if outcome not in OUTCOMES:
            raise ValueError(f"outcome must be one of {', '.join(OUTCOMES)}, not {outcome!r}")
        return OUTCOMES[outcome]
    if isinstance(outcome, bool) or not isinstance(outcome, (int, float)):
        raise TypeError(f"outcome must be a word or a number in [0, 1], not {outcome!r}")
    if not 0.0 <= outcome <= 1.0:
        raise ValueError(f"an outcome given as a number must lie in [0, 1], not {outcome}")
    return float(outcome)


def after_outcome(utility: float, reward: float, *, used: bool) -> float:
    """Return the utility of a recalled memory after the outcome of the turn is known.

    A used memory moves a tenth of the way to the reward; one recalled and not used moves a
    twentieth of the way to 0.3, whatever the outcome. Raising `reward` raises the result.

    >>> after_outcome(0.5, 1.0, used=True), after_outcome(0.5, 1.0, used=False)
    (0.55, 0.49)
    >>> utility = INITIAL
    >>> for _ in range(50):
    ...     utility = after_outcome(utility, 1.0, used=True)
    >>> utility > 0.99
    True
    """
    if used:
        moved = utility + RATE_USED * (reward - utility)
    else:
        moved = utility + RATE_UNUSED * (UNUSED_REWARD - utility)
    return min(1.0, max(0.0, moved))
