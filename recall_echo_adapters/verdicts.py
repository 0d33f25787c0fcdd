"""What does the end of a run say about the memories it recalled?

A clean end alone says nothing: pauses, cancellations and abandoned streams end cleanly too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from recall_echo_adapters.turns import whole
from recall_echo_core import Memory, UnknownRecall

__all__ = ["Outcome", "Recalled", "Run", "Verdicts", "credit"]

log = logging.getLogger(__name__)

SOURCE = "callback"  # who gives these verdicts; a rating by a user stands beside them


class Recalled(NamedTuple):
    """Where a recall's receipt is."""

    namespace: str
    recall_id: str


@dataclass(frozen=True)
class Run:
    """A finished run of the host.

    Attributes:
        id: Its id.
        outputs: What it returned, as the framework gives it.
        text: The same as text; empty if there is none.
        error: What it failed with.
        tool_errors: What tools in it failed with.
        recalls: What was recalled in it.
        neutral: Whether it was paused, cancelled or abandoned: its end is no verdict.
    """

    id: str
    outputs: Any = None
    text: str = ""
    error: BaseException | None = None
    tool_errors: tuple[str, ...] = ()
    recalls: tuple[Recalled, ...] = ()
    neutral: bool = False


Outcome: TypeAlias = Callable[[Run], float | str | bool | None]


@dataclass(frozen=True)
class Verdicts:
    """How the end of a run is judged: success is 1, failure 0, `None` no verdict.

    Attributes:
        outcome: Asked first, unless the run failed or was neutral.
        on_success: Of a run that ended cleanly, when `outcome` has no say.
        on_tool_error: Of one that ended cleanly though a tool failed in it.
        on_error: Of one that failed.
    """

    outcome: Outcome | None = None
    on_success: float | str | None = None
    on_tool_error: float | str | None = None
    on_error: float | str | None = 0.0

    def __post_init__(self) -> None:
        if self.outcome is not None and not callable(self.outcome):
            raise TypeError(f"outcome must be a function of the run, not {self.outcome!r:.60}")
        for what in ("on_success", "on_tool_error", "on_error"):
            verdict = getattr(self, what)
            number = isinstance(verdict, int | float) and 0 <= verdict <= 1
            if not (verdict is None or number or verdict in ("success", "partial", "failed")):
                raise ValueError(
                    f"{what} must be success, partial, failed, a number in [0, 1] or None,"
                    f" not {verdict!r:.60}"
                )

    def of(self, run: Run) -> float | str | None:
        """Return the verdict on a run."""
        if run.neutral:
            return None
        verdict: float | str | bool | None
        if run.error is not None:
            verdict = self.on_error
        else:
            verdict = None if self.outcome is None else self.outcome(run)
            if verdict is None:
                verdict = self.on_tool_error if run.tool_errors else self.on_success
        return float(verdict) if isinstance(verdict, bool) else verdict


def credit(memory: Memory, run: Run, verdicts: Verdicts) -> None:
    """Tell the memories recalled in a run how it ended, each in its namespace.

    Args:
        memory: Any namespace of the store.
        run: The run.
        verdicts: How it is judged.
    """
    known: list[tuple[Memory, str]] = []
    held = set(memory.namespaces()) if run.recalls else set()
    for recalled in run.recalls:
        if recalled.namespace not in held:  # forgotten whole: asking for it would make it anew
            continue
        own = memory if recalled.namespace == memory.name else memory.namespace(recalled.namespace)
        try:
            own.link(recalled.recall_id, run.id)
            if run.text and run.error is None and not run.neutral:
                # What was used is told from the answer where nobody has told it better.
                own.mark_used(recalled.recall_id, response=whole(run.text), replace=False)
        except UnknownRecall as error:  # forgotten or expired meanwhile: nothing is left to credit
            log.info("no verdict on a recall: %s", error)
        else:
            known.append((own, recalled.recall_id))
    verdict = verdicts.of(run) if known else None
    if verdict is not None:
        for own, recall_id in known:
            with suppress(UnknownRecall):  # forgotten since
                own.feedback(recall_id, verdict, source=SOURCE)
