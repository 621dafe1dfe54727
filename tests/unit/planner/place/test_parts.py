"""Where the parts of a merge go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.graph.ids import VertexId
from planner.graph.plan import DraftPlan, PhysicalPlan, RelationStats, Statistics
from planner.place.placement import place
from planner.values.topology import Topology
from tests.unit.planner.build import catalog_of, draft_of, topology_of

CATALOG = catalog_of(
    """CREATE STREAM s (k INT, ts TIMESTAMP, WATERMARK FOR ts) WITH ('connector' = 'other') AT a AT b AT c;"""
)
COUNTS = "SELECT k, count(*) AS n FROM s GROUP BY window(ts, '10 seconds'), k"
TOP = f"{COUNTS} QUALIFY rank() OVER (PARTITION BY window ORDER BY n DESC) <= 3"
SITES = ("hub", "a", "b", "c")
RATES = Statistics({("s", site): RelationStats(rate, measured=True) for site, rate in (("a", 20), ("b", 90), ("c", 3))})


def slots(topology: Topology, **by_site: int) -> Topology:
    sites = {name: replace(site, slots=by_site.get(name, 1)) for name, site in topology.sites.items()}
    return replace(topology, sites=sites)


def placed(draft: DraftPlan, topology: Topology, alive: tuple[str, ...] = SITES) -> PhysicalPlan:
    return place(draft, topology, RATES, alive=frozenset(alive))


def parts_of(plan: PhysicalPlan, stage: str = "m1") -> list[str]:
    return [plan.sites[vertex] for vertex in plan.stage(stage).vertices]


def test_parts_fill_the_slots_of_the_best_site_then_those_of_the_next() -> None:
    draft = draft_of(COUNTS, CATALOG, parts=4)
    assert parts_of(placed(draft, slots(topology_of(*SITES), b=8))) == ["b"] * 4
    assert parts_of(placed(draft, slots(topology_of(*SITES), b=2, a=2))) == ["b", "b", "a", "a"]


def test_without_slots_left_the_best_site_takes_more() -> None:
    assert parts_of(placed(draft_of(COUNTS, CATALOG, parts=6), topology_of(*SITES))) == ["b", "a", "hub", "c", "b", "b"]


def test_a_link_that_carries_the_partials_of_some_parts_gets_no_more() -> None:
    """From a come 20 partials a second; the link to b has room for those of two parts of four."""
    draft = draft_of(COUNTS, CATALOG, parts=4)
    whole = placed(draft_of(COUNTS, CATALOG), topology_of(*SITES))
    (carried,) = (link.bytes_per_s for link in whole.links if link.pair == ("a", "b"))
    topology = slots(topology_of(*SITES, links={("a", "b"): (carried * 0.6, 10)}), b=8, a=8)
    assert parts_of(placed(draft, topology)).count("b") == 2


def test_a_final_is_where_one_merge_would_be_and_parts_elsewhere_send_it_their_groups() -> None:
    one = placed(draft_of(TOP, CATALOG), topology_of(*SITES))
    plan = placed(draft_of(TOP, CATALOG, parts=2), slots(topology_of(*SITES), b=1, a=1))
    assert plan.sites[VertexId("f1")] == one.sites[VertexId("m1")] == "b"
    assert parts_of(plan) == ["b", "a"]
    assert {link.pair for link in plan.links} == {("a", "b"), ("c", "b"), ("b", "a"), ("c", "a"), ("b", "hub")}
    assert [c.stage for c in plan.candidates] == ["f1"] * len(SITES)


@pytest.mark.parametrize("sql", [COUNTS, TOP])
def test_what_crosses_links_to_parts_is_what_crosses_them_to_one_merge(sql: str) -> None:
    """All parts at one site: partials once, results once."""
    topology = slots(topology_of(*SITES), b=64)
    one, many = placed(draft_of(sql, CATALOG), topology), placed(draft_of(sql, CATALOG, parts=5), topology)
    assert parts_of(many) == ["b"] * 5
    assert {link.pair: link.bytes_per_s for link in many.links} == {
        link.pair: pytest.approx(link.bytes_per_s) for link in one.links
    }


def test_a_site_that_drains_gets_no_part() -> None:
    plain = slots(topology_of(*SITES), a=1, b=1, c=1, hub=2)
    draining = replace(plain, sites={**plain.sites, "b": replace(plain.sites["b"], draining=True)})
    sql = COUNTS.replace("FROM s", "FROM s WHERE site <> 'b'")
    assert "b" in parts_of(placed(draft_of(sql, CATALOG, parts=5), plain))
    assert "b" not in parts_of(placed(draft_of(sql, CATALOG, parts=5), draining))
