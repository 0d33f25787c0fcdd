"""How does what was recalled get into the messages of a model?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock

from recall_echo_adapters.llama_index.wording import text_of

__all__ = ["Insert", "Verbatim", "inserted", "no_template", "verbatim"]

Insert: TypeAlias = Literal["system", "user", "none"]

_BRACED: Final = re.compile(r"\{[^{}]+\}")  # what the templates of LlamaIndex fill in
_NAMES: Final = re.compile(r"\{(query_str|context_str|context_msg|existing_answer)\}")


class Verbatim(ChatMessage):
    """A message that stays as it is when an engine uses it as part of a template.

    Engines with a context make one template of their prompt and the conversation, and would fill
    in `{query_str}` wherever somebody has said it.
    """

    def get_template_vars(self) -> list[str]:
        """Return that there is nothing to fill in."""
        return []

    def format_vars(self, **kwargs: Any) -> Verbatim:
        """Return the message as it is."""
        return self


def verbatim(message: ChatMessage) -> ChatMessage:
    """Return a message that templates leave alone; the same one if they would anyway."""
    if not _BRACED.search(text_of(message)):
        return message
    return Verbatim(
        role=message.role, blocks=message.blocks, additional_kwargs=message.additional_kwargs
    )


def no_template(text: str) -> str:
    """Return text in which no template finds a name, where the message is not ours to make.

    >>> no_template("say {query_str}")
    'say { query_str }'
    """
    return _NAMES.sub(r"{ \1 }", text)


def inserted(messages: Sequence[ChatMessage], text: str, where: Insert) -> list[ChatMessage]:
    """Return messages with a text added; none of them is changed.

    Args:
        messages: What the model would see.
        text: What was recalled; empty for nothing.
        where: `system` appends it to the system message, or makes one; `user` puts it before the
            text of the last message if that is the user's, or makes a user's message at the end.
    """
    shown = list(messages)
    if not text or where == "none":
        return shown
    if where == "user":
        if shown and shown[-1].role == MessageRole.USER:
            return [*shown[:-1], _with(shown[-1], text, first=True)]
        last = next((i for i in reversed(range(len(shown))) if _is_users(shown[i])), None)
        if last is not None and shown[-1].role == MessageRole.TOOL:  # in the middle of a turn
            return [*shown[:last], _with(shown[last], text, first=True), *shown[last + 1 :]]
        return [*shown, ChatMessage(role=MessageRole.USER, content=text)]
    if shown and shown[0].role == MessageRole.SYSTEM:
        return [_with(shown[0], text, first=False), *shown[1:]]
    return [ChatMessage(role=MessageRole.SYSTEM, content=text), *shown]


def _is_users(message: ChatMessage) -> bool:
    return message.role == MessageRole.USER


def _with(message: ChatMessage, text: str, *, first: bool) -> ChatMessage:
    """Return a copy of a message with a text before or after what it says."""
    texts = [block for block in message.blocks if isinstance(block, TextBlock)]
    if len(texts) == len(message.blocks) == 1:  # one text stays one text, as all models take it
        said = texts[0].text
        joined = f"{text}\n\n{said}" if first else f"{said}\n\n{text}"
        return message.model_copy(update={"blocks": [TextBlock(text=joined)]})
    blocks = (
        [TextBlock(text=text), *message.blocks]
        if first
        else [*message.blocks, TextBlock(text=text)]
    )
    return message.model_copy(update={"blocks": blocks})
