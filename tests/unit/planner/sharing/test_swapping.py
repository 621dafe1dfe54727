"""Plans that differ in their COMBINEs alone are told apart, and when the merge behind these is whole."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from planner.graph.ids import TaskId, VertexId
from planner.graph.plan import Destination, Merge, PhysicalPlan, Stage, StageInput, Totals
from planner.sharing.deployment import Deployment
from planner.sharing.modes import Sharing
from planner.sharing.swapping import (
    Recombine,
    combines_of,
    merge_stage,
    refusal,
    sources_read,
    swapped_from_us,
    told,
)
from planner.values.stages import StageKind

S = 1_000_000
TUMBLING = Merge("w", timedelta(seconds=10), "")
SOURCE = Stage("s1", StageKind.SOURCE, ("a", "b"), "SELECT 1", relation="clicks")


def plan(*stages: Stage, reads: str) -> PhysicalPlan:
    merge = Stage("m1", StageKind.MERGE, (), "SELECT 2", inputs=(StageInput(reads, "input"),), merge=TUMBLING)
    sites = {VertexId("m1"): "b"}
    return PhysicalPlan((SOURCE, *stages, merge), "m1", Destination("hub"), (), sites)


def combine(name: str, sites: tuple[str, ...], *reads: str, source: bool = True) -> Stage:
    own = (StageInput("s1", "input", same_site=True),) if source else ()
    inputs = (*own, *(StageInput(read, "input") for read in reads))
    return Stage(name, StageKind.COMBINE, sites, name, inputs=inputs, merge=TUMBLING)


WRITTEN = plan(reads="s1")
FLAT = plan(combine("c1", ("a", "b")), reads="c1")
TREE = plan(combine("c1", ("a",)), combine("c2", ("b",), "c1"), reads="c2")


def asked(running: PhysicalPlan, wanted: PhysicalPlan, deployment: Deployment | None = None) -> Recombine:
    return Recombine("q", running, wanted, "b", deployment)


def test_who_combines_and_what_each_reads_of_the_sources() -> None:
    assert [one.id.stage for one in combines_of(TREE, "q")] == ["c1", "c2"]
    read = sources_read(TREE, "q")
    assert read == {TaskId("q", "c1"): (TaskId("q", "s1", 0),), TaskId("q", "c2"): (TaskId("q", "s1", 1),)}
    assert told(TREE) == "c1 at a; c2 at b"
    assert combines_of(WRITTEN, "q") == ()


def test_the_merge_is_the_one_that_reads_them() -> None:
    assert merge_stage(WRITTEN) is None
    found = merge_stage(TREE)
    assert found is not None
    assert found.id == "m1"


@pytest.mark.parametrize(("running", "wanted"), [(WRITTEN, FLAT), (FLAT, TREE), (TREE, FLAT)])
def test_other_combines_over_the_same_sources_are_accepted(running: PhysicalPlan, wanted: PhysicalPlan) -> None:
    assert refusal(asked(running, wanted)) is None
    other = replace(wanted, stages=(replace(SOURCE, pinned=("a", "b", "c")), *wanted.stages[1:]))
    found = refusal(asked(running, other))
    assert found is not None
    assert "planned in another way today" in found[0]


def test_tasks_that_others_may_share_stay() -> None:
    found = refusal(asked(WRITTEN, FLAT, Deployment(Sharing.SANA, (), ())))
    assert found == ("query q may share its tasks", "submit the query with SET sharing = 'net'")


def test_totals_are_made_of_rows_from_before_the_new_combines() -> None:
    totals = replace(TUMBLING, totals=Totals(("k",), ("k",)))
    wanted = replace(FLAT, stages=(*FLAT.stages[:-1], replace(FLAT.stages[-1], merge=totals)))
    found = refusal(asked(WRITTEN, wanted))
    assert found == (
        "what m1 adds up may be of rows that came long before other sites combine",
        "submit the query anew",
    )


def test_windows_that_overlap_have_to_begin_where_panes_are_whole() -> None:
    assert swapped_from_us(20 * S - 1, TUMBLING) == 20 * S - 1
    sliding = Merge("w", timedelta(seconds=30), "", timedelta(seconds=10), panes=True)
    assert swapped_from_us(20 * S - 1, sliding) == 50 * S
