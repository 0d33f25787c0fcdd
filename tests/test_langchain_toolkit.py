"""The tools inside agents: whom they serve, how recalls are credited, what a toolkit holds."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypedDict
from uuid import uuid4

import pytest
from langchain.agents import create_agent
from langchain_classic.agents import AgentExecutor, create_react_agent, create_tool_calling_agent
from langchain_core.messages import ToolMessage
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_scripted import ScriptedModel, calling
from langchain_ways import Way, letters, once

from recall_echo_adapters.abilities import Call
from recall_echo_adapters.langchain import (
    RecallEchoCallbackHandler,
    RecallEchoTool,
    RecallEchoToolkit,
)
from recall_echo_core import Memory, open_memory

BOB: Any = {"configurable": {"user_id": "bob"}}
ASK: Any = {"messages": [("user", "Where do I live?")]}
USUAL = ["remember", "contradict", "recall", "explain"]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """A memory that knows where Ada lives; Bob's knows where Bob does."""
    settings = {"vectors": {"background": False}}
    with open_memory(tmp_path, embedding=letters, settings=settings) as memory:
        memory.remember("Ada", "LIVES_IN", "Paris")
        memory.namespace("bob").remember("Bob", "LIVES_IN", "Rome")
        yield memory


class Person(TypedDict):
    """The context of an agent's run."""

    user_id: str


def results(out: dict[str, Any]) -> list[ToolMessage]:
    return [message for message in out["messages"] if isinstance(message, ToolMessage)]


def agent_of(memory: Memory, *replies: Any, **options: Any) -> Any:
    tools = RecallEchoToolkit(memory=memory, **options).get_tools()
    return create_agent(ScriptedModel(replies=[*replies]), tools, context_schema=Person)


class TestToolkit:
    def test_it_cannot_forget_unless_told(self, memory: Memory) -> None:
        assert [tool.name for tool in RecallEchoToolkit(memory=memory).get_tools()] == USUAL
        more = RecallEchoToolkit(memory=memory, abilities=["recall", "forget"]).get_tools()
        assert [tool.name for tool in more] == ["recall", "forget"]

    def test_its_options_are_those_of_its_tools(self, memory: Memory) -> None:
        options: dict[str, Any] = {
            "k": 2,
            "max_tokens": 90,
            "namespace_key": "tenant",
            "require_namespace": True,
        }
        for tool in RecallEchoToolkit(memory=memory, **options).get_tools():
            assert {name: getattr(tool, name) for name in options} == options

    def test_models_are_shown_no_more_than_the_arguments(self, memory: Memory) -> None:
        """Neither the config nor what the program chose."""
        shown = {
            tool.name: convert_to_openai_tool(tool)["function"]["parameters"]
            for tool in RecallEchoToolkit(memory=memory).get_tools()
        }
        assert list(shown["recall"]["properties"]) == ["query"]
        assert shown["remember"]["required"] == ["subject", "relation", "object"]

    def test_a_tool_may_go_by_another_name(self, memory: Memory) -> None:
        """Also beside one of the usual name, for another memory."""
        own = RecallEchoTool.of("recall", memory)
        other = RecallEchoTool.of(
            "recall", memory.namespace("bob"), name="recall_bob", description="Of Bob."
        )
        model = ScriptedModel(
            replies=[calling("recall", query="live"), calling("recall_bob", query="live"), "ok"]
        )
        out = create_agent(model, [own, other]).invoke(ASK)

        assert [message.artifact["namespace"] for message in results(out)] == ["default", "bob"]
        failed = other.invoke({"query": ""})
        assert failed.startswith("recall_bob failed")

    def test_copies_share_the_memory(self, memory: Memory) -> None:
        """Of tools and toolkits, deep or not."""
        toolkit = RecallEchoToolkit(memory=memory)
        tool = RecallEchoTool.of("recall", memory)
        for made in (copy.deepcopy(toolkit), copy.copy(tool), copy.deepcopy(tool)):
            assert made.memory is memory
        assert copy.deepcopy(tool).invoke({"query": "Ada"}) == tool.invoke({"query": "Ada"})
        turned = copy.deepcopy(tool.in_turn(Call(memory.namespace("bob"))))
        assert "Rome" in turned.invoke({"query": "Ada"})

    def test_neither_is_pickled_nor_shows_the_memory(self, memory: Memory) -> None:
        toolkit = RecallEchoToolkit(memory=memory)
        for one in (toolkit, *toolkit.get_tools()):
            with pytest.raises(TypeError, match="cannot be pickled; open the memory where it is"):
                pickle.dumps(one)
            assert "memory" not in one.model_dump()
            assert "memory=" not in repr(one)

    def test_without_messages_a_tool_returns_text(self, memory: Memory) -> None:
        """Of which the program gets the same as the model."""
        tool = RecallEchoTool.of("recall", memory, response_format="content")
        call = {"type": "tool_call", "id": "1", "name": "recall", "args": {"query": "Ada"}}
        message = tool.invoke(call)

        assert (message.artifact, type(message.content)) == (None, str)
        assert message.content.startswith("<memory>")


class TestAgents:
    @once
    async def test_an_agent_tells_recalls_and_contradicts(self, memory: Memory, run: Way) -> None:
        """Without the middleware, for the user that the config names."""
        agent = agent_of(
            memory,
            calling("remember", subject="user", relation="likes", object="tea"),
            calling("recall", query="What does the user like?"),
            calling("contradict", subject="Bob", relation="lives in", object="Rome"),
            "Done.",
        )
        out = await run(agent, ASK, BOB)
        bob = memory.namespace("bob")

        told, recalled, doubted = results(out)
        assert told.artifact["namespace"] == "bob"
        assert "user likes tea" in recalled.content
        assert "1 for, 1 against" in doubted.content
        assert {relation.object for relation in bob.relations()} == {"Rome", "tea"}
        assert [relation.object for relation in memory.relations()] == ["Paris"]

    @once
    async def test_the_context_names_the_user(self, memory: Memory, run: Way) -> None:
        agent = agent_of(memory, calling("recall", query="live"), "ok", require_namespace=True)
        out = await run(agent, ASK, None, context=Person(user_id="bob"))
        assert "Bob lives in Rome" in results(out)[0].content

    @once
    async def test_an_error_goes_to_the_model_which_tries_again(
        self, memory: Memory, run: Way
    ) -> None:
        agent = agent_of(
            memory,
            calling("remember", subject="Ada", relation="LIKES", object="tea", since="last week"),
            calling("remember", subject="Ada", relation="LIKES", object="tea", since="2026-01"),
            calling("remember", subject="Ada", relation="LIKES", object="tea", since="2026-01-01"),
            "Noted.",
        )
        out = await run(agent, ASK)
        assert [message.status for message in results(out)][::2] == ["error", "success"]
        assert out["messages"][-1].text == "Noted."

    @once
    async def test_a_missing_user_stops_the_run(self, memory: Memory, run: Way) -> None:
        """The model is not left to guess around it."""
        agent = agent_of(memory, calling("recall", query="live"), "ok", require_namespace=True)
        with pytest.raises(ValueError, match="no user_id"):
            await run(agent, ASK)

    async def test_two_users_never_meet(self, memory: Memory) -> None:
        """In threads and in a loop at once, with one set of tools."""
        memory.namespace("ann").remember("Ann", "LIVES_IN", "Oslo")
        tools = RecallEchoToolkit(memory=memory, require_namespace=True).get_tools()
        recall = tools[2]
        users = ["ann", "bob"] * 20
        configs: list[Any] = [{"configurable": {"user_id": user}} for user in users]
        loop = asyncio.get_running_loop()

        with ThreadPoolExecutor(8) as pool:
            given = {"query": "Where do I live?"}
            threads = [loop.run_in_executor(pool, recall.invoke, given, c) for c in configs]
            found = await asyncio.gather(*(recall.ainvoke(given, c) for c in configs), *threads)
        for user, text in zip(users * 2, found, strict=True):
            assert ("Oslo" in text, "Rome" in text) == (user == "ann", user == "bob")
            assert "Paris" not in text

    async def test_the_loop_goes_on_while_a_tool_works(
        self, memory: Memory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        threads: list[int] = []
        inner = Memory.recall

        def watched(*given: Any, **more: Any) -> Any:
            threads.append(threading.get_ident())
            return inner(*given, **more)

        monkeypatch.setattr(Memory, "recall", watched)
        tool = RecallEchoTool.of("recall", memory)
        await tool.ainvoke({"query": "Ada"})
        assert threads
        assert threading.get_ident() not in threads
        assert "Paris" in tool.invoke({"query": "Ada"})  # sync inside a running loop


def executor(memory: Memory, *replies: Any) -> AgentExecutor:
    tools = RecallEchoToolkit(memory=memory, abilities=["recall", "remember"]).get_tools()
    messages = [("human", "{input}"), ("placeholder", "{agent_scratchpad}")]
    prompt = ChatPromptTemplate.from_messages(messages)
    agent = create_tool_calling_agent(ScriptedModel(replies=[*replies]), tools, prompt)
    return AgentExecutor(agent=agent, tools=tools, return_intermediate_steps=True)


class TestClassicAgents:
    @once
    async def test_metadata_names_the_user(self, memory: Memory, run: Way) -> None:
        """An executor hands its tools nothing else of the config."""
        agent = executor(memory, calling("recall", query="live"), "ok")
        out = await run(agent, {"input": "?"}, {"metadata": {"user_id": "bob"}})
        [(_, observed)] = out["intermediate_steps"]
        assert "Bob lives in Rome" in observed

    @once
    async def test_the_end_of_a_run_credits_what_its_tools_recalled(
        self, memory: Memory, run: Way
    ) -> None:
        """Though an executor makes no messages of what they return, so that no artifact is left."""
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)
        agent = executor(memory, calling("recall", query="Where does Ada live?"), "Paris")
        run_id = uuid4()

        await run(agent, {"input": "?"}, {"callbacks": [handler], "run_id": run_id})
        hits = memory.recall("Ada", 20, ["relation"], record_access=False)
        assert max(hit.parts["utility"] for hit in hits) == pytest.approx(0.55)
        assert memory.feedback_for_run(str(run_id), 0.0, key="thumbs") == 1
        assert handler.open_runs == 0

    def test_a_rating_finds_the_recall_without_a_handler(self, memory: Memory) -> None:
        run_id = uuid4()
        agent = executor(memory, calling("recall", query="live"), "ok")
        agent.invoke({"input": "?"}, {"run_id": run_id})
        assert memory.feedback_for_run(str(run_id), 1.0) == 1

    @once
    async def test_agents_that_write_their_arguments_as_text_can_recall(
        self, memory: Memory, run: Way
    ) -> None:
        """And are told what is missing of tools that take more."""
        tools = RecallEchoToolkit(memory=memory, abilities=["recall", "remember"]).get_tools()
        model = ScriptedModel(
            replies=[
                "Action: recall\nAction Input: Where does Ada live?",
                "Action: remember\nAction Input: Ada likes tea",
                "Final Answer: Paris",
            ]
        )
        prompt = PromptTemplate.from_template("{tools} {tool_names}\n{input}\n{agent_scratchpad}")
        agent = create_react_agent(model, tools, prompt)
        out = await run(
            AgentExecutor(agent=agent, tools=tools, return_intermediate_steps=True), {"input": "?"}
        )
        [(_, recalled), (_, refused)] = out["intermediate_steps"]
        assert "Ada lives in Paris" in recalled
        assert refused == "Wrong arguments: relation: Field required; object: Field required"
        assert out["output"] == "Paris"
