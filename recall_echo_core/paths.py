"""What is the surest way from one entity to others?

The best path multiplies to the highest confidence, which is the shortest path under -log. Ties go
to fewer relations, then to names, types and ids, so nothing depends on the order of visiting.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import msgspec

from recall_echo_core.picture import Edge

__all__ = ["Trail", "reachable", "separate_trails"]

EdgesOf = Callable[[bytes], Iterable[Edge]]
NameOf = Callable[[bytes], str]

# Products of the same factors in another order differ by rounding only; such paths are ties.
DIGITS = 12


class Trail(msgspec.Struct, frozen=True):
    """A path: the entities visited, the edges taken, the product of their confidences."""

    ids: tuple[bytes, ...]
    names: tuple[str, ...]
    edges: tuple[Edge, ...]
    confidence: float

    @property
    def rank(self) -> tuple[object, ...]:
        """Sorts better paths first; no two paths are the same."""
        sure, hops = -round(self.confidence, DIGITS), len(self.edges)
        types = tuple(edge.group.key for edge in self.edges)
        against = tuple(edge.other == edge.subject for edge in self.edges)
        return sure, hops, self.names, types, self.ids, against

    def extended(self, edge: Edge, name: str) -> Trail:
        """Return this path with one more edge."""
        return Trail(
            (*self.ids, edge.other),
            (*self.names, name),
            (*self.edges, edge),
            self.confidence * edge.effective,
        )


def reachable(
    start: bytes,
    edges_of: EdgesOf,
    name_of: NameOf,
    depth: int,
    without: Collection[tuple[bytes, bytes, str]] = (),
) -> dict[bytes, Trail]:
    """Return the best path of at most `depth` relations to each entity within reach.

    Args:
        start: Where to begin; it reaches itself by the empty path, confidence 1.
        edges_of: Edges at an entity, both ways.
        name_of: Name of an entity, for ties.
        depth: Most relations in a path.
        without: (subject, object, type) triples that may not be used.
    """
    origin = Trail((start,), (name_of(start),), (), 1.0)
    best = {start: origin}
    frontier = {start: origin}
    for _ in range(depth):
        if not frontier:
            break
        found: dict[bytes, Trail] = {}
        for trail in frontier.values():
            for edge in edges_of(trail.ids[-1]):
                if edge.other in trail.ids or _triple(edge) in without:
                    continue
                longer = trail.extended(edge, name_of(edge.other))
                known = found.get(edge.other)
                if known is None or longer.rank < known.rank:
                    found[edge.other] = longer
        # A longer path is worth following only where it is better than every shorter one.
        frontier = {
            id: trail for id, trail in found.items() if id not in best or trail.rank < best[id].rank
        }
        best.update(frontier)
    return best


def separate_trails(
    start: bytes, end: bytes, edges_of: EdgesOf, name_of: NameOf, *, depth: int, limit: int
) -> list[Trail]:
    """Return up to `limit` paths that share no relation, the surest first."""
    used: set[tuple[bytes, bytes, str]] = set()
    trails: list[Trail] = []
    while len(trails) < limit:
        trail = reachable(start, edges_of, name_of, depth, used).get(end)
        if trail is None:
            break
        trails.append(trail)
        if not trail.edges:
            break
        used.update(_triple(edge) for edge in trail.edges)
    return trails


def _triple(edge: Edge) -> tuple[bytes, bytes, str]:
    return edge.subject, edge.object, edge.group.key
