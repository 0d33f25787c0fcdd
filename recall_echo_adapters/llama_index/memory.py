"""How does a chat engine or an agent remember from one conversation to the next?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence, Sized
from contextlib import suppress
from threading import RLock
from typing import Any, Final, Self
from weakref import WeakValueDictionary

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemory
from llama_index.core.memory.memory import generate_chat_store_key
from pydantic import ConfigDict, Field, PrivateAttr

from recall_echo_adapters.abilities import Call
from recall_echo_adapters.llama_index.injection import Insert, inserted, verbatim
from recall_echo_adapters.llama_index.recalling import tagged_run, tell
from recall_echo_adapters.llama_index.references import memory_named, register_memory
from recall_echo_adapters.llama_index.turn import Turn, is_final
from recall_echo_adapters.llama_index.window import windowed
from recall_echo_adapters.llama_index.wording import last_question, question_in
from recall_echo_adapters.namespaces import memory_of
from recall_echo_adapters.turns import Save
from recall_echo_core import Memory, UnknownRecall, approximate_tokens

__all__ = ["RecallEchoMemory"]

SAVED: Final = ("session_id", "token_limit", "k", "max_tokens", "insert", "save", "reference")
# Conversations of this process by a mark of each: a workflow saves and loads its memory between two
# runs, and the object that its user holds has to stay the one that goes on.
_LIVE: Final[WeakValueDictionary[str, RecallEchoMemory]] = WeakValueDictionary()


def about(text: str) -> Sized:
    """Return something as long as a text has tokens, as LlamaIndex counts them."""
    return range(approximate_tokens(text))


class RecallEchoMemory(BaseMemory):
    """Gives a chat engine or an agent a memory that lasts: pass it as `memory=`.

    It holds one conversation, of which the model sees the newest turns that fit, and what is
    remembered from earlier ones: recalled once a turn, however often the engine reads. When the
    answer is there, what it used is marked and what was said is kept. One object serves one
    conversation of one user; any number of them share a store.

    >>> import tempfile
    >>> from llama_index.core.chat_engine import SimpleChatEngine
    >>> from llama_index.core.llms import MockLLM
    >>> from recall_echo_core import open_memory
    >>> with tempfile.TemporaryDirectory() as folder, open_memory(folder) as memory:
    ...     relation = memory.remember("Ada", "LIVES_IN", "Paris")
    ...     chat = RecallEchoMemory.from_defaults(memory, user_id="ada")
    ...     engine = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=chat)
    ...     answer = engine.chat("Good morning!")
    ...     [episode.content for episode in memory.namespace("ada").episodes(limit=1)]
    ['Good morning!']

    Attributes:
        memory: The namespace of the user.
        session_id: The conversation; what is kept carries it.
        token_limit: Most tokens of the messages that the model sees; raising it keeps more of the
            older turns. A last question that is longer is shortened, never refused.
        k: Most memories recalled for a turn; raising it adds less relevant ones at the end.
        max_tokens: Most tokens of them, out of `token_limit`, of which they take half at most;
            raising it shows more of them.
        insert: Where the model sees them: with the user's last message, which every engine and
            agent passes on; in the `system` message, which a ReActAgent throws away; or, with
            `none`, nowhere, as for an engine that has a `RecallEchoRetriever`.
        save: Whose messages are kept: both, user or none. An answer that says little more than
            the question and the memories is not kept.
        reference: What this memory is called in what `to_dict` saves.
        tokenizer_fn: Returns the tokens of a text; by default about one for three bytes.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: Memory = Field(exclude=True, repr=False)
    session_id: str = Field(default_factory=generate_chat_store_key, min_length=1)
    token_limit: int = Field(default=30_000, ge=1)
    k: int = Field(default=5, ge=1)
    max_tokens: int = Field(default=2_000, ge=1)
    insert: Insert = "user"
    save: Save = "both"
    reference: str | None = None
    tokenizer_fn: Callable[[str], Sized] = Field(default=about, exclude=True, repr=False)
    _messages: list[ChatMessage] = PrivateAttr(default_factory=list)
    _turn: Turn = PrivateAttr(default_factory=Turn)
    _lock: Any = PrivateAttr(default_factory=RLock)
    _mark: str = PrivateAttr(default_factory=generate_chat_store_key)

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex knows it."""
        return "RecallEchoMemory"

    @classmethod
    def from_defaults(  # type: ignore[override]  # it cannot do without a memory
        cls,
        memory: Memory,
        *,
        user_id: str | int | None = None,
        require_namespace: bool = False,
        chat_history: Sequence[ChatMessage] | None = None,
        **options: Any,
    ) -> Self:
        """Return the memory of one conversation.

        Args:
            memory: Any namespace of the store.
            user_id: Whose namespace is used instead.
            require_namespace: Whether leaving `user_id` out is an error.
            chat_history: What was said before, elsewhere; it is not kept.
            options: The attributes of the class.

        Raises:
            ValueError: no `user_id` though it is required, or an option that there is not.
        """
        own = memory_of(memory, "user_id", {"user_id": user_id}, required=require_namespace)
        if options.get("session_id") is None:
            options.pop("session_id", None)
        made = cls(memory=own, **options)
        if made.reference is not None:
            register_memory(made.reference, memory)
        made._messages = list(chat_history or ())
        return made

    # What the model sees

    def get(self, input: Any = None, **kwargs: Any) -> list[ChatMessage]:
        """Return the newest messages that fit, with what is remembered.

        Args:
            input: The question, if it is not among the messages yet: text or a message.
            kwargs: `initial_token_count`, what the engine adds itself; others say nothing here.
        """
        with self._lock:
            text = self._recalled(question_in(input))
            limit = self.token_limit - int(kwargs.get("initial_token_count") or 0)
            limit -= self._count(text)
            shown = windowed(self._messages, limit, self._count, least=self.token_limit // 2)
        return [verbatim(message) for message in inserted(shown, text, self.insert)]

    async def aget(self, input: Any = None, **kwargs: Any) -> list[ChatMessage]:
        """Return the newest messages that fit, with what is remembered; see `get`."""
        return await asyncio.to_thread(self.get, input, **kwargs)

    def get_all(self) -> list[ChatMessage]:
        """Return the conversation, without anything that was recalled."""
        with self._lock:
            return list(self._messages)

    async def aget_all(self) -> list[ChatMessage]:
        """Return the conversation, without anything that was recalled."""
        return await asyncio.to_thread(self.get_all)

    # What is said

    def put(self, message: ChatMessage) -> None:
        """Add a message; the final answer closes the turn, and only then anything is kept."""
        self.put_messages([message])

    async def aput(self, message: ChatMessage) -> None:
        """Add a message; see `put`."""
        await asyncio.to_thread(self.put, message)

    def put_messages(self, messages: Sequence[ChatMessage]) -> None:
        """Add messages, as an agent does at its end; see `put`."""
        with self._lock:
            self._messages += messages
            last = len(messages) - 1
            for number, message in enumerate(messages):
                if number == last and is_final(message):
                    self._close(message)
                else:
                    self._add(message)

    async def aput_messages(self, messages: Sequence[ChatMessage]) -> None:
        """Add messages; see `put_messages`."""
        await asyncio.to_thread(self.put_messages, messages)

    def set(self, messages: Sequence[ChatMessage]) -> None:
        """Replace the conversation by one held elsewhere; it is no evidence and is not kept."""
        with self._lock:
            self._messages, self._turn = list(messages), Turn()

    async def aset(self, messages: Sequence[ChatMessage]) -> None:
        """Replace the conversation; see `set`."""
        await asyncio.to_thread(self.set, messages)

    def reset(self) -> None:
        """Clear the conversation; what is remembered stays. To erase, use `Memory.forget`."""
        self.set([])

    async def areset(self) -> None:
        """Clear the conversation; see `reset`."""
        await asyncio.to_thread(self.reset)

    # What came of it

    @property
    def recall_ids(self) -> list[str]:
        """The ids of the recalls of this turn, or of the last one if it is closed."""
        with self._lock:
            return self._turn.recalls

    def feedback(self, outcome: str | float, *, source: str = "user") -> int:
        """Say how the last turn went; return how many recalls took it.

        Args:
            outcome: success, partial, failed, or a number in [0, 1].
            source: Who says so; a later word of the same source replaces it.
        """
        taken = 0
        for recall_id in self.recall_ids:
            with suppress(UnknownRecall):  # forgotten since, or expired
                self.memory.feedback(recall_id, outcome, source=source)
                taken += 1
        return taken

    async def afeedback(self, outcome: str | float, *, source: str = "user") -> int:
        """Say how the last turn went; see `feedback`."""
        return await asyncio.to_thread(self.feedback, outcome, source=source)

    def found(self, recall_id: str | None) -> None:
        """Take note of a recall that a retriever or a tool made for this turn."""
        with self._lock:
            self._open()
            self._turn.note(recall_id)

    def forgot(self) -> None:
        """Take note that a tool made the memory forget: the turn that asked for it is not kept."""
        with self._lock:
            self._turn.forgot = True

    def call(self) -> Call:
        """Return what a tool of the memory has to know about this turn."""
        with self._lock:
            return Call(
                self.memory,
                heard=self._turn.users_words,
                found=self._turn.answers,
                recalls=self._turn.recalls,
                said=list(self._turn.said),
                session_id=self.session_id,
                save=self.save,
            )

    # Saving, copying

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Return the conversation and what the memory is called, as JSON can hold them.

        Raises:
            ValueError: it was made without `reference`, so it could not be found again.
        """
        if self.reference is None:
            raise ValueError(
                "this memory has no name to be found by again; make it with"
                " from_defaults(memory, reference='main'), or with the path of its folder"
            )
        _LIVE[self._mark] = self
        with self._lock:
            return {
                "mark": self._mark,
                "class_name": self.class_name(),
                "namespace": self.memory.name,
                "chat_history": [json.loads(one.model_dump_json()) for one in self._messages],
                "turn": self._turn.dumped(),
                **{name: getattr(self, name) for name in SAVED},
            }

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Self:
        """Return what `to_dict` saved, with the memory that its reference names.

        If that very object is here and has not gone on since, it is what is returned.

        Args:
            data: What was saved.
            kwargs: `tokenizer_fn`, which cannot be saved.

        Raises:
            LookupError: no such memory here; `register_memory` it before.
        """
        live = None if kwargs else _LIVE.get(data["mark"])
        if isinstance(live, cls) and live.to_dict() == data:
            return live
        store = memory_named(data["reference"])
        same = data["namespace"] == store.name
        memory = store if same else store.namespace(data["namespace"])
        made = cls(memory=memory, **{name: data[name] for name in SAVED}, **kwargs)
        made._messages = [ChatMessage.model_validate(one) for one in data["chat_history"]]
        made._turn = Turn.loaded(data["turn"])
        return made

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return a conversation of its own over the same memory."""
        with self._lock:
            made = type(self).model_construct(**dict(self))
            made._messages = [message.model_copy(deep=True) for message in self._messages]
            made._turn = Turn.loaded(self._turn.dumped())
        return made

    def __copy__(self) -> Self:
        return self.__deepcopy__()

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(
            "a RecallEchoMemory cannot be pickled: it would lose its store. Save to_dict(), with"
            " from_defaults(memory, reference=...), or serialize a Context by JsonSerializer"
        )

    # Inside

    def _count(self, text: str) -> int:
        return len(self.tokenizer_fn(text))

    def _recalled(self, asked: str) -> str:
        """Return what is remembered about the question of this turn, found once."""
        turn = self._turn
        if turn.closed and not asked:
            return ""  # the agent looks back at what was said; nobody asks anything
        question = asked or last_question(self._messages)
        if not question or self.insert == "none":
            return ""
        turn = self._open()
        if turn.question != question:
            most = max(1, min(self.max_tokens, self.token_limit // 2))
            found = self.memory.recall(
                question,
                self.k,
                run_id=tagged_run(),
                max_tokens=most,
                count_tokens=self._count,
            )
            turn.question, turn.recall_id = question, found.id
            turn.ids = [hit.id for hit in found]
            turn.text = found.as_text(most, count_tokens=self._count)
        tell(turn.recall_id, self.memory.name, turn.ids)
        return turn.text

    def _open(self) -> Turn:
        """Return the turn that is going on, a new one if the last one is closed."""
        if self._turn.closed:
            self._turn = Turn()
        return self._turn

    def _add(self, message: ChatMessage) -> None:
        if message.role == MessageRole.USER:
            self._open()
        if not self._turn.closed:
            self._turn.add(message)

    def _close(self, answer: ChatMessage) -> None:
        """Close the turn, unless nobody asked anything."""
        turn = self._turn
        if turn.closed or not (turn.said or turn.question or turn.found):
            return
        turn.close(self.memory, answer, self.session_id, self.save)
