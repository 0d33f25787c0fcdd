"""How is a question answered: from its vector, through the graph, to hits?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, TypeAlias

from recall_echo_core.asked import POOL
from recall_echo_core.graph import Graph
from recall_echo_core.portray import detail_positions, entity_of, episode_of, path_of, relation_of
from recall_echo_core.recall import Ranked, When, best, rank
from recall_echo_core.recalled import Hit
from recall_echo_core.texts import Kind

if TYPE_CHECKING:
    from recall_echo_core.asked import Asked
    from recall_echo_core.events import Stored
    from recall_echo_core.matching import Found
    from recall_echo_core.model import Entity, Episode, Relation
    from recall_echo_core.picture import Activity
    from recall_echo_core.ports import Vectors
    from recall_echo_core.settings import Settings
    from recall_echo_core.stores.sql import NamespaceKey, SqlLog

__all__ = ["Answering"]

LEAST: Final = POOL
WIDER: Final = 4

Search: TypeAlias = Callable[
    [Collection[Kind], "Asked", "Vectors", int], Mapping[Kind, tuple["Found", bool]]
]
Reading: TypeAlias = Callable[[], AbstractContextManager[Graph]]


class Answering:
    """Answers questions to one graph.

    Args:
        log: Where texts stand.
        key: The namespace.
        reading: Holds the graph.
        search: Finds the items that match a question.
        settings: Weights and reach.
    """

    def __init__(
        self, log: SqlLog, key: NamespaceKey, reading: Reading, search: Search, settings: Settings
    ) -> None:
        self._log, self._key = log, key
        self._reading, self._search, self._settings = reading, search, settings

    def hits(
        self,
        asked: Asked,
        vector: Vectors,
        *,
        k: int,
        kinds: Collection[Kind],
        when: When,
        pending: Callable[[], Mapping[bytes, Activity]],
    ) -> list[Hit]:
        """Return the best `k` hits of some kinds."""
        limit = max(LEAST, WIDER * k)
        while True:
            found = self._search(kinds, asked, vector, limit)
            more = any(truncated for _, truncated in found.values())
            with self._reading() as graph:
                matches = {kind: items for kind, (items, _) in found.items()}
                everything = rank(graph, matches, when, self._settings, pending(), k)
                ranked = best(graph, everything, k, kinds)
                # Old versions and ended relations may have crowded out what still counts.
                if len(ranked) == k or not more:
                    return self._portrayed(graph, ranked, when.now)
            limit *= WIDER

    def _portrayed(self, graph: Graph, ranked: list[Ranked], now: int) -> list[Hit]:
        entities = [candidate.item for candidate in ranked if candidate.kind == "entity"]
        episodes = [candidate.item for candidate in ranked if candidate.kind == "episode"]
        positions = {graph.episodes[item].position for item in episodes}
        stored = self._log.at(self._key, positions | detail_positions(graph, entities))
        hits: list[Hit] = []
        for candidate in ranked:
            item = self._item(graph, candidate, stored, now)
            if item is not None:
                hits.append(self._hit(graph, len(hits) + 1, candidate, item, now))
        return hits

    def _item(
        self, graph: Graph, ranked: Ranked, stored: Mapping[int, Stored], now: int
    ) -> Entity | Relation | Episode | None:
        if ranked.kind == "entity":
            return entity_of(graph, ranked.item, stored)
        if ranked.kind == "episode":
            return episode_of(stored[graph.episodes[ranked.item].position])
        mark, period = graph.relations[ranked.item], ranked.period
        return None if period is None else relation_of(graph, mark.group, mark.object, period, now)

    def _hit(
        self,
        graph: Graph,
        number: int,
        ranked: Ranked,
        item: Entity | Relation | Episode,
        now: int,
    ) -> Hit:
        sure = ranked.confidence
        return Hit(
            kind=ranked.kind,
            id=ranked.item.hex(),
            alias=f"M{number}",
            text=item.text,
            score=ranked.score.value,
            parts=ranked.score.parts,
            confidence=sure,
            path=None if ranked.trail is None else path_of(graph, ranked.trail, now),
            item=item,
            unsure=ranked.kind == "relation" and (sure or 0.0) < self._settings.unsure_below,
        )
