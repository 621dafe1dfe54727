"""Running queries as the graphs that adaptation is decided on."""

from __future__ import annotations

from dataclasses import replace

from master.adaptation.graphs import graph_of
from master.records.model import QueryState
from planner.adapt.model import Role
from planner.graph.ids import TaskId
from planner.sharing.vertices import RESULTS, VertexKind
from planner.values.names import BINS
from tests.unit.master.build import PLAN, query, running_of
from tests.unit.master.queries.test_sharing import FIRST, SECOND, two


def test_sources_stay_merges_may_move_and_results_are_one_reader() -> None:
    record = replace(query(FIRST), state=QueryState.RUNNING)
    graph = graph_of(record, running_of([record], {FIRST}))
    roles = {node.id.stage: (node.role, node.combined, node.partials, node.most) for node in graph.nodes}
    merge = roles["merge"]
    assert roles["clicks"] == (Role.SOURCE, False, False, 1)
    assert "pages" not in roles, "a table is sent once"
    assert all(not node.inputs for node in graph.nodes if node.role is Role.SOURCE)
    assert (merge[0], merge[1], merge[3]) == (Role.OPERATOR, True, 1)
    assert graph.nodes[-1].id == TaskId(FIRST, RESULTS)
    assert graph.nodes[-1].role is Role.SINK
    assert {node.site for node in graph.nodes if node.id.stage == "clicks"} == {"us", "eu"}


def test_a_merge_in_parts_may_have_as_many_as_there_are_bins() -> None:
    stages = tuple(replace(s, parts=2) if s.id == "merge" else s for s in PLAN.stages)
    record = replace(query(FIRST), state=QueryState.RUNNING)
    running = running_of([record], {FIRST})
    graph = graph_of(replace(record, plan=replace(PLAN, stages=stages)), running)
    assert graph.tasks((FIRST, "merge"))[0].most == BINS


def test_a_merge_of_streams_alone_can_begin_without_its_state() -> None:
    record = replace(query(FIRST), state=QueryState.RUNNING)
    running = running_of([record], {FIRST})
    (merge,) = graph_of(record, running).tasks((FIRST, "merge"))
    table = any(running.task(name).vertex.kind is VertexKind.TABLE for name in running.task(merge.id).inputs)
    window = PLAN.stage("merge").merge
    assert window is not None
    assert merge.late_s == (None if table else window.window.total_seconds())
    assert all(node.late_s is None for node in graph_of(record, running).nodes if node.id != merge.id)


def test_tasks_of_other_queries_are_in_it_and_stay_theirs() -> None:
    first, second = two()
    graph = graph_of(second, running_of([first, second], {FIRST, SECOND}))
    assert {node.id.query for node in graph.nodes if node.role is Role.SOURCE} == {FIRST}
    assert {node.id.query for node in graph.nodes if node.role is not Role.SOURCE} == {SECOND}
