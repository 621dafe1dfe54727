"""Over which sites combined partials go: by hand, and by the links' figures."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.graph.plan import RelationStats, Statistics, TreeCandidate
from planner.planning import Combined, place_combining
from planner.text.explain import explain_json, explain_text
from planner.values.errors import PlacementError
from planner.values.stages import StageKind
from planner.values.topology import Topology
from planner.values.trees import Tree
from tests.unit.planner.build import catalog_of, draft_of, topology_of

SITES = ("us", "west", "central", "north")
CATALOG = catalog_of(
    "CREATE STREAM s (k INT, j INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2 seconds') "
    "WITH ('connector' = 'other') AT us AT west AT central AT north"
)
COUNTED = "SELECT k, count(*) AS n FROM s GROUP BY k, window(ts, '1 minute')"
FAST, SLOW = 12.5e6, 2.5e5


def topology(**near_ms: int) -> Topology:
    """Sites that are 60 ms from each other, but so many from central, which is 50 ms from us."""
    links = {(a, b): (FAST, 60) for a in SITES for b in SITES if a != b} | {("central", "us"): (FAST, 50)}
    for site, latency_ms in near_ms.items():
        links |= {(site, "central"): (FAST, latency_ms), ("central", site): (FAST, latency_ms)}
    return topology_of(*SITES, links=links)


def placed(
    topology: Topology, sql: str = COUNTED, *, tree: Tree | None = None, rows_per_s: float = 1000, parts: int = 1
) -> Combined:
    statistics = Statistics({("s", site): RelationStats(rows_per_s, measured=True) for site in SITES})
    draft = draft_of(sql, CATALOG, parts=parts)
    return place_combining(draft, topology, statistics, alive=frozenset(SITES), tree=tree)


def chosen(made: Combined) -> TreeCandidate:
    (found,) = (tree for tree in made.plan.trees if tree.chosen)
    return found


def between(made: Combined) -> dict[str, tuple[str, ...]]:
    """The sites that combine what others send, each with those."""
    plan = made.plan
    return {
        stage.pinned[0]: tuple(s for i in stage.inputs if not i.same_site for s in plan.stage(i.stage).pinned)
        for stage in plan.stages
        if stage.kind is StageKind.COMBINE and any(not i.same_site for i in stage.inputs)
    }


def test_near_sites_send_over_the_one_that_is_near_to_them() -> None:
    made = placed(topology(west=10, north=10))
    assert between(made) == {"central": ("north", "west")}
    assert chosen(made).tree == "north > central, west > central"
    assert chosen(made).reason == "72% less cost"
    assert {(link.source, link.target) for link in made.plan.links} == {
        ("west", "central"),
        ("north", "central"),
        ("central", "us"),
    }
    flat = next(tree for tree in made.plan.trees if tree.tree == "off")
    assert chosen(made).closing_s > flat.closing_s
    lines = explain_text(made.plan).splitlines()
    assert any(line.startswith("  * north > central, west > central: cost ") for line in lines)
    assert explain_json(made.plan)["trees"][0]["tree"] == chosen(made).tree


def test_where_no_link_is_nearer_all_send_to_the_merge() -> None:
    made = placed(topology())
    assert between(made) == {}
    assert chosen(made).tree == "off"
    assert chosen(made).closing_s == pytest.approx(0.06, abs=0.001)
    assert chosen(made).reason == "no site has a link to another site that costs less by the byte"


def test_a_tree_that_saves_little_is_turned_down() -> None:
    made = placed(topology(west=55))
    assert between(made) == {}
    assert [(t.tree, t.reason) for t in made.plan.trees] == [
        ("off", "no tree saves enough"),
        ("west > central", "6% less cost, where 20% are wanted"),
    ]


def test_groups_that_are_not_the_same_at_other_sites_save_less() -> None:
    """Few rows and many groups: hardly any comes twice, so all of it crosses the last link."""
    links = topology(west=30)
    many = "SELECT k, j, count(*) AS n FROM s GROUP BY k, j, window(ts, '1 minute')"
    assert between(placed(links, many, rows_per_s=10_000)) == {"central": ("west",)}
    assert between(placed(links, many, rows_per_s=10)) == {}


def test_a_site_that_drains_is_not_between() -> None:
    drained = topology(west=10, north=10)
    sites = {name: site for name, site in drained.sites.items() if name != "central"}
    made = place_combining(
        draft_of(COUNTED.replace("FROM s", "FROM s WHERE site <> 'central'"), CATALOG),
        drained,
        Statistics(),
        alive=frozenset(sites),
    )
    assert between(made) == {}


def test_by_hand() -> None:
    made = placed(topology(), tree=Tree.parsed("west > north > central"))
    assert between(made) == {"north": ("west",), "central": ("north",)}
    assert made.plan.trees == ()
    with pytest.raises(PlacementError, match=r"site mars is needed \(groups of other sites go over it\)"):
        placed(topology(), tree=Tree.parsed("west > mars"))


def test_streams_that_send_rows_have_no_tree() -> None:
    assert placed(topology(west=10), "SELECT k FROM s").plan.trees == ()


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 120), min_size=12, max_size=12),
    st.lists(st.sampled_from([FAST, SLOW, 2e4]), min_size=12, max_size=12),
    st.sampled_from([10.0, 1000.0, 100_000.0]),
)
def test_a_tree_is_taken_only_where_it_saves(
    latencies_ms: list[int], bandwidths: list[float], rows_per_s: float
) -> None:
    pairs = [(a, b) for a in SITES for b in SITES if a != b]
    links = {pair: (width, ms) for pair, width, ms in zip(pairs, bandwidths, latencies_ms, strict=True)}
    made = placed(topology_of(*SITES, links=links), rows_per_s=rows_per_s)
    flat = placed(topology_of(*SITES, links=links), rows_per_s=rows_per_s, tree=Tree())
    found = chosen(made)
    before = next(tree for tree in made.plan.trees if tree.tree == "off")
    assert made.plan.sites == flat.plan.sites
    if found.tree != "off" and not found.reason.startswith("without it"):
        cost_saved, time_saved = 1 - found.cost / before.cost, 1 - found.closing_s / before.closing_s
        assert max(cost_saved, time_saved) >= 0.19
        assert found.cost <= before.cost
    assert Tree.parsed(found.tree)
    sent = {site for stage in made.plan.stages if stage.kind is StageKind.SOURCE for site in stage.pinned}
    combined = {site for stage in made.plan.stages if stage.kind is StageKind.COMBINE for site in stage.pinned}
    assert sent <= combined
