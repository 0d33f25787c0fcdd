"""Which candidates answer a question, and in what order?

Entities and relations score `0.45 relevance + 0.30 hotness + 0.25 utility`, a relation times its
effective confidence; the best entities are seeds whose neighbours score the seed's score times
the confidence of the path. An episode is a record of the past: only being recalled makes it hot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from heapq import heappush, heappushpop
from typing import TYPE_CHECKING, Final

import msgspec

from recall_echo_core.fold import Period, effective, period_at
from recall_echo_core.paths import Trail, reachable
from recall_echo_core.picture import Activity
from recall_echo_core.scoring import Score, hotness, reached, weighed
from recall_echo_core.texts import KINDS, Kind
from recall_echo_core.times import days_between

if TYPE_CHECKING:
    from recall_echo_core.graph import Graph
    from recall_echo_core.matching import Match
    from recall_echo_core.settings import Settings

__all__ = ["Ranked", "When", "best", "rank"]

NO_ACTIVITY: Final = Activity()
DIGITS: Final = 12
SLACK: Final = 1e-9  # more than rounding can take away
# How hot a memory can be that was never recalled: what was only just heard of is half hot.
AT_REST: Final[Mapping[Kind, float]] = {"entity": 0.5, "relation": 0.5, "episode": 0.0}


class When(msgspec.Struct, frozen=True):
    """When a question is asked (`now`) and the moment it is about (`at`)."""

    now: int
    at: int


class Ranked(msgspec.Struct, frozen=True):
    """A candidate with its score; `trail` is the path it was reached by, if it was.

    `position` is that of its text in the log, `period` the one a relation is believed for at the
    moment asked about.
    """

    kind: Kind
    item: bytes
    position: int
    score: Score
    confidence: float | None = None
    trail: Trail | None = None
    period: Period | None = None


def rank(
    graph: Graph,
    found: Mapping[Kind, Mapping[bytes, Match]],
    when: When,
    settings: Settings,
    pending: Mapping[bytes, Activity] | None = None,
    k: int = 10,
) -> list[Ranked]:
    """Return the candidates, best first; ties go by kind, then by age in the log.

    Those that cannot be among the first `k` may be left out.

    Args:
        graph: What is known.
        found: How well each item matches the question, by kind.
        when: When the question is asked, and about when.
        settings: Weights and the reach of the graph.
        pending: Accesses not yet in the graph.
        k: How many are wanted.
    """
    heat = _Heat(graph, when.now, pending or {})
    ranked: dict[bytes, Ranked] = {}
    for kind, matches in found.items():
        for candidate in _first(graph, kind, matches, when, settings, heat, k):
            ranked[candidate.item] = candidate
    for neighbour in _expanded(graph, ranked.values(), when, settings):
        known = ranked.get(neighbour.item)
        if known is None or neighbour.score.value > known.score.value:
            ranked[neighbour.item] = neighbour
    return _in_order(ranked.values())


def best(graph: Graph, ranked: Iterable[Ranked], k: int, kinds: Collection[Kind]) -> list[Ranked]:
    """Return the first `k` of the wanted kinds.

    An entity that is nothing but its name tells nothing, unless a path that leads to it does: it
    comes after all that tells something.
    """
    wanted = [candidate for candidate in ranked if candidate.kind in kinds]
    # Sorting keeps the order otherwise.
    wanted.sort(key=lambda one: one.trail is None and _bare(graph, one.kind, one.item))
    return wanted[:k]


def _bare(graph: Graph, kind: Kind, item: bytes) -> bool:
    node = graph.nodes.get(item) if kind == "entity" else None
    return node is not None and node.abstract is None and not any(node.details)


def _first(
    graph: Graph,
    kind: Kind,
    matches: Mapping[bytes, Match],
    when: When,
    settings: Settings,
    heat: _Heat,
    k: int,
) -> list[Ranked]:
    """Return candidates of one kind; what has no chance of being among the first is not weighed."""
    at_rest = weighed(0.0, AT_REST[kind], NO_ACTIVITY.utility, settings.weights).value + SLACK
    most = max(k, settings.seeds)
    first: dict[bool, list[float]] = {False: [], True: []}  # the best, of bare ones and of others
    found: list[Ranked] = []
    for item in sorted(matches, key=lambda item: -matches[item].relevance):
        match, values = matches[item], first[_bare(graph, kind, item)]
        chance = settings.weights.semantic * match.relevance + at_rest
        if len(values) == most and chance < values[0] and not heat.active(item):
            continue
        if graph.text_position(item) != match.position or graph.kind_of(item) != kind:
            continue  # its text has changed since
        candidate = _scored(graph, kind, item, match, when, settings, heat)
        if candidate is not None:
            found.append(candidate)
            (heappush if len(values) < most else heappushpop)(values, candidate.score.value)
    return found


class _Heat:
    """Hotness and utility of items, with accesses that are not yet in the graph counted in."""

    def __init__(self, graph: Graph, now: int, pending: Mapping[bytes, Activity]) -> None:
        self._graph, self._now, self._pending = graph, now, pending

    def active(self, item: bytes) -> bool:
        return item in self._graph.activity or item in self._pending

    def utility(self, item: bytes) -> float:
        return self._graph.activity.get(item, NO_ACTIVITY).utility

    def hotness(self, item: bytes, active_at: int | None) -> float:
        known, waiting = self._graph.activity.get(item), self._pending.get(item)
        if known is None and waiting is None and active_at is None:
            return 0.0
        known, waiting = known or NO_ACTIVITY, waiting or NO_ACTIVITY
        moments = [at for at in (active_at, known.at, waiting.at) if at is not None]
        if not moments:
            return 0.0
        return hotness(known.accesses + waiting.accesses, days_between(max(moments), self._now))


def _scored(
    graph: Graph,
    kind: Kind,
    item: bytes,
    match: Match,
    when: When,
    settings: Settings,
    heat: _Heat,
) -> Ranked | None:
    confidence: float | None = None
    active_at: int | None = None
    period: Period | None = None
    if kind == "entity":
        active_at = graph.nodes[item].seen_at
    elif kind == "relation":
        mark = graph.relations[item]
        period = period_at(mark.group.values[mark.object], when.at)
        if period is None:
            return None  # it does not hold at the moment asked about
        active_at = period.observed_at
        confidence = effective(period, when.now, graph.folding, mark.group.key)
    score = weighed(
        match.relevance,
        heat.hotness(item, active_at),
        heat.utility(item),
        settings.weights,
        confidence,
        similarity=match.similarity,
        words=match.words,
    )
    return Ranked(kind, item, match.position, score, confidence, period=period)


def _expanded(
    graph: Graph, ranked: Iterable[Ranked], when: When, settings: Settings
) -> list[Ranked]:
    seeds = _in_order([found for found in ranked if found.kind == "entity"])
    found: list[Ranked] = []
    for seed in seeds[: settings.seeds]:
        trails = reachable(
            seed.item,
            lambda id: graph.edges(id, when.now, when.at, settings.min_confidence),
            lambda id: graph.nodes[id].name,
            settings.depth,
        )
        for item, trail in trails.items():
            if trail.edges:
                score = reached(seed.score.value, trail.confidence)
                position = graph.nodes[item].text_position
                found.append(Ranked("entity", item, position, score, trail.confidence, trail))
    return found


def _in_order(ranked: Iterable[Ranked]) -> list[Ranked]:
    def key(candidate: Ranked) -> tuple[float, int, int, bytes]:
        value = round(candidate.score.value, DIGITS)
        return -value, KINDS.index(candidate.kind), candidate.position, candidate.item

    return sorted(ranked, key=key)
