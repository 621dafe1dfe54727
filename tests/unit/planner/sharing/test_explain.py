from __future__ import annotations

from planner.estimate.rates import task_rates
from planner.graph.plan import Statistics
from planner.sharing.explain import sharing_notes
from planner.sharing.modes import Sharing
from planner.sharing.plans import Action, Setting, SharingPlan
from planner.sharing.running import MutableRunning
from planner.sharing.schedule import deploy, share
from planner.sharing.wan import Wan
from tests.unit.planner.build import draft_of, topology_of
from tests.unit.planner.sharing.build import CATALOG, vertices
from tests.unit.planner.sharing.graphs import World, vertex
from tests.unit.planner.sharing.names import tid, vid

COUNTS = "SELECT k, w, count(*) AS n FROM s GROUP BY window(ts, '10 seconds'), k, w"


def plan_of(
    sql: str, *others: str, sharing: Sharing = Sharing.SANA, spare: dict[tuple[str, str], float] | None = None
) -> SharingPlan:
    """A query of SQL beside others of SQL."""
    running = MutableRunning()
    topology = topology_of("us", "eu", "ap")
    for number, text in enumerate((*others, sql)):
        draft = draft_of(text, CATALOG)
        query = tuple(vertices(draft, rates=task_rates(draft, Statistics())).values())
        last = number == len(others)
        wan = Wan(topology, spare if last and spare else {})
        plan = share(f"q{number}", query, Setting(running, wan, frozenset(topology.sites), sharing))
        if not last:
            deploy(plan, running)
    return plan


def lines_of(plan: SharingPlan) -> tuple[str, ...]:
    """As EXPLAIN shows them."""
    return tuple(f"  {line}" for note in sharing_notes(plan).values() for line in note.splitlines())


def test_the_same_query_again_deploys_nothing() -> None:
    plan = plan_of(COUNTS, COUNTS.replace("AS n", "AS other"))
    assert plan.deployed == ()
    assert lines_of(plan) == (
        "  s1.p0 at ap: shared with q0 (q0.s1.p0): the same inputs and function as q0.s1.p0",
        "  s1.p1 at eu: shared with q0 (q0.s1.p1): the same inputs and function as q0.s1.p1",
        "  s1.p2 at us: shared with q0 (q0.s1.p2): the same inputs and function as q0.s1.p2",
        "  m1.p0 at ap: shared with q0 (q0.m1.p0): the same inputs and function as q0.m1.p0",
    )


def test_a_part_of_a_running_query_adds_only_the_rest() -> None:
    plan = plan_of(f"{COUNTS} HAVING count(*) > 5", COUNTS)
    decision = plan.decision(vid("m1"))
    # The groups are at the gateway already, as the other's results.
    assert (decision.action, decision.site, decision.query) == (Action.CONTAINED, "us", "q0")
    assert [operator.vertex.id for operator in plan.deployed] == [vid("m1"), vid("results")]
    assert plan.deployed[0].residual == (
        "SELECT `input`.`k` AS k, `input`.`w` AS w, `input`.`n` AS n FROM input WHERE (5 < `input`.`n`)"
    )
    assert plan.wan_bytes_per_s == 0
    line = "  m1.p0 at us: made of the output of q0 (q0.m1.p0): part of what q0.m1.p0 sends, which us receives: HAVING"
    assert line in lines_of(plan)
    assert plan.used == (tid("q0/m1"),)


def test_fewer_sites_share_the_sources_and_the_place_of_the_merge() -> None:
    plan = plan_of(COUNTS.replace("FROM s", "FROM s WHERE site <> 'ap'"), COUNTS)
    actions = [decision.action for decision in plan.decisions]
    assert actions == [Action.SHARED, Action.SHARED, Action.CO_LOCATED, Action.PINNED]
    assert [line for line in lines_of(plan) if "m1.p0 at ap: shares inputs with q0 (q0.m1.p0)" in line]


def test_why_not() -> None:
    full = {("ap", other): 0.0 for other in ("us", "eu")}
    lines = lines_of(plan_of(COUNTS.replace("FROM s", "FROM s WHERE site <> 'eu'"), COUNTS, spare=full))
    # The merge goes to ap all the same, whose links are too full to send anything; the other's rows of ap are there.
    assert any(
        line.startswith("  m1.p0 at ap: not shared, sharing would contend for links; least cost") for line in lines
    )
    assert "  s1.p0: not needed, nothing reads it: all that would is shared, or has it from another" in lines
    assert any(line.startswith("    not with q0.s1.p0, its output: ap has no room to send") for line in lines)
    other = lines_of(plan_of("SELECT k FROM o", COUNTS))
    assert (
        "  s1.p1 at us: not shared, nothing that runs does the same, or reads the same elsewhere; "
        "where its data or its readers are" in other
    )
    off = lines_of(plan_of(COUNTS, COUNTS, sharing=Sharing.NET))
    assert any("not shared, nothing is shared in the mode net" in line for line in off)


def test_what_else_a_merge_could_have_gone_beside_is_said_with_the_numbers() -> None:
    world = World(topology_of("a", "b", "c", "d"), {})
    for site in "bcd":
        world.submit(f"q-{site}", vertex("x", 1, site="a"), vertex(f"m-{site}", 1, "x", site=site))
    world.spare = {("d", other): 0.0 for other in "abc"}
    plan = world.plan("new", vertex("x", 1, site="a"), vertex("n", 0.5, "x"))
    lines = lines_of(plan)
    assert (
        "  n.p0 at b: shares inputs with q-b (q-b.m-b.p0): q-b.m-b.p0 receives 1000000 bytes/s of its inputs there"
        in lines
    )
    assert "    as well with q-c.m-c.p0, its inputs: 1000000 bytes/s of its inputs at c" in lines
    assert "    not with q-d.m-d.p0, its inputs: d has no room to send 500000 bytes/s, 0 bytes/s are spare" in lines
