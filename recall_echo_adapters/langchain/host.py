"""What does LangChain pass along with a call: which user, which run, which conversation?"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from recall_echo_adapters.namespaces import memory_of, named_in

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from recall_echo_core import Memory

__all__ = ["host_run", "running", "session_of", "user_memory"]


def running() -> Any:
    """Return the `Runtime` of the LangGraph node this is called in; `None` outside of one."""
    langgraph = sys.modules.get("langgraph.runtime")
    if langgraph is None:  # nobody can be inside a graph then
        return None
    try:
        return langgraph.get_runtime()
    except (RuntimeError, KeyError):
        return None


def user_memory(
    memory: Memory, key: str, runtime: Any, config: RunnableConfig | None, *, required: bool
) -> Memory:
    """Return the namespace of the user that a call is for.

    Looked for in the runtime's context and in the config's `configurable`, else in its `metadata`.

    Raises:
        ValueError: nobody is named and `required` is set; or context and config name two users,
            as when a call inside a run names another one: which of them is meant is not guessed.
    """
    given: Mapping[str, Any] = {} if config is None else config
    places = getattr(runtime, "context", None), given.get("configurable")
    named = [name for place in places if (name := named_in(place, key)) is not None]
    if len(named) > 1 and str(named[0]) != str(named[1]):
        raise ValueError(
            f"context says that {key} is {named[0]!r:.60}, config says {named[1]!r:.60};"
            " name the same user in both, or in one of them"
        )
    return memory_of(memory, key, *places, given.get("metadata"), required=required)


def host_run(runtime: Any) -> str | None:
    """Return the run id that the caller of a graph chose, if it chose one."""
    return getattr(getattr(runtime, "execution_info", None), "run_id", None)


def session_of(config: RunnableConfig | None) -> str | None:
    """Return the id of the conversation: the thread, else the session."""
    configurable: Mapping[str, Any] = (config or {}).get("configurable") or {}
    named = configurable.get("thread_id") or configurable.get("session_id")
    return None if named is None else str(named)
