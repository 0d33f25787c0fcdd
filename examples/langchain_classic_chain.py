"""A classic LangChain chain that remembers from one conversation to the next.

    pip install 'recall-echo-adapters[langchain-classic]'
    python langchain_classic_chain.py [FOLDER]

Runs offline with a model that answers from what it is shown. With OPENAI_API_KEY or
ANTHROPIC_API_KEY set, and the provider's LangChain package installed, a real one answers instead.

`ConversationChain` and its like are deprecated: this is for programs that have them. For a new
one, see langchain_agent.py.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import warnings
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langchain_classic.chains import ConversationChain
from langchain_classic.chat_models import init_chat_model
from langchain_core.language_models import SimpleChatModel
from rich.console import Console

from recall_echo_adapters.langchain import RecallEchoCallbackHandler, RecallEchoMemory
from recall_echo_core import Memory, open_memory

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage

REAL = {"OPENAI_API_KEY": "openai:gpt-4.1-mini", "ANTHROPIC_API_KEY": "anthropic:claude-haiku-4-5"}
REAL_KEY = next((key for key in REAL if os.environ.get(key)), None)
console = Console(width=100, highlight=False)


class Parrot(SimpleChatModel):
    """Answers with the first memory it is shown that says where somebody lives."""

    @property
    def _llm_type(self) -> str:
        return "parrot"

    def _call(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> str:
        shown = re.search(r"\[(M\d+)\] (Ada lives in \w+)", str(messages[-1].text))
        return f"{shown[2]} [{shown[1]}]." if shown else "I do not know yet."


def chat_model() -> BaseChatModel:
    return init_chat_model(REAL[REAL_KEY]) if REAL_KEY else Parrot()


def chain_of(user: Memory, day: str) -> ConversationChain:
    """A new chain for each conversation: only the memory knows what was said before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # see above
        return ConversationChain(
            llm=chat_model(), memory=RecallEchoMemory(memory=user, session_id=day)
        )


def main(folder: str) -> None:
    with open_memory(folder) as memory:
        fresh = "ada" not in memory.namespaces()
        ada, bob = memory.namespace("ada"), memory.namespace("bob")
        handler = RecallEchoCallbackHandler(memory)

        def ask(user: Memory, day: str, question: str) -> tuple[str, str]:
            """One turn; returns the answer, and the id of the run, by which it can be rated."""
            run_id = uuid4()
            config: Any = {"run_id": run_id, "callbacks": [handler]}
            answer = chain_of(user, day).invoke({"input": question}, config)["response"]
            console.print(f"[bold]{day}[/]  {user.name}: {question}")
            console.print(f"        chain: {answer}", markup=False)
            return answer, str(run_id)

        ask(ada, "monday", "Where do I, Ada, live?")
        ada.remember("Ada", "LIVES_IN", "Paris", source="user")  # your program's own extractor
        answer, run = ask(ada, "friday", "Where do I, Ada, live?")
        ada.feedback_for_run(run, score=True, key="thumbs")
        other, _ = ask(bob, "friday", "Where does Ada live?")

        home = fact(ada)
        said = [f"{one.session_id}: {one.text}" for one in ada.episodes()]
        console.print(f"\n{home.text}: {home.confidence:.0%} sure,", end=" ")
        console.print(f"utility {home.parts['utility']:.2f} after a thumbs-up")
        console.print("Kept of Ada's conversations:", *said, sep="\n  ")
        if fresh and REAL_KEY is None:  # a real model may answer in other words
            assert answer.startswith("Ada lives in Paris [M"), answer
            assert other == "I do not know yet.", other
            assert round(home.parts["utility"], 2) == 0.55, home
            assert round(home.confidence, 2) == 0.90, home  # repeating a memory is no evidence
            # The answer on Friday said nothing that the memory did not, so it was not kept.
            assert [line.partition(":")[0] for line in said] == ["monday", "monday", "friday"], said


def fact(memory: Memory) -> Any:
    found = memory.recall("Where does Ada live?", kinds=["relation"], record_access=False)
    return found.hits[0]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory(prefix="recall-echo-") as scratch:
            main(scratch)
