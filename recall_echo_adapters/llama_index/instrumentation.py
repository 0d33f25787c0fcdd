"""How did the run end that these memories were recalled in?"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self

from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.chat_engine.types import StreamingAgentChatResponse
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.tools import BaseTool, ToolOutput
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.base.event import BaseEvent  # noqa: TC002 pydantic looks
from llama_index_instrumentation.event_handlers import BaseEventHandler
from llama_index_instrumentation.span.base import BaseSpan
from llama_index_instrumentation.span_handlers import BaseSpanHandler
from pydantic import PrivateAttr

from recall_echo_adapters.llama_index.recalling import RecallEvent, run_in
from recall_echo_adapters.llama_index.streams import Streams
from recall_echo_adapters.llama_index.wording import text_of
from recall_echo_adapters.open_runs import OpenRuns
from recall_echo_adapters.verdicts import Outcome, Recalled, Run, Verdicts, credit

if TYPE_CHECKING:
    from recall_echo_core import Memory

__all__ = ["RecallEchoInstrumentation"]

log = logging.getLogger(__name__)

STOPPED: Final = (GeneratorExit, asyncio.CancelledError, KeyboardInterrupt)
STOPPED_NAMES: Final = ("WorkflowCancelledByUser",)  # of a package that need not be this version
PARTS: Final = (BaseRetriever, BaseTool)  # what is part of a run, and no run when alone
UNTOLD: Final = (StreamingResponse, AsyncStreamingResponse)  # whose end nobody tells


class RecallEchoInstrumentation:
    """Turns the end of a run into feedback on the memories that were recalled in it.

    A run is one call of an engine or an agent. One that failed counts as a failure of the memories
    it recalled; one that was cancelled, or whose stream was, says nothing. A clean end says
    nothing either, unless you say so: with `outcome`, or later with `Memory.feedback_for_run`, for
    which `instrument_tags({"run_id": ...})` around the call names the run.

    It listens to all of LlamaIndex in this process while installed; use `with`, or `install` once.

    >>> import tempfile
    >>> from llama_index.core.chat_engine import SimpleChatEngine
    >>> from llama_index.core.llms import MockLLM
    >>> from recall_echo_adapters.llama_index import RecallEchoMemory
    >>> from recall_echo_core import open_memory
    >>> with tempfile.TemporaryDirectory() as folder, open_memory(folder) as memory:
    ...     relation = memory.remember("Ada", "LIVES_IN", "Paris")
    ...     chat = RecallEchoMemory.from_defaults(memory)
    ...     engine = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=chat)
    ...     with RecallEchoInstrumentation(memory, outcome=lambda run: "Paris" in run.text):
    ...         answer = engine.chat("Where does Ada live?")
    ...     round(memory.recall("Ada", kinds=["relation"]).hits[0].parts["utility"], 2)
    0.55

    Args:
        memory: Any namespace of the store.
        outcome: Told a finished `Run`, says how it went: success, partial, failed, a number in
            [0, 1], or `None` for no verdict.
        on_success: The verdict on a clean end when `outcome` has none.
        on_tool_error: The same, where a tool had failed.
        on_error: The verdict on a run that failed.
        max_open: Open runs kept; raising it only matters where runs never end.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        outcome: Outcome | None = None,
        on_success: float | None = None,
        on_tool_error: float | None = None,
        on_error: float | None = 0.0,
        max_open: int = 4_096,
    ) -> None:
        self._memory = memory
        self._verdicts = Verdicts(outcome, on_success, on_tool_error, on_error)
        self._runs = OpenRuns(max_open)
        self._streams = Streams(max_open)
        self._names: dict[str, str] = {}  # outermost span -> the run its tags name
        self._lock = threading.Lock()
        self._beside: ThreadPoolExecutor | None = None
        self._spans, self._events = _Spans(), _Events()
        self._spans._owner = self._events._owner = self

    @property
    def open_runs(self) -> int:
        """How many runs are going on."""
        return len(self._runs)

    def install(self) -> Self:
        """Start to listen; doing it twice is fine."""
        root = get_dispatcher()
        with self._lock:
            if not any(handler is self._spans for handler in root.span_handlers):
                root.add_span_handler(self._spans)
                root.add_event_handler(self._events)
        return self

    def uninstall(self) -> None:
        """Stop to listen, once all verdicts are given; runs that are going on get none."""
        root = get_dispatcher()
        with self._lock:
            root.span_handlers = [one for one in root.span_handlers if one is not self._spans]
            root.event_handlers = [one for one in root.event_handlers if one is not self._events]
        self.flush()

    def flush(self) -> None:
        """Wait until the verdicts on all runs that have ended are given.

        Those on async runs are given in a thread beside the event loop, so a moment later.
        """
        with self._lock:
            beside, self._beside = self._beside, None
        if beside is not None:
            beside.shutdown()

    def __enter__(self) -> Self:
        return self.install()

    def __exit__(self, *error: object) -> None:
        self.uninstall()

    # What the handlers tell

    def _entered(self, span: str, parent: str | None, tags: dict[str, Any] | None) -> None:
        self._runs.start(span, parent)
        root = self._runs.root_of(span)
        named = run_in(tags)
        if root == span and named is not None:
            with self._lock:
                self._names[span] = named
                while len(self._names) > self._runs.most:
                    del self._names[next(iter(self._names))]
        if root is not None and _writes_a_stream(span):
            self._streams.opened(root, span)

    def _recalled(self, event: RecallEvent) -> None:
        if event.span_id is not None:
            self._runs.recalled(event.span_id, Recalled(event.namespace, event.recall_id))

    def _exited(self, span: str, instance: Any, result: Any) -> None:
        if isinstance(instance, BaseTool) and isinstance(result, ToolOutput) and result.is_error:
            self._runs.tool_failed(span, result.content)
        self._left(span, instance, result, None)

    def _dropped(self, span: str, instance: Any, error: BaseException | None) -> None:
        error = error or RuntimeError("the run was dropped, nobody says why")
        if isinstance(instance, BaseTool) and not _is_stop(error):
            self._runs.tool_failed(span, repr(error))
        self._left(span, instance, None, error)

    def _left(self, span: str, instance: Any, result: Any, error: BaseException | None) -> None:
        root = self._runs.root_of(span)
        if root is not None and _writes_a_stream(span):
            ended = self._streams.ended(root, span, text_of(instance), error)
            self._runs.end(span)
            if ended is not None:
                self._judge(root, None, ended.result, ended.text, ended.error)
        elif root == span and error is None and isinstance(result, StreamingAgentChatResponse):
            ended = self._streams.returned(root, result)
            if ended is not None:
                self._judge(root, instance, result, ended.text, ended.error)
        elif root == span:
            self._streams.forget(span)
            self._judge(span, instance, result, text_of(result), error)
        else:
            self._runs.end(span)

    def _judge(
        self, root: str, instance: Any, result: Any, text: str, error: BaseException | None
    ) -> None:
        stopped = _is_untold(result) if error is None else _is_stop(error)
        run = self._runs.end(root, outputs=result, text=text, error=error, stopped=stopped)
        with self._lock:
            named = self._names.pop(root, None)
        if run is not None and run.recalls and not isinstance(instance, PARTS):
            self._credit(run if named is None else replace(run, id=named))

    def _credit(self, run: Run) -> None:
        """Give the verdict: at once, or beside the event loop if one is running here."""
        if not _in_a_loop():
            credit(self._memory, run, self._verdicts)
            return
        with self._lock:
            if self._beside is None:
                self._beside = ThreadPoolExecutor(1, thread_name_prefix="recall-echo-outcomes")
            self._beside.submit(_logged, credit, self._memory, run, self._verdicts)


class _Spans(BaseSpanHandler[BaseSpan]):
    """Tells of spans; keeps none."""

    _owner: RecallEchoInstrumentation = PrivateAttr()

    def new_span(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any = None,
        parent_span_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        _logged(self._owner._entered, id_, parent_span_id, tags)

    def prepare_to_exit_span(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any = None,
        result: Any = None,
        **kwargs: Any,
    ) -> None:
        _logged(self._owner._exited, id_, instance, result)

    def prepare_to_drop_span(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any = None,
        err: BaseException | None = None,
        **kwargs: Any,
    ) -> None:
        _logged(self._owner._dropped, id_, instance, err)


class _Events(BaseEventHandler):
    """Tells of recalls."""

    _owner: RecallEchoInstrumentation = PrivateAttr()

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        if isinstance(event, RecallEvent):
            _logged(self._owner._recalled, event)


def _logged(tell: Any, *what: Any) -> None:
    """Tell something; LlamaIndex would swallow an error without a word."""
    try:
        tell(*what)
    except Exception:
        log.exception("an outcome was not counted")


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _writes_a_stream(span: str) -> bool:
    """Whether a span is the one in which a streamed answer is written down."""
    return span.startswith(
        (
            "StreamingAgentChatResponse.write_response_to_history",
            "StreamingAgentChatResponse.awrite_response_to_history",
        )
    )


def _is_stop(error: BaseException) -> bool:
    return isinstance(error, STOPPED) or type(error).__name__ in STOPPED_NAMES


def _is_untold(result: Any) -> bool:
    """Whether a result says nothing about the end: a stream, or nothing, as a cancelled run has."""
    streams = inspect.isgenerator(result) or inspect.isasyncgen(result)
    return result is None or streams or isinstance(result, UNTOLD)
