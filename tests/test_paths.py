"""The surest way between two entities, whatever order the edges come in."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_echo_core.confidence import path_confidence
from recall_echo_core.events import EvidenceObserved, Stored
from recall_echo_core.fold import folded
from recall_echo_core.graph import Graph
from recall_echo_core.paths import Trail, reachable, separate_trails
from recall_echo_core.picture import NEVER, Edge, Group
from recall_echo_core.settings import Folding
from recall_echo_core.times import DAY


def said(number: int, value: str, **changes: object) -> EvidenceObserved:
    return EvidenceObserved(
        id=bytes([number]) * 16, subject=b"a", subject_name="a", type="R",
        object=value.encode(), object_name=value, observed_at=0, establishes=True, **changes,
    )  # fmt: skip


((PERIOD,),) = folded([said(1, "m")], Folding()).values()
Link = tuple[str, str, str, float]  # subject, type, object, confidence


class Net:
    """A small graph of named entities, given as links."""

    def __init__(self, links: Iterable[Link], names: dict[bytes, str] | None = None) -> None:
        self.links = list(links)
        self.names = names or {}

    def edges(self, entity: bytes) -> Iterator[Edge]:
        for subject, kind, object, sure in self.links:
            group = Group(subject.encode(), kind, kind, NEVER, {}, {})
            ends = subject.encode(), object.encode()
            if entity in ends:
                other = ends[1] if entity == ends[0] else ends[0]
                yield Edge(other, *ends, group, PERIOD, sure)

    def name(self, entity: bytes) -> str:
        return self.names.get(entity, entity.decode())

    def reach(self, start: str = "a", depth: int = 4) -> dict[str, Trail]:
        found = reachable(start.encode(), self.edges, self.name, depth)
        return {id.decode(): trail for id, trail in found.items()}

    def apart(self, start: str, end: str, depth: int = 4, limit: int = 9) -> list[Trail]:
        return separate_trails(
            start.encode(), end.encode(), self.edges, self.name, depth=depth, limit=limit
        )

    def every_simple_path(self, start: str, depth: int) -> Iterator[Trail]:
        heads = [Trail((start.encode(),), (self.name(start.encode()),), (), 1.0)]
        while heads:
            trail = heads.pop()
            yield trail
            if len(trail.edges) < depth:
                heads += [
                    trail.extended(edge, self.name(edge.other))
                    for edge in self.edges(trail.ids[-1])
                    if edge.other not in trail.ids
                ]


def chain(*names: str, sure: float) -> list[Link]:
    return [(one, "R", two, sure) for one, two in itertools.pairwise(names)]


def hops(names: str, *sure: float) -> list[Link]:
    return [
        (one, "R", two, by) for (one, two), by in zip(itertools.pairwise(names), sure, strict=True)
    ]


def route(trail: Trail) -> str:
    return "".join(trail.names)


def taken(trail: Trail) -> list[tuple[bytes, bytes, str]]:
    return [(edge.subject, edge.object, edge.group.key) for edge in trail.edges]


links = st.lists(
    st.tuples(
        st.sampled_from("abcde"),
        st.sampled_from(["R", "S"]),
        st.sampled_from("abcde"),
        st.sampled_from([0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
    ),
    max_size=12,
    unique_by=lambda link: link[:3],
)


@given(links, st.integers(1, 4), st.randoms(use_true_random=False))
def test_the_best_of_all_simple_paths_is_found(edges: list[Link], depth: int, rng) -> None:
    """Compared with trying every path, also when edges come in another order."""
    net = Net(edges)
    best: dict[bytes, Trail] = {}
    for trail in net.every_simple_path("a", depth):
        if trail.ids[-1] not in best or trail.rank < best[trail.ids[-1]].rank:
            best[trail.ids[-1]] = trail
    shuffled = edges[:]
    rng.shuffle(shuffled)

    for found in (net.reach(depth=depth), Net(shuffled).reach(depth=depth)):
        assert {end.encode(): (trail.ids, taken(trail)) for end, trail in found.items()} == {
            end: (trail.ids, taken(trail)) for end, trail in best.items()
        }


@given(links, st.integers(1, 4))
def test_a_path_is_the_product_of_its_edges_and_no_surer_than_any(edges, depth: int) -> None:
    """The confidence multiplies and the weakest edge bounds it."""
    for trail in Net(edges).reach(depth=depth).values():
        factors = [edge.effective for edge in trail.edges]

        assert trail.confidence == pytest.approx(path_confidence(factors), abs=1e-12)
        assert trail.confidence <= min(factors, default=1.0)
        assert len(trail.edges) <= depth


@given(links, st.integers(1, 3), st.integers(1, 3))
def test_separate_trails_share_no_relation(edges, depth: int, limit: int) -> None:
    """Each relation is in one of them at most; the surest comes first; all lead to the end."""
    trails = Net(edges).apart("a", "b", depth, limit)
    used = [triple for trail in trails for triple in taken(trail)]

    assert len(used) == len(set(used))
    assert len(trails) <= limit
    assert all(trail.ids[-1] == b"b" for trail in trails)
    assert sorted(trails, key=lambda trail: trail.rank) == trails


def test_two_hops_of_nine_tenths_beat_four_of_seven_tenths() -> None:
    """.81 beats .24, whichever is met first."""
    edges = chain("a", "p", "q", "r", "z", sure=0.7) + chain("a", "m", "z", sure=0.9)

    for order in (edges, edges[::-1]):
        best = Net(order).reach()["z"]
        assert (route(best), round(best.confidence, 2)) == ("amz", 0.81)


def test_many_sure_hops_beat_one_unsure() -> None:
    """The number of hops decides nothing but ties."""
    net = Net([*chain("a", "m", "n", "z", sure=0.9), ("a", "R", "z", 0.7)])

    assert route(net.reach()["z"]) == "amnz"
    assert route(net.reach(depth=2)["z"]) == "az"


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ([*chain("a", "m", "z", sure=1.0), ("a", "R", "z", 1.0)], "az"),
        ([*chain("a", "m", "z", sure=0.5), ("a", "R", "z", 0.25)], "az"),
        (chain("a", "n", "z", sure=0.9) + chain("a", "m", "z", sure=0.9), "amz"),
        ([*hops("anoz", 0.1, 0.2, 0.3), *hops("ampz", 0.1, 0.3, 0.2)], "ampz"),
    ],
)
def test_ties_go_to_fewer_hops_then_to_names(edges, expected: str) -> None:
    """Also where the products differ by rounding only."""
    for order in itertools.permutations(edges):
        assert route(Net(order).reach()["z"]) == expected


def test_entities_of_one_name_are_told_apart_by_id() -> None:
    """A tie that names cannot break does not fall to the order of insertion."""
    edges = chain("a", "1", "z", sure=0.9) + chain("a", "2", "z", sure=0.9)
    names = {b"1": "Sam", b"2": "Sam"}

    found = {Net(order, names).reach()["z"].ids for order in itertools.permutations(edges)}
    assert found == {(b"a", b"1", b"z")}


def test_edges_are_walked_both_ways() -> None:
    """Who lives in Oslo can be reached from Oslo."""
    assert route(Net([("z", "R", "m", 0.9), ("m", "R", "a", 0.9)]).reach()["z"]) == "amz"


def test_opposite_edges_of_one_type_are_two_relations() -> None:
    """A knows B and B knows A are two ways from A to B, in a fixed order."""
    edges = [("a", "R", "b", 0.9), ("b", "R", "a", 0.9)]

    for order in (edges, edges[::-1]):
        assert [taken(trail) for trail in Net(order).apart("a", "b")] == [
            [(b"a", b"b", "R")],
            [(b"b", b"a", "R")],
        ]


def test_a_loop_leads_nowhere() -> None:
    """An entity related to itself is reached by the empty path, confidence 1."""
    found = Net([("a", "R", "a", 0.9)]).reach()

    assert {end: (trail.edges, trail.confidence) for end, trail in found.items()} == {
        "a": ((), 1.0)
    }


def test_from_somewhere_to_itself_there_is_one_path() -> None:
    """It is the empty one."""
    assert [route(trail) for trail in Net(chain("a", "b", sure=0.9)).apart("a", "a")] == ["a"]


def test_where_nothing_leads_there_is_no_path() -> None:
    """An empty answer is not an error."""
    assert Net(chain("a", "b", sure=0.9)).apart("a", "z") == []


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_no_path_is_longer_than_asked(depth: int) -> None:
    """At depth n there are n entities of a chain."""
    found = Net(chain("a", "b", "c", "d", "e", "f", sure=0.9)).reach(depth=depth)

    assert sorted(found) == list("abcdef")[: depth + 1]


def test_a_depth_beyond_the_graph_costs_nothing() -> None:
    """The search ends where nothing new is found."""
    asked: list[bytes] = []
    net = Net(chain("a", "b", "c", sure=0.9))

    def edges(entity: bytes) -> Iterator[Edge]:
        asked.append(entity)
        return net.edges(entity)

    reachable(b"a", edges, net.name, 10**12)
    assert asked == [b"a", b"b", b"c"]


@pytest.mark.parametrize(("least", "seen"), [(0.0, 2), (0.1, 2), (0.11, 1), (0.6, 1), (0.61, 0)])
def test_edges_under_the_least_confidence_are_invisible(least: float, seen: int) -> None:
    """An edge of exactly the least is still seen."""
    graph = Graph(b"0" * 16, Folding(priors={"inferred": 0.6, "speculative": 0.1}))
    told = [said(1, "m"), said(2, "z", context="speculative")]
    graph.fold([Stored(place, 0, event) for place, event in enumerate(told, 1)], None)

    assert len(list(graph.edges(b"a", 0, DAY, least))) == seen
