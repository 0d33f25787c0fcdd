"""Many runs of many users at once, on one middleware, one retriever and one handler."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_scripted import ScriptedModel

from recall_echo_adapters.langchain import (
    RecallEchoCallbackHandler,
    RecallEchoMiddleware,
    RecallEchoRetriever,
    as_text,
)
from recall_echo_core import Memory, open_memory

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

pytestmark = pytest.mark.slow

USERS = [f"user-{number:02}" for number in range(20)]
RUNS = [USERS[number % 20] for number in range(200)]
QUESTION = "What is the secret?"


def letters(texts: list[str]) -> list[list[float]]:
    """Texts of the same letters are near; the meaning of words does not matter here."""
    signs = "abcdefghijklmnopqrstuvwxyz0123456789"
    return [[0.01, *(float(text.casefold().count(sign)) for sign in signs)] for text in texts]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Twenty users, each with a secret."""
    settings = {"vectors": {"background": False}}
    with open_memory(tmp_path, embedding=letters, settings=settings) as memory:
        for user in USERS:
            memory.namespace(user).remember("secret", "IS", f"of-{user}")
        yield memory


def tell_secrets(messages: Sequence[BaseMessage]) -> str:
    """A model that says every secret it was shown."""
    shown = " ".join(str(message.text) for message in messages)
    return " ".join(sorted(set(re.findall(r"of-user-\d\d", shown))))


def config(user: str, handler: RecallEchoCallbackHandler) -> Any:
    return {"callbacks": [handler], "configurable": {"user_id": user}}


def logged(memory: Memory, folder: Path) -> Counter[str]:
    """How many events of which kind a log holds."""
    path = folder / f"{memory.name}.jsonl"
    memory.export(path)
    lines = path.read_text(encoding="utf-8").splitlines()
    return Counter(json.loads(line).get("kind") for line in lines)


def check(memory: Memory, handler: RecallEchoCallbackHandler, folder: Path, runs: int) -> None:
    """Each user's log holds each of its runs once, and nothing is left in the handler."""
    for user in USERS:
        events = logged(memory.namespace(user), folder)
        assert [events[kind] for kind in ("recall", "usage", "feedback")] == [runs] * 3
    assert logged(memory, folder)["recall"] == 0
    assert (handler.open_runs, handler._runs._roots) == (0, {})


def agent_of(memory: Memory) -> tuple[Any, RecallEchoMiddleware]:
    middleware = RecallEchoMiddleware(memory, save="none", require_namespace=True)
    model = ScriptedModel(replies=[tell_secrets])
    return create_agent(model, middleware=[middleware]), middleware


class TestAgents:
    def test_200_runs_in_threads(self, memory: Memory, tmp_path: Path) -> None:
        """No answer tells another user's secret, and no receipt is lost."""
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)
        agent, middleware = agent_of(memory)
        before = set(vars(middleware))

        def ask(user: str) -> str:
            out = agent.invoke({"messages": [("user", QUESTION)]}, config(user, handler))
            return str(out["messages"][-1].text)

        with ThreadPoolExecutor(32) as pool:
            answers = list(pool.map(ask, RUNS))
        assert answers == [f"of-{user}" for user in RUNS]
        assert set(vars(middleware)) == before
        check(memory, handler, tmp_path, 10)

    async def test_200_runs_in_one_event_loop(self, memory: Memory, tmp_path: Path) -> None:
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)
        agent, _ = agent_of(memory)

        async def ask(user: str) -> str:
            given = {"messages": [("user", QUESTION)]}
            out = await agent.ainvoke(given, config(user, handler))
            return str(out["messages"][-1].text)

        answers = await asyncio.gather(*(ask(user) for user in RUNS))
        assert answers == [f"of-{user}" for user in RUNS]
        check(memory, handler, tmp_path, 10)


class TestChains:
    async def test_200_runs_in_threads_and_200_in_a_loop(
        self, memory: Memory, tmp_path: Path
    ) -> None:
        """On one retriever, while the loop's and the threads' runs go on at the same time."""
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)
        retriever = RecallEchoRetriever(memory=memory, require_namespace=True)
        prompt = ChatPromptTemplate.from_template("{context}\n{question}")
        inputs = {"context": retriever | as_text, "question": RunnablePassthrough()}
        chain = inputs | prompt | ScriptedModel(replies=[tell_secrets])

        def ask(user: str) -> str:
            return str(chain.invoke(QUESTION, config(user, handler)).text)

        async def aask(user: str) -> str:
            return str((await chain.ainvoke(QUESTION, config(user, handler))).text)

        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(16) as pool:
            threads = [loop.run_in_executor(pool, ask, user) for user in RUNS]
            answers = await asyncio.gather(*(aask(user) for user in RUNS))
            assert await asyncio.gather(*threads) == answers
        assert answers == [f"of-{user}" for user in RUNS]
        check(memory, handler, tmp_path, 20)
