"""Whatever is said, and whatever the limit: what the model sees of a conversation is in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index_scripted import counted, message

from recall_echo_adapters.llama_index.injection import inserted, verbatim
from recall_echo_adapters.llama_index.window import tokens_of, windowed

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn


def count(text: str) -> int:
    return len(counted(text))


@st.composite
def conversations(draw: DrawFn) -> list[ChatMessage]:
    """Conversations as engines and agents make them: also broken off, also begun by a model."""
    said: list[ChatMessage] = []
    words = st.integers(1, 60).map(lambda number: " ".join(["word"] * number))
    calls = 0
    for kind in draw(st.lists(st.sampled_from(["system", "user", "answer", "call"]), max_size=20)):
        if kind == "call":
            wanted = draw(st.integers(1, 3))
            blocks = [
                ToolCallBlock(
                    tool_call_id=str(calls + i), tool_name="look", tool_kwargs={"q": draw(words)}
                )
                for i in range(wanted)
            ]
            said.append(ChatMessage(role="assistant", blocks=blocks))
            said += [
                message("tool", draw(words), additional_kwargs={"tool_call_id": str(calls + i)})
                for i in range(wanted)
            ]
            calls += wanted
        else:
            said.append(message("assistant" if kind == "answer" else kind, draw(words)))
    return said


@settings(max_examples=300, deadline=None)
@given(conversations(), st.integers(1, 300))
def test_a_window_is_in_order(said: list[ChatMessage], limit: int) -> None:
    before = [one.model_dump_json() for one in said]

    shown = windowed(said, limit, count)

    assert [one.model_dump_json() for one in said] == before
    system = [one for one in said if one.role == "system"]
    assert shown[: len(system)] == system
    rest = shown[len(system) :]
    users = [one for one in said if one.role == "user"]
    assert bool(rest) == bool(users)
    if rest:
        assert rest[0].role == "user"
        assert users[-1] in rest or rest[-1] == rest[0] or rest[-1].role == "tool"
    called = {
        block.tool_call_id
        for one in rest
        for block in one.blocks
        if isinstance(block, ToolCallBlock)
    }
    answered = {one.additional_kwargs["tool_call_id"] for one in rest if one.role == "tool"}
    assert called == answered
    room = limit - sum(tokens_of(one, count) for one in system)
    if len(rest) > 1 and rest[-1].role != "tool":  # results not read yet stay whatever their size
        assert sum(tokens_of(one, count) for one in rest) <= max(room, 0)


@settings(max_examples=100, deadline=None)
@given(conversations(), st.sampled_from(["system", "user", "none"]))
def test_what_is_inserted_is_there_once_and_changes_nothing_else(
    said: list[ChatMessage], where: str
) -> None:
    before = [one.model_dump_json() for one in said]

    shown = [verbatim(one) for one in inserted(said, "{query_str} REMEMBERED", where)]  # type: ignore[arg-type]

    assert [one.model_dump_json() for one in said] == before
    holds = [one for one in shown if "REMEMBERED" in str(one.content)]
    assert len(holds) == (where != "none")
    assert all(one.role == where for one in holds)
    assert all("{query_str}" in str(one.format_vars(query_str="x").content) for one in holds)
    assert len(shown) - len(said) in (0, 1)


def test_a_call_whose_results_are_not_read_yet_stays_with_its_question() -> None:
    call = ToolCallBlock(tool_call_id="1", tool_name="look", tool_kwargs={"q": "word"})
    said = [
        message("user", " ".join(["word"] * 100)),
        ChatMessage(role="assistant", blocks=[call]),
        message("tool", "found", additional_kwargs={"tool_call_id": "1"}),
    ]

    shown = windowed(said, 10, count)

    assert [one.role.value for one in shown] == ["user", "assistant", "tool"]
