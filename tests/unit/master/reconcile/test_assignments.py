"""Assignments follow from queries, catalog and addresses, and from nothing else."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from master.base.errors import MasterError
from master.convert.assignments import assignment_to_proto
from master.reconcile.assignments import AssignmentInput, build_assignments, result_channels, task_sites
from master.records.model import QueryRecord, QueryState
from master.records.specs import Assignment, ChannelInput, ResultsLimit, VersionedAssignment
from planner.graph.ids import TaskId, VertexId
from planner.graph.plan import StageInput
from planner.relations.catalog import Binding, Catalog
from planner.values.stages import StageKind
from selat.v1 import site_pb2
from tests.fakes.assignments import assignment_from_proto
from tests.unit.master.build import (
    CATALOG,
    CLICKS_EU,
    CLICKS_US,
    MERGE_EU,
    PAGES_US,
    PLAN,
    QUERY_ID,
    START,
    placement_of,
    query,
)

ADDRESSES = {"us": "us.example:1", "hub": "hub.example:1"}
RETENTION = timedelta(hours=24)


def built(*queries: QueryRecord, catalog: Catalog = CATALOG, after: timedelta = timedelta(0)) -> dict[str, Assignment]:
    snapshot = AssignmentInput(queries, placement_of(*queries), catalog, ("us", "hub", "eu"), ADDRESSES, START + after)
    return build_assignments(snapshot, epoch_interval=timedelta(seconds=1), results_retention=RETENTION)


def test_every_site_has_one_even_with_nothing_to_do() -> None:
    assignments = built()
    assert sorted(assignments) == ["eu", "hub", "us"]
    assert assignments["eu"] == Assignment(site_addresses=ADDRESSES)


def test_tasks_are_where_the_plan_places_them() -> None:
    assignments = built(query())
    assert [t.task_id for t in assignments["us"].tasks] == [PAGES_US, CLICKS_US]
    assert [t.task_id for t in assignments["eu"].tasks] == [CLICKS_EU, MERGE_EU]
    assert assignments["hub"].tasks == ()
    assert [t.kind for t in assignments["eu"].tasks] == [StageKind.SOURCE, StageKind.MERGE]


def test_consumers_are_the_sites_of_the_readers_and_the_gateway_for_results() -> None:
    assignments = built(query())
    tasks = {t.task_id: t for a in assignments.values() for t in a.tasks}
    assert tasks[PAGES_US].consumers == ("eu", "us")
    assert tasks[CLICKS_US].consumers == ("eu",)
    assert tasks[CLICKS_EU].consumers == ("eu",)
    assert tasks[MERGE_EU].consumers == ("hub",)


def test_inputs_name_every_producer() -> None:
    merge = built(query())["eu"].tasks[1]
    assert merge.inputs == (ChannelInput(CLICKS_US, "us", "input"), ChannelInput(CLICKS_EU, "eu", "input"))


def test_a_join_on_the_site_reads_the_own_sites_table_only() -> None:
    pages = replace(CATALOG.relations["pages"], bindings=CATALOG.relations["clicks"].bindings)
    catalog = Catalog({**CATALOG.relations, "pages": pages})
    table = replace(PLAN.stage("pages"), pinned=("us", "eu"))
    source = replace(PLAN.stage("clicks"), inputs=(StageInput("pages", "t0", same_site=True),))
    plan = replace(PLAN, stages=(table, source, PLAN.stage("merge")))
    tasks = {t.task_id: t for a in built(replace(query(), plan=plan), catalog=catalog).values() for t in a.tasks}
    assert tasks[CLICKS_US].inputs == (ChannelInput(PAGES_US, "us", "t0"),)
    assert tasks[PAGES_US].consumers == ("us",)
    assert tasks[TaskId(QUERY_ID, "pages", 1)].consumers == ("eu",)


def test_a_source_gets_its_relation_with_its_own_binding() -> None:
    source = built(query())["eu"].tasks[0]
    assert source.relation is not None
    assert [b.site for b in source.relation.bindings] == ["eu"]
    assert source.read_columns == ("page", "ts")


def test_the_gateway_keeps_the_result_channels() -> None:
    results = built(query())["hub"].results
    assert [r.query_id for r in results] == [QUERY_ID]
    assert results[0].inputs == (ChannelInput(MERGE_EU, "eu"),)
    assert result_channels(query()) == (MERGE_EU,)


@pytest.mark.parametrize("state", [s for s in QueryState if not s.held])
def test_a_query_that_is_not_held_has_no_tasks_but_keeps_its_results(state: QueryState) -> None:
    assignments = built(query(state=state))
    assert all(a.tasks == () for a in assignments.values())
    assert [r.query_id for r in assignments["hub"].results] == [QUERY_ID]


def test_results_go_when_their_retention_ends() -> None:
    over = query(state=QueryState.FINISHED)
    assert built(over, after=RETENTION - timedelta(microseconds=1))["hub"].results
    assert built(over, after=RETENTION)["hub"].results == ()
    assert built(query(), after=RETENTION * 2)["hub"].results


def test_results_of_a_query_that_lives_are_limited_and_what_is_there_at_its_end_is_not() -> None:
    limit = ResultsLimit(1000, timedelta(hours=1))
    for state, expected in ((QueryState.RUNNING, limit), (QueryState.PAUSED, limit), (QueryState.FINISHED, None)):
        snapshot = AssignmentInput(
            (query(state=state),), placement_of(query()), CATALOG, ("us", "hub", "eu"), ADDRESSES, START
        )
        assignments = build_assignments(
            snapshot, epoch_interval=timedelta(seconds=1), results_retention=RETENTION, live_results=limit
        )
        (kept,) = assignments["hub"].results
        assert kept.limit == expected
        message = assignment_to_proto(VersionedAssignment(1, assignments["hub"]), cluster_id="c")
        assert assignment_from_proto(message).assignment.results == (kept,)


def test_the_order_of_queries_does_not_matter() -> None:
    first, second = query(), query("q-0002-00000b")
    assert built(first, second) == built(second, first)


def test_a_live_query_over_a_lost_relation_is_a_defect_that_is_named() -> None:
    with pytest.raises(MasterError) as caught:
        built(query(), catalog=Catalog())
    assert caught.value.ids["query"] == QUERY_ID


def test_task_sites_include_the_gateway() -> None:
    assert task_sites(query(), placement_of(query())) == {"us", "eu", "hub"}


def test_pushed_streams_are_given_to_their_sites_whether_a_query_reads_them_or_not() -> None:
    clicks = CATALOG.relations["clicks"]
    pushed = replace(
        clicks, bindings=(Binding("us", {"connector": "push"}), Binding("eu", {"connector": "files", "path": "/x"}))
    )
    table = replace(CATALOG.relations["pages"], bindings=(Binding("us", {"connector": "push"}),))
    assignments = built(catalog=Catalog({"clicks": pushed, "pages": table}))
    assert assignments["us"].streams == (replace(pushed, bindings=pushed.bindings[:1]),)
    assert assignments["eu"].streams == assignments["hub"].streams == ()


def test_parts_of_a_merge_read_their_bins_of_what_waits_and_all_of_tables_copies() -> None:
    merge = replace(PLAN.stage("merge"), parts=2, inputs=(StageInput("clicks", "input"), StageInput("pages", "t1")))
    sites = {VertexId("merge", 0): "eu", VertexId("merge", 1): "us"}
    plan = replace(PLAN, stages=(PLAN.stage("pages"), PLAN.stage("clicks"), merge), sites=sites)
    assignments = built(replace(query(), plan=plan))
    parts = [task for site in ("eu", "us") for task in assignments[site].tasks if task.stage_id == "merge"]
    assert [part.task_id for part in parts] == [TaskId(QUERY_ID, "merge", number) for number in range(2)]
    for number, part in enumerate(parts):
        read = {(i.channel, i.view): (i.first_bin, i.bins) for i in part.inputs}
        bins = (32 * number, 32)
        assert read == {(CLICKS_US, "input"): bins, (CLICKS_EU, "input"): bins, (PAGES_US, "t1"): (0, 0)}
    assert [(i.channel, i.site) for i in assignments["hub"].results[0].inputs] == [
        (parts[0].task_id, "eu"),
        (parts[1].task_id, "us"),
    ]
    assert next(t for t in assignments["us"].tasks if t.task_id == CLICKS_US).consumers == ("eu", "us")


def test_an_agent_that_knows_no_bins_is_not_given_a_part_as_a_merge() -> None:
    merge = replace(PLAN.stage("merge"), parts=2)
    sites = {VertexId("merge", number): "eu" for number in range(2)}
    plan = replace(PLAN, stages=(PLAN.stage("pages"), PLAN.stage("clicks"), merge), sites=sites)
    given = built(replace(query(), plan=plan))["eu"]
    message = assignment_to_proto(VersionedAssignment(7, given), cluster_id="c")
    kinds = {task.task_id: task.kind for task in message.tasks}
    assert {kind for task, kind in kinds.items() if ".merge." in task} == {site_pb2.STAGE_KIND_MERGE_PART}
    assert assignment_from_proto(message).assignment == given
