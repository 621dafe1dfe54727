from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.estimate.rates import estimate_flows
from planner.graph.ids import VertexId
from planner.graph.plan import PhysicalPlan, RelationStats, Statistics
from planner.place.placement import place
from planner.planning import draft_query
from planner.values.errors import PlacementError
from planner.values.topology import Topology
from planner.wan.estimate import LinkRecord, fold_bandwidth, fold_use
from planner.wan.samples import BandwidthSample, Method, UseSample
from planner.wan.snapshot import WanSnapshot, snapshot
from tests.unit.planner.build import catalog_of, select_of, topology_of

CATALOG = catalog_of(
    """CREATE STREAM s (k INT, ts TIMESTAMP, WATERMARK FOR ts) WITH ('connector' = 'other') AT a AT b AT c;
    CREATE TABLE t (k INT) WITH ('connector' = 'other') AT d"""
)
COUNTS = draft_query(select_of("SELECT k, count(*) AS n FROM s GROUP BY window(ts, '10 seconds'), k"), CATALOG)
ROWS = draft_query(select_of("SELECT k FROM s"), CATALOG)
JOINED = draft_query(select_of("SELECT s.k FROM s JOIN t ON s.k = t.k"), CATALOG)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SITES = ("hub", "a", "b", "c", "d")


def rates(**by_site: float) -> Statistics:
    return Statistics({("s", site): RelationStats(rate, measured=True) for site, rate in by_site.items()})


def merge_site(plan: PhysicalPlan) -> str:
    return plan.sites[VertexId("m1")]


def test_stages_run_where_their_relations_are() -> None:
    plan = place(JOINED, topology_of(*SITES), Statistics(), alive=frozenset(SITES))
    assert plan.stage("s1").pinned == ("a", "b", "c")
    assert plan.stage("t1").pinned == ("d",)
    assert plan.candidates == ()
    assert [(link.source, link.target) for link in plan.links] == [("a", "hub"), ("b", "hub"), ("c", "hub")]


def test_the_merge_goes_to_the_busiest_source() -> None:
    plan = place(COUNTS, topology_of(*SITES), rates(a=2, b=90, c=3), alive=frozenset(SITES))
    assert merge_site(plan) == "b"
    assert [(link.source, link.target) for link in plan.links] == [("a", "b"), ("c", "b"), ("b", "hub")]
    chosen = [c.site for c in plan.candidates if c.chosen]
    assert chosen == ["b"]
    assert all(c.reason for c in plan.candidates)


def test_a_merge_that_is_elsewhere_for_what_it_shares_is_shown_there() -> None:
    statistics, alive = rates(a=2, b=90, c=3), frozenset(SITES)
    plan = place(COUNTS, topology_of(*SITES), statistics, alive=alive, settled={VertexId("m1"): "a"})
    assert merge_site(plan) == "a"
    assert [(link.source, link.target) for link in plan.links] == [("b", "a"), ("c", "a"), ("a", "hub")]
    reasons = {c.site: (c.chosen, c.reason) for c in plan.candidates}
    chosen, why = reasons["a"]
    assert chosen
    assert why.startswith("the sharing mode has it there, although ")
    assert why.endswith("bytes/s more over the WAN")
    assert reasons["b"] == (False, "fewest bytes over the WAN, if nothing were shared")
    by_cost = place(COUNTS, topology_of(*SITES), statistics, alive=alive, settled={VertexId("m1"): "b"})
    assert by_cost == place(COUNTS, topology_of(*SITES), statistics, alive=alive)


def test_a_narrow_link_is_avoided() -> None:
    links = {("a", "b"): (10.0, 10)}
    plan = place(COUNTS, topology_of(*SITES, links=links), rates(a=20, b=90, c=3), alive=frozenset(SITES))
    assert merge_site(plan) == "a"
    (narrow,) = (c for c in plan.candidates if c.site == "b")
    assert narrow.reason == "the link from a to b is too narrow"


def wan(topology: Topology, *, used: float = 0.0, **capacities: float) -> WanSnapshot:
    """What the monitor knows: capacities by `source_target`, all in use to that extent."""
    records = {}
    for name, capacity in capacities.items():
        source, target = name.split("_")
        record = fold_bandwidth(LinkRecord(), BandwidthSample(NOW, Method.IPERF3, capacity))
        records[source, target] = fold_use(record, UseSample(NOW, used))
    return snapshot(topology, records, NOW + timedelta(seconds=3))


def test_a_link_halved_by_the_monitor_changes_the_placement() -> None:
    topology, statistics = topology_of(*SITES, links={("a", "b"): (2000.0, 10)}), rates(a=80, b=90, c=3)
    declared = place(COUNTS, topology, statistics, alive=frozenset(SITES))
    (carried,) = (link.bytes_per_s for link in declared.links if (link.source, link.target) == ("a", "b"))
    assert 1000.0 < carried < 2000.0
    assert merge_site(declared) == "b"
    same = place(COUNTS, topology, statistics, alive=frozenset(SITES), wan=wan(topology, a_b=2000.0))
    assert merge_site(same) == "b"
    halved = place(COUNTS, topology, statistics, alive=frozenset(SITES), wan=wan(topology, a_b=1000.0))
    assert merge_site(halved) == "a"
    (passed_over,) = (c for c in halved.candidates if c.site == "b")
    assert passed_over.reason == "the link from a to b is too narrow"


def test_what_running_queries_take_is_not_there_for_another() -> None:
    topology, statistics = topology_of(*SITES, links={("a", "b"): (2000.0, 10)}), rates(a=80, b=90, c=3)
    busy = place(COUNTS, topology, statistics, alive=frozenset(SITES), wan=wan(topology, used=1000.0, a_b=2000.0))
    assert merge_site(busy) == "a"
    (passed_over,) = (c for c in busy.candidates if c.site == "b")
    assert passed_over.reason == "other queries leave too little of the link from a to b"


def test_use_of_a_link_that_was_never_measured_does_not_count() -> None:
    topology, statistics = topology_of(*SITES), rates(a=80, b=90, c=3)
    records = {("a", "b"): fold_use(LinkRecord(), UseSample(NOW, 9e9))}
    unmeasured = snapshot(topology, records, NOW)
    assert place(COUNTS, topology, statistics, alive=frozenset(SITES), wan=unmeasured) == place(
        COUNTS, topology, statistics, alive=frozenset(SITES)
    )


def test_the_cost_is_by_what_links_were_measured_to_carry() -> None:
    topology = topology_of(*SITES)
    known = wan(topology, a_c=1e7, b_c=1e7, c_hub=1e7)
    plan = place(COUNTS, topology, Statistics(), alive=frozenset(SITES), wan=known)
    assert merge_site(plan) == "c"
    assert next(c.reason for c in plan.candidates if c.site == "a") == "as many bytes, over slower or farther links"


def test_the_plan_keeps_the_figures_of_all_links_that_were_weighed() -> None:
    topology = topology_of(*SITES)
    plan = place(COUNTS, topology, Statistics(), alive=frozenset(SITES), wan=wan(topology, a_c=1e7))
    kept = {(f.source, f.target): f for f in plan.figures}
    assert list(kept) == sorted({(x, y) for x in "abc" for y in SITES if x != y} | {("d", "hub")})
    assert (kept["a", "c"].age, kept["a", "c"].capacity_bytes_per_s) == (timedelta(seconds=3), 1e7)
    assert {f.age for pair, f in kept.items() if pair != ("a", "c")} == {None}


def test_when_every_link_is_too_narrow_the_fewest_bytes_still_win() -> None:
    links = {(x, y): (1.0, 10) for x in SITES for y in SITES if x != y}
    plan = place(COUNTS, topology_of(*SITES, links=links), rates(a=2, b=90, c=3), alive=frozenset(SITES))
    assert merge_site(plan) == "b"
    assert "although the link" in next(c.reason for c in plan.candidates if c.chosen)


def test_equal_bytes_go_to_the_nearer_site() -> None:
    links = {("b", "hub"): (1e6, 1), ("a", "b"): (1e6, 1), ("c", "b"): (1e6, 1)}
    plan = place(COUNTS, topology_of(*SITES, links=links), Statistics(), alive=frozenset(SITES))
    assert merge_site(plan) == "b"
    assert next(c.reason for c in plan.candidates if c.site == "a") == "as many bytes, over slower or farther links"


def test_equal_in_all_goes_to_the_gateway_then_by_name() -> None:
    topology = topology_of("b", "a", "c", gateway="b")
    plan = place(COUNTS, topology, Statistics(), alive=frozenset("abc"))
    assert merge_site(plan) == "b"
    plan = place(COUNTS, topology_of(*SITES), Statistics(), alive=frozenset(SITES))
    assert merge_site(plan) == "a"
    assert next(c.reason for c in plan.candidates if c.site == "c") == "as good, but later by name"


def test_only_alive_sites_are_candidates() -> None:
    plan = place(COUNTS, topology_of(*SITES), Statistics(), alive=frozenset({"hub", "a", "b", "c"}))
    assert [c.site for c in plan.candidates] == ["a", "b", "c", "hub"]


@pytest.mark.parametrize(
    ("sites", "alive", "missing"),
    [
        (("hub", "a", "b"), "hub a b", "c"),
        (("hub", "a", "b", "c"), "hub a c", "b"),
        (("hub", "a", "b", "c"), "a b c", "hub"),
    ],
)
def test_a_missing_site_is_named(sites: tuple[str, ...], alive: str, missing: str) -> None:
    with pytest.raises(PlacementError) as caught:
        place(COUNTS, topology_of(*sites), Statistics(), alive=frozenset(alive.split()))
    assert caught.value.ids == {"site": missing}
    assert missing in caught.value.message
    assert caught.value.hint


def test_a_dead_table_site_is_named() -> None:
    with pytest.raises(PlacementError) as caught:
        place(JOINED, topology_of(*SITES), Statistics(), alive=frozenset("abc") | {"hub"})
    assert caught.value.ids == {"site": "d"}


def test_same_input_same_plan() -> None:
    plans = [
        place(COUNTS, topology_of(*SITES), rates(a=5, b=5), alive=frozenset(order)) for order in (SITES, SITES[::-1])
    ]
    assert plans[0] == plans[1]


pairs = st.dictionaries(
    st.tuples(st.sampled_from(SITES), st.sampled_from(SITES)).filter(lambda pair: pair[0] != pair[1]),
    st.tuples(st.sampled_from([50.0, 500.0, 5000.0, 1e6]), st.integers(1, 300)),
)


@settings(max_examples=200, deadline=None)
@given(
    links=pairs,
    speeds=st.fixed_dictionaries({s: st.integers(0, 150) for s in "abc"}),
    measured=pairs,
    used=st.sampled_from([0.0, 100.0, 1e9]),
)
def test_no_site_is_better_than_the_chosen_one(
    links: dict[tuple[str, str], tuple[float, int]],
    speeds: dict[str, int],
    measured: dict[tuple[str, str], tuple[float, int]],
    used: float,
) -> None:
    """Brute force, written from the rule and not from the code."""
    topology, statistics = topology_of(*SITES, links=links), rates(**speeds)
    known = wan(topology, used=used, **{f"{x}_{y}": capacity for (x, y), (capacity, _) in measured.items()})
    plan = place(COUNTS, topology, statistics, alive=frozenset(SITES), wan=known)
    capacity = {
        pair: measured[pair][0] if pair in measured else topology.links[pair].bandwidth_bytes_per_s
        for pair in topology.links
    }
    left = {pair: max(0.0, capacity[pair] - used) if pair in measured else capacity[pair] for pair in topology.links}
    (flows,) = estimate_flows(COUNTS, statistics)
    assert flows.results is not None

    def score(site: str) -> tuple[bool, float, float, bool, str]:
        load = dict.fromkeys(topology.links, 0.0)
        for source in "abc":
            if source != site:
                load[source, site] += flows.sources[source].bytes_per_s
        if site != "hub":
            assert flows.results is not None
            load[site, "hub"] += flows.results.bytes_per_s
        too_much = any(load[p] > left[p] for p in load)
        cost = math.fsum(
            rate * topology.links[p].latency.total_seconds() ** 2 / capacity[p] for p, rate in load.items()
        )
        return too_much, round(math.fsum(load.values()), 3), round(cost, 9), site != "hub", site

    assert merge_site(plan) == min(SITES, key=score)


@settings(max_examples=50, deadline=None)
@given(speeds=st.fixed_dictionaries({s: st.integers(0, 2000) for s in "abc"}))
def test_estimated_bytes_are_those_of_the_links(speeds: dict[str, int]) -> None:
    plan = place(COUNTS, topology_of(*SITES), rates(**speeds), alive=frozenset(SITES))
    chosen = next(c for c in plan.candidates if c.chosen)
    assert chosen.wan_bytes_per_s == pytest.approx(sum(link.bytes_per_s for link in plan.links))
    plain = place(ROWS, topology_of(*SITES), rates(**speeds), alive=frozenset(SITES))
    assert sum(link.rows_per_s for link in plain.links) == pytest.approx(sum(speeds.values()))


MORE = (*SITES, "e", "f")
NEEDED = frozenset({"hub", "a", "b", "c"})


@settings(max_examples=200, deadline=None)
@given(
    draining=st.frozensets(st.sampled_from(MORE)),
    links=st.dictionaries(
        st.tuples(st.sampled_from(MORE), st.sampled_from(MORE)).filter(lambda pair: pair[0] != pair[1]),
        st.tuples(st.sampled_from([50.0, 5000.0, 1e6]), st.integers(1, 300)),
    ),
    speeds=st.fixed_dictionaries({s: st.integers(0, 150) for s in "abc"}),
)
def test_a_draining_site_takes_nothing_as_if_it_was_not_alive(
    draining: frozenset[str], links: dict[tuple[str, str], tuple[float, int]], speeds: dict[str, int]
) -> None:
    topology, statistics = topology_of(*MORE, links=links), rates(**speeds)
    if draining & NEEDED:
        with pytest.raises(PlacementError, match="but it is draining") as caught:
            place(COUNTS, topology.with_draining(draining), statistics, alive=frozenset(MORE))
        assert caught.value.ids["site"] in draining & NEEDED
        assert caught.value.hint == f"End that with: selat site undrain {caught.value.ids['site']}."
        return
    plan = place(COUNTS, topology.with_draining(draining), statistics, alive=frozenset(MORE))
    without = place(COUNTS, topology, statistics, alive=frozenset(MORE) - draining)
    assert merge_site(plan) == merge_site(without)
    assert merge_site(plan) not in draining
    turned_down = {c.site for c in plan.candidates if c.reason == "it is draining, and gets no new work"}
    assert turned_down == draining
