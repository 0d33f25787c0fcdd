"""How much time do memory and retriever of LlamaIndex add to a recall?

    python benchmarks/llama_index_overhead.py [--turns N]

One memory of 2,000 relations. Each turn asks one question in every way, in random order:
`memory.recall` itself, the retriever, and what `RecallEchoMemory` does before the model's answer
(put the user's message, recall, make the prompt), in a conversation of 20 messages. What a way adds
is its time without that of the recall in it, so that a busy machine does not blur it. A whole chat
engine with that memory, in a namespace of its own, stands beside one with LlamaIndex's `Memory`:
what it adds also holds what the turn leaves behind, which is written durably and embedded, and what
instrumentation then credits. Medians, in milliseconds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.memory import Memory as LlamaMemory
from rich.console import Console
from rich.table import Table

from recall_echo_adapters.llama_index import (
    RecallEchoInstrumentation,
    RecallEchoMemory,
    RecallEchoRetriever,
)
from recall_echo_core import Memory, Recall, Statement, open_memory

NAMES = [
    f"{first}{last}" for first in "Ka Lo Mi Nu Pe".split() for last in "ra tel von mar".split()
]
CITIES = "Oslo Paris Rome Lima Kyoto Quito Cairo Dakar".split()
RELATIONS = 2_000
TALK = [
    ChatMessage(role=role, content="We talked about the weather, and about bread.")
    for _ in range(10)
    for role in ("user", "assistant")
]


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


class Recalling:
    """How long the recalls of one way took."""

    def __init__(self) -> None:
        self.spent = 0.0
        real = Memory.recall

        def timed(memory: Memory, *args: Any, **kwargs: Any) -> Recall:
            start = time.perf_counter()
            try:
                return real(memory, *args, **kwargs)
            finally:
                self.spent += (time.perf_counter() - start) * 1e3

        Memory.recall = timed  # type: ignore[method-assign]


def up_to_the_prompt(memory: Memory, question: str) -> None:
    """What the memory does between the user's message and the model's answer."""
    chat = RecallEchoMemory.from_defaults(memory, chat_history=TALK)
    chat.put(ChatMessage(role="user", content=question))
    chat.get(initial_token_count=10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200)
    turns = parser.parse_args().turns
    warnings.simplefilter("ignore", ResourceWarning)  # LlamaIndex leaves a connection open
    with tempfile.TemporaryDirectory() as folder, open_memory(folder) as memory:
        told(memory)
        own = memory.namespace("engine")
        told(own)
        retriever = RecallEchoRetriever(memory)
        bare = SimpleChatEngine.from_defaults(
            llm=MockLLM(max_tokens=5), memory=LlamaMemory.from_defaults(chat_history=TALK)
        )
        outcomes = RecallEchoInstrumentation(memory, on_success=1.0)

        def whole(question: str) -> None:
            chat = RecallEchoMemory.from_defaults(own, chat_history=TALK)
            engine = SimpleChatEngine.from_defaults(llm=MockLLM(max_tokens=5), memory=chat)
            with outcomes:
                engine.chat(question)

        def without(question: str) -> None:
            bare.chat(question, chat_history=TALK)

        ways: dict[str, Callable[[str], object]] = {
            "memory.recall": lambda question: memory.recall(question),
            "retriever.retrieve": lambda question: retriever.retrieve(question),
            "memory, up to the prompt": lambda question: up_to_the_prompt(memory, question),
            "chat engine, Memory": without,
            "chat engine, RecallEchoMemory": whole,
        }
        recalling = Recalling()
        times: dict[str, list[float]] = {name: [] for name in ways}
        added: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(turns + 10):
            question = f"Where does {NAMES[number % len(NAMES)]} {number} live?"
            for name, way in random.sample(list(ways.items()), len(ways)):
                recalling.spent = 0.0
                spent = milliseconds(lambda way=way, question=question: way(question))
                if number >= 10:  # the first ones load and warm up
                    times[name].append(spent)
                    added[name].append(spent - recalling.spent)
    show(times, added, turns)


def show(times: dict[str, list[float]], added: dict[str, list[float]], turns: int) -> None:
    title = f"{turns} turns, {RELATIONS} relations"
    table = Table("what", "p50 ms", "added p50 ms", "ratio to recall", title=title)
    recall = statistics.median(times["memory.recall"])
    for name, spent in times.items():
        middle, more = statistics.median(spent), statistics.median(added[name])
        ratio = "" if name == "chat engine, Memory" else f"{1 + more / recall:.2f}"
        table.add_row(name, f"{middle:.2f}", f"{more:.2f}" if ratio else "", ratio)
    Console(width=100).print(table)
    print("bar: retriever and memory add less than 2 ms to memory.recall")


if __name__ == "__main__":
    main()
