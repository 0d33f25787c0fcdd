"""Memory for LangChain: which class do I need?

- an agent made by `create_agent`: `RecallEchoMiddleware`
- a retriever in a chain: `RecallEchoRetriever`, and `as_text` for the prompt
- a classic chain with `memory=`: `RecallEchoMemory`
- tools only: `RecallEchoToolkit`
- outcomes of any of them: `RecallEchoCallbackHandler`

The extra `langchain` brings what all but `RecallEchoMemory` need; that one needs the extra
`langchain-classic`. Each class is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recall_echo_adapters.langchain.classic import RecallEchoMemory as RecallEchoMemory
    from recall_echo_adapters.langchain.handler import RecallEchoCallbackHandler
    from recall_echo_adapters.langchain.middleware import RecallEchoMiddleware
    from recall_echo_adapters.langchain.recalled_text import RecalledText
    from recall_echo_adapters.langchain.retriever import RecallEchoRetriever, as_text
    from recall_echo_adapters.langchain.tools import RecallEchoTool, RecallEchoToolkit

# Without `RecallEchoMemory`, so that `import *` does not ask for what need not be installed.
__all__ = [
    "RecallEchoCallbackHandler",
    "RecallEchoMiddleware",
    "RecallEchoRetriever",
    "RecallEchoTool",
    "RecallEchoToolkit",
    "RecalledText",
    "as_text",
]

_PLACES = {
    "RecallEchoCallbackHandler": "handler",
    "RecallEchoMemory": "classic",
    "RecallEchoMiddleware": "middleware",
    "RecallEchoRetriever": "retriever",
    "RecallEchoTool": "tools",
    "RecallEchoToolkit": "tools",
    "RecalledText": "recalled_text",
    "as_text": "retriever",
}
_EXTRAS = {"langchain_classic": "langchain-classic"}


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{place}"), name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if not missing.startswith("lang"):
            raise
        extra = _EXTRAS.get(missing, "langchain")
        raise ImportError(
            f"{name} needs {missing}: pip install 'recall-echo-adapters[{extra}]'", name=missing
        ) from error


def __dir__() -> list[str]:
    return sorted(_PLACES)
