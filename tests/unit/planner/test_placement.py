from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import PlacementError
from planner.estimate import estimate_flows
from planner.placement import place
from planner.plan import PhysicalPlan, RelationStats, Statistics
from planner.planning import draft_query
from tests.unit.planner.build import catalog_of, select_of, topology_of

CATALOG = catalog_of(
    """CREATE STREAM s (k INT, ts TIMESTAMP, WATERMARK FOR ts) WITH ('connector' = 'files') AT a AT b AT c;
    CREATE TABLE t (k INT) WITH ('connector' = 'files') AT d"""
)
COUNTS = draft_query(select_of("SELECT k, count(*) AS n FROM s GROUP BY window(ts, '10 seconds'), k"), CATALOG)
ROWS = draft_query(select_of("SELECT k FROM s"), CATALOG)
JOINED = draft_query(select_of("SELECT s.k FROM s JOIN t ON s.k = t.k"), CATALOG)
SITES = ("hub", "a", "b", "c", "d")


def rates(**by_site: float) -> Statistics:
    return Statistics({("s", site): RelationStats(rate, measured=True) for site, rate in by_site.items()})


def merge_site(plan: PhysicalPlan) -> str:
    (site,) = plan.stage("m1").sites
    return site


def test_stages_run_where_their_relations_are() -> None:
    plan = place(JOINED, topology_of(*SITES), Statistics(), alive=frozenset(SITES))
    assert plan.stage("s1").sites == ("a", "b", "c")
    assert plan.stage("t1").sites == ("d",)
    assert plan.candidates == ()
    assert [(link.source, link.target) for link in plan.links] == [("a", "hub"), ("b", "hub"), ("c", "hub")]


def test_the_merge_goes_to_the_busiest_source() -> None:
    plan = place(COUNTS, topology_of(*SITES), rates(a=2, b=90, c=3), alive=frozenset(SITES))
    assert merge_site(plan) == "b"
    assert [(link.source, link.target) for link in plan.links] == [("a", "b"), ("c", "b"), ("b", "hub")]
    chosen = [c.site for c in plan.candidates if c.chosen]
    assert chosen == ["b"]
    assert all(c.reason for c in plan.candidates)


def test_a_narrow_link_is_avoided() -> None:
    links = {("a", "b"): (10.0, 10)}
    plan = place(COUNTS, topology_of(*SITES, links=links), rates(a=20, b=90, c=3), alive=frozenset(SITES))
    assert merge_site(plan) == "a"
    (narrow,) = (c for c in plan.candidates if c.site == "b")
    assert narrow.reason == "the link from a to b is too narrow"


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
@given(links=pairs, speeds=st.fixed_dictionaries({s: st.integers(0, 150) for s in "abc"}))
def test_no_site_is_better_than_the_chosen_one(
    links: dict[tuple[str, str], tuple[float, int]], speeds: dict[str, int]
) -> None:
    """Brute force, written from the rule and not from the code."""
    topology, statistics = topology_of(*SITES, links=links), rates(**speeds)
    plan = place(COUNTS, topology, statistics, alive=frozenset(SITES))
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
        too_much = any(load[p] > topology.links[p].bandwidth_bytes_per_s for p in load)
        cost = math.fsum(
            rate * topology.links[p].latency.total_seconds() ** 2 / topology.links[p].bandwidth_bytes_per_s
            for p, rate in load.items()
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
