"""A model for LlamaIndex that says what a test wrote down, and keeps what it was shown."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from pydantic import Field, PrivateAttr

# A text, a call of a tool, an error to raise, or a function of what the model is shown.
Reply = str | tuple[str, dict[str, Any]] | Exception | Callable[[Sequence[ChatMessage]], str]


def counted(text: str) -> range:
    """One token a word: what a test can count by hand."""
    return range(len(text.split()))


class ScriptedLLM(FunctionCallingLLM):
    """Gives its replies in order, the last one again and again.

    Everything it was shown is in `prompts`, newest last. `pause` slows a stream down.
    """

    replies: list[Any]
    prompts: list[list[ChatMessage]] = Field(default_factory=list)
    pause: float = 0.0
    fail_after: int | None = None  # words of a stream after which it fails
    functions: bool = True
    _lock: Any = PrivateAttr(default_factory=threading.Lock)
    _calls: int = PrivateAttr(default=0)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_chat_model=True, is_function_calling_model=self.functions)

    @property
    def shown(self) -> str:
        """All it was shown last, as text."""
        return "\n".join(str(message.content) for message in self.prompts[-1])

    @property
    def roles(self) -> list[str]:
        """Who speaks in what it was shown last."""
        return [message.role.value for message in self.prompts[-1]]

    def _next(self, messages: Sequence[ChatMessage]) -> ChatMessage:
        with self._lock:
            self.prompts.append(list(messages))
            reply = self.replies[min(self._calls, len(self.replies) - 1)]
            self._calls += 1
        if callable(reply):
            reply = reply(messages)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, tuple):
            name, given = reply
            call = ToolCallBlock(tool_call_id=f"call{self._calls}", tool_name=name)
            call.tool_kwargs = given
            return ChatMessage(role="assistant", blocks=[call])
        return ChatMessage(role="assistant", content=reply)

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return ChatResponse(message=self._next(messages))

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return self.chat(messages)

    def _chunks(self, message: ChatMessage) -> Iterator[ChatResponse]:
        calls = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
        if calls:
            yield ChatResponse(message=message, delta="")
            return
        words = str(message.content).split(" ")
        for number in range(len(words)):
            if number == self.fail_after:
                raise ConnectionError("the line is cut")
            said = ChatMessage(role="assistant", content=" ".join(words[: number + 1]))
            yield ChatResponse(message=said, delta=("" if number == 0 else " ") + words[number])

    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Iterator[ChatResponse]:
        return self._chunks(self._next(messages))

    async def astream_chat(
        self, messages: Sequence[ChatMessage], **kwargs: Any
    ) -> AsyncIterator[ChatResponse]:
        message = self._next(messages)

        async def stream() -> AsyncIterator[ChatResponse]:
            for chunk in self._chunks(message):
                await asyncio.sleep(self.pause)
                yield chunk

        return stream()

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        message = self._next([ChatMessage(role="user", content=prompt)])
        return CompletionResponse(text=message.content or "")

    async def acomplete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponse:
        return self.complete(prompt)

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        return iter([self.complete(prompt)])

    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        async def stream() -> AsyncIterator[CompletionResponse]:
            yield self.complete(prompt)

        return stream()

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[Any],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        return {"messages": list(chat_history or [])}

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        return [
            ToolSelection(
                tool_id=block.tool_call_id or "",
                tool_name=block.tool_name,
                tool_kwargs=(
                    json.loads(block.tool_kwargs)
                    if isinstance(block.tool_kwargs, str)
                    else block.tool_kwargs
                ),
            )
            for block in response.message.blocks
            if isinstance(block, ToolCallBlock)
        ]


def message(role: str, text: str, **more: Any) -> ChatMessage:
    return ChatMessage(role=role, blocks=[TextBlock(text=text)], **more)
