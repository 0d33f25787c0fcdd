"""How much time do middleware and retriever add to a recall?

    python benchmarks/langchain_overhead.py [--turns N]

One memory of 2,000 relations. Each turn asks one question in every way, in random order:
`memory.recall` itself, the retriever, and the hooks of the middleware that stand before the
model's answer (recall, then the prompt). A whole agent with the middleware, in a namespace of its
own, stands beside one without: that difference also holds what the turn leaves behind, which is
written durably and embedded. Medians, in milliseconds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from rich.console import Console
from rich.table import Table

from recall_echo_adapters.langchain import RecallEchoMiddleware, RecallEchoRetriever
from recall_echo_core import Memory, Statement, open_memory

NAMES = [
    f"{first}{last}" for first in "Ka Lo Mi Nu Pe".split() for last in "ra tel von mar".split()
]
CITIES = "Oslo Paris Rome Lima Kyoto Quito Cairo Dakar".split()
RELATIONS = 2_000


def told(memory: Memory) -> None:
    dice = random.Random(0)
    memory.observe(
        Statement(f"{dice.choice(NAMES)} {number}", "LIVES_IN", dice.choice(CITIES))
        for number in range(RELATIONS)
    )
    memory.flush()


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def hooks(middleware: RecallEchoMiddleware, question: str) -> None:
    """What the middleware does between the user's message and the model's answer."""
    state: Any = {"messages": [HumanMessage(question)]}
    runtime: Any = SimpleNamespace(context=None, execution_info=None)
    state |= middleware.before_agent(state, runtime, {})
    request = ModelRequest(model=None, messages=state["messages"], state=state)  # type: ignore[arg-type]
    middleware.wrap_model_call(request, lambda shown: shown)  # type: ignore[arg-type,return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--data", help="not used: the memory is made here")
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory() as folder, open_memory(folder) as memory:
        told(memory)
        told(memory.namespace("agent"))
        retriever = RecallEchoRetriever(memory=memory)
        middleware = RecallEchoMiddleware(memory, tools=())
        whole = RecallEchoMiddleware(memory.namespace("agent"), tools=())
        model = FakeListChatModel(responses=["In Oslo."])
        bare, remembering = create_agent(model), create_agent(model, middleware=[whole])
        ways: dict[str, Callable[[str], object]] = {
            "memory.recall": lambda question: memory.recall(question),
            "retriever.invoke": lambda question: retriever.invoke(question),
            "middleware, up to the prompt": lambda question: hooks(middleware, question),
            "agent, no memory": lambda question: bare.invoke({"messages": [("user", question)]}),
            "agent, with memory": lambda question: remembering.invoke(
                {"messages": [("user", question)]}
            ),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(turns + 10):
            question = f"Where does {NAMES[number % len(NAMES)]} {number} live?"
            for name, way in random.sample(list(ways.items()), len(ways)):
                spent = milliseconds(lambda way=way, question=question: way(question))
                if number >= 10:  # the first ones load and warm up
                    times[name].append(spent)
    show(times, turns)


def show(times: dict[str, list[float]], turns: int) -> None:
    middle = {name: statistics.median(spent) for name, spent in times.items()}
    title = f"{turns} turns, {RELATIONS} relations"
    table = Table("what", "p50 ms", "over memory.recall", title=title)
    for name, spent in middle.items():
        over = spent - middle["memory.recall"]
        known = name.startswith(("retriever", "middleware"))
        table.add_row(name, f"{spent:.2f}", f"{over:+.2f}" if known else "")
    Console(width=100).print(table)
    print("bar: retriever and middleware less than 2 ms over memory.recall")


if __name__ == "__main__":
    main()
