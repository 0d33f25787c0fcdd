"""Memory in LlamaIndex's own engines and agents: one search, one marking, one verdict a turn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.dispatcher import instrument_tags
from llama_index_scripted import ScriptedLLM

from recall_echo_adapters.llama_index import (
    RecallEchoInstrumentation,
    RecallEchoMemory,
    RecallEchoRetriever,
)
from recall_echo_core import Memory, open_memory

QUESTION = "Where does Ada live?"
pytestmark = [
    # LlamaIndex asks pydantic the old way, and its ReActAgent its own workflows.
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:is_running called from within a step:DeprecationWarning"),
    # Its thread that writes a stream down raises what the model raised, where nobody catches it.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]
ANSWER = "She lives in Paris, near the old canal, and likes rowing there every morning."


def letters(texts: list[str]) -> list[list[float]]:
    """Texts of the same letters are near; the meaning of words does not matter here."""
    signs = "abcdefghijklmnopqrstuvwxyz0123456789"
    return [[0.01, *(float(text.casefold().count(sign)) for sign in signs)] for text in texts]


class Told:
    """A memory, and how often each of its verbs was called."""

    def __init__(self, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
        self.memory, self.calls = memory, dict[str, list[Any]]()
        for verb in ("recall", "mark_used", "feedback"):
            self._watch(verb, monkeypatch)

    def _watch(self, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
        real: Callable[..., Any] = getattr(Memory, verb)
        calls = self.calls.setdefault(verb, [])

        def watched(memory: Memory, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("replace") is not False and kwargs.get("record_access") is not False:
                calls.append(args)
            return real(memory, *args, **kwargs)

        monkeypatch.setattr(Memory, verb, watched)

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many searches, decisions on usage, verdicts."""
        return tuple(len(self.calls[verb]) for verb in ("recall", "mark_used", "feedback"))  # type: ignore[return-value]

    @property
    def verdicts(self) -> list[Any]:
        return [args[1] for args in self.calls["feedback"]]

    def utility(self, text: str) -> float:
        found = self.memory.recall(text, k=20, record_access=False)
        return next(hit.parts["utility"] for hit in found if hit.text == text)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    settings = {"vectors": {"background": False}}
    with open_memory(tmp_path, embedding=letters, settings=settings) as memory:
        memory.remember("Ada", "LIVES_IN", "Paris")
        memory.remember("Bob", "OWNS", "labrador")
        yield memory


@pytest.fixture
def told(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(memory, monkeypatch)


def look(question: str) -> str:
    """Look something up."""
    return f"found {question}"


def broken(question: str) -> str:
    """Look something up where nothing is."""
    raise LookupError("nothing there")


class Documents(BaseRetriever):
    """A retriever that has nothing to do with memory."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text="Canals freeze in January."), score=1.0)]


def engine(kind: str, llm: ScriptedLLM, chat: RecallEchoMemory, memory: Memory) -> Any:
    """A chat engine; those with a context get their documents from elsewhere."""
    if kind == "simple":
        return SimpleChatEngine.from_defaults(llm=llm, memory=chat, system_prompt="Be kind.")
    documents = Documents()
    if kind == "context":
        return ContextChatEngine.from_defaults(retriever=documents, llm=llm, memory=chat)
    return CondensePlusContextChatEngine.from_defaults(
        retriever=documents, llm=llm, memory=chat, skip_condense=True
    )


async def ask(engine: Any, way: str, question: str = QUESTION) -> str:
    if way == "chat":
        return str(await asyncio.to_thread(engine.chat, question))
    if way == "achat":
        return str(await engine.achat(question))
    if way == "stream_chat":
        return await asyncio.to_thread(lambda: "".join(engine.stream_chat(question).response_gen))
    streamed = await engine.astream_chat(question)
    return "".join([part async for part in streamed.async_response_gen()])


async def settled(outcomes: RecallEchoInstrumentation) -> None:
    """Wait until all runs have ended: a stream's does a moment after its last word."""
    for _ in range(100):
        if not outcomes.open_runs:
            return
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("way", ["chat", "achat", "stream_chat", "astream_chat"])
@pytest.mark.parametrize("kind", ["simple", "context", "condense"])
async def test_a_turn_of_an_engine_is_one_search_one_marking_one_verdict(
    kind: str, way: str, told: Told
) -> None:
    memory = told.memory
    chat = RecallEchoMemory.from_defaults(memory, session_id="s1")
    llm = ScriptedLLM(replies=[ANSWER])

    with RecallEchoInstrumentation(memory, on_success=1.0) as outcomes:
        said = await ask(engine(kind, llm, chat, memory), way)
        await settled(outcomes)

    assert said == ANSWER
    assert told.counts == (1, 1, 1)
    assert outcomes.open_runs == 0
    assert told.utility("Ada lives in Paris") > 0.5
    assert told.utility("Bob") < 0.5
    assert "Ada lives in Paris" in llm.shown
    assert [one.content for one in chat.get_all()] == [QUESTION, ANSWER]
    assert [one.content for one in memory.episodes(session_id="s1")] == [QUESTION, ANSWER]


@pytest.mark.parametrize("way", ["chat", "achat", "stream_chat", "astream_chat"])
async def test_the_next_turn_is_a_search_of_its_own(way: str, told: Told) -> None:
    chat = RecallEchoMemory.from_defaults(told.memory)
    simple = engine("simple", ScriptedLLM(replies=[ANSWER, "He owns one."]), chat, told.memory)

    await ask(simple, way)
    await ask(simple, way, "What does Bob own?")
    await ask(simple, way, "What does Bob own?")

    assert told.counts == (3, 3, 0)


@pytest.mark.parametrize("kind", ["FunctionAgent", "AgentWorkflow", "ReActAgent"])
@pytest.mark.parametrize("streaming", [True, False])
async def test_a_turn_of_an_agent_is_one_search_one_marking_one_verdict(
    kind: str, streaming: bool, told: Told
) -> None:
    memory = told.memory
    chat = RecallEchoMemory.from_defaults(memory, session_id="s1")
    llm = agents_llm(kind, ANSWER)
    agent = agent_of(kind, llm, streaming=streaming)

    with RecallEchoInstrumentation(memory, on_success=1.0) as outcomes:
        result = await agent.run(user_msg=QUESTION, memory=chat)

    assert str(result) == ANSWER
    assert told.counts == (1, 1, 1)
    assert outcomes.open_runs == 0
    assert told.utility("Ada lives in Paris") > 0.5
    assert all(
        any("Ada lives in Paris" in str(message.content) for message in prompt)
        for prompt in llm.prompts
    )
    assert [one.content for one in memory.episodes(session_id="s1")] == [QUESTION, ANSWER]
    assert not any("<memory>" in str(message.content) for message in chat.get_all())


def agents_llm(kind: str, answer: str, tool: str = "look") -> ScriptedLLM:
    if kind == "ReActAgent":
        acting = f'Thought: I look it up.\nAction: {tool}\nAction Input: {{"question": "Ada"}}'
        return ScriptedLLM(replies=[acting, f"Thought: I know.\nAnswer: {answer}"])
    return ScriptedLLM(replies=[(tool, {"question": "Ada"}), answer])


def agent_of(kind: str, llm: ScriptedLLM, *, streaming: bool = True, tool: Any = look) -> Any:
    maker = ReActAgent if kind == "ReActAgent" else FunctionAgent
    agent = maker(name="one", description="one", llm=llm, tools=[tool], streaming=streaming)
    return AgentWorkflow(agents=[agent]) if kind == "AgentWorkflow" else agent


async def test_agents_that_hand_over_share_one_turn(told: Told) -> None:
    llm = ScriptedLLM(replies=[("handoff", {"to_agent": "two", "reason": "knows more"}), ANSWER])
    one = FunctionAgent(name="one", description="asks", llm=llm, can_handoff_to=["two"])
    two = FunctionAgent(name="two", description="knows", llm=llm)
    chat = RecallEchoMemory.from_defaults(told.memory, session_id="s1")

    with RecallEchoInstrumentation(told.memory, on_success=1.0):
        result = await AgentWorkflow(agents=[one, two], root_agent="one").run(
            user_msg=QUESTION, memory=chat
        )

    assert str(result) == ANSWER
    assert told.counts == (1, 1, 1)


# Outcomes


@pytest.mark.parametrize("way", ["chat", "achat", "stream_chat", "astream_chat"])
@pytest.mark.parametrize("kind", ["simple", "context", "condense"])
async def test_an_error_of_the_model_is_a_failure(kind: str, way: str, told: Told) -> None:
    chat = RecallEchoMemory.from_defaults(told.memory)
    llm = ScriptedLLM(replies=[ConnectionError("no answer")])

    with RecallEchoInstrumentation(told.memory, on_success=1.0) as outcomes:
        with suppress(ConnectionError):
            await ask(engine(kind, llm, chat, told.memory), way)
        await settled(outcomes)

    assert told.verdicts == [0.0]
    assert outcomes.open_runs == 0
    assert told.memory.episodes() == []


@pytest.mark.parametrize("way", ["stream_chat", "astream_chat"])
async def test_an_error_in_the_middle_of_a_stream_is_a_failure(way: str, told: Told) -> None:
    chat = RecallEchoMemory.from_defaults(told.memory)
    llm = ScriptedLLM(replies=[ANSWER], fail_after=3)

    with RecallEchoInstrumentation(told.memory, on_success=1.0) as outcomes:
        with suppress(Exception):
            await ask(engine("simple", llm, chat, told.memory), way)
        await settled(outcomes)

    assert told.verdicts == [0.0]
    assert told.memory.episodes() == []


async def test_an_interrupted_stream_says_nothing(told: Told) -> None:
    chat = RecallEchoMemory.from_defaults(told.memory)
    llm = ScriptedLLM(replies=[ANSWER], pause=0.05)

    with RecallEchoInstrumentation(told.memory, on_success=1.0) as outcomes:
        streamed = await engine("simple", llm, chat, told.memory).astream_chat(QUESTION)
        async for _ in streamed.async_response_gen():
            break
        streamed.awrite_response_to_history_task.cancel()
        with suppress(asyncio.CancelledError):
            await streamed.awrite_response_to_history_task
        await asyncio.sleep(0)

    assert told.verdicts == []
    assert outcomes.open_runs == 0


async def test_a_cancelled_agent_says_nothing(told: Told) -> None:
    chat = RecallEchoMemory.from_defaults(told.memory)
    agent = agent_of("FunctionAgent", ScriptedLLM(replies=[ANSWER], pause=0.2))

    with RecallEchoInstrumentation(told.memory, on_success=1.0) as outcomes:
        handler = agent.run(user_msg=QUESTION, memory=chat)
        await asyncio.sleep(0.3)
        await handler.cancel_run()
        with suppress(BaseException):
            await handler
        await asyncio.sleep(0.05)

    assert told.verdicts == []
    assert outcomes.open_runs == 0


@pytest.mark.parametrize("kind", ["FunctionAgent", "AgentWorkflow", "ReActAgent"])
async def test_an_error_of_an_agent_is_a_failure(kind: str, told: Told) -> None:
    chat = RecallEchoMemory.from_defaults(told.memory)
    agent = agent_of(kind, ScriptedLLM(replies=[ConnectionError("no answer")]))

    with RecallEchoInstrumentation(told.memory, on_success=1.0) as outcomes:
        with pytest.raises(ConnectionError):
            await agent.run(user_msg=QUESTION, memory=chat)
        await asyncio.sleep(0)

    assert told.verdicts == [0.0]
    assert outcomes.open_runs == 0


@pytest.mark.parametrize("kind", ["FunctionAgent", "AgentWorkflow", "ReActAgent"])
async def test_an_error_of_a_tool_gives_the_verdict_for_that(kind: str, told: Told) -> None:
    chat = RecallEchoMemory.from_defaults(told.memory)
    agent = agent_of(kind, agents_llm(kind, ANSWER, "broken"), tool=broken)
    seen = []

    with RecallEchoInstrumentation(
        told.memory, outcome=lambda run: seen.append(run), on_success=1.0, on_tool_error=0.3
    ):
        await agent.run(user_msg=QUESTION, memory=chat)

    assert told.verdicts == [0.3]
    assert "nothing there" in seen[0].tool_errors[0]
    assert seen[0].text == ANSWER


async def test_a_clean_end_alone_says_nothing(told: Told) -> None:
    chat = RecallEchoMemory.from_defaults(told.memory)

    with RecallEchoInstrumentation(told.memory):
        await ask(engine("simple", ScriptedLLM(replies=[ANSWER]), chat, told.memory), "achat")

    assert told.counts == (1, 1, 0)


@pytest.mark.parametrize("way", ["chat", "achat", "stream_chat", "astream_chat"])
async def test_a_tag_names_the_run_for_a_rating_that_comes_later(way: str, told: Told) -> None:
    chat = RecallEchoMemory.from_defaults(told.memory)
    simple = engine("simple", ScriptedLLM(replies=[ANSWER]), chat, told.memory)
    seen = []

    with (
        RecallEchoInstrumentation(told.memory, outcome=lambda run: seen.append(run.id)) as outcomes,
        instrument_tags({"run_id": "ticket-7"}),
    ):
        await ask(simple, way)
        await settled(outcomes)

    assert seen == ["ticket-7"]
    assert told.memory.feedback_for_run("ticket-7", 1.0, key="thumbs") == 1
    assert told.utility("Ada lives in Paris") > 0.5


async def test_a_tag_reaches_an_agents_recall_without_instrumentation(told: Told) -> None:
    chat = RecallEchoMemory.from_defaults(told.memory)
    with instrument_tags({"run_id": "ticket-8"}):
        await agent_of("FunctionAgent", ScriptedLLM(replies=[ANSWER])).run(
            user_msg=QUESTION, memory=chat
        )

    assert told.memory.feedback_for_run("ticket-8", True) == 1


async def test_uninstalled_instrumentation_hears_nothing(told: Told) -> None:
    outcomes = RecallEchoInstrumentation(told.memory, on_success=1.0).install().install()
    outcomes.uninstall()
    outcomes.uninstall()
    chat = RecallEchoMemory.from_defaults(told.memory)

    await ask(engine("simple", ScriptedLLM(replies=[ANSWER]), chat, told.memory), "achat")

    assert told.verdicts == []


async def test_a_retrieval_alone_is_no_run(told: Told) -> None:
    with RecallEchoInstrumentation(told.memory, on_success=1.0) as outcomes:
        RecallEchoRetriever(told.memory).retrieve(QUESTION)
        await RecallEchoRetriever(told.memory).aretrieve(QUESTION)

    assert told.verdicts == []
    assert outcomes.open_runs == 0


async def test_bookkeeping_of_runs_that_never_end_is_bounded(told: Told) -> None:
    outcomes = RecallEchoInstrumentation(told.memory, max_open=10)
    for number in range(100):
        outcomes._entered(f"Some.run-{number}", None, {"run_id": number})
        writer = f"StreamingAgentChatResponse.write_response_to_history-{number}"
        outcomes._entered(writer, f"Some.run-{number}", None)

    assert outcomes.open_runs <= 10
    assert len(outcomes._streams) <= 10
    assert len(outcomes._names) <= 10


async def test_a_rule_that_raises_is_logged_and_breaks_nothing(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    chat = RecallEchoMemory.from_defaults(told.memory)
    simple = engine("simple", ScriptedLLM(replies=[ANSWER]), chat, told.memory)

    with RecallEchoInstrumentation(told.memory, outcome=lambda run: 1 / 0):
        assert await ask(simple, "achat") == ANSWER

    assert "an outcome was not counted" in caplog.text


@pytest.mark.parametrize("way", ["achat", "astream_chat", "agent", "retriever"])
async def test_nothing_of_an_async_turn_happens_in_the_loops_thread(
    way: str, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops_thread, seen = threading.get_ident(), dict[str, int]()
    for verb in ("recall", "mark_used", "record", "feedback", "link"):
        real = getattr(Memory, verb)

        def watched(*args: Any, verb: str = verb, real: Any = real, **kwargs: Any) -> Any:
            seen[verb] = threading.get_ident()
            return real(*args, **kwargs)

        monkeypatch.setattr(Memory, verb, watched)
    chat = RecallEchoMemory.from_defaults(memory)
    llm = ScriptedLLM(replies=[ANSWER])

    with RecallEchoInstrumentation(memory, on_success=1.0) as outcomes:
        if way == "agent":
            await agent_of("FunctionAgent", llm).run(user_msg=QUESTION, memory=chat)
        elif way == "retriever":
            own = ContextChatEngine.from_defaults(
                retriever=RecallEchoRetriever(chat), llm=llm, memory=chat
            )
            await own.achat(QUESTION)
        else:
            await ask(engine("simple", llm, chat, memory), way)
        await settled(outcomes)

    assert len(seen) == 5
    assert loops_thread not in seen.values()


async def test_a_call_around_several_turns_is_one_run(told: Told) -> None:
    seen: list[str] = []

    @get_dispatcher().span
    def handle() -> str:
        for question in (QUESTION, "What does Bob own?"):
            chat = RecallEchoMemory.from_defaults(told.memory)
            engine("simple", ScriptedLLM(replies=[ANSWER]), chat, told.memory).chat(question)
            assert chat.recall_ids
        return "done"

    with RecallEchoInstrumentation(told.memory, outcome=lambda run: seen.append(run.text) or 1.0):
        handle()

    assert seen == ["done"]
    assert told.counts == (2, 2, 2)


async def test_many_streams_at_once_each_have_their_own_end(told: Told) -> None:
    async def one(number: int) -> None:
        chat = RecallEchoMemory.from_defaults(told.memory)
        fails = number % 3 == 0
        llm = ScriptedLLM(replies=[ANSWER], pause=0.001, fail_after=4 if fails else None)
        with suppress(Exception):
            await ask(engine("simple", llm, chat, told.memory), "astream_chat")

    with RecallEchoInstrumentation(told.memory, on_success=1.0) as outcomes:
        await asyncio.gather(*(one(number) for number in range(24)))
        await settled(outcomes)

    assert sorted(told.verdicts) == [0.0] * 8 + [1.0] * 16
    assert outcomes.open_runs == 0
    assert len(outcomes._streams) == 0
    assert outcomes._names == {}


async def test_an_agent_that_may_not_go_on_closes_its_turn(told: Told) -> None:
    llm = ScriptedLLM(replies=[("look", {"question": "x"})] * 3 + [ANSWER])
    agent = FunctionAgent(llm=llm, tools=[look], early_stopping_method="generate", streaming=False)
    chat = RecallEchoMemory.from_defaults(told.memory)

    with RecallEchoInstrumentation(told.memory, on_success=1.0):
        await agent.run(user_msg=QUESTION, memory=chat, max_iterations=3)

    assert told.counts == (1, 1, 1)
    assert [one.content for one in told.memory.episodes()] == [QUESTION, ANSWER]


async def test_a_memory_shown_by_the_system_message_reaches_a_function_agent(told: Told) -> None:
    chat = RecallEchoMemory.from_defaults(told.memory, insert="system")
    llm = ScriptedLLM(replies=[ANSWER])
    agent = FunctionAgent(llm=llm, tools=[look], system_prompt="Be kind.")

    await agent.run(user_msg=QUESTION, memory=chat)

    assert llm.roles == ["system", "system", "user"]
    assert "Ada lives in Paris" in llm.shown


@pytest.mark.parametrize("kind", ["simple", "context", "condense", "FunctionAgent", "ReActAgent"])
async def test_by_default_an_engine_has_one_system_message(kind: str, told: Told) -> None:
    chat = RecallEchoMemory.from_defaults(told.memory)
    llm = agents_llm(kind, ANSWER) if kind.endswith("Agent") else ScriptedLLM(replies=[ANSWER])
    if kind.endswith("Agent"):
        await agent_of(kind, llm).run(user_msg=QUESTION, memory=chat)
    else:
        await ask(engine(kind, llm, chat, told.memory), "achat")

    assert llm.roles.count("system") <= 1
    assert "Ada lives in Paris" in llm.shown
