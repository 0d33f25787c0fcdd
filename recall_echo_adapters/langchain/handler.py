"""How did the run end that these memories were recalled in?"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage

from recall_echo_adapters.langchain.recalled_text import RECEIPT, receipts_in
from recall_echo_adapters.langchain.wording import answered, text_of
from recall_echo_adapters.open_runs import OpenRuns
from recall_echo_adapters.verdicts import Outcome, Recalled, Verdicts, credit
from recall_echo_core import Memory

if TYPE_CHECKING:
    from uuid import UUID

    from langchain_core.documents import Document

__all__ = ["RECALL_EVENT", "RecallEchoCallbackHandler"]

RECALL_EVENT: Final = "recall_echo.recall"  # tells of a recall that an earlier run made
STOPPED: Final = (GeneratorExit, asyncio.CancelledError, KeyboardInterrupt)


class RecallEchoCallbackHandler(BaseCallbackHandler):
    """Turns the end of a run into feedback on the memories that were recalled in it.

    Pass it with each call, `config={"callbacks": [handler]}`, where steps inherit it; handlers
    given to a constructor are not inherited. One handler serves all runs and users.

    A run that failed counts as a failure of the memories it recalled. One that was paused,
    cancelled or abandoned says nothing, and neither does a clean end, unless you say so: with
    `outcome`, or later with `Memory.feedback_for_run`.

    Args:
        memory: Any namespace of the store.
        outcome: Told a finished `Run`, says how it went: success, partial, failed, a number in
            [0, 1], or `None` for no verdict.
        on_success: The verdict on a clean end when `outcome` has none.
        on_tool_error: The same, where a tool had failed.
        on_error: The verdict on a run that failed.
        max_runs: Open runs kept; raising it only matters where runs never end.
    """

    ignore_llm = True
    ignore_chat_model = True

    def __init__(
        self,
        memory: Memory,
        *,
        outcome: Outcome | None = None,
        on_success: float | str | None = None,
        on_tool_error: float | str | None = None,
        on_error: float | str | None = 0.0,
        max_runs: int = 4_096,
    ) -> None:
        if not isinstance(memory, Memory):
            raise TypeError(f"memory must be an open Memory, not {memory!r:.60}")
        self._memory = memory
        self._verdicts = Verdicts(outcome, on_success, on_tool_error, on_error)
        self._runs = OpenRuns(max_runs)

    @property
    def open_runs(self) -> int:
        """How many runs are going on."""
        return len(self._runs)

    # What a run is made of

    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: dict[str, Any] | Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        """Take note of a step, and of recalls that its inputs carry."""
        self._start(run_id, parent_run_id)
        for receipt in receipts_in(inputs):
            self._runs.recalled(str(run_id), receipt)

    def on_retriever_start(
        self,
        serialized: dict[str, Any] | None,
        query: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        """Take note of a step."""
        self._start(run_id, parent_run_id)

    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        """Take note of a step."""
        self._start(run_id, parent_run_id)

    # What happens in it

    def on_retriever_end(
        self, documents: Sequence[Document], *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Take note of a recall."""
        for document in documents:
            self._recalled(run_id, document.metadata.get(RECEIPT))
        self._runs.end(str(run_id))

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Drop the step."""
        self._runs.end(str(run_id))

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Take note of a recall by a tool, and of an error that was given to the model."""
        if isinstance(output, ToolMessage):
            self._recalled(run_id, output.artifact)
            if output.status == "error":
                self._runs.tool_failed(str(run_id), str(output.text))
        for receipt in receipts_in(output):
            self._runs.recalled(str(run_id), receipt)
        self._runs.end(str(run_id))

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Take note of an error of a tool; a pause is none."""
        if _is_a(error, "GraphInterrupt"):
            self._runs.neutral(str(run_id))
        elif not _is_a(error, "GraphBubbleUp") and not isinstance(error, STOPPED):
            self._runs.tool_failed(str(run_id), repr(error))
        self._runs.end(str(run_id))

    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Take note of a recall that was made before a pause."""
        if name == RECALL_EVENT:
            self._recalled(run_id, data)

    # How it ends

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Judge the run if this was its outermost step."""
        # A stream nobody read on, or a pause.
        stopped = outputs is None or (isinstance(outputs, Mapping) and "__interrupt__" in outputs)
        self._end(run_id, outputs=outputs, stopped=stopped)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Judge the run if this was its outermost step; pauses and cancellations say nothing."""
        if _is_a(error, "GraphInterrupt"):
            self._runs.neutral(str(run_id))
        stopped = isinstance(error, STOPPED) or _is_a(error, "GraphBubbleUp")
        self._end(run_id, error=error, stopped=stopped)

    # Inside

    def _start(self, run_id: UUID, parent_run_id: UUID | None) -> None:
        self._runs.start(str(run_id), None if parent_run_id is None else str(parent_run_id))

    def _recalled(self, run_id: UUID, receipt: Any) -> None:
        if isinstance(receipt, Mapping) and receipt.get("recall_id"):
            found = Recalled(receipt["namespace"], receipt["recall_id"])
            self._runs.recalled(str(run_id), found, closed=not receipt.get("turn"))

    def _end(
        self,
        run_id: UUID,
        *,
        outputs: Any = None,
        error: BaseException | None = None,
        stopped: bool,
    ) -> None:
        run = self._runs.end(
            str(run_id),
            outputs=outputs,
            text=text_of(outputs),
            error=error,
            stopped=stopped,
            answered=answered(outputs),
        )
        if run is not None:
            credit(self._memory, run, self._verdicts)


def _is_a(error: BaseException | None, name: str) -> bool:
    """Whether an error is of a class of LangGraph, which need not be installed."""
    return any(
        kind.__name__ == name and kind.__module__.partition(".")[0] == "langgraph"
        for kind in type(error).__mro__
    )
