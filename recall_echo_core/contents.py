"""What do the texts that are searched by meaning say?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recall_echo_core.events import EpisodeRecorded
from recall_echo_core.model import sentence, spoken, titled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recall_echo_core.graph import Graph
    from recall_echo_core.namespace import Namespace
    from recall_echo_core.stores.sql import NamespaceKey, SqlLog
    from recall_echo_core.texts import TextKey

__all__ = ["contents", "contents_in"]


def contents(
    namespace: Namespace, wanted: Sequence[TextKey], *, speakers: bool = True
) -> dict[TextKey, str]:
    """Return the texts as they are now; one that has changed since is left out."""
    with namespace.reading() as graph:
        return contents_in(graph, namespace.log, namespace.key, wanted, speakers=speakers)


def contents_in(
    graph: Graph,
    log: SqlLog,
    key: NamespaceKey,
    wanted: Sequence[TextKey],
    *,
    speakers: bool = True,
) -> dict[TextKey, str]:
    """Return the texts as a graph knows them; one that it knows otherwise is left out.

    Args:
        graph: What is known.
        log: Where episodes are read.
        key: Of the namespace.
        wanted: Which texts.
        speakers: Whether episodes begin with who says them, as they are embedded.
    """
    stored = log.at(key, [text.position for text in wanted if text.kind == "episode"])
    found: dict[TextKey, str] = {}
    for text in wanted:
        if graph.text_position(text.item) == text.position:
            if text.kind != "episode":
                found[text] = _text_in(graph, text)
            elif isinstance(event := stored[text.position].event, EpisodeRecorded):
                speaker = event.name or event.role
                found[text] = spoken(speaker, event.content) if speakers else event.content
    return found


def _text_in(graph: Graph, text: TextKey) -> str:
    """Return the text of an entity or relation."""
    if text.kind == "entity":
        node = graph.nodes[text.item]
        return titled(node.name, node.abstract)
    mark = graph.relations[text.item]
    subject, value = graph.nodes[mark.group.subject], graph.nodes[mark.object]
    return sentence(subject.name, mark.group.type, value.name)
