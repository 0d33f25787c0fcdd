"""What is the same in everything that holds a memory and is asked for one user after another?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

from langchain_core.callbacks.base import BaseCallbackManager
from langchain_core.runnables import RunnableConfig, ensure_config
from pydantic import BaseModel, ConfigDict, Field

from recall_echo_adapters.langchain.host import running, user_memory
from recall_echo_adapters.namespaces import NobodyNamed
from recall_echo_core import Memory

__all__ = ["STRICT", "HoldsMemory", "ServesUsers"]

# A misspelt option must not pass: it might be the one that keeps users apart. Each class has to
# say it, since LangChain's own bases say otherwise.
STRICT: Final = ConfigDict(arbitrary_types_allowed=True, extra="forbid")


class HoldsMemory(BaseModel):
    """Holds an open memory: copies share it, and it never leaves the process.

    Attributes:
        memory: Any namespace of the store.
    """

    model_config = STRICT

    memory: Memory = Field(exclude=True, repr=False)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return a copy that shares the memory, as there is one for each folder."""
        return super().__deepcopy__({id(self.memory): self.memory, **(memo or {})})

    def __getstate__(self) -> dict[Any, Any]:
        """Refuse to be pickled.

        Raises:
            TypeError: always.
        """
        name = type(self).__name__
        raise TypeError(
            f"{name} holds an open memory, which cannot be pickled; open the memory where it is"
            f" needed, and make the {name} there"
        )


class ServesUsers(HoldsMemory):
    """Finds out for each call which user it is for.

    Attributes:
        memory: Any namespace of the store; the one of calls that name no user.
        namespace_key: What names the user in the runtime's context or in the config.
        require_namespace: Whether a call that names no user is an error.
    """

    namespace_key: str = "user_id"
    require_namespace: bool = False

    def memory_for(self, config: RunnableConfig | None) -> Memory:
        """Return the namespace of the user that a call is for.

        Chains that hand on no config but callbacks still hand on its `metadata` with these.

        Raises:
            ValueError: no user is named, and `require_namespace` is set.
        """
        given = ensure_config(config)
        callbacks = given.get("callbacks")
        inherited: Mapping[str, Any] = (
            callbacks.inheritable_metadata if isinstance(callbacks, BaseCallbackManager) else {}
        )
        given["metadata"] = {**inherited, **(given.get("metadata") or {})}
        return self.memory_in(running(), given)

    def memory_in(self, runtime: Any, config: RunnableConfig | None) -> Memory:
        """Return the namespace of the user that a runtime or a config names.

        Raises:
            ValueError: no user is named, and `require_namespace` is set.
        """
        required = self.require_namespace
        return user_memory(self.memory, self.namespace_key, runtime, config, required=required)

    def named_in(self, runtime: Any, config: RunnableConfig | None) -> str | None:
        """Return the namespace that a runtime or a config names, if one of them does."""
        try:
            return user_memory(self.memory, self.namespace_key, runtime, config, required=True).name
        except NobodyNamed:
            return None
