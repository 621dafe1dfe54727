"""Another number of parts: what a query is then, and from when on its windows are whole."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from planner.graph.ids import TaskId, VertexId
from planner.graph.plan import Destination, Merge, PhysicalPlan, Stage, StageInput
from planner.relations.catalog import Column
from planner.sharing.deployment import Deployment, alone, is_apart
from planner.sharing.modes import Sharing
from planner.sharing.running import MutableRunning, Running
from planner.sharing.scaling import (
    Scale,
    final_of,
    parts_of,
    refusal,
    scaled_deployment,
    scaled_plan,
    sites_for,
    whole_from_us,
)
from planner.values.stages import StageKind

QUERY = "q-0001-abcdef"
WINDOW = Merge("w", timedelta(seconds=10), "SELECT * FROM input")


def plan_of(parts: int) -> PhysicalPlan:
    return PhysicalPlan(
        (
            Stage("s1", StageKind.SOURCE, ("us", "eu"), "SELECT 1", relation="clicks"),
            Stage(
                "m1", StageKind.MERGE, (), "SELECT 2", inputs=(StageInput("s1", "input"),), merge=WINDOW, parts=parts
            ),
            Stage("f1", StageKind.FINAL, (), "SELECT 3", inputs=(StageInput("m1", "input"),), merge=WINDOW),
        ),
        "f1",
        Destination("us"),
        (Column("n", "BIGINT"),),
    )


def deployed(plan: PhysicalPlan) -> Deployment:
    own = alone(plan, QUERY)
    return Deployment(Sharing.NET, tuple(one.vertex for one in own), own)


def running(plan: PhysicalPlan) -> Running:
    found = MutableRunning()
    own = alone(plan, QUERY)
    found.add(QUERY, own, {one.id: one.vertex.pinned or "eu" for one in own})
    return found


@given(st.integers(1, 64), st.integers(1, 64))
def test_a_query_is_then_as_if_it_had_been_planned_with_that_many_parts(old: int, new: int) -> None:
    scaled = scaled_deployment(deployed(plan_of(old)), QUERY, "m1", ("us",) * new)
    assert scaled.deployed == alone(plan_of(new), QUERY)
    assert scaled.vertices == tuple(one.vertex for one in scaled.deployed)
    assert scaled_plan(plan_of(old), "m1", new) == plan_of(new)
    assert all(map(is_apart, scaled.deployed))
    assert scaled.wanted == {VertexId("m1", number): "us" for number in range(new)}


@given(st.integers(-(10**9), 10**9), st.integers(1, 50), st.integers(1, 20), st.integers(-3, 3), st.integers(0, 10**6))
def test_windows_to_come_are_whole(after_us: int, period_us: int, length: int, shift: int, later_us: int) -> None:
    """A window that is not closed by then begins after all of which parts may be missing."""
    length_us = period_us * length
    merge = Merge("w", timedelta(microseconds=length_us), "", slide=timedelta(microseconds=period_us))
    from_us = whole_from_us(after_us, merge)
    assert from_us % period_us == 0
    start_us = (after_us // period_us + shift) * period_us + later_us // period_us * period_us
    if start_us + length_us > from_us:
        assert start_us > after_us


def test_new_parts_go_to_the_wanted_sites_in_turn_or_stay_where_they_are() -> None:
    assert sites_for(3, ("eu", "us"), ("asia",)) == ("eu", "us", "eu")
    assert sites_for(3, (), ("asia", "us")) == ("asia", "us", "asia")
    assert sites_for(1, (), ("asia", "us")) == ("asia",)
    assert sites_for(4, (), ()) == ()
    assert len(sites_for(1 << 32, ("us",), ())) == 64


def test_parts_are_those_of_the_stage_and_their_final_reads_nothing_else() -> None:
    found = running(plan_of(3))
    parts = parts_of(QUERY, "m1", found)
    assert [one.id.partition for one in parts] == [0, 1, 2]
    final = final_of(parts, found)
    assert final is not None
    assert final.id == TaskId(QUERY, "f1")
    assert final_of(parts[:2], found) is None
    assert final_of(parts_of(QUERY, "f1", found), found) is None


def test_what_others_may_share_keeps_its_parts() -> None:
    plan = plan_of(2)
    own = tuple(replace(one, vertex=replace(one.vertex, fingerprint=f"of {one.id}")) for one in alone(plan, QUERY))
    shared = MutableRunning()
    shared.add(QUERY, own, {one.id: one.vertex.pinned or "eu" for one in own})
    refused = refusal(Scale(QUERY, plan.stage("m1"), 3, ("eu",) * 3), parts_of(QUERY, "m1", shared), shared)
    assert refused is not None
    assert "other queries may share the parts of m1" in refused[0]
    assert (
        refusal(Scale(QUERY, plan.stage("m1"), 3, ("eu",) * 3), parts_of(QUERY, "m1", running(plan)), running(plan))
        is None
    )
