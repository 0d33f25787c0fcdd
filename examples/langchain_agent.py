"""A LangChain agent that remembers, doubts and explains, over three conversations.

    python langchain_agent.py [FOLDER]

Runs offline with a scripted model. With OPENAI_API_KEY or ANTHROPIC_API_KEY set, and the
provider's LangChain package installed, a real one answers instead.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from rich.console import Console

from recall_echo_adapters.langchain import RecallEchoCallbackHandler, RecallEchoMiddleware
from recall_echo_core import Memory, open_memory

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

REAL = {"OPENAI_API_KEY": "openai:gpt-4.1-mini", "ANTHROPIC_API_KEY": "anthropic:claude-haiku-4-5"}
console = Console(width=100, highlight=False)


class ScriptedModel(FakeMessagesListChatModel):
    """Says what it was given, and calls tools where that says so."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> ScriptedModel:
        return self


def chat_model() -> BaseChatModel:
    for key, name in REAL.items():
        if os.environ.get(key):
            return init_chat_model(name)
    fact = {"subject": "Ada", "relation": "LIVES_IN"}
    return ScriptedModel(
        responses=[
            calling("remember", fact | {"object": "Paris"}),
            AIMessage("Welcome, Ada."),
            AIMessage("You live in Paris."),
            calling("contradict", fact | {"object": "Paris"}),
            calling("remember", fact | {"object": "Oslo"}),
            AIMessage("Oslo it is, then."),
        ]
    )


def calling(tool: str, arguments: dict[str, Any]) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": uuid4().hex}])


def main(folder: str) -> None:
    with open_memory(folder) as memory:
        agent = create_agent(
            chat_model(),
            system_prompt="You are a friendly assistant. Be brief.",
            middleware=[RecallEchoMiddleware(memory, require_namespace=True)],
            checkpointer=InMemorySaver(),
        )
        handler = RecallEchoCallbackHandler(memory)
        ada = memory.namespace("ada")

        def say(thread: str, text: str) -> str:
            """One turn of Ada's; returns the id of the run, by which it can be rated."""
            run_id = uuid4()
            config: Any = {
                "run_id": run_id,
                "callbacks": [handler],
                "configurable": {"thread_id": thread, "user_id": "ada"},
            }
            out = agent.invoke({"messages": [("user", text)]}, config)
            console.print(
                f"[bold]{thread}[/]  Ada: {text}\n        agent: {out['messages'][-1].text}"
            )
            return str(run_id)

        say("monday", "Hello! I am Ada, and I live in Paris.")
        rated = say("friday", "Where do I live?")
        ada.feedback_for_run(rated, score=True, key="thumbs")
        show("After a thumbs-up on Friday", ada)

        say("sunday", "I left Paris. I live in Oslo now.")
        show("After Sunday", ada)
        for relation in ada.relations():  # a real model may call them otherwise
            console.print(str(ada.explain(relation.subject, relation.type, relation.object)))
        console.print(f"what another user's memory holds: {memory.namespace('bob').relations()}")


def show(title: str, memory: Memory) -> None:
    hits = memory.recall("Where does Ada live?", k=20, kinds=["relation"], record_access=False)
    console.print(f"\n[bold]{title}[/]")
    for hit in hits:
        console.print(
            f"  {hit.text}: {hit.confidence:.0%} sure, utility {hit.parts['utility']:.2f}"
        )
    console.print()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(folder)
