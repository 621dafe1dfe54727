"""One query goes on with a task of its own in the place of one that it shares: what it runs then."""

from __future__ import annotations

from dataclasses import replace

from planner.sharing.deployment import Deployment, is_apart, sites_of
from planner.sharing.forking import forked, own_task
from planner.sharing.vertices import VertexKind
from tests.unit.planner.sharing.names import tid, vid
from tests.unit.planner.sharing.world import COUNTS, HAVING, ROWS, World

SHARED = tid("q-0/m1")


def two_alike() -> World:
    world = World()
    world.submit(COUNTS)
    world.submit(COUNTS)
    return world


def with_own(world: World) -> Deployment:
    """Return what the second query runs with a merge of its own at ap."""
    deployment = world.deployments["q-1"]
    own = own_task(deployment, "q-1", SHARED, world.running)
    assert own is not None
    return forked(deployment, SHARED, own, "ap")


def test_the_query_runs_a_merge_of_its_own_over_the_same_sources() -> None:
    world = two_alike()
    made = with_own(world)
    merge, results = made.deployed
    assert (merge.id, merge.vertex.kind, results.inputs) == (tid("q-1/m1"), VertexKind.MERGE, (merge.id,))
    assert merge.inputs == world.running.task(SHARED).inputs
    assert set(made.stands) == {vid("s1.p0"), vid("s1.p1"), vid("s1.p2")}
    assert sites_of(made, {})[merge.id] == "ap"
    assert "was shared before" in made.notes[vid("m1")]


def test_what_runs_is_whole_with_it_and_nobody_shares_it() -> None:
    world = two_alike()
    made = with_own(world)
    world.running.remove("q-1")
    world.running.add("q-1", made.deployed, sites_of(made, {}), made.used)
    assert is_apart(world.running.task(tid("q-1/m1")))
    assert world.submit(COUNTS).used == (SHARED,)


def test_a_query_that_is_over_leaves_the_sources_that_another_ones_own_merge_reads() -> None:
    world = two_alike()
    made = with_own(world)
    world.running.remove("q-1")
    world.running.add("q-1", made.deployed, sites_of(made, {}), made.used)
    world.running.remove("q-0")
    assert {one.id for one in world.running.deployed} >= set(made.used)
    assert SHARED not in world.running.placement


def test_a_derived_task_is_made_again_of_what_the_shared_one_is_made_of() -> None:
    world = World()
    world.submit(ROWS)
    derived = "SELECT k FROM s WHERE v > 5 AND k < 3"
    world.describe(ROWS)
    first = world.submit(derived)
    shared = [one for one in first.deployed if one.residual]
    assert shared
    second = world.submit(derived)
    for one in shared:
        own = own_task(second, "q-2", one.id, world.running)
        assert own is not None
        assert (own.id.derived, own.inputs, own.residual) == (True, one.inputs, one.residual)


def test_it_needs_a_vertex_for_which_the_task_stands_and_the_same_inputs() -> None:
    world = two_alike()
    world.submit(HAVING)
    assert own_task(world.deployments["q-2"], "q-2", SHARED, world.running) is None
    alike = world.deployments["q-1"]
    results = next(one for one in alike.deployed if one.vertex.kind is VertexKind.RESULTS)
    twin = replace(next(one for one in alike.vertices if one.id == vid("m1")), id=vid("m2"))
    twice = replace(alike, vertices=(*alike.vertices, twin), stands={**alike.stands, twin.id: SHARED})
    assert own_task(twice, "q-1", SHARED, world.running) is None
    assert own_task(replace(alike, vertices=(results.vertex,)), "q-1", SHARED, world.running) is None
