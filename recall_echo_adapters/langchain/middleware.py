"""How does an agent remember from one conversation to the next?"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, NotRequired

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.callbacks import adispatch_custom_event, dispatch_custom_event
from langchain_core.messages import SystemMessage
from langchain_core.runnables import ensure_config

from recall_echo_adapters.abilities import ABILITIES, AbilityName, Call
from recall_echo_adapters.langchain.handler import RECALL_EVENT
from recall_echo_adapters.langchain.host import host_run, session_of
from recall_echo_adapters.langchain.retriever import RECEIPT, RecallEchoRetriever, as_text
from recall_echo_adapters.langchain.tools import RecallEchoTool
from recall_echo_adapters.langchain.wording import Exchange, as_said, question_of, said_last
from recall_echo_adapters.turns import Save, close_turn
from recall_echo_core import RecallEchoError

if TYPE_CHECKING:
    from langchain.agents.middleware import ModelRequest, ModelResponse, ToolCallRequest
    from langchain_core.documents import Document
    from langchain_core.messages import BaseMessage, ToolMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.runtime import Runtime
    from langgraph.types import Command

    from recall_echo_core import Memory

__all__ = ["RecallEchoMiddleware", "RecallEchoState"]

log = logging.getLogger(__name__)

OWN_TOOLS: Final = tuple(ABILITIES)


class RecallEchoState(AgentState[Any]):
    """The state of an agent with a memory.

    Attributes:
        recall_echo: By the middleware's name, the turn that is going on: whose it is, what was
            said, and what was recalled for it. Plain JSON, since a checkpointer keeps it. Neither
            input nor output shows it; streams of values do.
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
        texts: dict[str, object] = {"namespace_key": namespace_key, "name": name}
        for what, given in texts.items():
            if not (isinstance(given, str) and given):
                raise ValueError(f"{what} must be a text, not {given!r}")
        if isinstance(tools, str) or len(set(tools)) < len(tools):
            raise ValueError(f"tools must be a list of different abilities, not {tools!r}")
        shared: dict[str, Any] = {
            "k": k,
            "max_tokens": max_tokens,
            "namespace_key": namespace_key,
            "require_namespace": require_namespace,
        }
        self._memory, self._save, self._name = memory, save, name
        self._max_tokens = max_tokens
        self._retriever = RecallEchoRetriever(memory=memory, **shared)
        own = [RecallEchoTool.of(ability, memory, **shared) for ability in tools]
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
        said = said_last(state["messages"])
        documents = self._retriever.invoke(_question(said), config, namespace=memory, turn=True)
        return self._noted(state, memory, said, documents)

    async def abefore_agent(  # type: ignore[override]  # LangGraph gives the config to who asks
        self, state: RecallEchoState, runtime: Runtime[Any], config: RunnableConfig
    ) -> dict[str, Any]:
        """Recall what answers the user's message."""
        memory = await asyncio.to_thread(self._whose, runtime, config)
        said = said_last(state["messages"])
        documents = await self._retriever.ainvoke(
            _question(said), config, namespace=memory, turn=True
        )
        return self._noted(state, memory, said, documents)

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
        return self._retriever.memory_in(runtime, config)

    def _same(self, turn: Mapping[str, Any], runtime: Any, config: RunnableConfig) -> Memory:
        """Return the namespace that a turn began in, whoever resumes it.

        Raises:
            ValueError: whoever resumes it names another user.
        """
        begun: str = turn["namespace"]
        named = self._retriever.named_in(runtime, config)
        if named is not None and named != begun:
            raise ValueError(
                f"this turn was begun for {begun!r:.60}, and cannot go on for {named!r:.60}"
            )
        return self._memory if begun == self._memory.name else self._memory.namespace(begun)

    def _noted(
        self,
        state: RecallEchoState,
        memory: Memory,
        said: Sequence[BaseMessage],
        documents: Sequence[Document],
    ) -> dict[str, Any]:
        """Return the state with the turn that begins, in place of what the last one left.

        What was said is kept, since the conversation may be shortened before the turn closes.
        """
        turn: dict[str, Any] = {
            "namespace": memory.name,
            "recall_id": documents[0].metadata[RECEIPT]["recall_id"] if documents else None,
            "text": as_text(documents, self._max_tokens) if documents else "",
            "said": [as_said(message) for message in said],
            "ids": [message.id for message in said if message.id],
        }
        return {"recall_echo": {**(state.get("recall_echo") or {}), self.name: turn}}

    def _turn(self, state: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the turn that is going on, as the state knows it."""
        return (state.get("recall_echo") or {}).get(self.name)

    def _done(self, state: RecallEchoState) -> dict[str, Any]:
        """Return the state without the turn, which a checkpointer need not keep any longer."""
        return {"recall_echo": {**(state.get("recall_echo") or {}), self.name: None}}

    def _shown(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        turn = self._turn(request.state)
        if not turn or not turn["text"]:
            return request
        self._same(turn, request.runtime, ensure_config())
        return request.override(system_message=_appended(request.system_message, turn["text"]))

    def _placed(self, request: ToolCallRequest) -> ToolCallRequest:
        tool, turn = self._own.get(request.tool_call["name"]), self._turn(request.state)
        if tool is None or request.tool is not tool or not turn:
            return request
        config = request.runtime.config
        exchange = Exchange(request.state["messages"], turn["ids"], OWN_TOOLS)
        call = Call(
            self._same(turn, request.runtime, config),
            heard=question_of(turn["said"]),
            found=exchange.found(),
            recalls=_recalls(turn, exchange),
            said=turn["said"],
            session_id=session_of(config),
            save=self._save,
            run_id=host_run(request.runtime),
            k=tool.k,
            max_tokens=tool.max_tokens,
        )
        return request.override(tool=tool.in_turn(call))

    def _close(
        self, state: RecallEchoState, runtime: Runtime[Any], config: RunnableConfig
    ) -> list[dict[str, Any]]:
        """Close the turn; return the receipts of its recalls.

        What cannot be kept is logged: the answer is there already, and the user waits for it.
        """
        turn = self._turn(state)
        if not turn:
            return []
        memory = self._same(turn, runtime, config)
        exchange = Exchange(state["messages"], turn["ids"], OWN_TOOLS)
        answer, recalls = exchange.answer, _recalls(turn, exchange)
        try:
            close_turn(
                memory,
                recalls,
                question=question_of(turn["said"]),
                response="" if answer is None else str(answer.text),
                actions=exchange.actions(),
                said=turn["said"],
                answer=None if answer is None else as_said(answer),
                session_id=session_of(config),
                save="none" if exchange.forgot else self._save,
            )
        except (RecallEchoError, ValueError):
            log.exception("the turn is not kept in memory")
        return [{"namespace": memory.name, "recall_id": recall} for recall in recalls]


def _question(said: Sequence[BaseMessage]) -> str:
    return question_of([as_said(message) for message in said])


def _recalls(turn: Mapping[str, Any], exchange: Exchange) -> list[str]:
    first = [turn["recall_id"]] if turn["recall_id"] else []
    return [*first, *exchange.recalls()]


def _appended(system: SystemMessage | None, text: str) -> SystemMessage:
    """Return a system message with text after it; blocks stay blocks, so that caches hold."""
    if system is None or not system.content:
        return SystemMessage(text)
    if isinstance(system.content, str):
        return SystemMessage(f"{system.content}\n\n{text}")
    return SystemMessage([*system.content, {"type": "text", "text": text}])
