"""Flows that share links, and operators that queries share."""

from __future__ import annotations

import pytest

from planner.adapt.model import Graph, Links, Node, Role
from planner.graph.ids import TaskId
from simulator.wasp.fluid import STEP_S, Flow, Load, carry, views


def flow(name: str) -> Flow:
    """One source at a, read at b."""
    source = Node(TaskId(name, "s0"), Role.SOURCE, "a")
    return Flow(Graph(name, (source, Node(TaskId(name, "sink"), Role.SINK, "b", (source.id,)))), Load(name, 0.0))


def stored(one: Flow) -> float:
    (channel,) = one.channels.values()
    return channel.stored


@pytest.mark.parametrize(
    ("rows", "passed"),
    [((10.0, 90.0), (10.0, 40.0)), ((60.0, 90.0), (25.0, 25.0)), ((10.0, 20.0), (10.0, 20.0))],
    ids=["the rest is the other's", "evenly", "all"],
)
def test_flows_share_a_link_evenly(rows: tuple[float, float], passed: tuple[float, float]) -> None:
    flows, links = [flow("p"), flow("q")], Links({("a", "b"): 50 * 75.0 / STEP_S}, {("a", "b"): 0.1})
    for one, number in zip(flows, rows, strict=True):
        one.work({"a": number / STEP_S}, frozenset())
    carry(flows, links)
    assert tuple(map(stored, flows)) == pytest.approx(passed)
    assert [one.crossed_bytes for one in flows] == pytest.approx([75.0 * number for number in passed])


def sharing() -> Flow:
    """An operator at b over a source at a, that p brought and q reads, too."""
    source = Node(TaskId("p", "s0"), Role.SOURCE, "a")
    common = Node(TaskId("p", "c0"), Role.OPERATOR, "b", (source.id,))
    sinks = [Node(TaskId(query, "sink"), Role.SINK, query, (common.id,)) for query in "pq"]
    return Flow(Graph("both", (source, common, *sinks)), Load("both", 8.0), {("p", "c0"): Load("c0", 80.0)})


LINKS = Links({(a, b): 1e6 for a in "abcpq" for b in "abcpq" if a != b}, {})


def test_each_query_has_a_view_with_what_it_shares() -> None:
    found = views(sharing().graph)
    assert [graph.query for graph in found] == ["p", "q"]
    assert [[str(node.id) for node in graph.nodes] for graph in found] == [
        ["p.s0.p0", "p.c0.p0", "p.sink.p0"],
        ["p.s0.p0", "p.c0.p0", "q.sink.p0"],
    ]


def test_operators_have_their_own_loads() -> None:
    one = sharing()
    assert one.seen().tasks[TaskId("p", "c0")].counters.state_bytes == 80


def test_a_query_that_is_split_off_loses_nothing_that_was_given_out() -> None:
    one = sharing()
    for _ in range(4):
        one.step({"a": 100.0}, LINKS, frozenset())
    edge = (TaskId("p", "c0"), TaskId("q", "sink"))
    waiting = one.channels[edge].produced - one.channels[edge].taken
    assert waiting > 0
    one.split_off("q", ("p", "c0"), "c")
    own = TaskId("q", "c0")
    assert one.graph.node(TaskId("q", "sink")).inputs == (own,)
    assert one.graph.node(TaskId("p", "sink")).inputs == (TaskId("p", "c0"),)
    assert (one.graph.node(own).site, one.graph.node(own).inputs) == ("c", (TaskId("p", "s0"),))
    assert one.channels[own, TaskId("q", "sink")].produced == pytest.approx(waiting)
    before = one.crossed_bytes
    one.step({"a": 100.0}, LINKS, frozenset())
    # The source's rows cross to both operators now.
    assert one.crossed_bytes - before > 2 * 100.0 * STEP_S * 75.0
