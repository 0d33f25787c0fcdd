"""What was asked, said and done, as text, in the messages of a turn?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

__all__ = ["OUTPUT_KEYS", "Exchange", "as_said", "text_of"]

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


def as_said(message: BaseMessage) -> dict[str, Any]:
    """Return a message as `Memory.record` takes it."""
    said: dict[str, Any] = {
        "role": "assistant" if isinstance(message, AIMessage) else "user",
        "content": str(message.text),
    }
    if message.id:
        said["id"] = message.id
    if message.name:
        said["name"] = message.name
    return said


class Exchange:
    """The turn that a list of messages ends with: from what the user said last.

    Args:
        messages: A conversation.
    """

    def __init__(self, messages: Sequence[BaseMessage]) -> None:
        end = next((i for i in reversed(range(len(messages))) if _is_users(messages[i])), -1)
        start = end
        while start > 0 and _is_users(messages[start - 1]):
            start -= 1
        self.said: list[BaseMessage] = list(messages[start : end + 1]) if end >= 0 else []
        self._after = list(messages[end + 1 :]) if end >= 0 else []

    @property
    def question(self) -> str:
        """What the user said."""
        return "\n".join(text for message in self.said if (text := str(message.text)).strip())

    @property
    def answer(self) -> AIMessage | None:
        """The last message of the model that is not only a call of tools."""
        last = next((m for m in reversed(self._after) if isinstance(m, AIMessage)), None)
        return last if last is not None and str(last.text).strip() else None

    def actions(self, own_tools: Sequence[str] = ()) -> str:
        """Return what the model said and did on the way: a memory may show there only.

        Args:
            own_tools: Tools whose calls say nothing about what was used: the memory's own.
        """
        parts: list[str] = []
        for message in self._after:
            if isinstance(message, AIMessage):
                parts.append("" if message is self.answer else str(message.text))
                parts += [
                    json.dumps(call["args"], ensure_ascii=False, default=str)
                    for call in message.tool_calls
                    if call["name"] not in own_tools
                ]
        return "\n".join(part for part in parts if part.strip())

    def heard(self, own_tools: Sequence[str] = ()) -> str:
        """Return what others than the model said: the user, and tools that are not the memory's."""
        results = [
            str(message.text)
            for message in self._after
            if isinstance(message, ToolMessage) and message.name not in own_tools
        ]
        return "\n".join([self.question, *results])

    def recalls(self) -> list[str]:
        """Return the ids of the recalls that tools made."""
        return [
            message.artifact["recall_id"]
            for message in self._after
            if isinstance(message, ToolMessage)
            and isinstance(message.artifact, dict)
            and message.artifact.get("recall_id")
        ]


def _is_users(message: BaseMessage) -> bool:
    """Whether a user wrote a message; a summary that stands for older ones is nobody's."""
    return isinstance(message, HumanMessage) and "lc_source" not in message.additional_kwargs
