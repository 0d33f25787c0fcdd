"""Which input and output a classic memory takes, and how its receipts travel."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_classic.chains import ConversationChain
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.prompts import PromptTemplate
from langchain_scripted import ScriptedModel
from langchain_ways import letters
from pydantic import ValidationError

from recall_echo_adapters.langchain import (
    RecallEchoCallbackHandler,
    RecallEchoMemory,
    RecalledText,
)
from recall_echo_adapters.langchain.classic import _say_which
from recall_echo_adapters.langchain.recalled_text import receipt_in, receipts_in
from recall_echo_adapters.verdicts import Recalled
from recall_echo_core import Memory, open_memory

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

ROOT = Path(__file__).parents[1]
QUESTION = "Where does Ada live?"
RECEIPT = Recalled("ada", "18ed")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """A memory of ten secrets."""
    settings = {"vectors": {"background": False}}
    with open_memory(tmp_path, embedding=letters, settings=settings) as memory:
        memory.remember("Ada", "LIVES_IN", "Paris")
        for number in range(9):
            memory.remember("secret", "IS", f"nr-{number}")
        _say_which.cache_clear()
        yield memory


def kept(own: RecallEchoMemory) -> list[str]:
    return [episode.text.partition(": ")[2] for episode in own.memory.episodes()]


class TestKeys:
    @pytest.mark.parametrize("name", ["input", "question", "query", "human_input", "user_input"])
    def test_a_well_known_input_is_taken(self, memory: Memory, name: str) -> None:
        own = RecallEchoMemory(memory=memory)
        inputs = {"context": "c", "chat_history": [], name: QUESTION}
        own.save_context(inputs, {"output": "yes"})
        assert kept(own) == [QUESTION, "yes"]

    @pytest.mark.parametrize("name", ["output", "answer", "response", "text", "result"])
    def test_a_well_known_output_is_taken(self, memory: Memory, name: str) -> None:
        own = RecallEchoMemory(memory=memory)
        outputs = {"source_documents": ["d"], "messages": [], "intermediate_steps": [], name: "yes"}
        own.save_context({"input": QUESTION}, outputs)
        assert kept(own) == [QUESTION, "yes"]

    def test_the_only_other_one_is_taken(
        self, memory: Memory, caplog: pytest.LogCaptureFixture
    ) -> None:
        own = RecallEchoMemory(memory=memory)
        own.save_context({"riddle": QUESTION, "history": "h"}, {"guess": "yes"})
        assert kept(own) == [QUESTION, "yes"]
        assert caplog.messages == []

    def test_a_choice_among_several_is_told_of_once(
        self, memory: Memory, caplog: pytest.LogCaptureFixture
    ) -> None:
        """As a line of the log that says which, and how to choose."""
        outputs = {"output": "yes", "messages": ["m"], "intermediate_steps": ["i"], "cost": 3}
        for _ in range(3):
            own = RecallEchoMemory(memory=memory)
            own.save_context({"question": QUESTION, "ctx": "c"}, outputs)
        assert kept(own) == [QUESTION, "yes"] * 3
        assert caplog.messages == [
            "taking 'question' for the input, not 'ctx';"
            " say RecallEchoMemory(input_key=...) to choose",
            "taking 'output' for the output, not 'cost';"
            " say RecallEchoMemory(output_key=...) to choose",
        ]

    def test_keys_that_were_said_are_taken(
        self, memory: Memory, caplog: pytest.LogCaptureFixture
    ) -> None:
        own = RecallEchoMemory(memory=memory, input_key="ctx", output_key="cost")
        own.save_context({"question": "no", "ctx": QUESTION}, {"output": "no", "cost": "yes"})
        assert kept(own) == [QUESTION, "yes"]
        assert caplog.messages == []

    @pytest.mark.parametrize(
        ("inputs", "outputs", "told"),
        [
            ({"q": "1", "ctx": "2"}, {"output": "yes"}, r"\['ctx', 'q'\] is the input.*input_key="),
            ({"input": "1"}, {"a": "1", "b": "2"}, r"\['a', 'b'\] is the output.*output_key="),
            ({"history": "h"}, {"output": "yes"}, r"\['history'\] is the input"),
            ({"input": "1"}, {}, r"\[\] is the output"),
        ],
    )
    def test_where_there_is_no_telling_the_error_says_what_to_set(
        self, memory: Memory, inputs: Any, outputs: Any, told: str
    ) -> None:
        own = RecallEchoMemory(memory=memory)
        with pytest.raises(ValueError, match=told):
            own.save_context(inputs, outputs)
        assert kept(own) == []

    def test_a_key_that_was_said_and_is_not_there_is_an_error(self, memory: Memory) -> None:
        own = RecallEchoMemory(memory=memory, input_key="q")
        with pytest.raises(ValueError, match=r"input_key='q' is not among \['input'\]"):
            own.load_memory_variables({"input": QUESTION})

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (HumanMessage("Hi"), "Hi"),
            ([HumanMessage("Hello"), AIMessage("Hi"), HumanMessage("Bye")], "Bye"),
            (
                [{"type": "text", "text": "Hi ", "index": 0}, {"type": "text", "text": "you"}],
                "Hi you",
            ),
            ({"answer": "Hi"}, "Hi"),
            ({"name": "Zoë"}, '{"name": "Zoë"}'),
            (42, "42"),
            (True, "true"),
        ],
    )
    def test_what_is_not_text_is_kept_as_text(self, memory: Memory, value: Any, text: str) -> None:
        """As models, parsers and providers give it."""
        own = RecallEchoMemory(memory=memory)
        own.save_context({"input": value}, {"output": value})
        assert kept(own) == [text, text]

    @pytest.mark.parametrize("value", [None, "", [], AIMessage("")])
    def test_an_answer_of_nothing_is_not_kept(self, memory: Memory, value: Any) -> None:
        own = RecallEchoMemory(memory=memory)
        own.save_context({"input": QUESTION}, {"output": value})
        assert kept(own) == [QUESTION]

    def test_a_list_of_messages_alone_is_the_input(self, memory: Memory) -> None:
        own = RecallEchoMemory(memory=memory)
        own.save_context({"messages": [HumanMessage(QUESTION)]}, {"messages": [AIMessage("yes")]})
        assert kept(own) == [QUESTION, "yes"]


class TestReceipts:
    def test_a_text_carries_its_receipt(self) -> None:
        """Through pickle and copies; every operation of a text makes plain text."""
        text = RecalledText("Ada lives in Paris", RECEIPT)
        for made in (copy.copy(text), copy.deepcopy(text), pickle.loads(pickle.dumps(text))):
            assert isinstance(made, RecalledText)
            assert (made, made.receipt) == ("Ada lives in Paris", RECEIPT)
        for plain in (text + "!", text.upper(), f"{text}", text[:3], "".join([text]), str(text)):
            assert receipt_in(plain) is None

    def test_everywhere_else_it_is_a_text(self) -> None:
        text = RecalledText("Ada", RECEIPT)
        assert text == "Ada"
        assert hash(text) == hash("Ada")
        assert json.dumps({"a": text}) == '{"a": "Ada"}'
        assert PromptTemplate.from_template("{a}!").format(a=text) == "Ada!"
        assert receipt_in(RecalledText("Ada")) is None

    def test_a_message_carries_its_receipt_as_json(self) -> None:
        """So that it survives where conversations are stored."""
        carried = {"recall_echo": RECEIPT._asdict()}
        message = SystemMessage("Ada", additional_kwargs=carried)
        again = SystemMessage(**json.loads(message.model_dump_json()))
        for value in (
            message,
            again,
            [message],
            [again, HumanMessage("Hi")],
            copy.deepcopy(message),
        ):
            assert receipt_in(value) == RECEIPT

    @pytest.mark.parametrize("value", [None, 1, [], {}, "Ada", [1], HumanMessage("Hi")])
    def test_nothing_else_carries_one(self, value: Any) -> None:
        assert receipt_in(value) is None
        assert list(receipts_in({"a": value})) == []


class TestManyAtOnce:
    @pytest.mark.filterwarnings(
        "ignore::langchain_core._api.deprecation.LangChainDeprecationWarning"
    )
    async def test_100_chains_on_one_memory_and_one_handler(
        self, memory: Memory, tmp_path: Path
    ) -> None:
        """Half in threads, half in a loop: each is credited once, and nothing is left over."""
        own = RecallEchoMemory(memory=memory, k=20, save="none")
        handler = RecallEchoCallbackHandler(memory, on_success=1.0)

        def tell(messages: Sequence[BaseMessage]) -> str:
            return f"It is {str(messages[-1].text).split('Human: ')[-1].split('?')[0]}."

        def ask(number: int) -> tuple[Any, dict[str, str], Any]:
            chain = ConversationChain(llm=ScriptedModel(replies=[tell]), memory=own)
            return chain, {"input": f"nr-{number % 9}?"}, {"callbacks": [handler]}

        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(8) as pool:
            asked = [ask(number) for number in range(100)]
            threads = [
                loop.run_in_executor(pool, chain.invoke, given, config)
                for chain, given, config in asked[:50]
            ]
            tasks = [chain.ainvoke(given, config) for chain, given, config in asked[50:]]
            answers = await asyncio.gather(*threads, *tasks)

        receipts = {answer["history"].receipt for answer in answers}
        assert len(receipts) == 100
        path = tmp_path / "log.jsonl"
        memory.export(path)
        lines = path.read_text(encoding="utf-8").splitlines()
        events = Counter(json.loads(line).get("kind") for line in lines)
        assert [events[kind] for kind in ("recall", "usage", "feedback")] == [100] * 3
        assert (handler.open_runs, handler._runs._roots, list(own._open)) == (0, {}, [])


class TestAsAnObject:
    def test_copies_share_the_memory(self, memory: Memory) -> None:
        own = RecallEchoMemory(memory=memory)
        copies = copy.copy(own), copy.deepcopy(own), own.model_copy(deep=True)
        assert list(copies) == [own] * 3
        for made in copies:
            assert made.memory is memory
            assert "Paris" in made.load_memory_variables({"input": QUESTION})["history"]

    def test_it_refuses_to_be_pickled(self, memory: Memory) -> None:
        own = RecallEchoMemory(memory=memory)
        with pytest.raises(TypeError, match="holds an open memory, which cannot be pickled"):
            pickle.dumps(own)
        assert "Paris" in own.load_memory_variables({"input": QUESTION})["history"]

    def test_what_is_shown_of_it_leaves_the_memory_out(self, memory: Memory) -> None:
        own = RecallEchoMemory(memory=memory)
        assert repr(own) == "RecallEchoMemory()"
        assert json.loads(own.model_dump_json())["memory_key"] == "history"
        assert dumpd(own)["type"] == "not_implemented"
        assert own.memory_variables == ["history"]

    def test_a_misspelt_option_is_an_error(self, memory: Memory) -> None:
        with pytest.raises(ValidationError, match="inputkey"):
            RecallEchoMemory(memory=memory, inputkey="q")  # type: ignore[call-arg]

    def test_importing_and_using_it_warns_of_nothing(self, tmp_path: Path) -> None:
        """The chains it is for are deprecated; it says so in its docstring, not on every run."""
        code = f"""
from recall_echo_adapters.langchain import RecallEchoMemory
from recall_echo_core import open_memory
with open_memory({str(tmp_path)!r}, embedding=lambda texts: [[1.0] for _ in texts]) as memory:
    own = RecallEchoMemory(memory=memory)
    own.save_context({{"input": "Hi"}}, {{"output": "Hello"}})
    print(own.load_memory_variables({{"input": "Hi"}})["history"].count("[M"))
"""
        command = [sys.executable, "-W", "error", "-c", code]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert (done.stdout.strip(), done.stderr) == ("3", "")
