"""Chat models that say what a test wrote down, and keep what they were shown."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field, PrivateAttr

if TYPE_CHECKING:
    from langchain_core.callbacks import CallbackManagerForLLMRun

Reply = str | AIMessage | Exception | Callable[[Sequence[BaseMessage]], str | AIMessage]


class ScriptedModel(BaseChatModel):
    """Gives its replies in order, the last one again and again; a function makes its reply.

    Everything it was shown is in `prompts`, newest last.
    """

    replies: list[Any]
    _lock: Any = PrivateAttr(default_factory=threading.Lock)
    _calls: int = PrivateAttr(default=0)
    prompts: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> ScriptedModel:
        return self

    @property
    def system(self) -> str:
        """The system prompt it was shown last."""
        first = self.prompts[-1][0]
        return str(first.text) if first.type == "system" else ""

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        with self._lock:
            self.prompts.append(list(messages))
            reply = self.replies[min(self._calls, len(self.replies) - 1)]
            self._calls += 1
        if callable(reply):
            reply = reply(messages)
        if isinstance(reply, Exception):
            raise reply
        return AIMessage(reply) if isinstance(reply, str) else reply.model_copy()

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        reply = self._next(messages)
        words = str(reply.text).split(" ")
        for number, word in enumerate(words):
            last = number == len(words) - 1
            chunk = AIMessageChunk(
                word if last else f"{word} ",
                tool_call_chunks=[
                    {
                        "name": call["name"],
                        "args": json.dumps(call["args"]),
                        "id": call["id"],
                        "index": index,
                    }
                    for index, call in enumerate(reply.tool_calls if last else [])
                ],
            )
            yield ChatGenerationChunk(message=chunk)


def calling(name: str, _id: str = "call-1", **arguments: Any) -> AIMessage:
    """A reply that calls a tool."""
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": _id}])
