"""How does a `Memory` that somebody already has get memories that last?"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, Final, Self

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemoryBlock
from pydantic import ConfigDict, Field, PrivateAttr

from recall_echo_adapters.llama_index.injection import no_template
from recall_echo_adapters.llama_index.recalling import tagged_run, tell
from recall_echo_adapters.llama_index.turn import Turn, is_final
from recall_echo_adapters.llama_index.wording import last_question
from recall_echo_adapters.namespaces import memory_of
from recall_echo_adapters.turns import Save, record_said
from recall_echo_core import Memory, approximate_tokens

__all__ = ["RecallEchoMemoryBlock"]

MOST_TURNS: Final = 1_024  # recalls kept by session and question


@dataclass(frozen=True)
class _Recalled:
    recall_id: str | None
    ids: list[str]
    text: str


class RecallEchoMemoryBlock(BaseMemoryBlock[str]):
    """Shows what is remembered in a `Memory` of LlamaIndex: pass it in `memory_blocks=`.

    One question is searched for once in a session, however often the memory is read. Messages are
    kept when the memory lets go of them, which in a short conversation never happens: to remember
    those as well, use `RecallEchoMemory` instead.

    >>> import asyncio, tempfile
    >>> from recall_echo_core import open_memory
    >>> asked = [ChatMessage(role="user", content="Where does Ada live?")]
    >>> with tempfile.TemporaryDirectory() as folder, open_memory(folder) as memory:
    ...     relation = memory.remember("Ada", "LIVES_IN", "Paris")
    ...     block = RecallEchoMemoryBlock.from_defaults(memory)  # Memory(memory_blocks=[block])
    ...     "Ada lives in Paris" in asyncio.run(block.aget(asked, session_id="monday"))
    True

    Attributes:
        memory: The namespace of the user.
        name: What the block is called in the memory.
        priority: 0 is never shortened; of others the highest number goes first.
        k: Most memories recalled for a question; raising it adds less relevant ones at the end.
        max_tokens: Most tokens of them; raising it shows more of the last ones.
        save: Whose messages are kept: both, user or none.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: Memory = Field(exclude=True, repr=False)
    name: str = "recall_echo"
    description: str | None = "What is remembered from earlier conversations."
    priority: int = 1
    k: int = Field(default=5, ge=1)
    max_tokens: int = Field(default=2_000, ge=1)
    save: Save = "both"
    _recalls: OrderedDict[tuple[str, str], _Recalled] = PrivateAttr(default_factory=OrderedDict)
    _lock: Any = PrivateAttr(default_factory=RLock)

    @classmethod
    def from_defaults(
        cls,
        memory: Memory,
        *,
        user_id: str | int | None = None,
        require_namespace: bool = False,
        **options: Any,
    ) -> Self:
        """Return the block of one user.

        Args:
            memory: Any namespace of the store.
            user_id: Whose namespace is used instead.
            require_namespace: Whether leaving `user_id` out is an error.
            options: The attributes of the class.

        Raises:
            ValueError: no `user_id` though it is required, or an attribute that cannot be.
        """
        own = memory_of(memory, "user_id", {"user_id": user_id}, required=require_namespace)
        return cls(memory=own, **options)

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        session = str(block_kwargs.get("session_id") or "")
        question = last_question(messages or [])
        return await asyncio.to_thread(self._recalled, session, question) if question else ""

    async def aput(
        self,
        messages: list[ChatMessage],
        from_short_term_memory: bool = False,
        session_id: str | None = None,
    ) -> None:
        """Keep messages that the memory lets go of; they stay as they are."""
        if not from_short_term_memory or self.accept_short_term_memory:
            await asyncio.to_thread(self._keep, list(messages), session_id or "")

    async def _aput(self, messages: list[ChatMessage]) -> None:
        await self.aput(messages)

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Return the content without its last lines, which rank lowest; `None` if none is left."""
        lines = content.split("\n")
        fence, body, end = lines[:2], lines[2:-1], lines[-1:]
        most = approximate_tokens(content) - tokens_to_truncate
        while body and approximate_tokens("\n".join([*fence, *body, *end])) > most:
            body.pop()
        return "\n".join([*fence, *body, *end]) if body else None

    def _recalled(self, session: str, question: str) -> str:
        with self._lock:
            known = self._recalls.get((session, question))
            if known is None:
                found = self.memory.recall(
                    question, self.k, run_id=tagged_run(), max_tokens=self.max_tokens
                )
                text = no_template(found.as_text(self.max_tokens))
                known = _Recalled(found.id, [hit.id for hit in found], text)
                self._recalls[session, question] = known
                while len(self._recalls) > MOST_TURNS:
                    self._recalls.popitem(last=False)
        tell(known.recall_id, self.memory.name, known.ids)
        return known.text

    def _keep(self, messages: Sequence[ChatMessage], session: str) -> None:
        """Keep turns that are whole; of one without an answer what the user said."""
        turn = Turn()
        for message in messages:
            if is_final(message) and turn.said:
                known = self._recalls.get((session, turn.said[-1]["content"].strip()))
                turn.recall_id = None if known is None else known.recall_id
                turn.close(self.memory, message, session or None, self.save)
                turn = Turn()
            elif message.role in (MessageRole.USER, MessageRole.ASSISTANT, MessageRole.TOOL):
                turn.add(message)
        record_said(self.memory, turn.said, session or None, self.save)
