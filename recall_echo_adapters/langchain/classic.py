"""How does a classic chain remember, through `memory=`?"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, Final

from langchain_classic.base_memory import BaseMemory
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from pydantic import Field, PrivateAttr

from recall_echo_adapters.langchain.holding import STRICT, HoldsMemory
from recall_echo_adapters.langchain.recalled_text import RECEIPT, RecalledText, receipt_in
from recall_echo_adapters.langchain.wording import OUTPUT_KEYS, text_of
from recall_echo_adapters.turns import Save, asked, close_turn
from recall_echo_adapters.verdicts import Recalled

__all__ = ["RecallEchoMemory", "RecalledText"]

log = logging.getLogger(__name__)

INPUT_KEYS: Final = ("input", "question", "query", "human_input", "user_input")
# What chains pass along beside what was asked and answered.
BESIDE: Final = (
    "chat_history",
    "history",
    "agent_scratchpad",
    "intermediate_steps",
    "source_documents",
    "generated_question",
    "context",
    "messages",
    "stop",
)
# Recalls whose answer is still awaited. Raising it matters only to callers that pass the memories
# on themselves, leave them out of `save_context`, and have more questions open than this.
MOST_OPEN: Final = 256


class RecallEchoMemory(HoldsMemory, BaseMemory):
    """The memory of a classic chain: recalls for its prompt, keeps what was said.

    New code is better served by `RecallEchoMiddleware`. A memory object belongs to one user: make
    one for each, from `memory.namespace(user_id)`.

    Attributes:
        memory: The user's namespace.
        memory_key: The prompt's variable that memories go into.
        input_key: The chain's input that holds the question; found by itself under a well-known
            name, or when there is one only.
        output_key: The chain's output that holds the answer; found likewise.
        return_messages: Whether the variable is a list of messages, for a `MessagesPlaceholder`,
            instead of text.
        k: Most memories; raising it adds less relevant ones at the end.
        max_tokens: Most tokens of them, by a rough count.
        save: Whose messages are kept: both, user or none. An answer that says little more than
            the question and the memories is not kept.
        session_id: The conversation that is kept.
    """

    model_config = STRICT

    memory_key: str = "history"
    input_key: str | None = None
    output_key: str | None = None
    return_messages: bool = False
    k: int = Field(default=5, ge=1)
    max_tokens: int | None = Field(default=2_000, ge=1)
    save: Save = "both"
    session_id: str | None = None
    _open: deque[tuple[str, Recalled]] = PrivateAttr(
        default_factory=partial(deque, maxlen=MOST_OPEN)
    )

    @property
    def memory_variables(self) -> list[str]:
        """The prompt's variables that this fills."""
        return [self.memory_key]

    def load_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Return what answers the question among the inputs; nothing when there is none."""
        question = self._question(inputs) if inputs else ""
        if not question.strip():
            return {self.memory_key: self._shown(RecalledText())}
        found = self.memory.recall(asked(question), self.k, max_tokens=self.max_tokens)
        if found.id is None:  # nothing was found
            return {self.memory_key: self._shown(RecalledText())}
        receipt = Recalled(self.memory.name, found.id)
        self._open.append((question, receipt))
        return {self.memory_key: self._shown(RecalledText(found.as_text(self.max_tokens), receipt))}

    def save_context(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        """Mark which memories the answer used, and keep question and answer."""
        question, answer = self._question(inputs), self._answer(outputs)
        receipt = self._awaited(question, receipt_in(inputs.get(self.memory_key)))
        close_turn(
            self.memory,
            [] if receipt is None else [receipt.recall_id],
            question=question,
            response=answer,
            said=[{"role": "user", "content": question}],
            answer={"role": "assistant", "content": answer},
            session_id=self.session_id,
            save=self.save,
        )

    def clear(self) -> None:
        """Do nothing: a new conversation begins, and what is remembered stays.

        To erase, use `memory.forget(session=...)` or `memory.forget(everything=True)`.
        """

    async def aload_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Return what answers the question among the inputs; nothing when there is none."""
        return await asyncio.to_thread(self.load_memory_variables, inputs)

    async def asave_context(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        """Mark which memories the answer used, and keep question and answer."""
        await asyncio.to_thread(self.save_context, inputs, outputs)

    async def aclear(self) -> None:
        """Do nothing; see `clear`."""

    # Inside

    def _shown(self, text: RecalledText) -> RecalledText | list[BaseMessage]:
        if not self.return_messages:
            return text
        if not text:
            return []
        carried = {} if text.receipt is None else {RECEIPT: text.receipt._asdict()}
        return [SystemMessage(str(text), additional_kwargs=carried)]

    def _awaited(self, question: str, carried: Recalled | None) -> Recalled | None:
        """Return the recall that a question was answered with, and await its answer no more.

        The inputs carry it. Who hands on less than a chain does means the last with this question.
        """
        for entry in reversed(tuple(self._open)):
            if carried == entry[1] or (carried is None and question == entry[0]):
                with suppress(ValueError):  # another thread has it
                    self._open.remove(entry)
                return entry[1]
        return carried

    def _question(self, inputs: Mapping[str, Any]) -> str:
        return _text("input", self.input_key, inputs, INPUT_KEYS, (*BESIDE, self.memory_key))

    def _answer(self, outputs: Mapping[str, Any]) -> str:
        return _text("output", self.output_key, outputs, OUTPUT_KEYS, BESIDE)


def _text(
    what: str,
    key: str | None,
    values: Mapping[str, Any],
    known: tuple[str, ...],
    beside: tuple[str, ...],
) -> str:
    """Return the text of the input or output that is meant.

    Raises:
        ValueError: there is no telling which, or the one that was named is not there.
    """
    if key is not None and key not in values:
        raise ValueError(f"{what}_key={key!r} is not among {sorted(values)}")
    return _plain(values[key if key is not None else _picked(what, values, known, beside)])


def _picked(
    what: str, values: Mapping[str, Any], known: tuple[str, ...], beside: tuple[str, ...]
) -> str:
    """Return which input or output is meant: one of a well-known name, or the only one."""
    left = [name for name in values if name not in beside]
    left = left or [name for name in values if name == "messages"]
    meant = next((name for name in known if name in left), None)
    if meant is None and len(left) == 1:
        meant = left[0]
    if meant is None:
        raise ValueError(
            f"cannot tell which of {sorted(values)} is the {what}:"
            f" say RecallEchoMemory({what}_key=...)"
        )
    others = tuple(name for name in left if name != meant)
    if others:
        _say_which(what, meant, others)
    return meant


@lru_cache(maxsize=256)  # so that each case is told of once
def _say_which(what: str, meant: str, others: tuple[str, ...]) -> None:
    log.warning(
        "taking %r for the %s, not %s; say RecallEchoMemory(%s_key=...) to choose",
        meant,
        what,
        " or ".join(map(repr, others)),
        what,
    )


def _plain(value: Any) -> str:
    """Return an input or output as text, whatever models and parsers make of it."""
    if value is None or isinstance(value, str):
        return str(value or "")
    parts = value if isinstance(value, list) else [value]
    if parts and all(isinstance(part, BaseMessage) for part in parts):
        return text_of(value)
    if isinstance(value, list) and all(_is_content(part) for part in value):
        return str(AIMessage(value).text)
    return text_of(value) or json.dumps(value, ensure_ascii=False, default=str)


def _is_content(part: object) -> bool:
    """Whether this is a part of what a model says, as some providers give it."""
    return isinstance(part, str) or (isinstance(part, dict) and "type" in part)
