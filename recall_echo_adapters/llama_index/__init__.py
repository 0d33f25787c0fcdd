"""Memory for LlamaIndex: which class do I need?

- a chat engine or an agent with `memory=`: `RecallEchoMemory`
- a `Memory` of your own with blocks: `RecallEchoMemoryBlock`
- an engine with `retriever=`: `RecallEchoRetriever`
- tools only: `recall_echo_tools`
- outcomes of any of them: `RecallEchoInstrumentation`
- a workflow's `Context` that is loaded elsewhere: `register_memory`

All but the last need the extra `llama-index`. Each is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recall_echo_adapters.llama_index.block import RecallEchoMemoryBlock
    from recall_echo_adapters.llama_index.instrumentation import RecallEchoInstrumentation
    from recall_echo_adapters.llama_index.memory import RecallEchoMemory
    from recall_echo_adapters.llama_index.references import register_memory
    from recall_echo_adapters.llama_index.retriever import RecallEchoRetriever
    from recall_echo_adapters.llama_index.tools import recall_echo_tools

__all__ = [
    "RecallEchoInstrumentation",
    "RecallEchoMemory",
    "RecallEchoMemoryBlock",
    "RecallEchoRetriever",
    "recall_echo_tools",
    "register_memory",
]

_PLACES = {
    "RecallEchoInstrumentation": "instrumentation",
    "RecallEchoMemory": "memory",
    "RecallEchoMemoryBlock": "block",
    "RecallEchoRetriever": "retriever",
    "recall_echo_tools": "tools",
    "register_memory": "references",
}


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{place}"), name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if not missing.startswith("llama_index"):
            raise
        raise ImportError(
            f"{name} needs {missing}: pip install 'recall-echo-adapters[llama-index]'", name=missing
        ) from error


def __dir__() -> list[str]:
    return sorted(__all__)
