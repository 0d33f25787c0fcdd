"""Which tools let a model use its memory of its own accord?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llama_index.core.tools import FunctionTool

from recall_echo_adapters.abilities import ABILITIES, Ability, AbilityName, Call, Receipt
from recall_echo_adapters.llama_index.recalling import tagged_run, tell
from recall_echo_adapters.llama_index.retriever import placed

if TYPE_CHECKING:
    from recall_echo_adapters.llama_index.memory import RecallEchoMemory
    from recall_echo_core import Memory

__all__ = ["Told", "recall_echo_tools"]


class Told(str):
    """What a tool tells the model; `receipt`, a dict, is for the program.

    It comes back as `ToolOutput.raw_output`.
    """

    __slots__ = ("receipt",)
    receipt: Receipt

    def __new__(cls, text: str, receipt: Receipt) -> Told:
        """Return a text with its receipt."""
        told = super().__new__(cls, text)
        told.receipt = receipt
        return told

    def __getnewargs__(self) -> tuple[str, Receipt]:  # type: ignore[override]  # of two parts
        return str(self), self.receipt


def recall_echo_tools(
    memory: Memory | RecallEchoMemory,
    *,
    user_id: str | int | None = None,
    require_namespace: bool = False,
    abilities: Sequence[AbilityName] = ("remember", "contradict", "recall", "explain"),
    k: int = 5,
    max_tokens: int | None = 2_000,
) -> list[FunctionTool]:
    """Return tools by which an agent uses a memory: for `tools=`.

    Given the `RecallEchoMemory` of a chat they know its turn: a fact that the model only read in
    its memory, and that nobody said again, counts as no new evidence.

    >>> import tempfile
    >>> from recall_echo_core import open_memory
    >>> with tempfile.TemporaryDirectory() as folder, open_memory(folder) as memory:
    ...     remember = recall_echo_tools(memory, user_id="ann")[0]
    ...     remember.call(subject="Ann", relation="likes", object="tea").content
    'Noted: Ann likes tea, 90% sure now (1 for, 0 against)'

    Args:
        memory: Any namespace of the store, or the memory of a chat.
        user_id: Whose namespace is used instead; not together with a chat's memory.
        require_namespace: Whether leaving `user_id` out is an error.
        abilities: Which tools; `forget` is not among the usual ones, since it cannot be undone.
        k: Most hits of a recall; raising it adds less relevant ones at the end.
        max_tokens: Most tokens of a recall; raising it shows more of the last ones.

    Raises:
        ValueError: an ability that there is not, or no `user_id` though it is required.
    """
    chat, own = placed(memory, user_id, required=require_namespace)
    unknown = [name for name in abilities if name not in ABILITIES]
    if unknown:
        raise ValueError(f"no ability {unknown[0]!r}; there are {', '.join(ABILITIES)}")

    def call() -> Call:
        turn = Call(own) if chat is None else chat.call()
        return replace(turn, run_id=tagged_run(), k=k, max_tokens=max_tokens)

    def used(ability: Ability, given: dict[str, Any]) -> Told:
        text, receipt = ability.run(call(), given)
        recall_id = receipt.get("recall_id")
        tell(recall_id, own.name, receipt.get("ids", []))
        if chat is not None and recall_id is not None:
            chat.found(recall_id)
        if chat is not None and receipt.get("forgot"):
            chat.forgot()
        return Told(text, receipt)

    return [_tool(ABILITIES[name], used) for name in abilities]


def _tool(ability: Ability, used: Any) -> FunctionTool:
    def run(**given: Any) -> Told:
        told: Told = used(ability, given)
        return told

    async def arun(**given: Any) -> Told:
        return await asyncio.to_thread(run, **given)

    return FunctionTool.from_defaults(
        fn=run,
        async_fn=arun,
        name=ability.name,
        description=ability.description,
        fn_schema=ability.arguments,
    )
