from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.graph.ids import TaskId, VertexId
from planner.sharing.running import Deployed, MutableRunning, Running
from planner.sharing.vertices import Vertex, VertexKind
from planner.values.topology import Link, Site, Topology
from simulator.fairness import max_min_rates
from simulator.sana.fluid import QUEUE_BYTES, Channel, Fluid, fair_shares

MB = 1e6

flows = st.lists(st.tuples(st.integers(0, 3), st.floats(0, 100)), max_size=12)
widths = st.lists(st.floats(0.5, 100), min_size=4, max_size=4)


@given(flows=flows, widths=widths)
def test_shares_are_those_of_max_min_fairness(flows: list[tuple[int, float]], widths: list[float]) -> None:
    demands = np.array([demand for _, demand in flows])
    links = np.array([link for link, _ in flows], dtype=np.intp)
    # A demand is a link of the flow's own.
    paths = {number: [("link", link), ("own", number)] for number, (link, _) in enumerate(flows)}
    capacities = {("own", number): demand for number, (_, demand) in enumerate(flows)}
    capacities |= {("link", number): width for number, width in enumerate(widths)}
    wanted = max_min_rates(paths, capacities)
    assert fair_shares(demands, links, np.array(widths)).tolist() == pytest.approx(
        [wanted[n] for n in range(len(flows))]
    )


def topology(**mb_per_s: float) -> Topology:
    """Links by the letters of their ends."""
    links = {(n[0], n[1]): Link(n[0], n[1], rate * MB, timedelta(milliseconds=10)) for n, rate in mb_per_s.items()}
    return Topology({name: Site(name) for pair in links for name in pair}, links, "a")


Placed = tuple[Deployed, str]


def source(name: str, site: str, mb_per_s: float) -> Placed:
    vertex = Vertex(VertexId(name), VertexKind.SOURCE, name, (), mb_per_s * MB, site)
    return Deployed(TaskId("q", name), vertex, ()), site


def operator(name: str, site: str, mb_per_s: float, *inputs: str) -> Placed:
    reads = tuple(TaskId("q", made) for made in inputs)
    vertex = Vertex(VertexId(name), VertexKind.MERGE, name, tuple(task.vertex for task in reads), mb_per_s * MB)
    return Deployed(TaskId("q", name), vertex, reads), site


def running_of(*placed: Placed) -> Running:
    running = MutableRunning()
    running.add("q", [one for one, _ in placed], {one.id: site for one, site in placed})
    return running


def flowed(fluid: Fluid, *placed: Placed, seconds: float = 60.0) -> dict[str, float]:
    """MB/s of each source (of its last channel), when queues have filled."""
    fluid.deploy(running_of(*placed))
    operators = [one for one, _ in placed]
    rates = {o.id: o.vertex.output_bytes_per_s for o in operators if o.vertex.kind is VertexKind.SOURCE}
    fluid.advance(seconds, rates)
    fluid.reset()
    fluid.advance(20.0, rates)
    sources = [use for use in fluid.uses() if use.channel.producer in rates]
    return {use.channel.producer.stage: use.bytes_per_s / MB for use in sources}


def wide(fluid: Fluid, producer: str) -> dict[str, tuple[float, float]]:
    """MB/s and seconds in queues, by where a producer sends."""
    uses = [use for use in fluid.uses() if use.channel.producer.stage == producer]
    named = ((use.channel.to, use) for use in uses)
    return {to if isinstance(to, str) else to.stage: (use.bytes_per_s / MB, use.wait_s) for to, use in named}


def test_where_there_is_room_nothing_waits() -> None:
    fluid = Fluid(topology(ab=10.0), routers=True)
    assert flowed(fluid, source("s", "a", 4.0), operator("m", "b", 1.0, "s")) == {"s": pytest.approx(4.0)}
    assert wide(fluid, "s")["b"] == pytest.approx((4.0, 0.0))


def test_a_narrow_link_slows_the_source_and_fills_its_queue() -> None:
    fluid = Fluid(topology(ab=2.0), routers=True)
    assert flowed(fluid, source("s", "a", 4.0), operator("m", "b", 1.0, "s")) == {"s": pytest.approx(2.0)}
    ((rate, wait_s),) = wide(fluid, "s").values()
    assert rate == pytest.approx(2.0)
    assert wait_s == pytest.approx(QUEUE_BYTES / (2.0 * MB), rel=0.15)


def test_a_narrow_link_behind_an_operator_reaches_the_source() -> None:
    fluid = Fluid(topology(ab=10.0, bc=0.5), routers=True)
    operators = (source("s", "a", 4.0), operator("f", "b", 2.0, "s"), operator("m", "c", 1.0, "f"))
    assert flowed(fluid, *operators) == {"s": pytest.approx(1.0)}


def test_the_slowest_channel_of_a_shared_operator_sets_the_pace() -> None:
    fluid = Fluid(topology(ab=10.0, ac=1.0), routers=True)
    operators = (source("s", "a", 4.0), operator("fast", "b", 1.0, "s"), operator("slow", "c", 1.0, "s"))
    assert flowed(fluid, *operators) == {"s": pytest.approx(1.0)}


def test_sources_that_do_not_wait_send_each_channel_what_it_takes() -> None:
    fluid = Fluid(topology(ab=10.0, ac=1.0), routers=True, sources_wait=False)
    flowed(fluid, source("s", "a", 4.0), operator("fast", "b", 1.0, "s"), operator("slow", "c", 1.0, "s"))
    assert {to: rate for to, (rate, _) in wide(fluid, "s").items()} == pytest.approx({"b": 4.0, "c": 1.0})


def test_a_router_gets_a_channel_once() -> None:
    operators = (source("s", "a", 2.0), operator("m", "b", 1.0, "s"), operator("n", "b", 1.0, "s"))
    carried = {}
    for routers in (True, False):
        fluid = Fluid(topology(ab=10.0), routers=routers)
        flowed(fluid, *operators)
        carried[routers] = sum(rate for rate, _ in wide(fluid, "s").values())
    assert carried == {True: pytest.approx(2.0), False: pytest.approx(4.0)}


def test_channels_share_a_link_and_local_ones_need_none() -> None:
    fluid = Fluid(topology(ab=3.0), routers=True)
    operators = (
        *(source("s", "a", 1.0), source("t", "a", 4.0), operator("m", "b", 1.0, "s", "t")),
        *(source("u", "b", 9.0), operator("n", "b", 1.0, "u")),
    )
    assert flowed(fluid, *operators) == pytest.approx({"s": 1.0, "t": 2.0, "u": 9.0})


def test_what_is_in_the_queues_stays_when_others_come() -> None:
    fluid = Fluid(topology(ab=1.0), routers=True)
    first = (source("s", "a", 4.0), operator("m", "b", 1.0, "s"))
    flowed(fluid, *first)
    fluid.deploy(running_of(*first, operator("n", "b", 1.0, "s")))
    fluid.advance(0.2, {TaskId("q", "s"): 4.0 * MB})
    ((_, wait_s),) = wide(fluid, "s").values()
    assert wait_s > 3.0


def test_copies_of_tables_are_no_streams() -> None:
    table = Deployed(TaskId("q", "t"), Vertex(VertexId("t"), VertexKind.TABLE, "t", (), 0.0, "a"), ()), "a"
    fluid = Fluid(topology(ab=1.0), routers=True)
    flowed(fluid, table, source("s", "b", 1.0), operator("m", "b", 1.0, "t", "s"))
    assert [use.channel for use in fluid.uses()] == [Channel(TaskId("q", "s"), "b", ("", ""))]
