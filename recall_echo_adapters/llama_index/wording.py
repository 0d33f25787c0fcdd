"""What was asked, said and done, as text, in messages and results of LlamaIndex?"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock

__all__ = ["Answer", "calls_of", "last_question", "question_in", "text_of"]

# How a ReAct agent keeps its way to an answer: thoughts, actions, observations, the answer.
_TRACE: Final = re.compile(r"\s*Thought:.*\n\s*Answer:", re.S)
_OBSERVED: Final = re.compile(r"^Observation:.*?(?=^Thought:|\Z)", re.M | re.S)


def text_of(result: Any) -> str:
    """Return what a run returned as text; empty if it has none."""
    if isinstance(result, str):
        return str(result)
    if isinstance(result, ChatMessage):
        return result.content or ""
    for name in ("response", "message", "result"):  # of an engine, an agent, a model, a workflow
        inner = getattr(result, name, None)
        if inner is not None and inner is not result:
            return text_of(inner)
    return ""


def question_in(given: Any) -> str:
    """Return the question that an engine passes along, as text, as a message or not at all."""
    return text_of(given).strip()


def last_question(messages: Sequence[ChatMessage]) -> str:
    """Return what the user said last; results of tools are not the user's."""
    users = (message for message in reversed(messages) if message.role == MessageRole.USER)
    return text_of(next(users, "")).strip()


def calls_of(message: ChatMessage) -> list[tuple[str, str]]:
    """Return the calls of tools in a message: name and arguments, as text."""
    calls = [
        (block.tool_name, _as_json(block.tool_kwargs))
        for block in message.blocks
        if isinstance(block, ToolCallBlock)
    ]
    for call in message.additional_kwargs.get("tool_calls") or ():  # as older integrations do
        called = getattr(call, "function", call)
        name = getattr(called, "name", None) or getattr(called, "tool_name", None)
        if isinstance(called, dict):
            name = called.get("name") or (called.get("function") or {}).get("name")
        calls.append((str(name or ""), _as_json(called)))
    return calls


class Answer:
    """A message of the model: the answer to the user in it, and what it did on the way.

    Args:
        message: The message.
    """

    def __init__(self, message: ChatMessage) -> None:
        whole = text_of(message)
        trace = _TRACE.match(whole)
        self.text = (whole[trace.end() :] if trace else whole).strip()
        self.way = _OBSERVED.sub("", trace[0]).strip() if trace else ""


def _as_json(value: Any) -> str:
    if isinstance(value, str):
        return value
    plain = value.model_dump() if hasattr(value, "model_dump") else value
    return json.dumps(plain, ensure_ascii=False, default=str)
