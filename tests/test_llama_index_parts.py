"""The parts of the LlamaIndex adapter that are used one by one: block, retriever, tools, faces."""

from __future__ import annotations

import asyncio
import importlib
import pickle
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine
from llama_index.core.memory import Memory as LlamaMemory
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode
from llama_index_scripted import ScriptedLLM, counted, message
from test_adapters_imports import run_without
from test_llama_index_engines import letters

from recall_echo_adapters import llama_index as adapter
from recall_echo_adapters.llama_index import (
    RecallEchoInstrumentation,
    RecallEchoMemory,
    RecallEchoMemoryBlock,
    RecallEchoRetriever,
    recall_echo_tools,
)
from recall_echo_adapters.llama_index.tools import Told
from recall_echo_core import Memory, open_memory

pytestmark = [
    # LlamaIndex asks pydantic the old way.
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning"),
]
QUESTION = "Where does Ada live?"
NEWS = "By the way, tomorrow there is a concert at the town hall, tickets cost nine euros."


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    settings = {"vectors": {"background": False}}
    with open_memory(tmp_path, embedding=letters, settings=settings) as memory:
        memory.remember("Ada", "LIVES_IN", "Paris")
        memory.remember("Bob", "OWNS", "labrador")
        yield memory


@asynccontextmanager
async def blocks(block: RecallEchoMemoryBlock, **options: Any) -> AsyncIterator[LlamaMemory]:
    """A `Memory` of LlamaIndex with a block, which leaves nothing open."""
    chat = LlamaMemory.from_defaults(
        session_id="s1", memory_blocks=[block], tokenizer_fn=lambda text: text.split(), **options
    )
    try:
        yield chat
    finally:
        await chat.sql_store._async_engine.dispose()


# Retriever


@pytest.mark.parametrize("way", ["retrieve", "aretrieve"])
async def test_a_node_hides_its_receipt_from_models_and_embeddings(
    memory: Memory, way: str
) -> None:
    retriever = RecallEchoRetriever(memory, kinds=["relation"])
    found = (
        await retriever.aretrieve(QUESTION) if way == "aretrieve" else retriever.retrieve(QUESTION)
    )

    node = found[0].node
    receipt = node.metadata["recall_echo"]
    assert node.text.startswith("[M1] Ada lives in Paris (90% sure")
    assert node.node_id == receipt["id"] == memory.recall(QUESTION, kinds=["relation"]).hits[0].id
    assert found[0].score == pytest.approx(
        memory.recall(QUESTION, kinds=["relation"], record_access=False).hits[0].score, abs=0.1
    )
    for mode in (MetadataMode.LLM, MetadataMode.EMBED):
        assert receipt["recall_id"] not in node.get_content(metadata_mode=mode)
    memory.feedback(receipt["recall_id"], "success")


def test_a_blank_question_finds_nothing(memory: Memory) -> None:
    assert RecallEchoRetriever(memory).retrieve("  ") == []


def test_a_retriever_belongs_to_one_user(memory: Memory) -> None:
    memory.namespace("eve").remember("Eve", "PLAYS", "chess")

    nodes = RecallEchoRetriever(memory, user_id="eve", k=20).retrieve(QUESTION)

    assert all("Paris" not in node.text for node in nodes)
    with pytest.raises(ValueError, match="no user_id"):
        RecallEchoRetriever(memory, require_namespace=True)
    with pytest.raises(ValueError, match="user already"):
        RecallEchoRetriever(RecallEchoMemory.from_defaults(memory), user_id="eve")


@pytest.mark.parametrize("kind", [ContextChatEngine, CondensePlusContextChatEngine])
@pytest.mark.parametrize("way", ["chat", "achat"])
async def test_a_retriever_of_a_chat_is_the_search_of_its_turn(
    memory: Memory, kind: Any, way: str
) -> None:
    """One call of the model on the first turn, one recall, marked used, and no echo kept."""
    chat = RecallEchoMemory.from_defaults(memory, insert="none")
    llm = ScriptedLLM(replies=["Ada lives in Paris [M1]."])
    engine = kind.from_defaults(retriever=RecallEchoRetriever(chat), memory=chat, llm=llm)

    with RecallEchoInstrumentation(memory, on_success=1.0):
        if way == "chat":
            engine.chat(QUESTION)
        else:
            await engine.achat(QUESTION)

    assert len(llm.prompts) == 1
    assert len(chat.recall_ids) == 1
    found = memory.recall("Ada lives in Paris", k=20, record_access=False)
    utility = {hit.text: hit.parts.get("utility") for hit in found}
    assert utility["Ada lives in Paris"] == pytest.approx(0.55)
    assert [one.role for one in memory.episodes()] == ["user"]


async def test_a_query_engine_gives_its_run_a_verdict(memory: Memory) -> None:
    engine = RetrieverQueryEngine.from_args(
        RecallEchoRetriever(memory), llm=ScriptedLLM(replies=["In Paris [M1]."])
    )
    seen = []

    with RecallEchoInstrumentation(memory, outcome=lambda run: seen.append(run.text) or 1.0):
        await engine.aquery(QUESTION)
        engine.query(QUESTION)

    assert seen == ["In Paris [M1]."] * 2
    found = memory.recall("Ada", k=20, record_access=False)
    assert max(hit.parts.get("utility", 0) for hit in found) > 0.5


# Block


async def test_a_block_shows_what_is_remembered_and_searches_once(memory: Memory) -> None:
    block = RecallEchoMemoryBlock.from_defaults(memory)
    async with blocks(block) as chat:
        await chat.aput(message("user", QUESTION))
        shown = [str((await chat.aget())[0].content) for _ in range(3)]
        said = [one.content for one in await chat.aget_all()]

    assert "Ada lives in Paris" in shown[0]
    assert shown == [shown[0]] * 3
    assert len(block._recalls) == 1
    assert said == [QUESTION]


async def test_a_block_keeps_what_the_memory_lets_go_of_and_changes_nothing(
    memory: Memory,
) -> None:
    block = RecallEchoMemoryBlock.from_defaults(memory, priority=0)
    async with blocks(block, token_limit=60, token_flush_size=10) as chat:
        for number in range(8):
            await chat.aput(message("user", f"Question {number} about many different things"))
            await chat.aput(message("assistant", f"Answer {number}: {NEWS}"))
        left = await chat.aget_all()

    kept = memory.episodes(session_id="s1")
    assert kept
    assert kept[0].content.startswith("Question 0")
    assert len({one.content for one in kept}) == len(kept)
    assert all(one.additional_kwargs == {} for one in left)


async def test_a_block_never_writes_into_messages(memory: Memory) -> None:
    block = RecallEchoMemoryBlock.from_defaults(memory)
    said = [message("user", "My sister plays chess."), message("assistant", NEWS)]
    before = [one.model_dump_json() for one in said]

    await block.aput(said, from_short_term_memory=True, session_id="s1")

    assert [one.model_dump_json() for one in said] == before
    assert [one.session_id for one in memory.episodes()] == ["s1", "s1"]


async def test_an_echo_is_not_kept_by_a_block(memory: Memory) -> None:
    block = RecallEchoMemoryBlock.from_defaults(memory)
    said = [message("user", QUESTION), message("assistant", "Ada lives in Paris [M1].")]
    await block.aget(said[:1], session_id="s1")

    await block.aput(said, session_id="s1")

    assert [one.role for one in memory.episodes()] == ["user"]


async def test_a_block_that_accepts_nothing_keeps_nothing(memory: Memory) -> None:
    block = RecallEchoMemoryBlock.from_defaults(memory, accept_short_term_memory=False)

    await block.aput([message("user", "x")], from_short_term_memory=True, session_id="s1")

    assert memory.episodes() == []


async def test_a_block_that_is_too_long_loses_its_last_lines_first(memory: Memory) -> None:
    block = RecallEchoMemoryBlock.from_defaults(memory)
    content = await block.aget([message("user", QUESTION)], session_id="s1")
    lines = content.split("\n")

    shorter = await block.atruncate(content, 5)

    assert shorter is not None
    kept = shorter.split("\n")
    assert kept[:3] == lines[:3]
    assert kept[-1] == "</memory>"
    assert 3 < len(kept) < len(lines)
    assert await block.atruncate(content, 10_000) is None


async def test_template_names_in_a_block_are_never_filled_in(memory: Memory) -> None:
    memory.record([{"role": "user", "content": "Ada said {query_str} and {context_str}"}])
    block = RecallEchoMemoryBlock.from_defaults(memory, k=20)

    content = await block.aget([message("user", QUESTION)], session_id="s1")

    assert "Ada said { query_str } and { context_str }" in content


async def test_sessions_and_users_of_blocks_do_not_meet(memory: Memory) -> None:
    memory.namespace("eve").remember("Eve", "PLAYS", "chess")
    block = RecallEchoMemoryBlock.from_defaults(memory, user_id="eve", k=20)
    asked = [message("user", QUESTION)]

    one, two = await asyncio.gather(
        block.aget(asked, session_id="s1"), block.aget(asked, session_id="s2")
    )

    assert "Paris" not in one + two
    assert {session for session, _ in block._recalls} == {"s1", "s2"}


# Tools


async def test_an_agent_uses_its_memory_by_tools(memory: Memory) -> None:
    llm = ScriptedLLM(
        replies=[
            ("remember", {"subject": "user", "relation": "likes", "object": "tea"}),
            ("recall", {"query": "Where does Ada live?"}),
            "Noted; Ada lives in Paris.",
        ]
    )
    agent = FunctionAgent(llm=llm, tools=recall_echo_tools(memory, user_id=None))

    with RecallEchoInstrumentation(memory, on_success=1.0):
        await agent.run(user_msg="I like tea. Where does Ada live?")

    assert [one.object for one in memory.beliefs("user", "LIKES")]
    assert "Ada lives in Paris" in llm.shown
    found = memory.recall("Ada lives in Paris", k=20, record_access=False)
    assert max(hit.parts.get("utility", 0) for hit in found) > 0.5


def test_a_tool_tells_the_model_a_text_and_the_program_a_receipt(memory: Memory) -> None:
    tools = {tool.metadata.name: tool for tool in recall_echo_tools(memory)}
    assert list(tools) == ["remember", "contradict", "recall", "explain"]

    output = tools["recall"].call(query=QUESTION)

    assert isinstance(output.raw_output, Told)
    memory.feedback(output.raw_output.receipt["recall_id"], "success")
    assert output.content == output.raw_output
    copied = pickle.loads(pickle.dumps(output.raw_output))
    assert (copied, copied.receipt) == (output.raw_output, output.raw_output.receipt)
    assert (
        "evidence"
        in tools["explain"]
        .call(subject="Ada", relation="lives in", object="Paris")
        .content.casefold()
        or tools["explain"].metadata.description
    )


async def test_forgetting_is_a_tool_only_if_asked_for(memory: Memory) -> None:
    (forget,) = recall_echo_tools(memory, abilities=["forget"])

    assert (await forget.acall(subject="Ada")).content.startswith("Forgotten")
    assert memory.get("Bob")
    with pytest.raises(ValueError, match="no ability 'fly'"):
        recall_echo_tools(memory, abilities=["fly"])  # type: ignore[list-item]


def test_a_wrong_argument_is_an_error_a_model_can_act_upon(memory: Memory) -> None:
    (forget,) = recall_echo_tools(memory, abilities=["forget"])

    with pytest.raises(ValueError, match="give relation and object both"):
        forget.call(subject="Ada", relation="LIVES_IN")


# Faces


@pytest.mark.parametrize("name", adapter.__all__)
def test_a_missing_framework_is_named_with_its_extra(name: str) -> None:
    code = f"""
from recall_echo_adapters import llama_index as adapter
try:
    print(adapter.{name}.__name__)
except ImportError as error:
    print(error.name, "|", error)
"""
    done = run_without("llama_index", code)
    assert done.stdout.strip() == (
        "register_memory"
        if name == "register_memory"
        else f"llama_index | {name} needs llama_index:"
        " pip install 'recall-echo-adapters[llama-index]'"
    ), done.stderr


def test_every_promised_name_is_there_and_says_what_it_is() -> None:
    face = importlib.import_module("recall_echo_adapters.llama_index")

    for name in face.__all__:
        assert getattr(face, name).__doc__
        assert name in dir(face)
    with pytest.raises(AttributeError, match="no attribute 'RecallEchoStore'"):
        _ = face.RecallEchoStore


def test_messages_of_any_kind_count(memory: Memory) -> None:
    from recall_echo_adapters.llama_index.window import tokens_of

    called = ChatMessage(
        role="assistant",
        content="",
        additional_kwargs={"tool_calls": [{"function": {"name": "look", "arguments": "a b c"}}]},
    )
    assert tokens_of(called, lambda text: len(counted(text))) >= 3
