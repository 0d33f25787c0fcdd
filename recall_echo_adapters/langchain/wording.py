"""What was asked, said and done, as text, in the messages of a turn?"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from recall_echo_adapters.turns import message_id

__all__ = ["OUTPUT_KEYS", "Exchange", "answered", "as_said", "question_of", "said_last", "text_of"]

OUTPUT_KEYS: Final = ("output", "answer", "response", "text", "result")


def text_of(outputs: Any) -> str:
    """Return what a run returned as text: a message, the last of several, or a well-known key."""
    if isinstance(outputs, str):
        return str(outputs)
    if isinstance(outputs, BaseMessage):
        return str(outputs.text)
    if isinstance(outputs, Mapping):
        if outputs.get("messages"):
            return text_of(outputs["messages"])
        return next((text_of(outputs[key]) for key in OUTPUT_KEYS if outputs.get(key)), "")
    if isinstance(outputs, Sequence) and outputs and isinstance(outputs[-1], BaseMessage):
        return text_of(outputs[-1])
    return ""


def answered(outputs: Any) -> bool:
    """Return whether outputs are an answer; an agent's at a breakpoint end with something else."""
    messages = outputs.get("messages") if isinstance(outputs, Mapping) else None
    if not messages:
        return True
    return isinstance(messages[-1], AIMessage) and not messages[-1].tool_calls


def as_said(message: BaseMessage) -> dict[str, Any]:
    """Return a message as `Memory.record` takes it, in plain JSON."""
    content = str(message.text)
    said: dict[str, Any] = {
        "role": "assistant" if isinstance(message, AIMessage) else "user",
        "content": content,
    }
    if message.id:
        said["id"] = message_id(message.id, content)
    if message.name:
        said["name"] = message.name
    return said


def said_last(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return what the user said last: the messages that a turn begins with."""
    end = next((i for i in reversed(range(len(messages))) if _is_users(messages[i])), -1)
    start = end
    while start > 0 and _is_users(messages[start - 1]):
        start -= 1
    return list(messages[start : end + 1]) if end >= 0 else []


def question_of(said: Sequence[Mapping[str, Any]]) -> str:
    """Return messages of the user as one text."""
    return "\n".join(one["content"] for one in said if one["content"].strip())


class Exchange:
    """What the model and tools said and did in a turn.

    Args:
        messages: A conversation; what was shortened to a summary is not in it any more.
        ids: Of the messages that the turn began with.
        own_tools: Tools that are the memory's: what they say nobody else has said.
    """

    def __init__(
        self, messages: Sequence[BaseMessage], ids: Collection[str], own_tools: Collection[str]
    ) -> None:
        begun = next((i for i in reversed(range(len(messages))) if messages[i].id in ids), -1)
        self._after = [one for one in messages[begun + 1 :] if not isinstance(one, HumanMessage)]
        self._own_tools = own_tools

    @property
    def answer(self) -> AIMessage | None:
        """The last message of the model that is not only a call of tools."""
        last = next((m for m in reversed(self._after) if isinstance(m, AIMessage)), None)
        return last if last is not None and str(last.text).strip() else None

    def actions(self) -> str:
        """Return what the model said and did on the way: a memory may show there only."""
        parts: list[str] = []
        for message in self._after:
            if isinstance(message, AIMessage):
                parts.append("" if message is self.answer else str(message.text))
                parts += [
                    _as_json(call["args"])
                    for call in message.tool_calls
                    if call["name"] not in self._own_tools
                ]
        return "\n".join(part for part in parts if part.strip())

    def found(self) -> list[tuple[str, str]]:
        """Return what tools that are not the memory's were asked, and what they answered."""
        asked = {
            call["id"]: _as_json(call["args"])
            for message in self._after
            if isinstance(message, AIMessage)
            for call in message.tool_calls
        }
        return [
            (asked.get(message.tool_call_id, ""), str(message.text))
            for message in self._tools()
            if message.name not in self._own_tools and not _receipt(message)
        ]

    def recalls(self) -> list[str]:
        """Return the ids of the recalls that tools made."""
        receipts = (_receipt(message) for message in self._tools())
        return [receipt["recall_id"] for receipt in receipts if receipt.get("recall_id")]

    @property
    def forgot(self) -> bool:
        """Whether the model made the memory forget something."""
        return any(_receipt(message).get("forgot") for message in self._tools())

    def _tools(self) -> list[ToolMessage]:
        return [message for message in self._after if isinstance(message, ToolMessage)]


def _receipt(message: ToolMessage) -> Mapping[str, Any]:
    """Return what a tool of the memory left in its message; of another tool, nothing."""
    left = message.artifact
    return left if isinstance(left, dict) and "namespace" in left else {}


def _as_json(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, ensure_ascii=False, default=str)


def _is_users(message: BaseMessage) -> bool:
    """Whether a user wrote a message; a summary that stands for older ones is nobody's."""
    return isinstance(message, HumanMessage) and "lc_source" not in message.additional_kwargs
