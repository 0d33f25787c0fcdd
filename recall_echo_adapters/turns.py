"""What does a turn leave in a memory when it closes?

Which recalled memories its answer used, and what was said. Only then is anything written, so
that a question never recalls itself.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from recall_echo_core import Memory, NotAllowed, UnknownRecall

__all__ = ["Message", "Save", "asked", "close_turn", "message_id", "record_said", "whole"]

log = logging.getLogger(__name__)

Save: TypeAlias = Literal["both", "user", "none"]
Message: TypeAlias = Mapping[str, Any]

LONGEST_QUESTION: Final = 10_000  # characters; the model of vectors reads far less
LONGEST_NAME: Final = 500  # characters
_PAIRLESS: Final = re.compile("[\ud800-\udfff]")


def close_turn(
    memory: Memory,
    recalls: Iterable[str],
    *,
    question: str,
    response: str,
    actions: str = "",
    said: Sequence[Message],
    answer: Message | None,
    session_id: str | None,
    save: Save,
) -> None:
    """Mark which memories were used, then keep what was said.

    An answer that says little more than the question and the memories is not kept: it would be
    remembered for having been remembered.

    Args:
        memory: The namespace of the turn.
        recalls: Ids of its recalls.
        question: What was asked.
        response: The answer as text.
        actions: What the model said and did on the way: a memory it used may show there only.
        said: The user's messages, as `Memory.record` takes them.
        answer: The final answer as a message, if there is one.
        session_id: The conversation.
        save: Whose messages are kept.
    """
    echo = False
    for recall_id in recalls:
        told = partial(
            memory.mark_used,
            recall_id,
            response=whole(response),
            actions=actions,
            question=whole(question),
        )
        try:
            echo = told().echo or echo
        except NotAllowed:  # feedback has been given, so what was used stays as it is
            echo = told(replace=False).echo or echo
        except UnknownRecall as error:
            log.info("what was used of a recall is not kept: %s", error)
    answered = [answer] if answer is not None and save == "both" and not echo else []
    record_said(memory, [*said, *answered], session_id, save)


def whole(text: str) -> str:
    """Return text with a replacement character for each half of a surrogate pair.

    Models that stream emoji leave such halves, and a turn is not to be lost for them.
    """
    return _PAIRLESS.sub("\ufffd", text)


def asked(text: str) -> str:
    """Return a question as a memory takes it: whole, and no longer than anybody asks."""
    return whole(text)[:LONGEST_QUESTION]


def message_id(id: object, content: str) -> str:
    """Return what names a message: its id and what it says, since hosts let users edit them."""
    digest = hashlib.blake2b(whole(content).encode(), digest_size=6).hexdigest()
    return f"{whole(str(id))[:LONGEST_NAME]}:{digest}"


def record_said(
    memory: Memory, said: Sequence[Message], session_id: str | None, save: Save
) -> list[str]:
    """Keep messages as episodes; return their ids. Empty ones are left out."""
    messages = [
        {
            key: (whole(value)[:LONGEST_NAME] if key == "name" else whole(value))
            if isinstance(value, str)
            else value
            for key, value in message.items()
        }
        for message in said
        if message["content"].strip()
    ]
    if save == "none" or not messages:
        return []
    session = None if session_id is None else whole(session_id)[:LONGEST_NAME]
    return memory.record(messages, session_id=session)
