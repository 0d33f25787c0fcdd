"""How does an engine with a context retrieve memories?"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, Literal

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from recall_echo_adapters.llama_index.memory import RecallEchoMemory
from recall_echo_adapters.llama_index.recalling import tagged_run, tell
from recall_echo_adapters.namespaces import memory_of

if TYPE_CHECKING:
    from recall_echo_core import Hit, Memory

__all__ = ["RECEIPT", "RecallEchoRetriever"]

RECEIPT: Final = "recall_echo"  # the one key of ours in a node's metadata


class RecallEchoRetriever(BaseRetriever):
    """Retrieves the memories of one user.

    Each node holds one memory on one line, with its mark, safe to stand in a prompt. Its `id_` is
    that of the entity, relation or episode; `metadata["recall_echo"]` says in which recall it was
    found and how far it is believed, and neither a model nor an embedding sees that.

    Given the `RecallEchoMemory` of a chat, what it finds belongs to the chat's turn: it is marked
    used there, and an answer that only repeats it is not kept.

    >>> import tempfile
    >>> from recall_echo_core import open_memory
    >>> with tempfile.TemporaryDirectory() as folder, open_memory(folder) as memory:
    ...     bob = memory.namespace("bob").remember("Bob", "WORKS_AT", "Acme", source="Eve")
    ...     retriever = RecallEchoRetriever(memory, user_id="bob", kinds=["relation"])
    ...     [node.text[:22] for node in retriever.retrieve("Where does Bob work?")]
    ['[M1] Bob works at Acme']

    Args:
        memory: Any namespace of the store, or the memory of a chat.
        user_id: Whose namespace is used instead; not together with a chat's memory.
        require_namespace: Whether leaving `user_id` out is an error.
        k: Most nodes; raising it adds less relevant ones at the end.
        kinds: Which of entity, relation and episode to look for; all when `None`.
        max_tokens: Most tokens of the nodes together; raising it keeps more of the last ones.
        options: What `BaseRetriever` takes.

    Raises:
        ValueError: no `user_id` though it is required, or one that a chat's memory has already.
    """

    def __init__(
        self,
        memory: Memory | RecallEchoMemory,
        *,
        user_id: str | int | None = None,
        require_namespace: bool = False,
        k: int = 5,
        kinds: Collection[Literal["entity", "relation", "episode"]] | None = None,
        max_tokens: int | None = 2_000,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._chat, self._memory = placed(memory, user_id, required=require_namespace)
        self._k, self._kinds, self._max_tokens = k, kinds, max_tokens

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        question = query_bundle.query_str
        if not question.strip():
            return []
        found = self._memory.recall(
            question, self._k, self._kinds, run_id=tagged_run(), max_tokens=self._max_tokens
        )
        tell(found.id, self._memory.name, [hit.id for hit in found])
        if self._chat is not None:
            self._chat.found(found.id)
        return [_node(hit, found.id, self._memory.name) for hit in found]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def placed(
    memory: Memory | RecallEchoMemory, user_id: str | int | None, *, required: bool
) -> tuple[RecallEchoMemory | None, Memory]:
    """Return the chat, if there is one, and the namespace that is meant."""
    if isinstance(memory, RecallEchoMemory):
        if user_id is not None:
            raise ValueError("the memory of a chat has its user already; leave user_id out")
        return memory, memory.memory
    return None, memory_of(memory, "user_id", {"user_id": user_id}, required=required)


def _node(hit: Hit, recall_id: str | None, namespace: str) -> NodeWithScore:
    receipt = {
        "recall_id": recall_id,
        "namespace": namespace,
        "id": hit.id,
        "kind": hit.kind,
        "alias": hit.alias,
        "confidence": hit.confidence,
    }
    node = TextNode(
        id_=hit.id,
        text=hit.line,
        metadata={RECEIPT: receipt},
        excluded_llm_metadata_keys=[RECEIPT],
        excluded_embed_metadata_keys=[RECEIPT],
    )
    return NodeWithScore(node=node, score=hit.score)
