"""What a conversation with a memory promises, whatever engine reads it."""

from __future__ import annotations

import asyncio
import copy
import gc
import inspect
import json
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.workflow import Context, JsonPickleSerializer, JsonSerializer
from llama_index_scripted import ScriptedLLM, counted, message
from test_llama_index_engines import Documents, letters, look

from recall_echo_adapters.llama_index import (
    RecallEchoMemory,
    RecallEchoRetriever,
    recall_echo_tools,
    register_memory,
)
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
        yield memory


def turn(chat: RecallEchoMemory, question: str, answer: str) -> list[ChatMessage]:
    """One turn as SimpleChatEngine makes it; what the model saw."""
    chat.put(message("user", question))
    shown = chat.get()
    chat.put(message("assistant", answer))
    return shown


def texts(messages: list[ChatMessage]) -> list[str]:
    return [str(one.content) for one in messages]


# Where what is remembered stands


def test_it_merges_into_a_system_message_that_is_there(memory: Memory) -> None:
    chat = RecallEchoMemory.from_defaults(memory, insert="system")
    chat.set([message("system", "Be kind.")])
    chat.put(message("user", QUESTION))

    shown = chat.get()

    assert [one.role.value for one in shown] == ["system", "user"]
    assert str(shown[0].content).startswith("Be kind.\n\n<memory>")
    assert texts(chat.get_all()) == ["Be kind.", QUESTION]


@pytest.mark.parametrize(
    ("insert", "roles"), [("system", ["system", "user"]), ("user", ["user"]), ("none", ["user"])]
)
def test_where_it_stands_is_a_choice(memory: Memory, insert: Any, roles: list[str]) -> None:
    chat = RecallEchoMemory.from_defaults(memory, insert=insert)
    chat.put(message("user", QUESTION))

    shown = chat.get()

    assert [one.role.value for one in shown] == roles
    assert ("Ada lives in Paris" in str(shown[0].content)) == (insert != "none")
    assert str(shown[-1].content).endswith(QUESTION)
    assert (chat.recall_ids == []) == (insert == "none")


def test_pictures_of_a_message_stay_and_the_message_is_not_changed(memory: Memory) -> None:
    from llama_index.core.base.llms.types import ImageBlock, TextBlock

    asked = ChatMessage(
        role="user", blocks=[TextBlock(text=QUESTION), ImageBlock(image=b"png", url=None)]
    )
    before = asked.model_dump_json()
    chat = RecallEchoMemory.from_defaults(memory)
    chat.put(asked)

    (shown,) = chat.get()

    assert [block.block_type for block in shown.blocks] == ["text", "text", "image"]
    assert asked.model_dump_json() == before


def test_the_text_keeps_to_its_budget(memory: Memory) -> None:
    for number in range(50):
        memory.remember("Ada", "KNOWS", f"Person {number}")
    chat = RecallEchoMemory.from_defaults(
        memory, insert="system", k=50, max_tokens=80, tokenizer_fn=counted
    )
    chat.put(message("user", QUESTION))

    assert 20 < len(counted(str(chat.get()[0].content))) <= 80


# One recall a turn


def test_a_turn_is_one_recall_however_often_it_is_read(memory: Memory) -> None:
    chat = RecallEchoMemory.from_defaults(memory)
    chat.put(message("user", QUESTION))
    seen = [texts(chat.get()) for _ in range(3)] + [texts(chat.get(input=QUESTION))]
    (first,) = chat.recall_ids
    chat.put_messages(
        [
            ChatMessage(role="assistant", blocks=[ToolCallBlock(tool_name="look", tool_kwargs={})]),
            message("tool", "Bob owns a labrador, says the register"),
        ]
    )
    chat.get()
    assert chat.recall_ids == [first]  # a tool's result is no question
    chat.put(message("assistant", "In Paris [M1]."))
    chat.get()  # as agents do after the end

    assert chat.recall_ids == [first]
    assert seen == [seen[0]] * 4


def test_many_readers_at_once_make_one_recall(memory: Memory) -> None:
    chat = RecallEchoMemory.from_defaults(memory)
    chat.put(message("user", QUESTION))
    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(lambda _: tuple(texts(chat.get())), range(32)))

    assert len(set(seen)) == 1
    assert len(chat.recall_ids) == 1


def test_a_question_broken_off_gives_way_to_the_next(memory: Memory) -> None:
    chat = RecallEchoMemory.from_defaults(memory)
    chat.get(input=QUESTION)
    (first,) = chat.recall_ids

    chat.get(input="What does Bob own?")

    assert len(chat.recall_ids) == 1
    assert chat.recall_ids != [first]


# What a turn leaves


def test_nothing_is_kept_before_the_answer(memory: Memory) -> None:
    chat = RecallEchoMemory.from_defaults(memory, session_id="s1")
    chat.put(message("user", "My sister Eve plays chess."))
    chat.get()
    assert memory.episodes() == []

    chat.put(message("assistant", NEWS))

    kept = [(one.role, one.content, one.session_id) for one in memory.episodes()]
    assert kept == [
        ("user", "My sister Eve plays chess.", "s1"),
        ("assistant", NEWS, "s1"),
    ]


@pytest.mark.parametrize(("save", "kept"), [("both", 2), ("user", 1), ("none", 0)])
def test_whose_messages_are_kept_is_a_choice(memory: Memory, save: Any, kept: int) -> None:
    chat = RecallEchoMemory.from_defaults(memory, save=save)

    turn(chat, "My sister Eve plays chess.", NEWS)

    assert len(memory.episodes()) == kept


def test_what_is_remembered_and_said_again_is_no_evidence(memory: Memory) -> None:
    """complaints.md, row 11: twenty echoes leave the posterior and the episodes as they were."""
    chat = RecallEchoMemory.from_defaults(memory)
    before = memory.beliefs("Ada", "LIVES_IN")

    for _ in range(20):
        turn(chat, QUESTION, "Ada lives in Paris [M1].")

    after = memory.beliefs("Ada", "LIVES_IN")
    assert [(one.object, one.confidence) for one in after] == [
        (one.object, one.confidence) for one in before
    ]
    assert {one.role for one in memory.episodes()} == {"user"}
    assert not any("<memory>" in one.content for one in memory.episodes())


def test_a_tool_that_repeats_what_was_recalled_adds_no_evidence(memory: Memory) -> None:
    chat = RecallEchoMemory.from_defaults(memory, session_id="s1")
    remember = recall_echo_tools(chat)[0]
    chat.put(message("user", QUESTION))
    chat.get()

    echo = remember.call(subject="Ada", relation="lives in", object="Paris")
    chat.put(message("assistant", "In Paris."))
    chat.put(message("user", "Ada still lives in Paris, and she likes tea."))
    chat.get()
    news = remember.call(subject="Ada", relation="lives in", object="Paris")
    again = remember.call(subject="Ada", relation="lives in", object="Paris")

    assert echo.content.startswith("Not counted")
    assert "2 for" in news.content
    assert "2 for" in again.content


@pytest.mark.parametrize(
    ("asked", "answer", "counts"),
    [("who: Ada", "Paris, rue des Lilas", True), ("Paris?", "Paris it is", False)],
)
def test_a_tool_is_a_witness_of_what_it_found_itself(
    memory: Memory, asked: str, answer: str, counts: bool
) -> None:
    """Not of what the model had put into its question."""
    chat = RecallEchoMemory.from_defaults(memory, session_id="s1")
    remember = recall_echo_tools(chat)[0]
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": asked}}
    chat.put(message("user", QUESTION))
    chat.get()
    chat.put(message("assistant", "", additional_kwargs={"tool_calls": [call]}))
    chat.put(message("tool", answer, additional_kwargs={"tool_call_id": "1"}))
    told = remember.call(subject="Ada", relation="lives in", object="Paris")

    assert told.content.startswith("Not counted") is not counts


def test_a_turn_in_which_something_was_forgotten_is_not_kept(memory: Memory) -> None:
    """It names what shall not be known any more; the next one is kept again."""
    chat = RecallEchoMemory.from_defaults(memory, session_id="s1")
    (forget,) = recall_echo_tools(chat, abilities=["forget"])
    chat.put(message("user", "Forget Ada, please."))
    chat.get()
    forget.call(subject="Ada")
    chat.put(message("assistant", "Ada is forgotten."))
    assert memory.episodes() == []

    turn(chat, "I like tea.", "Green or black, and with milk?")
    assert len(memory.episodes()) == 2


def test_system_and_set_messages_are_never_kept(memory: Memory) -> None:
    chat = RecallEchoMemory.from_defaults(
        memory, chat_history=[message("user", "old one"), message("assistant", "old answer")]
    )
    chat.set([message("system", "Be kind."), message("user", "old"), message("assistant", "yes")])
    chat.put(message("system", "Be brief."))

    turn(chat, "My sister Eve plays chess.", NEWS)

    assert [one.content for one in memory.episodes()] == ["My sister Eve plays chess.", NEWS]


def test_reset_clears_the_conversation_only(memory: Memory) -> None:
    chat = RecallEchoMemory.from_defaults(memory)
    turn(chat, "My sister Eve plays chess.", NEWS)

    chat.reset()

    assert chat.get_all() == []
    assert len(memory.episodes()) == 2
    assert memory.beliefs("Ada", "LIVES_IN")


def test_an_assistant_that_speaks_first_is_not_kept(memory: Memory) -> None:
    RecallEchoMemory.from_defaults(memory).put(message("assistant", "How can I help?"))

    assert memory.episodes() == []


def test_the_way_of_a_react_agent_is_not_its_answer(memory: Memory) -> None:
    chat = RecallEchoMemory.from_defaults(memory)
    way = (
        "Thought: I look.\nAction: recall\nAction Input: {}\nObservation: Ada lives in Paris\n"
        f"Thought: I can answer.\nAnswer: {NEWS}"
    )

    turn(chat, QUESTION, way)

    assert [one.content for one in memory.episodes()] == [QUESTION, NEWS]


def test_the_user_can_rate_the_last_turn(memory: Memory) -> None:
    chat = RecallEchoMemory.from_defaults(memory)
    turn(chat, QUESTION, "In Paris [M1].")

    assert chat.feedback("success") == 1
    assert asyncio.run(chat.afeedback(0.9)) == 1

    found = memory.recall("Ada", kinds=["relation"], record_access=False)
    assert found.hits[0].parts["utility"] > 0.5


# A window of the conversation


def test_a_message_longer_than_the_limit_is_shortened_and_not_refused(memory: Memory) -> None:
    """complaints.md, row 23: 50,000 tokens under a limit of 100."""
    chat = RecallEchoMemory.from_defaults(memory, token_limit=100, tokenizer_fn=counted)
    long = " ".join(f"word{number}" for number in range(50_000))
    chat.put(message("user", long))

    shown = chat.get(initial_token_count=200)

    assert len(shown) == 1
    said = str(shown[0].content)
    assert said.endswith("word49999")
    assert "word0 " in said
    assert len(counted(said)) <= 100
    assert texts(chat.get_all()) == [long]
    SimpleChatEngine.from_defaults(
        llm=ScriptedLLM(replies=["I see."]), memory=chat, system_prompt="Be kind. " * 200
    ).chat("And this?")


def test_a_window_starts_at_a_user_and_keeps_calls_with_results(memory: Memory) -> None:
    """complaints.md, row 24: system, user, a call of 200 words, its result, the answer."""
    call = ToolCallBlock(
        tool_call_id="1", tool_name="look", tool_kwargs={"q": " ".join(["word"] * 200)}
    )
    said = [
        message("system", "Be kind."),
        message("user", "Look it up."),
        ChatMessage(role="assistant", blocks=[call]),
        message("tool", "found it", additional_kwargs={"tool_call_id": "1"}),
        message("assistant", "There it is."),
    ]
    for limit in range(1, 400, 7):
        chat = RecallEchoMemory.from_defaults(
            memory, token_limit=limit, tokenizer_fn=counted, insert="none"
        )
        chat.set(said)
        roles = [one.role.value for one in chat.get()]
        assert roles[:2] == ["system", "user"]
        assert ("tool" in roles) == any(one.blocks == [call] for one in chat.get())
    assert roles == ["system", "user", "assistant", "tool", "assistant"]


def test_older_turns_leave_the_window_whole(memory: Memory) -> None:
    chat = RecallEchoMemory.from_defaults(
        memory, token_limit=12, tokenizer_fn=counted, insert="none"
    )
    for number in range(20):
        turn(chat, f"question number {number}", f"answer number {number}")

    shown = texts(chat.get())

    assert shown == [f"{who} number {turn}" for turn in (18, 19) for who in ("question", "answer")]
    assert len(chat.get_all()) == 40


@pytest.mark.parametrize("insert", ["system", "user"])
@pytest.mark.parametrize("limit", [1, 10, 60, 200])
def test_a_question_is_never_cut_for_what_is_remembered(
    memory: Memory, limit: int, insert: Any
) -> None:
    for number in range(50):
        memory.remember("Ada", "KNOWS", f"Person {number}")
    chat = RecallEchoMemory.from_defaults(
        memory, token_limit=limit, tokenizer_fn=counted, k=50, insert=insert
    )
    chat.put(message("user", QUESTION))

    shown = chat.get(initial_token_count=500)

    if limit >= 10:
        assert str(shown[-1].content).endswith(QUESTION)
    assert sum(len(counted(str(one.content))) for one in shown) <= max(8, limit)


def test_a_wrong_option_is_refused_where_it_is_given(memory: Memory) -> None:
    for wrong in ({"token_limit": 0}, {"k": 0}, {"insert": "top"}, {"save": "all"}, {"user": "a"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            RecallEchoMemory.from_defaults(memory, **wrong)


# Text as written


@pytest.mark.parametrize("insert", ["system", "user"])
@pytest.mark.parametrize(
    "kind", [SimpleChatEngine, ContextChatEngine, CondensePlusContextChatEngine]
)
async def test_template_names_reach_the_model_as_written(
    memory: Memory, kind: Any, insert: Any
) -> None:
    written = "Ada said {query_str} and {context_str}, {context_msg}, {existing_answer}, {x}"
    memory.record([{"role": "user", "content": written}])
    asked = "What about {context_str} and {query_str}, Ada?"
    chat = RecallEchoMemory.from_defaults(memory, insert=insert, k=20)
    turn(chat, asked, "I say {query_str} to that, and to your whole long question as well.")
    llm = ScriptedLLM(replies=["ok"])
    more = {} if kind is SimpleChatEngine else {"retriever": Documents()}
    if kind is CondensePlusContextChatEngine:
        more["skip_condense"] = True
    engine = kind.from_defaults(llm=llm, memory=chat, **more)

    engine.chat(QUESTION)
    seen = [llm.shown]
    await engine.achat(QUESTION)
    seen.append(llm.shown)

    for shown in seen:
        assert written in shown
        assert asked in shown
        assert "I say {query_str} to that" in shown
        assert "Be kind. {" not in shown


def test_template_names_in_a_retrieved_memory_reach_the_model_as_written(memory: Memory) -> None:
    written = "Ada said {query_str} and {context_str}"
    memory.record([{"role": "user", "content": written}])
    llm = ScriptedLLM(replies=["ok"])
    chat = RecallEchoMemory.from_defaults(memory, insert="none")
    engine = ContextChatEngine.from_defaults(
        retriever=RecallEchoRetriever(chat, k=20), memory=chat, llm=llm
    )

    engine.chat("What did Ada say?")

    assert written in llm.shown


# Users and sessions


def test_a_user_has_a_namespace(memory: Memory) -> None:
    ada = RecallEchoMemory.from_defaults(memory, user_id="ada")
    turn(ada, "My sister Eve plays chess.", NEWS)

    assert memory.episodes() == []
    assert len(memory.namespace("ada").episodes()) == 2
    with pytest.raises(ValueError, match="no user_id"):
        RecallEchoMemory.from_defaults(memory, require_namespace=True)
    with pytest.raises(ValueError, match="user_id is empty"):
        RecallEchoMemory.from_defaults(memory, user_id=" ")


async def test_twelve_sessions_of_two_users_do_not_meet(memory: Memory) -> None:
    facts = {"ada": "violet", "bob": "orange"}
    for user, colour in facts.items():
        memory.namespace(user).remember(user, "LIKES", colour)

    async def session(number: int) -> tuple[str, ScriptedLLM, RecallEchoMemory]:
        user = ("ada", "bob")[number % 2]
        llm = ScriptedLLM(replies=[f"Noted, session {number}, with many warm regards."])
        chat = RecallEchoMemory.from_defaults(memory, user_id=user, session_id=f"s{number}")
        for step in range(4):
            asked = f"What colour do I like? {number}.{step}"
            if number % 3 == 0:
                await SimpleChatEngine.from_defaults(llm=llm, memory=chat).achat(asked)
            elif number % 3 == 1:
                engine = SimpleChatEngine.from_defaults(llm=llm, memory=chat)
                await asyncio.to_thread(engine.chat, asked)
            else:
                await FunctionAgent(llm=llm, tools=[look]).run(user_msg=asked, memory=chat)
        return user, llm, chat

    done = await asyncio.gather(*(session(number) for number in range(12)))

    for number, (user, llm, chat) in enumerate(done):
        other = facts["bob" if user == "ada" else "ada"]
        for prompt in llm.prompts:
            shown = "\n".join(texts(prompt))
            assert facts[user] in shown
            assert other not in shown
        assert len(chat.get_all()) == 8
        kept = memory.namespace(user).episodes(session_id=f"s{number}")
        assert [one.content for one in kept if one.role == "user"] == [
            f"What colour do I like? {number}.{step}" for step in range(4)
        ]


# Loops and threads


def test_it_works_in_one_loop_after_another_and_in_threads(memory: Memory) -> None:
    """complaints.md, row 19: nothing of ours belongs to an event loop."""
    chat = RecallEchoMemory.from_defaults(memory)
    llm = ScriptedLLM(replies=["In Paris."])
    engine = SimpleChatEngine.from_defaults(llm=llm, memory=chat)

    async def ask() -> None:
        await engine.achat(QUESTION)

    asyncio.run(ask())
    asyncio.run(ask())
    thread = Thread(target=lambda: asyncio.run(ask()))
    thread.start()
    thread.join()
    engine.chat(QUESTION)

    assert len(chat.get_all()) == 8


async def test_sync_calls_work_inside_a_running_loop(memory: Memory) -> None:
    chat = RecallEchoMemory.from_defaults(memory)
    engine = SimpleChatEngine.from_defaults(llm=ScriptedLLM(replies=["In Paris."]), memory=chat)

    assert str(engine.chat(QUESTION)) == "In Paris."
    await chat.aput(message("user", QUESTION))
    assert texts(chat.get()) == texts(await chat.aget())
    assert len(await chat.aget_all()) == len(chat.get_all()) == 3
    await chat.aset([])
    await chat.areset()
    assert chat.get_all() == []


def test_sync_methods_are_sync() -> None:
    for name in ("get", "get_all", "put", "put_messages", "set", "reset"):
        assert not inspect.iscoroutinefunction(getattr(RecallEchoMemory, name))
        assert inspect.iscoroutinefunction(getattr(RecallEchoMemory, f"a{name}"))


# Saving and copying


async def test_a_context_brings_the_memory_back(memory: Memory) -> None:
    chat = RecallEchoMemory.from_defaults(
        memory, user_id="ada", reference="main", session_id="s1", k=3
    )
    agent = FunctionAgent(llm=ScriptedLLM(replies=["In Paris."]), tools=[look])
    context = Context(agent)
    await agent.run(user_msg=QUESTION, memory=chat, ctx=context)

    serializers = [
        first := JsonSerializer(),
        JsonPickleSerializer(),
        JsonSerializer(allowed_types=[RecallEchoMemory]),
    ]
    # A memory that is left out would be a warning, and here warnings are errors.
    saves = [context.to_dict(serializer=serializer) for serializer in serializers]
    for serializer, kept in zip(serializers, saves, strict=True):
        saved = json.loads(json.dumps(kept))
        later = FunctionAgent(llm=ScriptedLLM(replies=["Yes."]), tools=[look])
        loaded = Context.from_dict(later, saved, serializer=serializer)
        await later.run(user_msg="Are you sure?", ctx=loaded)
        back = await loaded.store.get("memory")
        assert back is not chat or serializer is first

        assert isinstance(back, RecallEchoMemory)
        assert (back.memory.name, back.session_id, back.k) == ("ada", "s1", 3)
        assert texts(back.get_all())[:2] == [QUESTION, "In Paris."]
        assert len(back.get_all()) == 4


async def test_a_context_that_goes_on_keeps_the_object_its_user_holds(memory: Memory) -> None:
    chat = RecallEchoMemory.from_defaults(memory, reference="main", tokenizer_fn=counted)
    agent = FunctionAgent(llm=ScriptedLLM(replies=["In Paris."]), tools=[look])
    context = Context(agent)

    for _ in range(3):
        await agent.run(user_msg=QUESTION, memory=chat, ctx=context)

    assert await context.store.get("memory") is chat
    assert len(chat.get_all()) == 6
    assert chat.feedback("success") == 1


def test_what_was_saved_before_it_went_on_is_a_conversation_of_its_own(memory: Memory) -> None:
    chat = RecallEchoMemory.from_defaults(memory, reference="main")
    saved = json.loads(json.dumps(chat.to_dict()))
    assert RecallEchoMemory.from_dict(saved) is chat
    turn(chat, QUESTION, "In Paris.")

    back = RecallEchoMemory.from_dict(saved)

    assert back is not chat
    assert back.get_all() == []


async def test_a_memory_without_a_name_says_so_and_is_left_out(memory: Memory) -> None:
    chat = RecallEchoMemory.from_defaults(memory)
    with pytest.raises(ValueError, match="from_defaults"):
        chat.to_dict()
    agent = FunctionAgent(llm=ScriptedLLM(replies=["In Paris."]), tools=[look])
    context = Context(agent)
    await agent.run(user_msg=QUESTION, memory=chat, ctx=context)

    with pytest.warns(Warning, match="unserializable key: memory"):
        saved = context.to_dict(serializer=JsonSerializer())

    assert "memory" not in saved["state"]["state_data"]["_data"]
    assert len(chat.get_all()) == 2


@pytest.mark.parametrize("serializer", [JsonSerializer(), JsonPickleSerializer()])
async def test_no_serializer_damages_a_memory_that_it_cannot_carry(
    memory: Memory, serializer: Any
) -> None:
    chat = RecallEchoMemory.from_defaults(memory, session_id="s1")
    agent = FunctionAgent(llm=ScriptedLLM(replies=["In Paris."]), tools=[look])
    context = Context(agent)
    await agent.run(user_msg=QUESTION, memory=chat, ctx=context)

    with pytest.warns(Warning, match="unserializable key: memory"):
        context.to_dict(serializer=serializer)

    assert (chat.memory, chat.session_id) == (memory, "s1")
    await agent.run(user_msg="Really?", memory=chat)
    assert len(chat.get_all()) == 4


def test_what_is_forgotten_in_the_middle_of_a_turn_breaks_nothing(memory: Memory) -> None:
    own = memory.namespace("ada")
    own.remember("Ada", "LIVES_IN", "Paris")
    chat = RecallEchoMemory.from_defaults(memory, user_id="ada")
    chat.put(message("user", QUESTION))
    chat.get()

    own.forget(everything=True)
    chat.put(message("assistant", NEWS))

    assert chat.feedback("success") == 0
    assert [one.content for one in memory.namespace("ada").episodes()] == [QUESTION, NEWS]


def test_a_turn_saved_in_its_middle_is_closed_once(memory: Memory) -> None:
    chat = RecallEchoMemory.from_defaults(memory, reference="main", session_id="s1")
    chat.put(message("user", "My sister Eve plays chess."))
    shown = texts(chat.get())

    saved = {**chat.to_dict(), "mark": "of another process"}
    back = RecallEchoMemory.from_dict(json.loads(json.dumps(saved)))
    assert texts(back.get()) == shown
    assert back.recall_ids == chat.recall_ids
    chat.put(message("assistant", "Noted."))
    back.put(message("assistant", "Noted."))

    kept = [one.content for one in memory.episodes()]
    assert kept == ["My sister Eve plays chess.", "Noted."]


def test_a_name_nobody_registered_is_an_error_that_says_what_to_do(memory: Memory) -> None:
    chat = RecallEchoMemory.from_defaults(memory, reference="main")
    saved = {**chat.to_dict(), "reference": "elsewhere"}

    with pytest.raises(LookupError, match=r"register_memory\('elsewhere', memory\)"):
        RecallEchoMemory.from_dict(saved)

    register_memory("elsewhere", memory)
    assert RecallEchoMemory.from_dict(saved).memory is memory
    with pytest.raises(ValueError, match="blank"):
        register_memory(" ", memory)


def test_a_name_does_not_keep_a_memory_alive(tmp_path: Path) -> None:
    with open_memory(tmp_path, embedding=letters) as memory:
        saved = RecallEchoMemory.from_defaults(memory, reference="gone").to_dict()
    del memory
    gc.collect()

    with pytest.raises(LookupError, match="gone"):
        RecallEchoMemory.from_dict(saved)


@pytest.mark.slow
def test_the_path_of_a_folder_is_a_name_with_the_default_model(tmp_path: Path) -> None:
    """The real model, from the question to what the model reads, and back from a path."""
    with open_memory(tmp_path) as memory:
        memory.remember("Ada", "LIVES_IN", "Paris")
        memory.remember("Bob", "OWNS", "a labrador")
        chat = RecallEchoMemory.from_defaults(memory, reference=str(tmp_path), k=3)
        shown = turn(chat, "In which town is Ada at home?", "In Paris [M1].")
        assert "Ada lives in Paris" in str(shown[0].content)
        saved = chat.to_dict()
    del memory, chat
    gc.collect()

    back = RecallEchoMemory.from_dict(saved)
    try:
        assert len(back.get_all()) == 2
        assert "Ada lives in Paris" in str(back.get(input="Where does Ada live?")[-1].content)
    finally:
        back.memory.close()


def test_pickling_is_refused_and_the_live_object_stays_whole(memory: Memory) -> None:
    chat = RecallEchoMemory.from_defaults(memory)
    turn(chat, QUESTION, "In Paris.")

    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(chat, protocol)

    assert chat.memory is memory
    assert len(chat.get_all()) == 2
    turn(chat, QUESTION, "In Paris.")


def test_copies_share_the_memory_and_have_a_conversation_of_their_own(memory: Memory) -> None:
    """complaints.md, row 39."""
    chat = RecallEchoMemory.from_defaults(memory, k=7)
    turn(chat, QUESTION, "In Paris.")

    for twin in (copy.deepcopy(chat), copy.copy(chat), chat.model_copy(deep=True)):
        assert twin.memory is memory
        assert twin.k == 7
        turn(twin, "And Bob?", "I do not know.")
        assert len(twin.get_all()) == 4
        assert len(chat.get_all()) == 2
    assert chat.model_dump()["k"] == 7
    assert "memory" not in chat.model_dump()
    assert json.loads(RecallEchoMemory.from_defaults(memory, reference="x").to_json())
