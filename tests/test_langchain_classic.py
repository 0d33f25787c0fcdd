"""The memory of classic chains: what it recalls, keeps, credits and refuses, in real chains."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_classic.agents import AgentExecutor, create_tool_calling_agent
from langchain_classic.chains import ConversationalRetrievalChain, ConversationChain, LLMChain
from langchain_classic.memory import CombinedMemory, ConversationBufferMemory
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_core.tools import tool
from langchain_scripted import ScriptedModel, calling
from langchain_ways import Way, every_way, letters, once

from recall_echo_adapters.langchain import (
    RecallEchoCallbackHandler,
    RecallEchoMemory,
    RecallEchoRetriever,
)
from recall_echo_core import Memory, approximate_tokens, open_memory

# The classic chains are deprecated, and people still run them: that is why this class exists.
pytestmark = pytest.mark.filterwarnings(
    "ignore::langchain_core._api.deprecation.LangChainDeprecationWarning"
)

QUESTION = "Where does Ada live?"
PROMPT = PromptTemplate.from_template("{history}\n{input}")
MESSAGES = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("human", "{input}")])
both_forms = pytest.mark.parametrize("messages", [False, True], ids=["text", "messages"])


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """A memory that knows where Ada and Bob live."""
    settings = {"vectors": {"background": False}}
    with open_memory(tmp_path, embedding=letters, settings=settings) as memory:
        memory.remember("Ada", "LIVES_IN", "Paris")
        memory.remember("Bob", "LIVES_IN", "Rome")
        yield memory


def conversation(memory: Any, *replies: Any, messages: bool = False, **options: Any) -> Any:
    """A chain with a memory, and its model."""
    model = ScriptedModel(replies=[*replies])
    own = (
        memory
        if not isinstance(memory, Memory)
        else RecallEchoMemory(memory=memory, return_messages=messages, k=20, **options)
    )
    prompt = {"prompt": MESSAGES} if messages else {}
    return ConversationChain(llm=model, memory=own, **prompt), model


def kept(memory: Memory) -> list[tuple[str, str]]:
    """What was said, by whom."""
    return [(episode.role, episode.text.partition(": ")[2]) for episode in memory.episodes()]


def utility(memory: Memory, text: str = "Ada lives in Paris") -> float:
    hits = memory.recall(QUESTION, 20, ["relation"], record_access=False)
    [found] = [hit for hit in hits if hit.text == text]
    return round(found.parts["utility"], 6)


class TestConversations:
    @every_way
    @both_forms
    async def test_a_chain_is_shown_what_is_remembered_and_keeps_what_is_said(
        self, memory: Memory, run: Way, messages: bool
    ) -> None:
        chain, model = conversation(memory, "Near the canal, I think.", messages=messages)
        await run(chain, {"input": QUESTION})

        shown = "\n".join(str(message.text) for message in model.prompts[-1])
        assert "<memory>\n" in shown
        assert "Ada lives in Paris (90% sure" in shown
        assert kept(memory) == [("user", QUESTION), ("assistant", "Near the canal, I think.")]

    @every_way
    @both_forms
    async def test_a_verdict_reaches_what_was_used_and_what_was_not(
        self, memory: Memory, run: Way, messages: bool
    ) -> None:
        """The receipt travels inside the prompt's variable."""
        chain, _ = conversation(memory, "In Paris.", messages=messages)
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)
        await run(chain, {"input": QUESTION}, {"callbacks": [handler]})

        assert (utility(memory), utility(memory, "Bob lives in Rome")) == (0.55, 0.49)
        assert handler.open_runs == 0

    @once
    @both_forms
    async def test_a_failure_of_the_model_keeps_nothing(
        self, memory: Memory, run: Way, messages: bool
    ) -> None:
        chain, _ = conversation(memory, RuntimeError("no model"), messages=messages)
        with pytest.raises(RuntimeError, match="no model"):
            await run(chain, {"input": QUESTION})
        assert kept(memory) == []

    @once
    async def test_an_empty_memory_shows_nothing(self, memory: Memory, run: Way) -> None:
        """Neither a fence nor an empty message."""
        for messages, wanted in ((False, ""), (True, [])):
            empty = memory.namespace("empty")
            chain, _ = conversation(empty, "ok", messages=messages, save="none")
            assert (await run(chain, {"input": QUESTION}))["history"] == wanted

    def test_a_question_does_not_recall_itself(self, memory: Memory) -> None:
        """It is kept when its turn closes; the next turn may recall it."""
        chain, model = conversation(memory, "I do not know.")
        for _ in range(2):
            chain.invoke({"input": "Who keeps violet axolotls?"})
        first, second = (str(prompt[-1].text) for prompt in model.prompts)

        assert first.count("violet axolotls") == 1
        assert second.count("violet axolotls") == 2

    @pytest.mark.parametrize(("save", "roles"), [("user", ["user"]), ("none", [])])
    def test_less_may_be_kept(self, memory: Memory, save: Any, roles: list[str]) -> None:
        chain, _ = conversation(memory, "Near the canal, I think.", save=save)
        chain.invoke({"input": QUESTION})
        assert [role for role, _ in kept(memory)] == roles

    def test_what_is_kept_belongs_to_the_session(self, memory: Memory) -> None:
        chain, _ = conversation(memory, "Near the canal, I think.", session_id="monday")
        chain.invoke({"input": QUESTION})
        assert len(list(memory.episodes(session_id="monday"))) == 2

    def test_a_budget_holds(self, memory: Memory) -> None:
        for number in range(20):
            memory.record([{"role": "user", "content": f"Ada {number} " + "word " * 40}])
        chain, _ = conversation(memory, "ok", max_tokens=120)
        shown = chain.invoke({"input": QUESTION})["history"]
        assert 60 < approximate_tokens(shown) <= 120

    def test_clearing_forgets_nothing(self, memory: Memory) -> None:
        RecallEchoMemory(memory=memory).clear()
        assert len(list(memory.relations())) == 2


class TestOtherChains:
    @once
    async def test_a_chain_with_keys_of_its_own(self, memory: Memory, run: Way) -> None:
        prompt = PromptTemplate.from_template("{facts}\n{riddle}")
        own = RecallEchoMemory(memory=memory, memory_key="facts", k=20)
        model = ScriptedModel(replies=["In a canal, I think."])
        chain = LLMChain(llm=model, prompt=prompt, memory=own, output_key="guess")
        await run(chain, {"riddle": QUESTION})

        assert "Ada lives in Paris" in str(model.prompts[-1][0].text)
        assert kept(memory) == [("user", QUESTION), ("assistant", "In a canal, I think.")]

    @once
    @both_forms
    async def test_an_agent_that_returns_its_steps(
        self, memory: Memory, run: Way, messages: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Works without keys set, and says nothing of it."""

        @tool
        def weather() -> str:
            """Return the weather."""
            return "rain"

        model = ScriptedModel(replies=[calling("weather"), "It rains, take an umbrella."])
        prompt = ChatPromptTemplate.from_messages(
            [
                MessagesPlaceholder("history") if messages else ("system", "{history}"),
                ("human", "{input}"),
                ("placeholder", "{agent_scratchpad}"),
            ]
        )
        agent = AgentExecutor(
            agent=create_tool_calling_agent(model, [weather], prompt),
            tools=[weather],
            memory=RecallEchoMemory(memory=memory, return_messages=messages, k=20),
            return_intermediate_steps=True,
        )
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)
        out = await run(agent, {"input": QUESTION}, {"callbacks": [handler]})

        assert len(out["intermediate_steps"]) == 1
        assert kept(memory) == [("user", QUESTION), ("assistant", "It rains, take an umbrella.")]
        assert "Ada lives in Paris" in str(model.prompts[0][0].text)
        assert utility(memory) != 0.5
        assert caplog.messages == []

    @once
    async def test_a_chain_that_asks_documents_too(
        self, memory: Memory, run: Way, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It returns documents and the question it made of the conversation beside the answer."""
        chain = ConversationalRetrievalChain.from_llm(
            ScriptedModel(replies=["Which city is Ada's?", "Near the canal, I think."]),
            retriever=RecallEchoRetriever(memory=memory),
            memory=RecallEchoMemory(memory=memory, memory_key="chat_history", return_messages=True),
            return_source_documents=True,
            return_generated_question=True,
        )
        await run(chain, {"question": QUESTION})
        assert kept(memory) == [("user", QUESTION), ("assistant", "Near the canal, I think.")]
        assert caplog.messages == []

    def test_beside_other_memories_only_question_and_answer_are_kept(self, memory: Memory) -> None:
        """What another memory fills into the prompt is not ours to keep."""
        buffer = ConversationBufferMemory(memory_key="buffer", input_key="input")
        both = CombinedMemory(
            memories=[buffer, RecallEchoMemory(memory=memory, input_key="input", k=20)]
        )
        prompt = PromptTemplate.from_template("{buffer}\n{history}\n{input}")
        model = ScriptedModel(replies=["Near the canal, I think.", "Ask somebody else."])
        chain = LLMChain(llm=model, prompt=prompt, memory=both)
        for _ in range(2):
            chain.invoke({"input": QUESTION})

        assert "Human: Where" in str(model.prompts[-1][0].text)
        assert kept(memory) == [
            ("user", QUESTION),
            ("assistant", "Near the canal, I think."),
            ("user", QUESTION),
            ("assistant", "Ask somebody else."),
        ]


class TestByHand:
    @once
    @pytest.mark.parametrize("inputs", [{}, {"input": ""}, {"input": " \n"}])
    async def test_nothing_is_asked(self, memory: Memory, run: Way, inputs: dict[str, str]) -> None:
        """Programs of one's own often load without a question."""
        assert await loaded(RecallEchoMemory(memory=memory), inputs, run) == {"history": ""}
        listed = RecallEchoMemory(memory=memory, return_messages=True)
        assert await loaded(listed, inputs, run) == {"history": []}

    @once
    async def test_keeping_without_recalling(self, memory: Memory, run: Way) -> None:
        await saved(RecallEchoMemory(memory=memory), {"input": "Hi"}, {"output": "Hello"}, run)
        assert kept(memory) == [("user", "Hi"), ("assistant", "Hello")]

    def test_half_a_surrogate_pair_is_no_reason_to_fail(self, memory: Memory) -> None:
        own = RecallEchoMemory(memory=memory)
        question = {"input": f"{QUESTION} \ud83d"}
        assert "Paris" in own.load_memory_variables(question)["history"]
        own.save_context(question, {"output": "I do not know \ude00"})
        assert [text[-1] for _, text in kept(memory)] == ["\ufffd", "\ufffd"]

    @once
    @both_forms
    @pytest.mark.parametrize("handed_on", [True, False], ids=["handed on", "not handed on"])
    async def test_echoing_a_memory_twenty_times_changes_nothing(
        self, memory: Memory, run: Way, messages: bool, handed_on: bool
    ) -> None:
        """No belief, and no echo is kept; whether or not the inputs hold the memories."""
        own = RecallEchoMemory(memory=memory, return_messages=messages, k=20)
        before = [(relation.alpha, relation.beta) for relation in memory.relations()]
        for _ in range(20):
            shown = await loaded(own, {"input": QUESTION}, run)
            inputs = {"input": QUESTION, **(shown if handed_on else {})}
            await saved(own, inputs, {"output": "Ada lives in Paris [M1]."}, run)

        assert [(relation.alpha, relation.beta) for relation in memory.relations()] == before
        assert {role for role, _ in kept(memory)} == {"user"}
        assert list(own._open) == []

    def test_questions_that_are_never_answered_do_not_pile_up(self, memory: Memory) -> None:
        own = RecallEchoMemory(memory=memory, k=1)
        for number in range(300):
            own.load_memory_variables({"input": f"{QUESTION} {number}"})
        assert len(own._open) == 256

    def test_another_question_is_not_taken_for_the_one_recalled(self, memory: Memory) -> None:
        own = RecallEchoMemory(memory=memory, k=20)
        own.load_memory_variables({"input": QUESTION})
        own.save_context({"input": "And Bob?"}, {"output": "In Rome."})
        assert kept(memory) == [("user", "And Bob?"), ("assistant", "In Rome.")]


async def loaded(own: RecallEchoMemory, inputs: dict[str, Any], run: Way) -> dict[str, Any]:
    if run.__name__ == "invoke":
        return own.load_memory_variables(inputs)
    return await own.aload_memory_variables(inputs)


async def saved(
    own: RecallEchoMemory, inputs: dict[str, Any], outputs: dict[str, Any], run: Way
) -> None:
    if run.__name__ == "invoke":
        own.save_context(inputs, outputs)
    else:
        await own.asave_context(inputs, outputs)
