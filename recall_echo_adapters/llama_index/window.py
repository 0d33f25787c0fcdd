"""Which part of a conversation does the model see?

The newest turns that fit. A window starts at a user's message, after what the conversation's
system messages say; a call of tools stays with its results; the last question is always there,
shortened if it alone is too long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock

from recall_echo_adapters.llama_index.wording import calls_of, text_of

__all__ = ["CountTokens", "tokens_of", "windowed"]

CountTokens: TypeAlias = Callable[[str], int]

BLOCK_TOKENS: Final = 256  # of a picture or the like, as LlamaIndex reckons
GAP: Final = " […] "
_SYSTEM: Final = (MessageRole.SYSTEM, MessageRole.DEVELOPER)


def windowed(
    messages: Sequence[ChatMessage], limit: int, count: CountTokens, *, least: int = 1
) -> list[ChatMessage]:
    """Return the newest part of a conversation that holds at most so many tokens.

    System messages and the last question stay even if that is more.

    Args:
        messages: The conversation.
        limit: Tokens; raising it keeps more of the older turns.
        count: How many tokens a text has.
        least: Tokens that the last question may have in any case.
    """
    system = [message for message in messages if message.role in _SYSTEM]
    turns = _turns([message for message in messages if message.role not in _SYSTEM])
    room = limit - sum(tokens_of(message, count) for message in system)
    kept: list[ChatMessage] = []
    for turn in reversed(turns):
        size = sum(tokens_of(message, count) for message in turn)
        if size > room:
            kept = kept or _squeezed(turn, room, count, least)
            break
        kept, room = turn + kept, room - size
    return system + kept


def tokens_of(message: ChatMessage, count: CountTokens) -> int:
    """Return how many tokens a message has, calls of tools included."""
    said = count(text_of(message)) + sum(count(name + args) for name, args in calls_of(message))
    return said + BLOCK_TOKENS * sum(
        block.block_type in ("image", "audio", "video", "document") for block in message.blocks
    )


def _turns(messages: Sequence[ChatMessage]) -> list[list[ChatMessage]]:
    """Return the turns, each from a user's message; what stands before the first is left out."""
    turns: list[list[ChatMessage]] = []
    for message in messages:
        if message.role == MessageRole.USER:
            turns.append([message])
        elif turns:
            turns[-1].append(message)
    return turns


def _squeezed(
    turn: Sequence[ChatMessage], room: int, count: CountTokens, least: int
) -> list[ChatMessage]:
    """Return what of one turn fits: its question, and the newest of what followed.

    Results that the model has yet to read stay, whatever their size.
    """
    asked, *rest = turn
    groups = _groups(rest)
    unread = groups.pop() if rest and _is_open(rest) else []
    size = tokens_of(asked, count)
    if size > max(room, least):
        asked = _shortened(asked, max(room, least), count)
    room -= size + sum(tokens_of(message, count) for message in unread)
    kept: list[ChatMessage] = []
    for group in reversed(groups):
        size = sum(tokens_of(message, count) for message in group)
        if size > room:
            break
        kept, room = group + kept, room - size
    return [asked, *kept, *unread]


def _is_open(messages: Sequence[ChatMessage]) -> bool:
    """Whether the model has yet to read the results of its last call."""
    return messages[-1].role == MessageRole.TOOL


def _groups(messages: Sequence[ChatMessage]) -> list[list[ChatMessage]]:
    """Return messages in groups that must not be parted: a call of tools and its results."""
    groups: list[list[ChatMessage]] = []
    for message in messages:
        if message.role in (MessageRole.TOOL, MessageRole.FUNCTION) and groups:
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


def _shortened(message: ChatMessage, most: int, count: CountTokens) -> ChatMessage:
    """Return a message with less text: its beginning and its end."""
    text = text_of(message)
    fits, length = 1, len(text)
    while length - fits > 1:
        middle = (fits + length) // 2
        fits, length = (middle, length) if count(_cut(text, middle)) <= most else (fits, middle)
    others = [block for block in message.blocks if not isinstance(block, TextBlock)]
    return message.model_copy(update={"blocks": [TextBlock(text=_cut(text, fits)), *others]})


def _cut(text: str, characters: int) -> str:
    head = (characters + 1) // 2
    tail = characters - head
    return text[:head] + GAP + (text[-tail:] if tail else "")
