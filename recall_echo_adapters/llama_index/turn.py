"""What has happened in a turn of a conversation so far?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory.memory import generate_chat_store_key

from recall_echo_adapters.abilities import ABILITIES
from recall_echo_adapters.llama_index.wording import Answer, calls_of, text_of
from recall_echo_adapters.turns import Save, close_turn

if TYPE_CHECKING:
    from recall_echo_core import Memory

__all__ = ["Turn", "is_final"]

MOST_FOUND: Final = 32  # recalls of a turn that are kept, in case turns break off for ever


@dataclass
class Turn:
    """A turn, from what the user says to the final answer. Plain data, so that it can be saved.

    Attributes:
        question: What was recalled for; `None` before.
        recall_id: Its receipt.
        ids: What it found.
        text: What it found, as the model reads it.
        said: The user's messages, as `Memory.record` takes them: by its id each is kept once.
        actions: What the model said and did on the way.
        asked: What tools were asked, the memory's own included.
        heard: What tools answered.
        found: Other recalls of the turn: of a retriever, of tools.
        forgot: Whether the model made the memory forget something: then nothing is kept.
        closed: Whether the answer was given.
    """

    question: str | None = None
    recall_id: str | None = None
    ids: list[str] = field(default_factory=list)
    text: str = ""
    said: list[dict[str, Any]] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    forgot: bool = False
    closed: bool = False

    @classmethod
    def loaded(cls, saved: Mapping[str, Any]) -> Turn:
        """Return the turn that `saved` describes."""
        return cls(**saved)

    def dumped(self) -> dict[str, Any]:
        """Return the turn as JSON can hold it."""
        return asdict(self)

    @property
    def recalls(self) -> list[str]:
        """The ids of all its recalls."""
        own = [] if self.recall_id is None else [self.recall_id]
        return list(dict.fromkeys([*own, *self.found]))

    @property
    def users_words(self) -> str:
        """What the user said."""
        return "\n".join(said["content"] for said in self.said)

    @property
    def answers(self) -> list[tuple[str, str]]:
        """Of each answer of a tool, what the model had asked tools by then or later, and it."""
        asked = "\n".join(self.asked)
        return [(asked, heard) for heard in self.heard]

    def note(self, recall_id: str | None) -> None:
        """Take note of a recall that somebody else made for this turn."""
        if recall_id is not None and recall_id not in self.found:
            self.found = [*self.found, recall_id][-MOST_FOUND:]

    def add(self, message: ChatMessage) -> None:
        """Take note of a message that is not the final answer."""
        text = text_of(message)
        if message.role == MessageRole.USER:
            said = {"role": "user", "content": text, "id": generate_chat_store_key()}
            self.said.append(said)
        elif message.role == MessageRole.ASSISTANT:
            calls = calls_of(message)
            self.asked += [args for _, args in calls]
            others = [args for name, args in calls if name not in ABILITIES]
            self.actions += [part for part in (text, *others) if part.strip()]
        elif message.role == MessageRole.TOOL:
            self.heard.append(text)

    def close(
        self, memory: Memory, answer: ChatMessage, session_id: str | None, save: Save
    ) -> None:
        """Mark which memories the answer used, then keep what was said."""
        told = Answer(answer)
        said = {"role": "assistant", "content": told.text}
        if self.said:  # a turn that is saved and loaded may be closed twice
            said["id"] = f"{self.said[-1]['id']} answer"
        close_turn(
            memory,
            self.recalls,
            question=self.question or self.users_words,
            response=told.text,
            actions="\n".join([*self.actions, told.way]),
            said=self.said,
            answer=said,
            session_id=session_id,
            save="none" if self.forgot else save,
        )
        self.closed, self.text = True, ""


def is_final(message: ChatMessage) -> bool:
    """Whether a message is the model's answer, not a call of tools and not nothing."""
    return (
        message.role == MessageRole.ASSISTANT
        and bool(text_of(message).strip())
        and not calls_of(message)
    )
