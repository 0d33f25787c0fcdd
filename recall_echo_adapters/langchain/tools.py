"""Which tools let a model use its memory of its own accord?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from langchain_core.callbacks import (  # noqa: TC002 the base class looks at them
    AsyncCallbackManagerForToolRun,
    CallbackManagerForToolRun,
)
from langchain_core.runnables import RunnableConfig  # noqa: TC002 the base class looks at it
from langchain_core.tools import BaseTool, BaseToolkit, ToolException
from pydantic import Field, PrivateAttr, ValidationError

from recall_echo_adapters.abilities import ABILITIES, AbilityName, Call
from recall_echo_adapters.langchain.holding import STRICT, ServesUsers
from recall_echo_adapters.langchain.host import host_run, running, session_of
from recall_echo_adapters.langchain.recalled_text import RecalledText
from recall_echo_adapters.verdicts import Recalled

if TYPE_CHECKING:
    from recall_echo_core import Memory

__all__ = ["RecallEchoTool", "RecallEchoToolkit"]


class RecallEchoTool(ServesUsers, BaseTool):
    """One ability of a memory as a tool: remember, contradict, recall, explain or forget.

    The message it returns is for the model; its artifact, a dict, says in which namespace, and of
    a recall the `recall_id`. A bad argument becomes an error message that the model can act upon.

    >>> import tempfile
    >>> from recall_echo_core import open_memory
    >>> with tempfile.TemporaryDirectory() as folder, open_memory(folder) as memory:
    ...     tool = RecallEchoTool.of("remember", memory)
    ...     tool.invoke({"subject": "Ann", "relation": "likes", "object": "tea"})
    'Noted: Ann likes tea, 90% sure now (1 for, 0 against)'

    Attributes:
        memory: Any namespace of the store; the one of calls that name no user.
        ability: What it does.
        k: Most hits of a recall; raising it adds less relevant ones at the end.
        max_tokens: Most tokens of a recall.
        namespace_key: What names the user in the runtime's context or in the config.
        require_namespace: Whether a call that names no user is an error.
    """

    model_config = STRICT

    ability: AbilityName
    k: int = Field(default=5, ge=1)
    max_tokens: int | None = Field(default=2_000, ge=1)
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: Any = True
    handle_validation_error: Any = Field(default_factory=lambda: _what_is_wrong)
    _turn: Call | None = PrivateAttr(default=None)

    @classmethod
    def of(cls, ability: AbilityName, memory: Memory, **options: Any) -> RecallEchoTool:
        """Return the tool of an ability, under its usual name and description.

        Args:
            ability: remember, contradict, recall, explain or forget.
            memory: Any namespace of the store.
            options: The other attributes; `name` and `description` may be replaced too.
        """
        known = ABILITIES.get(ability)
        if known is None:
            raise ValueError(f"no ability {ability!r}; there are {', '.join(ABILITIES)}")
        usual: dict[str, Any] = {
            "name": known.name,
            "description": known.description,
            "args_schema": known.arguments,
        }
        return cls(memory=memory, ability=ability, **{**usual, **options})

    def in_turn(self, turn: Call) -> RecallEchoTool:
        """Return this tool for one call in a turn, of which it is known who said what."""
        copy = self.model_copy()
        copy._turn = turn
        return copy

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return a copy that shares the memory, and the turn if it is for one."""
        return super().__deepcopy__({id(self._turn): self._turn, **(memo or {})})

    def _run(
        self,
        *text: str,
        config: RunnableConfig,
        run_manager: CallbackManagerForToolRun | None = None,
        **given: Any,
    ) -> Any:
        """Do what the ability does; agents that know tools of one argument give it as a text."""
        call = self._call(config, run_manager)  # what is wrong here, the model cannot put right
        given = {**dict(zip(self.args, text, strict=False)), **given}
        try:
            said, receipt = ABILITIES[self.ability].run(call, given)
        except (ValueError, TypeError) as error:
            raise ToolException(f"{self.name} failed: {error}") from error
        if receipt.get("recall_id"):  # where there is no message, nothing else carries it
            said = RecalledText(said, Recalled(receipt["namespace"], receipt["recall_id"]))
        return (said, receipt) if self.response_format == "content_and_artifact" else said

    async def _arun(
        self,
        *text: str,
        config: RunnableConfig,
        run_manager: AsyncCallbackManagerForToolRun | None = None,
        **given: Any,
    ) -> Any:
        run = None if run_manager is None else run_manager.get_sync()
        return await asyncio.to_thread(self._run, *text, config=config, run_manager=run, **given)

    def _call(self, config: RunnableConfig, run: CallbackManagerForToolRun | None) -> Call:
        if self._turn is not None:
            return self._turn
        chosen = host_run(running())
        if chosen is None and run is not None:
            chosen = str(run.parent_run_id or run.run_id)
        return Call(
            self.memory_for(config),
            session_id=session_of(config),
            run_id=chosen,
            k=self.k,
            max_tokens=self.max_tokens,
        )


class RecallEchoToolkit(ServesUsers, BaseToolkit):
    """The tools of one memory, for an agent without the middleware.

    The classic `AgentExecutor` hands its tools the config's `metadata` and not its `configurable`:
    name the user there, and set `require_namespace`.

    Attributes:
        memory: Any namespace of the store; the one of calls that name no user.
        abilities: Which tools; `forget` is not among the usual ones, since it cannot be undone.
        k: Most hits of a recall; raising it adds less relevant ones at the end.
        max_tokens: Most tokens of a recall.
        namespace_key: What names the user in the runtime's context or in the config.
        require_namespace: Whether a call that names no user is an error.
    """

    model_config = STRICT

    abilities: Sequence[AbilityName] = ("remember", "contradict", "recall", "explain")
    k: int = Field(default=5, ge=1)
    max_tokens: int | None = Field(default=2_000, ge=1)

    def get_tools(self) -> list[BaseTool]:
        """Return the tools."""
        options = {name: getattr(self, name) for name in _SHARED}
        return [RecallEchoTool.of(name, self.memory, **options) for name in self.abilities]


def _what_is_wrong(error: ValidationError) -> str:
    """Return why arguments do not fit, in words a model can act upon."""
    faults = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    return f"Wrong arguments: {'; '.join(faults)}"


_SHARED = ("k", "max_tokens", "namespace_key", "require_namespace")
