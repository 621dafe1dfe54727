"""Algorithm 2, the cases of the source with their numbers, and the modes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.sharing.modes import Goal, Sharing
from planner.sharing.plans import Action, Setting
from planner.sharing.running import MutableRunning
from planner.sharing.schedule import share
from planner.sharing.vertices import Vertex, VertexKind
from planner.sharing.wan import Wan
from planner.values.errors import PlacementError
from tests.unit.planner.build import topology_of
from tests.unit.planner.sharing.graphs import MB, World, sites_of, vertex
from tests.unit.planner.sharing.names import tid, vid

RESULTS, SOURCE = VertexKind.RESULTS, VertexKind.SOURCE

# Figure 3.2: streams of 10 MB/s reach the sites `us`, `eu` and `asia` over the WAN; what is done there halves them.
FIGURE_2 = ("src-us", "src-eu", "src-asia", "us", "eu", "asia", "ads")


def trends() -> list[Vertex]:
    """Query 1: the three streams together, results where that is done."""
    return [
        *(vertex(f"raw-{place}", 10, site=f"src-{place}", kind=SOURCE) for place in ("us", "eu", "asia")),
        *(vertex(f"kept-{place}", 5, f"raw-{place}", site=place) for place in ("us", "eu", "asia")),
        vertex("all", 15, "kept-us", "kept-eu", "kept-asia"),
    ]


def campaigns() -> list[Vertex]:
    """Query 2: two of them together, joined with what is kept at `ads`."""
    return [
        *(vertex(f"raw-{place}", 10, site=f"src-{place}", kind=SOURCE) for place in ("us", "eu")),
        *(vertex(f"kept-{place}", 5, f"raw-{place}", site=place) for place in ("us", "eu")),
        vertex("both", 10, "kept-us", "kept-eu"),
        vertex("joined", 1, "both", site="ads"),
    ]


def wide(*names: str) -> World:
    links = {(a, b): (100 * MB, 10) for a in names for b in names if a != b}
    return World(topology_of(*names, links=links), {})


def test_figure_3_2_costs_75_apart_and_50_shared() -> None:
    # Query 1: 3 * 10 to the sites, 2 * 5 to the third. Query 2: 2 * 10, 5 from one site to the other, 10 to `ads`.
    first, second = wide(*FIGURE_2), wide(*FIGURE_2)
    first.submit("q1", *trends())
    second.submit("q2", *campaigns())
    assert (first.wan_mb_per_s, second.wan_mb_per_s) == (40, 35)
    # Shared: the streams are there already, and `both` goes to where they arrive; only its 10 to `ads` are new.
    plan = first.submit("q2", *campaigns())
    assert first.wan_mb_per_s == 50
    assert plan.wan_bytes_per_s == 10 * MB
    assert sites_of(plan) == {"both": "asia", "joined": "ads"}
    assert plan.decision(vid("both")).action is Action.CO_LOCATED


def test_figure_3_2_without_sharing_of_inputs_sends_more() -> None:
    world = wide(*FIGURE_2)
    world.sharing = Sharing.STRICT
    world.submit("q1", *trends())
    world.submit("q2", *campaigns())
    # `both` goes by cost to `eu`: 5 from `us`, which `asia` gets as well, and 10 to `ads`.
    assert world.wan_mb_per_s == 40 + 5 + 10


def query_a() -> list[Vertex]:
    sources = [vertex(f"s{n}", 4, site=f"p{n}", kind=SOURCE) for n in (1, 2, 3, 4)]
    return [*sources, vertex("v1", 2, "s1", "s2"), vertex("v2", 2, "s3", "s4"), vertex("v4", 1, "v1", "v2")]


def query_b() -> list[Vertex]:
    sources = [vertex(f"s{n}", 4, site=f"p{n}", kind=SOURCE) for n in (3, 4, 5, 6)]
    return [*sources, vertex("v2", 2, "s3", "s4"), vertex("v3", 2, "s5", "s6"), vertex("v5", 1, "v2", "v3")]


def query_c() -> list[Vertex]:
    sources = [vertex(f"s{n}", 4, site=f"p{n}", kind=SOURCE) for n in (3, 4, 5, 6)]
    upper = [vertex("v6", 1, "v2", "v3"), vertex("v7", 1, "v6")]
    return [*sources, vertex("v2", 2, "s3", "s4"), vertex("v3", 2, "s5", "s6"), *upper]


def test_figure_3_6_deploys_only_v6_and_v7() -> None:
    world = wide("p1", "p2", "p3", "p4", "p5", "p6")
    world.submit("a", *query_a())
    second = world.submit("b", *query_b())
    assert sorted(sites_of(second)) == ["s5", "s6", "v3", "v5"]
    third = world.submit("c", *query_c())
    assert sorted(sites_of(third)) == ["v6", "v7"]
    shared = {d.vertex: d.query for d in third.decisions if d.action is Action.SHARED}
    assert {name: shared[name] for name in (vid("v2"), vid("v3"))} == {vid("v2"): "a", vid("v3"): "b"}
    assert third.decision(vid("v6")).action is Action.CO_LOCATED
    assert third.decision(vid("v6")).operator == tid("b/v5")
    assert third.decision(vid("v7")).action is Action.LOCAL
    # v6 goes to v5, whose site has both inputs; nothing new crosses the WAN.
    assert third.wan_bytes_per_s == 0
    # s3, s4 and v2 serve all three queries, s5, s6 and v3 two.
    assert world.running.users(tid("a/s3")) == {"a", "b", "c"}
    assert world.running.users(tid("b/s6")) == {"b", "c"}


def test_figure_3_6_a_shared_operator_ends_with_its_last_query() -> None:
    world = wide("p1", "p2", "p3", "p4", "p5", "p6")
    for name, query in (("a", query_a()), ("b", query_b()), ("c", query_c())):
        world.submit(name, *query)
    assert world.running.remove("a") == (tid("a/v4"), tid("a/v1"), tid("a/s2"), tid("a/s1"))
    assert world.running.remove("b") == (tid("b/v5"),)
    assert set(world.running.remove("c")) == {
        tid("a/s3"),
        tid("a/s4"),
        tid("a/v2"),
        tid("b/s5"),
        tid("b/s6"),
        tid("b/v3"),
        tid("c/v6"),
        tid("c/v7"),
    }
    assert (len(world.running), world.running.traffic()) == (0, {})


# Figure 3.7: v reads x, y and z at 4 MB/s each and sends 2.
FIGURE_7 = ("A", "B", "C", "X", "Y", "Z")


def figure_7(egress_of_b: float, ingress_of_a: float = 50.0) -> World:
    world = wide(*FIGURE_7)
    sources = [vertex(name, 4, site=name.upper(), kind=SOURCE) for name in ("x", "y", "z")]
    world.submit("q1", *sources[:2], vertex("v1", 2, "x", "y", site="A"))
    world.submit("q2", *sources, vertex("v2", 2, "x", "y", "z", site="B", as_="v"), vertex("out", 0, "v2", site="C"))
    world.submit("q3", sources[2], vertex("v3", 2, "z", site="C"))
    world.spare = {("B", other): egress_of_b * MB / 5 for other in "ACXYZ"}
    world.spare |= {(other, "A"): (ingress_of_a - egress_of_b / 5) * MB / 4 for other in "CXYZ"}
    return world


def asked_7() -> list[Vertex]:
    sources = [vertex(name, 4, site=name.upper(), kind=SOURCE) for name in ("x", "y", "z")]
    return [*sources, vertex("v", 2, "x", "y", "z"), vertex("mine", 0, "v", site="A")]


def test_figure_3_7_goes_to_v1_because_the_egress_of_v2_is_full() -> None:
    # IN-OP with v2: readers {out, mine} over {out} make 2 / 1 * 2 = 4 MB/s; B has 3 left.
    plan = figure_7(egress_of_b=3).plan("new", *asked_7())
    decision = plan.decision(vid("v"))
    # IN: v1 receives x and y, 8 MB/s; v3 only z, 4 MB/s.
    assert (decision.action, decision.operator, decision.site) == (Action.CO_LOCATED, tid("q1/v1"), "A")
    assert [c.operator.id for c in decision.rejected] == [tid("q2/v2")]
    assert "B has no room to send 4000000 bytes/s" in decision.rejected[0].obstacle
    # Only z is not yet at A.
    assert plan.traffic == {("Z", "A"): 4 * MB}


def test_figure_3_7_with_room_shares_v2() -> None:
    plan = figure_7(egress_of_b=4.5).plan("new", *asked_7())
    assert plan.decision(vid("v")).action is Action.SHARED
    assert plan.decision(vid("v")).operator == tid("q2/v2")
    assert plan.decision(vid("v")).edges == (vid("mine"),)
    assert plan.traffic == {("B", "A"): 2 * MB}


def test_figure_3_7_without_ingress_at_v1_goes_to_v3() -> None:
    # I_v - I_v1 is z, 4 MB/s; A can receive just that, which is not more.
    plan = figure_7(egress_of_b=3, ingress_of_a=4).plan("new", *asked_7())
    assert plan.decision(vid("v")).operator == tid("q3/v3")


def test_figure_3_7_blind_to_the_wan_shares_v2() -> None:
    world = figure_7(egress_of_b=0)
    world.sharing = Sharing.MAX_SHARE
    assert world.plan("new", *asked_7()).decision(vid("v")).operator == tid("q2/v2")


def test_figure_3_7_strict_places_v_by_cost() -> None:
    world = figure_7(egress_of_b=3)
    world.sharing = Sharing.STRICT
    decision = world.plan("new", *asked_7()).decision(vid("v"))
    # X, Y and Z save one input each, at equal links: the first by name.
    assert (decision.action, decision.site) == (Action.PLACED, "X")


@pytest.mark.parametrize("sharing", [Sharing.NO_SHARE, Sharing.NET])
def test_without_sharing_everything_is_deployed(sharing: Sharing) -> None:
    world = figure_7(egress_of_b=50)
    world.sharing = sharing
    plan = world.plan("new", *asked_7())
    assert sorted(sites_of(plan)) == ["mine", "v", "x", "y", "z"]
    assert plan.used == ()


def test_placement_minimises_rate_latency_squared_over_spare_bandwidth() -> None:
    links = {("a", "b"): (8 * MB, 20), ("b", "a"): (8 * MB, 20), ("a", "c"): (2 * MB, 10), ("b", "c"): (2 * MB, 30)}
    world = World(topology_of("a", "b", "c", links=links), {("b", "c"): 1 * MB})
    query = [vertex("x", 2, site="a", kind=SOURCE), vertex("y", 1, site="b", kind=SOURCE), vertex("m", 1, "x", "y")]
    # at a: y, 1 * 0.02^2 / 8; at b: x, 2 * 0.02^2 / 8; at c: 2 * 0.01^2 / 2 + 1 * 0.03^2 / 1 = 0.001
    decision = world.plan("q", *query).decision(vid("m"))
    assert decision.site == "a"
    assert decision.reason == "least cost of its links, 5e-05 s^2"
    # Narrow a and b towards each other, and c is best, since latency counts squared.
    world.spare = {("a", "b"): 0.1 * MB, ("b", "a"): 0.1 * MB, ("b", "c"): 1 * MB}
    assert world.plan("q", *query).decision(vid("m")).site == "c"


def test_placement_keeps_off_links_without_room_where_others_have_it() -> None:
    links = {("p", "near"): (1 * MB, 1), ("p", "far"): (50 * MB, 100), ("p", "b"): (1.5 * MB, 50)}
    world = World(topology_of("p", "near", "far", "b", links=links), {})
    query = [vertex("x", 2, site="p", kind=SOURCE), vertex("m", 1, "x")]
    # near: 2 * 0.001^2 / 1; far: 2 * 0.1^2 / 50, but only there is room for 2.
    assert share("q", query, open_to(world, "near", "far", "b")).decision(vid("m")).site == "far"
    # Without room anywhere, or with the published rule, the least cost counts.
    assert share("q", query, open_to(world, "near", "b")).decision(vid("m")).site == "near"
    by_cost = replace(open_to(world, "near", "far", "b"), keeps_room=False)
    assert share("q", query, by_cost).decision(vid("m")).site == "near"


def test_room_is_that_for_all_inputs_from_a_site() -> None:
    links = {("p", "near"): (3 * MB, 1), ("p", "far"): (5 * MB, 100)}
    world = World(topology_of("p", "near", "far", links=links), {})
    sources = [vertex("x", 2, site="p", kind=SOURCE), vertex("y", 2, site="p", kind=SOURCE)]
    plan = share("q", [*sources, vertex("m", 1, "x", "y")], open_to(world, "near", "far"))
    assert plan.decision(vid("m")).site == "far"


def test_blind_placement_goes_to_the_first_input() -> None:
    world = World(topology_of("a", "b"), {("b", "a"): 0.0}, Sharing.NO_SHARE)
    query = [vertex("x", 2, site="b", kind=SOURCE), vertex("y", 1, site="a", kind=SOURCE), vertex("m", 1, "x", "y")]
    assert world.plan("q", *query).decision(vid("m")).site == "a"


def test_a_vertex_of_local_inputs_stays_there_even_when_links_are_free() -> None:
    world = wide("a", "b")
    plan = world.plan("q", vertex("x", 2, site="b", kind=SOURCE), vertex("m", 1, "x"))
    assert (plan.decision(vid("m")).action, plan.decision(vid("m")).site) == (Action.LOCAL, "b")


def test_what_only_feeds_shared_vertices_is_not_deployed() -> None:
    # The source cannot be shared: a has no egress. What reads it is shared all the same.
    world = wide("a", "b", "hub")
    query = [vertex("x", 2, site="a", kind=SOURCE), vertex("m", 1, "x", site="b"), vertex("r", 0, "m", site="hub")]
    world.submit("q1", *query)
    world.spare = {("a", "b"): 0.0, ("a", "hub"): 0.0}
    other = [*query[:2], vertex("r2", 0, "m", site="hub")]
    plan = world.submit("q2", *other)
    assert plan.decision(vid("x")).action is Action.UNNEEDED
    assert sites_of(plan) == {"r2": "hub"}
    assert plan.used == (tid("q1/m"),)
    # m is at the hub already for r.
    assert plan.wan_bytes_per_s == 0


def test_equal_candidates_go_by_id_and_the_goal_of_latency_takes_the_nearest() -> None:
    links = {("a", "far"): (100 * MB, 80), ("far", "hub"): (100 * MB, 80)}
    links |= {("a", "near"): (100 * MB, 5), ("near", "hub"): (100 * MB, 5)}
    world = World(topology_of("a", "far", "near", "hub", links=links), {})
    source = vertex("x", 2, site="a", kind=SOURCE)
    world.submit("q1", source, vertex("m1", 1, "x", site="far"))
    world.submit("q2", source, vertex("m2", 1, "x", site="near"))
    query = [source, vertex("m", 1, "x"), vertex("r", 0, "m", site="hub")]
    assert world.plan("q3", *query).decision(vid("m")).site == "far"
    world.goal = Goal.LATENCY
    assert world.plan("q3", *query).decision(vid("m")).site == "near"


def test_an_operator_stands_for_one_vertex_of_a_query() -> None:
    world = wide("a", "b")
    world.submit("q1", vertex("x", 2, site="a", kind=SOURCE), vertex("m", 1, "x", site="b"))
    twice = [vertex("x1", 2, site="a", kind=SOURCE, as_="x"), vertex("x2", 2, site="a", kind=SOURCE, as_="x")]
    plan = world.submit("q2", *twice, vertex("u", 1, "x1", "x2", site="b"))
    (union,) = (operator for operator in plan.deployed if operator.vertex.id == vid("u"))
    assert sorted(union.inputs) == [tid("q1/x"), tid("q2/x2")]


def test_a_site_that_is_not_alive_takes_nothing() -> None:
    world = wide("a", "b")
    world.submit("q1", vertex("x", 2, site="a", kind=SOURCE), vertex("m", 1, "x", site="b"))
    setting = Setting(world.running, Wan(world.topology), frozenset("a"))
    assert share("q2", [vertex("x", 2, site="a"), vertex("n", 1, "x")], setting).decision(vid("n")).site == "a"
    with pytest.raises(PlacementError, match="site b is needed"):
        share("q2", [vertex("y", 2, site="b")], setting)


def open_to(world: World, *sites: str, sharing: Sharing = Sharing.SANA) -> Setting:
    """Only these sites take what is not bound."""
    alive = frozenset(world.topology.sites)
    return Setting(world.running, Wan(world.topology), alive, sharing, open_sites=frozenset(sites))


def test_a_site_that_is_not_open_has_its_sources_and_takes_nothing_else() -> None:
    world = wide("p1", "p2", "a", "b")
    source, local = vertex("s", 4, site="p1", kind=SOURCE), vertex("v", 1, "s")
    assert sites_of(share("q1", (source, local), open_to(world, "a", "b"))) == {"s": "p1", "v": "a"}
    world.submit("q0", source, vertex("w", 1, "s"))
    plan = share("q1", (source, local), open_to(world, "b"))
    # The other reader of the stream is at p1.
    assert plan.decision(vid("v")).action is Action.PLACED
    assert sites_of(plan) == {"v": "b"}
    with pytest.raises(PlacementError, match="no site can take v"):
        share("q1", (source, local), open_to(world))


def test_blind_placement_far_from_all_inputs_goes_where_the_fewest_operators_run() -> None:
    world = wide("p1", "p2", "a", "b", "c")
    world.submit("q0", vertex("x", 1, site="a"), vertex("y", 1, site="c"))
    sources = [vertex(f"s{n}", 4, site=f"p{n}", kind=SOURCE) for n in (1, 2)]
    stages = [vertex(f"v{n}", 1, f"s{n}") for n in (1, 2)]
    merge = vertex("m", 1, "v2", "v1")
    plan = share("q1", (*sources, *stages, merge), open_to(world, "a", "b", "c", sharing=Sharing.NO_SHARE))
    assert sites_of(plan) == {"s1": "p1", "s2": "p2", "v1": "b", "v2": "a", "m": "a"}
    world.running.remove("q0")
    plan = share("q1", (*sources, *stages, merge), open_to(world, "a", "b", "c", sharing=Sharing.NO_SHARE))
    assert sites_of(plan) == {"s1": "p1", "s2": "p2", "v1": "a", "v2": "b", "m": "a"}


def test_nothing_is_constrained_where_there_is_one_site() -> None:
    world = World(topology_of("a"), {})
    query = [vertex("x", 2, site="a", kind=SOURCE), vertex("m", 1, "x"), vertex("r", 0, "m", site="a", kind=RESULTS)]
    world.submit("q1", *query)
    assert world.submit("q2", *query).deployed == ()
    assert world.running.remove("q1") == ()


def test_a_query_that_is_known_is_refused() -> None:
    running = MutableRunning()
    running.add("q", [], {})
    with pytest.raises(ValueError, match="runs already"):
        running.add("q", [], {})


def test_what_the_caller_placed_goes_there_unless_it_is_shared() -> None:
    world = wide("a", "b", "c")
    first = [vertex("x", 2, site="a", kind=SOURCE), vertex("m", 1, "x")]
    second = [vertex("x", 2, site="a", kind=SOURCE), vertex("n", 1, "x")]

    def planned(query: str, *vertices: Vertex, sharing: Sharing = Sharing.SANA) -> dict[str, str]:
        alive, placed = frozenset("abc"), {vid("m"): "c", vid("n"): "b"}
        setting = Setting(world.running, Wan(world.topology), alive, sharing, placed=placed)
        plan = share(query, vertices, setting)
        if query != "tried":
            world.running.add(query, plan.deployed, plan.placement, plan.used)
        return sites_of(plan)

    assert planned("q1", *first) == {"x": "a", "m": "c"}
    assert planned("tried", *second, sharing=Sharing.STRICT) == {"n": "b"}
    assert planned("tried", *second, sharing=Sharing.MAX_SHARE) == {"n": "c"}
    # Blind to the WAN: at the site of an input.
    assert planned("tried", *second, sharing=Sharing.NO_SHARE) == {"x": "a", "n": "a"}
    assert planned("q2", *second) == {"n": "c"}


def test_what_a_query_needs_is_known_with_what_it_reads_through_others() -> None:
    world = wide("a", "b")
    world.submit("q1", vertex("x", 2, site="a", kind=SOURCE), vertex("m", 1, "x", site="b"))
    world.submit("q2", vertex("x", 2, site="a", kind=SOURCE), vertex("m", 1, "x", site="b"), vertex("n", 1, "m"))
    assert [operator.id for operator in world.running.deployed] == [tid("q1/x"), tid("q1/m"), tid("q2/n")]
    assert world.running.needed_by("q2") == (tid("q1/x"), tid("q1/m"), tid("q2/n"))
