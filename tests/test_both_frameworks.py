"""One store, used from LangChain and from LlamaIndex at once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_scripted import ScriptedModel, calling
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index_scripted import ScriptedLLM

from recall_echo_adapters.langchain import RecallEchoMiddleware
from recall_echo_adapters.llama_index import RecallEchoMemory, recall_echo_tools
from recall_echo_core import Memory, open_memory

ADA = {"configurable": {"user_id": "ada"}}


def letters(texts: list[str]) -> list[list[float]]:
    """Texts of the same letters are near; the meaning of words does not matter here."""
    signs = "abcdefghijklmnopqrstuvwxyz0123456789"
    return [[0.01, *(float(text.casefold().count(sign)) for sign in signs)] for text in texts]


@pytest.fixture
def memory(tmp_path: Path) -> Any:
    with open_memory(tmp_path, embedding=letters) as memory:
        yield memory


def line_of(prompt: str, fact: str) -> str:
    """The line of a prompt that tells a fact, without its mark."""
    [line] = [line for line in prompt.splitlines() if f"] {fact} (" in line]
    return line.partition("] ")[2]


def langchain(memory: Memory, *replies: Any) -> tuple[Any, ScriptedModel]:
    model = ScriptedModel(replies=list(replies))
    return create_agent(model, middleware=[RecallEchoMiddleware(memory, k=20)]), model


def llama_index(memory: Memory, *replies: Any) -> tuple[SimpleChatEngine, ScriptedLLM]:
    llm = ScriptedLLM(replies=list(replies))
    own = RecallEchoMemory.from_defaults(memory, user_id="ada", k=20)
    return SimpleChatEngine.from_defaults(llm=llm, memory=own), llm


def test_what_langchain_learned_llama_index_recalls_with_the_same_confidence(
    memory: Memory,
) -> None:
    fact = calling("remember", subject="Ada", relation="LIVES_IN", object="Paris")
    doubt = calling("contradict", subject="Ada", relation="LIVES_IN", object="Paris")
    agent, _ = langchain(memory, fact, "Noted.", doubt, "Hm.", "So I hear.")
    engine, llm = llama_index(memory, "So I hear.")

    agent.invoke({"messages": [("user", "Ada lives in Paris.")]}, ADA)
    agent.invoke({"messages": [("user", "I doubt that it is Paris.")]}, ADA)
    engine.chat("Where does Ada live?")

    relation = memory.namespace("ada").beliefs("Ada", "LIVES_IN")[0].relation
    assert (relation.alpha, relation.beta) == (9.0, 2.0)
    assert line_of(llm.shown, "Ada lives in Paris").startswith("Ada lives in Paris (82% sure")


async def test_what_llama_index_learned_langchain_recalls_with_the_same_confidence(
    memory: Memory,
) -> None:
    own = RecallEchoMemory.from_defaults(memory, user_id="ada")
    fact = ("remember", {"subject": "Ada", "relation": "lives in", "object": "Paris"})
    worker = FunctionAgent(llm=ScriptedLLM(replies=[fact, "Noted."]), tools=recall_echo_tools(own))
    await worker.run(user_msg="Ada lives in Paris.", memory=own)

    agent, model = langchain(memory, "In Paris.")
    await agent.ainvoke({"messages": [("user", "Where does Ada live?")]}, ADA)
    assert line_of(model.system, "Ada lives in Paris").startswith("Ada lives in Paris (90% sure")


def test_both_show_the_same_line_and_may_ask_at_once(memory: Memory) -> None:
    """Twenty turns each, in two threads: nothing fails, nothing is lost."""
    ada = memory.namespace("ada")
    ada.remember("Ada", "LIVES_IN", "Paris")
    agent, model = langchain(memory, "The weather there is fine today, they say.")
    engine, llm = llama_index(memory, "Bring an umbrella along in any case, please.")
    failed: list[Exception] = []

    def turns(ask: Any) -> None:
        try:
            for number in range(20):
                ask(f"Question {number}: where does Ada live?")
        except Exception as error:
            failed.append(error)

    asks = [
        lambda text: agent.invoke({"messages": [("user", text)]}, ADA),
        lambda text: engine.chat(text),
    ]
    threads = [threading.Thread(target=turns, args=(ask,)) for ask in asks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failed == []
    shown = [line_of(text, "Ada lives in Paris") for text in (model.system, llm.shown)]
    assert shown[0] == shown[1]
    said = [episode.content for episode in ada.episodes(limit=1_000) if episode.role == "user"]
    assert len(said) == 40
    assert memory.episodes() == []
