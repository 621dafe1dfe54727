"""What a sharing plan comes to for a query, and how operators that are out of reach are taken back."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from planner.plan import DraftPlan
from planner.sharing.deployment import Deployment, Start, deployment_json, deployment_lines, deployment_of, taken_back
from planner.sharing.deployment import told_apart as told
from planner.sharing.modes import Sharing
from planner.sharing.running import Running, operator_id, query_of
from planner.sharing.schedule import Setting, share
from planner.sharing.vertices import Vertex, VertexKind
from planner.sharing.wan import Wan
from tests.unit.planner.build import draft_of, topology_of
from tests.unit.planner.sharing.build import CATALOG, vertices

SITES = ("us", "eu", "ap")
TOPOLOGY = topology_of(*SITES, links={(a, b): (1e9, 10) for a in SITES for b in SITES if a != b})

COUNTS = "SELECT window(ts, '10 seconds') AS win, k, count(*) AS n FROM s GROUP BY k, window(ts, '10 seconds')"
HAVING = f"{COUNTS} HAVING count(*) > 3"
RENAMED = "SELECT window(ts, '10 seconds') AS win, k, count(*) AS hits FROM s GROUP BY k, window(ts, '10 seconds')"
OTHER = "SELECT k, v FROM f WHERE v > 5"
ROWS = "SELECT k, v FROM s WHERE v > 5"
SWAPPED = "SELECT v AS k, k AS v FROM s WHERE v > 5"
JOINED = "SELECT s.k, t.name FROM s JOIN t ON s.k = t.k"
QUERIES = (COUNTS, HAVING, RENAMED, OTHER, ROWS, SWAPPED, JOINED)


class World:
    """Queries that come one after the other."""

    def __init__(self) -> None:
        self.running = Running()
        self.deployments: dict[str, Deployment] = {}

    def submit(self, sql: str | DraftPlan, *, mode: Sharing = Sharing.SANA, start: Start = Start.HISTORY) -> Deployment:
        query = f"q-{len(self.deployments)}"
        made = self.plan(query, sql, mode, start)
        self.running.add(query, made.operators, made.used)
        self.deployments[query] = made
        return made

    def plan(self, query: str, sql: str | DraftPlan, mode: Sharing, start: Start) -> Deployment:
        asked = told(tuple(vertices(sql, owner=query).values()), query)
        setting = Setting(self.running, Wan(TOPOLOGY), frozenset(SITES), mode, placed={"m1": "eu"}, containment=False)
        return deployment_of(share(query, asked, setting), asked, self.running, start=start)


def kinds(deployment: Deployment) -> list[VertexKind]:
    return [operator.vertex.kind for operator in deployment.operators]


def test_the_same_query_again_runs_nothing_but_its_results() -> None:
    world = World()
    world.submit(COUNTS)
    second = world.submit(COUNTS)
    assert kinds(second) == [VertexKind.RESULTS]
    assert second.used == ("q-0/m1",)
    assert set(second.stands) == {"s1@us", "s1@eu", "s1@ap", "m1"}


def test_another_having_shares_the_sources_only() -> None:
    world = World()
    world.submit(COUNTS)
    second = world.submit(HAVING)
    assert kinds(second) == [VertexKind.MERGE, VertexKind.RESULTS]
    assert second.used == ("q-0/s1@ap", "q-0/s1@eu", "q-0/s1@us")


def test_what_has_other_names_is_not_read_in_its_place() -> None:
    world = World()
    world.submit(COUNTS)
    assert "m1" not in world.submit(RENAMED).stands
    world.submit(ROWS)
    # The same columns under each other's names: equal but for that.
    assert not world.submit(SWAPPED).stands


def test_without_sharing_nothing_is_taken_or_given() -> None:
    for mode in (Sharing.NO_SHARE, Sharing.NET):
        world = World()
        world.submit(COUNTS)
        assert not world.submit(COUNTS, mode=mode).used
        world = World()
        world.submit(COUNTS, mode=mode)
        assert not world.submit(COUNTS).used


def test_who_began_in_the_middle_is_not_shared_with() -> None:
    world = World()
    world.submit(COUNTS)
    world.submit(HAVING, start=Start.NEXT_WINDOW)
    assert world.submit(HAVING).used == ("q-0/s1@ap", "q-0/s1@eu", "q-0/s1@us")


def test_results_are_shared_only_where_a_gateway_keeps_all_of_them() -> None:
    world = World()
    first = world.submit(HAVING)
    results = [operator for operator in first.operators if operator.vertex.kind is VertexKind.RESULTS]
    world.running.remove("q-0")
    # As when its results go into a sink: nobody keeps what was sent before.
    world.running.add("q-0", [operator for operator in first.operators if operator not in results], ())
    second = world.submit(HAVING)
    assert kinds(second) == [VertexKind.MERGE, VertexKind.RESULTS]
    assert "no gateway keeps all" in second.notes["m1"]


def test_words_name_the_query_for_each_operator() -> None:
    world = World()
    world.submit(COUNTS)
    second = world.submit(HAVING)
    lines = deployment_lines(second)
    assert lines[0].startswith("Sharing (sana): ")
    assert "  s1@us at us: shared with q-0 (q-0/s1@us): the same inputs and function as q-0/s1@us" in lines
    assert not any("results" in line for line in lines)
    told = {operator["operator"]: operator for operator in deployment_json(second)["operators"]}
    assert (told["s1@us"]["query"], told["s1@us"]["runs"]) == ("q-0", False)
    assert (told["m1"]["query"], told["m1"]["runs"]) == (None, True)


def test_one_that_is_taken_back_leaves_the_others_shared() -> None:
    world = World()
    world.submit(COUNTS)
    second = taken_back(world.submit(HAVING), "q-1", {"q-0/s1@eu"}, why="it is gone")
    assert second.used == ("q-0/s1@ap", "q-0/s1@us")
    merge = next(operator for operator in second.operators if operator.vertex.id == "m1")
    assert set(merge.inputs) == {"q-1/s1@eu", "q-0/s1@ap", "q-0/s1@us"}
    assert second.notes["s1@eu"] == "s1@eu at eu: not shared with q-0/s1@eu, it is gone"
    assert taken_back(second, "q-1", {"q-0/s1@eu"}, why="") == second


def test_what_is_shared_counts_with_what_it_really_reads() -> None:
    world = World()
    world.submit(COUNTS)
    second = taken_back(world.submit(HAVING), "q-1", {"q-0/s1@eu"}, why="it is gone")
    world.running.remove("q-1")
    world.running.add("q-1", second.operators, second.used)
    third = world.submit(HAVING)
    assert third.used == ("q-1/m1",)
    assert third.stands == {"s1@us": "q-0/s1@us", "s1@eu": "q-1/s1@eu", "s1@ap": "q-0/s1@ap", "m1": "q-1/m1"}


@given(before=st.lists(st.sampled_from(QUERIES), max_size=4), sql=st.sampled_from(QUERIES), data=st.data())
def test_whatever_is_taken_back_all_inputs_are_there(before: Sequence[str], sql: str, data: st.DataObject) -> None:
    world = World()
    for earlier in before:
        world.submit(earlier)
    query = f"q-{len(before)}"
    deployment = world.plan(query, sql, Sharing.SANA, Start.HISTORY)
    while deployment.used:
        check(deployment, query, world.running)
        late = data.draw(st.sets(st.sampled_from(deployment.used), min_size=1))
        deployment = taken_back(deployment, query, late, why="it is gone")
        assert not late & set(deployment.used)
    check(deployment, query, world.running)
    alone = World().plan(query, sql, Sharing.SANA, Start.HISTORY)
    assert {o.id: set(o.inputs) for o in deployment.operators} == {o.id: set(o.inputs) for o in alone.operators}


def check(deployment: Deployment, query: str, running: Running) -> None:
    """Each operator reads one supplier for each of its vertex's inputs, which runs or comes before it."""
    seen: set[str] = set()
    by_vertex: dict[str, Vertex] = {vertex.id: vertex for vertex in deployment.vertices}
    for operator in deployment.operators:
        assert operator.vertex == by_vertex[operator.vertex.id]
        for own, name in zip(operator.vertex.inputs, operator.inputs, strict=True):
            if query_of(name) == query:
                assert name == operator_id(query, own)
                assert name in seen
            else:
                assert running.operator(name).vertex.fingerprint == by_vertex[own].fingerprint
                assert deployment.sites[name] == running.operator(name).site
        seen.add(operator.id)


def test_drafts_are_planned_alike() -> None:
    assert World().submit(draft_of(COUNTS, CATALOG)) == World().submit(COUNTS)
