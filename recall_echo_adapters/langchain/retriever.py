"""How does a chain retrieve memories?"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig, ensure_config
from pydantic import Field

from recall_echo_adapters.langchain.host import host_run, running, user_memory
from recall_echo_core import Memory, approximate_tokens, fenced, fitting, neutralised

if TYPE_CHECKING:
    from langchain_core.callbacks import (
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
    )
    from langchain_core.callbacks.manager import BaseRunManager
    from langchain_core.retrievers import LangSmithRetrieverParams

    from recall_echo_core import Recall

__all__ = ["RECEIPT", "RecallEchoRetriever", "as_text"]

RECEIPT: Final = "recall_echo"  # the one key of ours in a document's metadata


class RecallEchoRetriever(BaseRetriever):
    """Retrieves the memories of the user a call is for.

    Each document holds one memory on one line, safe to stand in a prompt. Its `id` is that of the
    entity, relation or episode; `metadata["recall_echo"]` says in which recall it was found, by
    which mark it is cited, and how far it is believed. `as_text` makes a prompt's block of them.

    >>> import tempfile
    >>> from recall_echo_core import open_memory
    >>> with tempfile.TemporaryDirectory() as folder, open_memory(folder) as memory:
    ...     bob = memory.namespace("bob").remember("Bob", "WORKS_AT", "Acme")
    ...     retriever = RecallEchoRetriever(memory=memory, kinds=["relation"])
    ...     config = {"configurable": {"user_id": "bob"}}
    ...     [document.page_content for document in retriever.invoke("Bob's work?", config)]
    ['Bob works at Acme']

    Attributes:
        memory: Any namespace of the store; the one of calls that name no user.
        k: Most documents; raising it adds less relevant ones at the end.
        kinds: Which of entity, relation and episode to look for; all when `None`.
        max_tokens: Most tokens of the documents as `as_text` shows them; no limit when `None`.
        namespace_key: What names the user in the runtime's context or in the config.
        require_namespace: Whether a call that names no user is an error.
    """

    memory: Memory = Field(exclude=True, repr=False)
    k: int = Field(default=5, ge=1)
    kinds: Collection[Literal["entity", "relation", "episode"]] | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    namespace_key: str = "user_id"
    require_namespace: bool = False

    def invoke(
        self, input: str, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the memories that answer a question best.

        Args:
            input: The question; a blank one finds nothing.
            config: `configurable` may name the user.
            kwargs: `k` for this call; `namespace`, a name, instead of what the config says.

        Raises:
            ValueError: no user is named, and `require_namespace` is set.
        """
        return super().invoke(input, config, **self._placed(config, kwargs))

    async def ainvoke(
        self, input: str, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the memories that answer a question best; see `invoke`."""
        placed = await asyncio.to_thread(self._placed, config, kwargs)
        return await super().ainvoke(input, config, **placed)

    def _placed(self, config: RunnableConfig | None, given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call with the namespace, which the base class keeps back."""
        named = given.get("namespace")
        if isinstance(named, str):
            return {**given, "namespace": self.memory.namespace(named)}
        if named is not None:  # by the middleware, which knows it already
            return given
        place = user_memory(
            self.memory,
            self.namespace_key,
            running(),
            ensure_config(config),
            required=self.require_namespace,
        )
        return {**given, "namespace": place}

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        namespace: Memory | None = None,
    ) -> list[Document]:
        return self._documents(query, run_manager, k, namespace)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        namespace: Memory | None = None,
    ) -> list[Document]:
        return await asyncio.to_thread(self._documents, query, run_manager, k, namespace)

    def _documents(
        self, query: str, run: BaseRunManager, k: int | None, namespace: Memory | None
    ) -> list[Document]:
        if not query.strip():
            return []
        memory = self.memory if namespace is None else namespace
        found = memory.recall(
            query,
            self.k if k is None else k,
            self.kinds,
            run_id=host_run(running()) or str(run.parent_run_id or run.run_id),
            max_tokens=self.max_tokens,
        )
        return documents_of(found, memory.name)

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        return {**params, "ls_retriever_name": "recall_echo", "ls_vector_store_provider": "Chroma"}


def documents_of(found: Recall, namespace: str) -> list[Document]:
    """Return the hits of a recall as documents."""
    return [
        Document(
            id=hit.id,
            page_content=hit.quoted,
            metadata={
                RECEIPT: {
                    "recall_id": found.id,
                    "namespace": namespace,
                    "id": hit.id,
                    "kind": hit.kind,
                    "alias": hit.alias,
                    "score": hit.score,
                    "confidence": hit.confidence,
                    "note": hit.note,
                }
            },
        )
        for hit in found
    ]


def as_text(documents: Sequence[Document], max_tokens: int | None = None) -> str:
    """Return retrieved memories as one block of a prompt, fenced as data; empty if there is none.

    Each line has the mark to cite and how far the memory is believed: `retriever | as_text`.

    Args:
        documents: Of `RecallEchoRetriever`; others are shown without a mark.
        max_tokens: Most tokens of the block, by a rough count; raising it keeps more of the last.
    """
    lines = [_line(document) for document in documents]
    if max_tokens is not None:
        lines = fitting(lines, max_tokens, approximate_tokens)
    return fenced(lines)


def _line(document: Document) -> str:
    receipt = document.metadata.get(RECEIPT)
    if not receipt:
        return f"- {neutralised(document.page_content)}"
    said = f"[{receipt['alias']}] {document.page_content}"
    return f"{said} ({receipt['note']})" if receipt["note"] else said
