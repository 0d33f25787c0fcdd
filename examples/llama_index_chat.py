"""A LlamaIndex chat engine that remembers, over three conversations of two users.

    python llama_index_chat.py [FOLDER]

Runs offline with a scripted model. With OPENAI_API_KEY set, and llama-index-llms-openai installed,
a real one answers instead.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import LLM, CompletionResponse, CustomLLM, LLMMetadata
from llama_index_instrumentation.dispatcher import instrument_tags
from rich.console import Console

from recall_echo_adapters.llama_index import RecallEchoInstrumentation, RecallEchoMemory
from recall_echo_core import Memory, open_memory

console = Console(width=100, highlight=False)


class ScriptedLLM(CustomLLM):
    """Says what it was given, one reply after the other."""

    replies: list[str]

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=self.replies.pop(0))

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        reply, said = self.replies.pop(0), ""
        for word in reply.split(" "):
            delta = f" {word}" if said else word
            said += delta
            yield CompletionResponse(text=said, delta=delta)


def chat_model() -> LLM:
    if os.environ.get("OPENAI_API_KEY"):
        from llama_index.llms.openai import OpenAI  # type: ignore[import-not-found]

        real: LLM = OpenAI(model="gpt-4.1-mini")
        return real
    return ScriptedLLM(
        replies=[
            "Welcome, Ada. Shall I show you around?",
            "You live in Paris, near the canal [M1].",
            "That I do not know.",
        ]
    )


def main(folder: str) -> None:
    model = chat_model()
    with open_memory(folder) as memory, RecallEchoInstrumentation(memory):

        def engine(user: str, session: str) -> SimpleChatEngine:
            """A conversation: one memory object each, any number of them over one store."""
            chat = RecallEchoMemory.from_defaults(
                memory, user_id=user, session_id=session, require_namespace=True
            )
            return SimpleChatEngine.from_defaults(llm=model, memory=chat)

        greeting = "Hello! I am Ada, and I live in Paris, near the canal."
        show("monday", "Ada", greeting, engine("ada", "monday").chat(greeting).response)

        question = "Where do I live?"
        with instrument_tags({"run_id": "friday-1"}):
            streamed = engine("ada", "friday").stream_chat(question)
            answer = "".join(streamed.response_gen)
        show("friday", "Ada", question, answer)
        ada = memory.namespace("ada")
        rated = ada.feedback_for_run("friday-1", 1.0, key="thumbs")
        console.print(f"\n[bold]After a thumbs-up[/] for {rated} recall")
        utilities(ada)

        question = "Where does Ada live?"
        show("sunday", "Bob", question, engine("bob", "sunday").chat(question).response)
        console.print("\n[bold]What is kept[/]")
        for user in ("ada", "bob"):
            for episode in memory.namespace(user).episodes():
                console.print(f"  {user}, {episode.session_id}: {episode.role}: {episode.content}")


def show(day: str, who: str, said: str, answer: str) -> None:
    console.print(f"\n[bold]{day}[/]  {who}: {said}\n        model: {answer}")


def utilities(memory: Memory) -> None:
    for hit in memory.recall("Where do I live?", kinds=["episode"], record_access=False):
        console.print(f"  utility {hit.parts['utility']:.2f}: {hit.text}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(folder)
