"""How does a chain retrieve memories?"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

from recall_echo_adapters.langchain.holding import STRICT, ServesUsers
from recall_echo_adapters.langchain.host import host_run, running
from recall_echo_adapters.namespaces import memory_of
from recall_echo_adapters.turns import asked
from recall_echo_core import Memory, approximate_tokens, fenced, fitting, neutralised

if TYPE_CHECKING:
    from langchain_core.callbacks import (
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
    )
    from langchain_core.callbacks.manager import BaseRunManager
    from langchain_core.retrievers import LangSmithRetrieverParams
    from langchain_core.runnables import RunnableConfig

    from recall_echo_core import Hit, Recall

__all__ = ["RECEIPT", "RecallEchoRetriever", "as_text"]

RECEIPT: Final = "recall_echo"  # the one key of ours in a document's metadata
Kind: TypeAlias = Literal["entity", "relation", "episode"]


class RecallEchoRetriever(ServesUsers, BaseRetriever):
    """Retrieves the memories of the user a call is for.

    Each document holds one memory on one line, safe to stand in a prompt, cut if it is long. Its
    `id` is that of the entity, relation or episode; `metadata["recall_echo"]` says in which recall
    it was found, by which mark it is cited, and how far it is believed. `as_text` makes a prompt's
    block of them.

    A retriever around this one may hand on no config, only callbacks, as `MultiQueryRetriever` and
    `ContextualCompressionRetriever` do, and classic chains: then name the user in the config's
    `metadata`, and set `require_namespace`, which tells you of calls that lost it.

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

    model_config = STRICT

    k: int = Field(default=5, ge=1)
    kinds: Sequence[Kind] | AbstractSet[Kind] | None = None
    max_tokens: int | None = Field(default=None, ge=1)

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
        """Return the arguments of a call with what the base class keeps back: user and run id."""
        named = given.get("namespace")
        if named is None:
            place = self.memory_for(config)
        elif isinstance(named, Memory):
            place = named
        else:
            place = memory_of(self.memory, "namespace", {"namespace": named})
        run = {"run_id": config["run_id"]} if config and config.get("run_id") else {}
        return {**run, **given, "namespace": place}

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        namespace: Memory | None = None,
        turn: bool = False,
    ) -> list[Document]:
        return self._documents(query, run_manager, k, namespace, turn)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        namespace: Memory | None = None,
        turn: bool = False,
    ) -> list[Document]:
        return await asyncio.to_thread(self._documents, query, run_manager, k, namespace, turn)

    def _documents(
        self,
        query: str,
        run: BaseRunManager,
        k: int | None,
        namespace: Memory | None,
        turn: bool,
    ) -> list[Document]:
        """Return the documents; `turn` says that the middleware will tell when the turn closes."""
        if not isinstance(query, str):
            raise TypeError(f"the question must be a text, not {query!r:.60}")
        if not query.strip():
            return []
        # Who calls this directly, past `invoke`, has not said which user it is for.
        memory = self.memory_for({"metadata": run.metadata}) if namespace is None else namespace
        found = memory.recall(
            asked(query),
            self.k if k is None else k,
            self.kinds,
            run_id=host_run(running()) or str(run.parent_run_id or run.run_id),
            max_tokens=self.max_tokens,
        )
        return documents_of(found, memory.name, {"turn": True} if turn else {})

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        return {**params, "ls_retriever_name": "recall_echo", "ls_vector_store_provider": "Chroma"}


def documents_of(found: Recall, namespace: str, more: Mapping[str, Any]) -> list[Document]:
    """Return the hits of a recall as documents, with more in their receipts."""
    return [
        Document(
            id=hit.id,
            page_content=_content(hit),
            metadata={
                RECEIPT: {
                    "recall_id": found.id,
                    "namespace": namespace,
                    "id": hit.id,
                    "kind": hit.kind,
                    "alias": hit.alias,
                    "score": hit.score,
                    "confidence": hit.confidence,
                    "note": hit.note if _is_whole(hit) else "",
                    **more,
                }
            },
        )
        for hit in found
    ]


def _content(hit: Hit) -> str:
    """Return what a hit's line in a prompt says between its mark and its note."""
    said = hit.line.removeprefix(f"[{hit.alias}] ")
    return said.removesuffix(f" ({hit.note})") if hit.note and _is_whole(hit) else said


def _is_whole(hit: Hit) -> bool:
    """Whether there was room for all of a hit's line, its note at the end included."""
    return hit.room is None


def as_text(documents: Sequence[Document], max_tokens: int | None = None) -> str:
    """Return retrieved memories as one block of a prompt, fenced as data; empty if there is none.

    Each line has the mark to cite and how far the memory is believed: `retriever | as_text`. What
    several searches found, as `MultiQueryRetriever` makes them, is shown once.

    Args:
        documents: Of `RecallEchoRetriever`; others are shown without a mark.
        max_tokens: Most tokens of the block, by a rough count; raising it keeps more of the last.
    """
    once: dict[str, Document] = {}
    for document in documents:
        once.setdefault(document.id or document.page_content, document)
    lines = [_line(document) for document in once.values()]
    if max_tokens is not None:
        lines = fitting(lines, max_tokens, approximate_tokens)
    return fenced(lines)


def _line(document: Document) -> str:
    said = neutralised(document.page_content)  # compressors put their own words there
    receipt = document.metadata.get(RECEIPT)
    if not receipt:
        return f"- {said}"
    said = f"[{receipt['alias']}] {said}"
    return f"{said} ({receipt['note']})" if receipt.get("note") else said
