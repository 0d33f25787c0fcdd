"""What the end of a run says about the memories that were recalled in it."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool
from langchain_scripted import ScriptedModel, calling
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from recall_echo_adapters.langchain import (
    RecallEchoCallbackHandler,
    RecallEchoMiddleware,
    RecallEchoRetriever,
    RecallEchoToolkit,
    as_text,
)
from recall_echo_core import Memory, UnknownRecall, open_memory

if TYPE_CHECKING:
    from recall_echo_adapters.verdicts import Run

QUESTION = "Where does Ada live?"
# After one success, one failure, and with no verdict; unused memories regress to 0.3.
GOOD, BAD, NONE, UNUSED = 0.55, 0.45, 0.5, 0.49


def letters(texts: list[str]) -> list[list[float]]:
    """Texts of the same letters are near; the meaning of words does not matter here."""
    signs = "abcdefghijklmnopqrstuvwxyz0123456789"
    return [[0.01, *(float(text.casefold().count(sign)) for sign in signs)] for text in texts]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """A memory that knows where Ada and Bob live."""
    settings = {"vectors": {"background": False}}
    with open_memory(tmp_path, embedding=letters, settings=settings) as memory:
        memory.remember("Ada", "LIVES_IN", "Paris")
        memory.remember("Bob", "LIVES_IN", "Rome")
        yield memory


def utility(memory: Memory, text: str = "Ada lives in Paris") -> float:
    hits = memory.recall(QUESTION, k=20, record_access=False)
    [found] = [hit for hit in hits if hit.text == text]
    return round(found.parts["utility"], 6)


def chain(memory: Memory, *replies: Any, user: str = "user_id") -> Runnable[str, str]:
    retriever = RecallEchoRetriever(memory=memory, k=20, kinds=["relation"], namespace_key=user)
    inputs = {"context": retriever | as_text, "question": RunnablePassthrough()}
    prompt = ChatPromptTemplate.from_template("{context}\n{question}")
    return inputs | prompt | ScriptedModel(replies=list(replies)) | StrOutputParser()


async def _invoke(runnable: Any, given: Any, config: Any) -> Any:
    return runnable.invoke(given, config)


async def _ainvoke(runnable: Any, given: Any, config: Any) -> Any:
    return await runnable.ainvoke(given, config)


async def _stream(runnable: Any, given: Any, config: Any) -> Any:
    return list(runnable.stream(given, config))


async def _astream(runnable: Any, given: Any, config: Any) -> Any:
    return [part async for part in runnable.astream(given, config)]


WAYS = {"invoke": _invoke, "ainvoke": _ainvoke, "stream": _stream, "astream": _astream}
every_way = pytest.mark.parametrize("run", WAYS.values(), ids=WAYS)


class TestChains:
    @every_way
    async def test_a_verdict_reaches_what_was_used_and_what_was_not(
        self, memory: Memory, run: Callable[..., Any]
    ) -> None:
        """By citation, through every way a chain is run."""
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)

        await run(chain(memory, "In Paris [M1]"), QUESTION, {"callbacks": [handler]})
        cited = memory.recall(QUESTION, k=20, kinds=["relation"], record_access=False).hits
        assert sorted(round(hit.parts["utility"], 6) for hit in cited) == [UNUSED, GOOD]
        assert handler.open_runs == 0

    @every_way
    async def test_a_clean_end_alone_is_no_verdict(
        self, memory: Memory, run: Callable[..., Any]
    ) -> None:
        handler = RecallEchoCallbackHandler(memory)

        await run(chain(memory, "In Paris"), QUESTION, {"callbacks": [handler]})
        assert utility(memory) == NONE

    @every_way
    async def test_a_failure_of_the_model_is_one(
        self, memory: Memory, run: Callable[..., Any]
    ) -> None:
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)

        with pytest.raises(RuntimeError, match="no model"):
            await run(chain(memory, RuntimeError("no model")), QUESTION, {"callbacks": [handler]})
        assert (utility(memory), handler.open_runs) == (BAD, 0)

    @every_way
    async def test_an_outcome_function_judges_the_run(
        self, memory: Memory, run: Callable[..., Any]
    ) -> None:
        """It is told what came out, and its word wins over `on_success`."""
        seen: list[Run] = []

        def outcome(finished: Run) -> str:
            seen.append(finished)
            return "failed" if "Rome" in finished.text else "success"

        handler = RecallEchoCallbackHandler(memory, outcome=outcome, on_success=1.0)

        await run(chain(memory, "In Rome, I guess"), QUESTION, {"callbacks": [handler]})
        [finished] = seen
        assert (finished.text, finished.error) == ("In Rome, I guess", None)
        assert [recalled.namespace for recalled in finished.recalls] == ["default"]
        assert utility(memory, "Bob lives in Rome") == BAD

    def test_without_any_sign_of_use_all_count_as_used(self, memory: Memory) -> None:
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)

        chain(memory, "I cannot say.").invoke(QUESTION, {"callbacks": [handler]})
        assert (utility(memory), utility(memory, "Bob lives in Rome")) == (GOOD, GOOD)

    def test_a_stream_nobody_reads_on_says_nothing(self, memory: Memory) -> None:
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)

        stream = chain(memory, "In Paris it is").stream(QUESTION, {"callbacks": [handler]})
        next(stream)
        stream.close()
        assert (utility(memory), handler.open_runs) == (NONE, 0)

    async def test_an_async_stream_nobody_reads_on_says_nothing(self, memory: Memory) -> None:
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)

        stream = chain(memory, "In Paris it is").astream(QUESTION, {"callbacks": [handler]})
        await anext(stream)
        await stream.aclose()
        del stream
        gc.collect()  # LangChain leaves the streams inside to be closed by whoever finds them
        await asyncio.sleep(0.1)
        assert (utility(memory), handler.open_runs) == (NONE, 0)

    async def test_a_cancelled_task_says_nothing(self, memory: Memory) -> None:
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)
        reached = asyncio.Event()

        async def wait(answer: str) -> str:
            reached.set()
            await asyncio.sleep(60)
            return answer

        slow = chain(memory, "In Paris") | RunnableLambda(wait)
        task = asyncio.create_task(slow.ainvoke(QUESTION, {"callbacks": [handler]}))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (utility(memory), handler.open_runs) == (NONE, 0)

    def test_an_inner_chain_counts_for_the_outermost_run(self, memory: Memory) -> None:
        """A step that failed and was caught inside is no failure of the run."""
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)
        rescued = chain(memory, RuntimeError("x")).with_fallbacks([RunnableLambda(lambda _: "Ok")])

        (rescued | RunnableLambda(str)).invoke(QUESTION, {"callbacks": [handler]})
        assert utility(memory) == GOOD

    def test_batches_are_runs_of_their_own(self, memory: Memory) -> None:
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)

        chain(memory, "In Paris [M1]").batch([QUESTION] * 3, {"callbacks": [handler]})
        best = memory.recall(QUESTION, k=1, kinds=["relation"], record_access=False).hits[0]
        assert (round(best.parts["utility"], 6), handler.open_runs) == (0.63555 - 0.00005, 0)

    def test_each_namespace_is_credited_with_its_own(self, memory: Memory) -> None:
        """One handler, two users, one of whom fails."""
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)
        for name in ("ann", "bob"):
            memory.namespace(name).remember("Ada", "LIVES_IN", "Paris")

        good = {"callbacks": [handler], "configurable": {"user_id": "ann"}}
        bad = {"callbacks": [handler], "configurable": {"user_id": "bob"}}
        chain(memory, "In Paris [M1]").invoke(QUESTION, good)
        with pytest.raises(RuntimeError):
            chain(memory, RuntimeError("x")).invoke(QUESTION, bad)
        names = ("ann", "bob", "default")
        assert [utility(memory.namespace(name)) for name in names] == [GOOD, BAD, NONE]


@tool
def ask(q: str) -> str:
    """Ask a human."""
    return str(interrupt(q))


@tool
def broken(q: str) -> str:
    """Fail."""
    raise RuntimeError("it is broken")


def agent(memory: Memory, *replies: Any, **options: Any) -> Any:
    middleware = RecallEchoMiddleware(memory, save="none", k=20)
    model = ScriptedModel(replies=list(replies))
    return create_agent(model, [ask, broken], middleware=[middleware], **options)


def asked() -> dict[str, Any]:
    return {"messages": [HumanMessage(QUESTION)]}


class TestAgents:
    @every_way
    async def test_success_and_usage_come_together(
        self, memory: Memory, run: Callable[..., Any]
    ) -> None:
        """The middleware tells what was used, the handler how it ended."""
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)

        await run(agent(memory, "Paris, so I hear"), asked(), {"callbacks": [handler]})
        assert (utility(memory), utility(memory, "Bob lives in Rome")) == (GOOD, UNUSED)
        assert handler.open_runs == 0

    @every_way
    async def test_a_failed_model_counts_as_failure(
        self, memory: Memory, run: Callable[..., Any]
    ) -> None:
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)

        with pytest.raises(RuntimeError, match="no model"):
            await run(agent(memory, RuntimeError("no model")), asked(), {"callbacks": [handler]})
        assert (utility(memory), handler.open_runs) == (BAD, 0)

    @every_way
    async def test_a_tool_that_raises_counts_as_failure(
        self, memory: Memory, run: Callable[..., Any]
    ) -> None:
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)

        with pytest.raises(RuntimeError, match="it is broken"):
            await run(agent(memory, calling("broken", q="x")), asked(), {"callbacks": [handler]})
        assert utility(memory) == BAD

    def test_an_error_that_was_given_to_the_model_is_a_tool_error(self, memory: Memory) -> None:
        """The run may have recovered from it, so what it means is yours to say."""
        seen: list[Run] = []
        replies = (calling("broken"), "In Paris it is")

        handler = RecallEchoCallbackHandler(memory, outcome=lambda run: seen.append(run))
        agent(memory, *replies).invoke(asked(), {"callbacks": [handler]})
        assert (len(seen[0].tool_errors), utility(memory)) == (1, NONE)

        strict = RecallEchoCallbackHandler(memory, on_success=1.0, on_tool_error=0.0)
        agent(memory, *replies).invoke(asked(), {"callbacks": [strict]})
        assert utility(memory) == BAD

    @pytest.mark.parametrize("first", WAYS)
    @pytest.mark.parametrize("then", WAYS)
    async def test_a_pause_says_nothing_and_the_resumed_run_is_credited(
        self, memory: Memory, first: str, then: str
    ) -> None:
        """Under another run id, and once."""
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)
        paused = agent(memory, calling("ask", q="?"), "In Paris", checkpointer=InMemorySaver())
        config = {"callbacks": [handler], "configurable": {"thread_id": "t"}}

        await WAYS[first](paused, asked(), config)
        assert (utility(memory), handler.open_runs) == (NONE, 0)

        await WAYS[then](paused, Command(resume="yes"), config)
        assert (utility(memory), handler.open_runs) == (GOOD, 0)

    def test_a_human_who_is_asked_for_approval_is_a_pause(self, memory: Memory) -> None:
        """With LangChain's own middleware for it."""
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)
        approving = create_agent(
            ScriptedModel(replies=[calling("look", q="x"), "In Paris"]),
            [look],
            middleware=[
                HumanInTheLoopMiddleware(interrupt_on={"look": True}),
                RecallEchoMiddleware(memory, save="none", k=20),
            ],
            checkpointer=InMemorySaver(),
        )
        config = {"callbacks": [handler], "configurable": {"thread_id": "t"}}

        approving.invoke(asked(), config)
        assert utility(memory) == NONE

        approving.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
        assert utility(memory) == GOOD

    def test_a_subagents_recalls_count_once_for_the_outer_run(self, memory: Memory) -> None:
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)
        inner = agent(memory, "Paris, as far as I know")
        ran: list[int] = []

        @tool
        def delegate(task: str) -> str:
            """Give a task to another agent."""
            ran.append(handler.open_runs)
            return str(inner.invoke(asked())["messages"][-1].text)

        outer = create_agent(
            ScriptedModel(replies=[calling("delegate", task="x"), "Done"]), [delegate]
        )
        outer.invoke({"messages": [HumanMessage("Find Ada")]}, {"callbacks": [handler]})
        assert (ran, handler.open_runs, utility(memory)) == ([1], 0, GOOD)

    def test_a_hand_over_to_another_agent_is_no_pause(self, memory: Memory) -> None:
        """LangGraph raises to hand over; the run goes on and its end counts."""
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)

        @tool
        def hand_over(tool_call_id: str = "1") -> Command[Any]:
            """Hand over to the other agent."""
            done = {"messages": [AIMessage("In Paris")]}
            return Command(goto="other", graph=Command.PARENT, update=done)

        first = create_agent(
            ScriptedModel(replies=[calling("hand_over")]),
            [hand_over],
            middleware=[RecallEchoMiddleware(memory, save="none", tools=())],
        )
        graph = StateGraph(MessagesState)
        graph.add_node("first", first)
        graph.add_node("other", lambda state: {"messages": [AIMessage("In Paris, rue X")]})
        graph.add_edge(START, "first")
        graph.add_edge("other", END)

        graph.compile().invoke(asked(), {"callbacks": [handler]})
        assert (utility(memory), handler.open_runs) == (GOOD, 0)

    def test_recalls_by_a_tool_are_credited(self, memory: Memory) -> None:
        """Without the middleware, the tool's artifact tells of them."""
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)
        tools = RecallEchoToolkit(memory=memory, abilities=["recall"]).get_tools()
        model = ScriptedModel(replies=[calling("recall", query=QUESTION), "Paris"])

        create_agent(model, tools).invoke(asked(), {"callbacks": [handler]})
        assert utility(memory) == GOOD


@tool
def look(q: str) -> str:
    """Look something up."""
    return "nothing"


class TestRatings:
    @pytest.mark.parametrize("with_handler", [True, False])
    def test_a_rating_that_comes_later_finds_the_run(
        self, memory: Memory, with_handler: bool
    ) -> None:
        """By the id the caller chose, as often as it is sent; the last one of a key counts."""
        run_id = uuid4()
        handlers = [RecallEchoCallbackHandler(memory)] if with_handler else []
        config = {"callbacks": handlers, "run_id": run_id}
        agent(memory, "Paris, so I hear").invoke(asked(), config)

        for _ in range(2):
            assert memory.feedback_for_run(str(run_id), score=1.0, key="thumbs") == 1
        assert utility(memory) == GOOD
        memory.feedback_for_run(str(run_id), score=0.0, key="thumbs")
        assert utility(memory) == BAD

    def test_a_chain_is_found_by_its_run_too(self, memory: Memory) -> None:
        """The handler links what a retriever deep inside recalled to the outermost run."""
        run_id = uuid4()
        config = {"callbacks": [RecallEchoCallbackHandler(memory)], "run_id": run_id}
        chain(memory, "In Paris [M1]").invoke(QUESTION, config)

        assert memory.feedback_for_run(str(run_id), score=True) == 1
        best = memory.recall(QUESTION, k=1, kinds=["relation"], record_access=False).hits[0]
        assert round(best.parts["utility"], 6) == GOOD

    def test_both_runs_of_a_paused_turn_find_it(self, memory: Memory) -> None:
        runs = [uuid4(), uuid4()]
        handler = RecallEchoCallbackHandler(memory)
        paused = agent(memory, calling("ask", q="?"), "In Paris", checkpointer=InMemorySaver())

        for given, run_id in zip((asked(), Command(resume="yes")), runs, strict=True):
            config = {"callbacks": [handler], "configurable": {"thread_id": "t"}}
            paused.invoke(given, {**config, "run_id": run_id})
        assert [memory.feedback_for_run(str(run), score=1.0) for run in runs] == [1, 1]

    def test_a_run_that_recalled_nothing_says_so(self, memory: Memory) -> None:
        with pytest.raises(UnknownRecall, match="no recall of this run"):
            memory.feedback_for_run(str(uuid4()), score=1.0)


class TestBookkeeping:
    def test_runs_that_never_end_are_let_go(self, memory: Memory) -> None:
        """The oldest first, when there are more than `max_runs`."""
        handler = RecallEchoCallbackHandler(memory, max_runs=10)

        for _ in range(50):
            handler.on_chain_start({}, {}, run_id=uuid4())
        assert handler.open_runs == 10
        with pytest.raises(ValueError, match="at least one"):
            RecallEchoCallbackHandler(memory, max_runs=0)

    def test_unknown_ids_and_shapes_do_no_harm(self, memory: Memory) -> None:
        """Ends without beginnings, inputs that are not dicts, events of others."""
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)
        stray = UUID(int=7)

        handler.on_chain_end({"output": "x"}, run_id=stray)
        handler.on_chain_error(ValueError("x"), run_id=stray)
        handler.on_tool_end("text", run_id=stray)
        handler.on_retriever_end([], run_id=stray)
        handler.on_custom_event("other", {"recall_id": 3}, run_id=stray)
        handler.on_chain_start(None, "just text", run_id=stray)
        handler.on_custom_event("recall_echo.recall", {"recall_id": None}, run_id=stray)
        handler.on_chain_end(["x"], run_id=stray)
        assert handler.open_runs == 0

    def test_what_was_forgotten_meanwhile_is_passed_over(self, memory: Memory) -> None:
        """The run ends well; there is nothing left to credit."""
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)
        erasing = chain(memory, "In Paris") | RunnableLambda(
            lambda answer: (memory.forget(entity="Ada"), answer)[1]
        )

        assert erasing.invoke(QUESTION, {"callbacks": [handler]}) == "In Paris"
        assert memory.beliefs("Ada", "LIVES_IN") == []

    def test_a_faulty_outcome_function_is_logged_and_usage_is_kept(
        self, memory: Memory, caplog: pytest.LogCaptureFixture
    ) -> None:
        """LangChain swallows what a handler raises; the run itself is not disturbed."""
        handler = RecallEchoCallbackHandler(memory, outcome=lambda run: 17.0)

        with caplog.at_level(logging.WARNING):
            chain(memory, "In Paris").invoke(QUESTION, {"callbacks": [handler]})
        assert "RecallEchoCallbackHandler" in caplog.text
        assert (utility(memory), handler.open_runs) == (NONE, 0)
