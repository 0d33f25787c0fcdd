"""How does an agent remember from one conversation to the next?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, NotRequired

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.callbacks import adispatch_custom_event, dispatch_custom_event
from langchain_core.messages import SystemMessage

from recall_echo_adapters.abilities import ABILITIES, AbilityName, Call
from recall_echo_adapters.langchain.handler import RECALL_EVENT
from recall_echo_adapters.langchain.host import host_run, session_of, user_memory
from recall_echo_adapters.langchain.retriever import RECEIPT, RecallEchoRetriever, as_text
from recall_echo_adapters.langchain.tools import RecallEchoTool
from recall_echo_adapters.langchain.wording import Exchange, as_said
from recall_echo_adapters.turns import Save, close_turn

if TYPE_CHECKING:
    from langchain.agents.middleware import ModelRequest, ModelResponse, ToolCallRequest
    from langchain_core.documents import Document
    from langchain_core.messages import ToolMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.runtime import Runtime
    from langgraph.types import Command

    from recall_echo_core import Memory

__all__ = ["RecallEchoMiddleware", "RecallEchoState"]

OWN_TOOLS: Final = tuple(ABILITIES)


class RecallEchoState(AgentState[Any]):
    """The state of an agent with a memory.

    Attributes:
        recall_echo: By the middleware's name, what was recalled for the turn that is going on:
            plain JSON, since a checkpointer keeps it. Neither input nor output shows it.
    """

    recall_echo: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]


class RecallEchoMiddleware(AgentMiddleware[RecallEchoState, Any, Any]):
    """Gives an agent a memory that lasts from one conversation to the next.

    Before the agent starts it recalls what answers the user's message; each call of the model sees
    that, fenced as data, after the system prompt; the conversation itself stays as it was. When
    the agent is done, what it used is marked and what was said is kept. One instance serves all
    runs and users, sync and async: it keeps nothing about any of them.

    >>> import tempfile
    >>> from langchain.agents import create_agent
    >>> from langchain_core.language_models.fake_chat_models import FakeListChatModel
    >>> from recall_echo_core import open_memory
    >>> with tempfile.TemporaryDirectory() as folder, open_memory(folder) as memory:
    ...     relation = memory.remember("Ada", "LIVES_IN", "Paris")
    ...     model = FakeListChatModel(responses=["In Paris [M1]."])
    ...     agent = create_agent(model, middleware=[RecallEchoMiddleware(memory, tools=())])
    ...     state = agent.invoke({"messages": [("user", "Where does Ada live?")]})
    ...     state["messages"][-1].text, [episode.content for episode in memory.episodes()]
    ('In Paris [M1].', ['Where does Ada live?'])

    Args:
        memory: Any namespace of the store; the one of runs that name no user.
        k: Most memories recalled for a message; raising it adds less relevant ones at the end.
        max_tokens: Most tokens of them in the prompt, by a rough count.
        namespace_key: What names the user in the runtime's context, or else in the config.
        require_namespace: Whether a run that names no user is an error.
        save: Whose messages are kept: both, user or none. An answer that says little more than
            the question and the memories is not kept.
        tools: Abilities the model can use of its own accord: remember, contradict, recall,
            explain, forget. Empty for a model that cannot call tools.
        name: Has to differ between two of them in one agent.

    Raises:
        ValueError: in a run, no user is named and `require_namespace` is set.
    """

    state_schema = RecallEchoState

    def __init__(
        self,
        memory: Memory,
        *,
        k: int = 5,
        max_tokens: int | None = 2_000,
        namespace_key: str = "user_id",
        require_namespace: bool = False,
        save: Save = "both",
        tools: Sequence[AbilityName] = ("remember", "contradict"),
        name: str = "RecallEchoMiddleware",
    ) -> None:
        super().__init__()
        if save not in ("both", "user", "none"):
            raise ValueError(f"save must be 'both', 'user' or 'none', not {save!r}")
        self._memory, self._save, self._name = memory, save, name
        self._namespace_key, self._require_namespace = namespace_key, require_namespace
        self._max_tokens = max_tokens
        self._retriever = RecallEchoRetriever(memory=memory, k=k, max_tokens=max_tokens)
        own = [RecallEchoTool.of(ability, memory, k=k, max_tokens=max_tokens) for ability in tools]
        self.tools = own
        self._own = {tool.name: tool for tool in own}

    @property
    def name(self) -> str:
        """What it is called in an agent."""
        return self._name

    # Before the agent: recall

    def before_agent(  # type: ignore[override]  # LangGraph gives the config to who asks
        self, state: RecallEchoState, runtime: Runtime[Any], config: RunnableConfig
    ) -> dict[str, Any]:
        """Recall what answers the user's message."""
        memory = self._whose(runtime, config)
        question = Exchange(state["messages"]).question
        documents = self._retriever.invoke(question, config, namespace=memory)
        return self._noted(state, memory, documents)

    async def abefore_agent(  # type: ignore[override]  # LangGraph gives the config to who asks
        self, state: RecallEchoState, runtime: Runtime[Any], config: RunnableConfig
    ) -> dict[str, Any]:
        """Recall what answers the user's message."""
        memory = await asyncio.to_thread(self._whose, runtime, config)
        question = Exchange(state["messages"]).question
        documents = await self._retriever.ainvoke(question, config, namespace=memory)
        return self._noted(state, memory, documents)

    # Around each call of the model: show it

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Show the model what was recalled."""
        return handler(self._shown(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Show the model what was recalled."""
        return await handler(self._shown(request))

    # Around calls of its tools: tell them what turn they are in

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Let a tool of the memory know who said what in this turn."""
        return handler(self._placed(request))

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Let a tool of the memory know who said what in this turn."""
        return await handler(await asyncio.to_thread(self._placed, request))

    # After the agent: mark what was used, keep what was said

    def after_agent(  # type: ignore[override]  # LangGraph gives the config to who asks
        self, state: RecallEchoState, runtime: Runtime[Any], config: RunnableConfig
    ) -> dict[str, Any]:
        """Mark which memories were used, and keep what was said."""
        for receipt in self._close(state, runtime, config):
            dispatch_custom_event(RECALL_EVENT, receipt, config=config)
        return self._done(state)

    async def aafter_agent(  # type: ignore[override]  # LangGraph gives the config to who asks
        self, state: RecallEchoState, runtime: Runtime[Any], config: RunnableConfig
    ) -> dict[str, Any]:
        """Mark which memories were used, and keep what was said."""
        for receipt in await asyncio.to_thread(self._close, state, runtime, config):
            await adispatch_custom_event(RECALL_EVENT, receipt, config=config)
        return self._done(state)

    # Inside

    def _whose(self, runtime: Any, config: RunnableConfig | None) -> Memory:
        return user_memory(
            self._memory, self._namespace_key, runtime, config, required=self._require_namespace
        )

    def _noted(
        self, state: RecallEchoState, memory: Memory, documents: Sequence[Document]
    ) -> dict[str, Any]:
        """Return the state with what was recalled, in place of what the last turn left."""
        receipt: dict[str, Any] = {"namespace": memory.name, "recall_id": None, "text": ""}
        if documents:
            receipt["recall_id"] = documents[0].metadata[RECEIPT]["recall_id"]
            receipt["text"] = as_text(documents, self._max_tokens)
        return {"recall_echo": {**(state.get("recall_echo") or {}), self.name: receipt}}

    def _receipt(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        return (state.get("recall_echo") or {}).get(self.name) or {}

    def _done(self, state: RecallEchoState) -> dict[str, Any]:
        """Return the state without the text, which a checkpointer need not keep any longer."""
        left = {"namespace": self._receipt(state).get("namespace"), "recall_id": None, "text": ""}
        return {"recall_echo": {**(state.get("recall_echo") or {}), self.name: left}}

    def _shown(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        text = self._receipt(request.state).get("text")
        if not text:
            return request
        return request.override(system_message=_appended(request.system_message, text))

    def _placed(self, request: ToolCallRequest) -> ToolCallRequest:
        tool = self._own.get(request.tool_call["name"])
        if tool is None or request.tool is not tool:
            return request
        memory = self._whose(request.runtime, request.runtime.config)
        turn = self._turn(memory, request.state, request.runtime.config)
        turn = replace(turn, run_id=host_run(request.runtime), k=tool.k, max_tokens=tool.max_tokens)
        return request.override(tool=tool.in_turn(turn))

    def _turn(self, memory: Memory, state: Mapping[str, Any], config: RunnableConfig) -> Call:
        exchange = Exchange(state["messages"])
        recalled = self._receipt(state).get("recall_id")
        return Call(
            memory,
            heard=exchange.heard(OWN_TOOLS),
            recalls=[*([recalled] if recalled else []), *exchange.recalls()],
            said=[as_said(message) for message in exchange.said],
            session_id=session_of(config),
            save=self._save,
        )

    def _close(
        self, state: RecallEchoState, runtime: Runtime[Any], config: RunnableConfig
    ) -> list[dict[str, Any]]:
        """Close the turn; return the receipts of its recalls."""
        memory = self._whose(runtime, config)
        turn = self._turn(memory, state, config)
        exchange = Exchange(state["messages"])
        answer = exchange.answer
        close_turn(
            memory,
            turn.recalls,
            question=exchange.question,
            response="" if answer is None else str(answer.text),
            actions=exchange.actions(OWN_TOOLS),
            said=turn.said,
            answer=None if answer is None else as_said(answer),
            session_id=turn.session_id,
            save=self._save,
        )
        return [{"namespace": memory.name, "recall_id": recall} for recall in turn.recalls]


def _appended(system: SystemMessage | None, text: str) -> SystemMessage:
    """Return a system message with text after it; blocks stay blocks, so that caches hold."""
    if system is None or not system.content:
        return SystemMessage(text)
    if isinstance(system.content, str):
        return SystemMessage(f"{system.content}\n\n{text}")
    return SystemMessage([*system.content, {"type": "text", "text": text}])
