"""Of which operators the output counts as measured, and that decisions go by it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from contract.tasks import TaskState
from master.queries.flows import measured_rates
from master.records.model import QueryRecord, QueryState, StreamQuery
from planner.graph.ids import TaskId, VertexId
from planner.graph.plan import PhysicalPlan
from planner.sharing.deployment import deployment_of, told_apart
from planner.sharing.modes import Sharing
from planner.sharing.plans import Action, Setting, SharingPlan
from planner.sharing.running import MutableRunning, Running, as_measured
from planner.sharing.schedule import share
from planner.sharing.vertices import vertices_of
from planner.sharing.wan import Wan
from planner.values.topology import Link, Topology
from tests.unit.master.build import (
    CLICKS,
    PAGES,
    PLAN,
    START,
    TOPOLOGY,
    initial_progress,
    placement_of,
    query,
    running_of,
    status,
    task_at,
)

OWNER, OTHER = "q-0001-a", "q-0002-b"
NAMES = ("hub", "us", "eu")
LINK_BYTES_PER_S = 1000.0
TOWARDS = Topology(
    sites=TOPOLOGY.sites,
    links={(a, b): Link(a, b, LINK_BYTES_PER_S, timedelta(milliseconds=40)) for a in NAMES for b in NAMES if a != b},
    gateway="hub",
)
RELATIONS = {"clicks": CLICKS, "pages": PAGES}
ESTIMATES = {("clicks", "us"): 100.0, ("clicks", "eu"): 100.0, ("merge", ""): 10.0}
OTHER_MERGE = replace(PLAN.stage("merge"), sql="SELECT topic, max(n) n FROM input GROUP BY 1")
OTHER_PLAN = replace(PLAN, stages=(*PLAN.stages[:2], OTHER_MERGE))
LATER = START + timedelta(minutes=2)


def planned(plan: PhysicalPlan, identifier: str, running: Running) -> SharingPlan:
    """As the master does it, by what was measured."""
    vertices = told_apart(vertices_of(plan, RELATIONS, ESTIMATES, owner=identifier, gateway="hub"), identifier)
    setting = Setting(running, Wan(TOWARDS), frozenset(NAMES), Sharing.SANA)
    return share(identifier, as_measured(vertices, running), setting)


def running_query(plan: PhysicalPlan = PLAN, identifier: str = OWNER) -> StreamQuery:
    vertices = told_apart(vertices_of(plan, RELATIONS, ESTIMATES, owner=identifier, gateway="hub"), identifier)
    deployment = deployment_of(planned(plan, identifier, MutableRunning()), vertices, MutableRunning())
    record = replace(query(identifier, state=QueryState.RUNNING), plan=plan, started_at=START, deployment=deployment)
    return replace(record, progress=initial_progress(identifier, plan, deployment))


def reported(record: StreamQuery, stage: str, site: str, **values: object) -> StreamQuery:
    told = status(task_at(OWNER, stage, site), **values)  # type: ignore[arg-type]
    assert told.task_id in record.progress.tasks
    progress = replace(record.progress, tasks={**record.progress.tasks, told.task_id: told})
    return replace(record, progress=progress)


def rates_of(*records: QueryRecord, after: timedelta = LATER - START) -> dict[TaskId, float]:
    running = running_of(records, {record.id for record in records if record.state.live})
    return measured_rates(running, {record.id: record for record in records}, START + after)


def measured(*records: QueryRecord) -> Running:
    running = running_of(records, {record.id for record in records if record.state.live})
    return running.measured(measured_rates(running, {record.id: record for record in records}, LATER))


def test_what_agents_said_of_sources_counts_once_the_query_has_run_for_a_while() -> None:
    record = reported(running_query(), "clicks", "us", bytes_out_per_s=700.0)
    assert rates_of(record) == {TaskId(OWNER, "clicks"): 700.0}
    assert rates_of(record, after=timedelta(seconds=9)) == {}
    assert rates_of(replace(record, started_at=None)) == {}


@pytest.mark.parametrize(
    "values",
    [{"bytes_out_per_s": 0.0}, {"state": TaskState.STARTING, "bytes_out_per_s": 5.0}],
    ids=["nothing", "early"],
)
def test_what_is_no_measurement(values: dict[str, object]) -> None:
    assert rates_of(reported(running_query(), "clicks", "us", **values)) == {}


def test_a_table_counts_nothing_for_it_is_sent_once() -> None:
    assert rates_of(reported(running_query(), "pages", "us", bytes_out_per_s=5.0)) == {}


@pytest.mark.parametrize(
    ("window", "age", "wanted"),
    [
        (timedelta(seconds=10), timedelta(seconds=19), None),
        (timedelta(seconds=10), timedelta(seconds=20), 7.0),
        (timedelta(minutes=1), timedelta(minutes=2), 5.0),
        (timedelta(hours=1), timedelta(hours=1), None),
        (timedelta(hours=1), timedelta(hours=2), 600 / 7200),
    ],
)
def test_a_merge_of_long_windows_counts_from_the_beginning(
    window: timedelta, age: timedelta, wanted: float | None
) -> None:
    merge = PLAN.stage("merge")
    assert merge.merge is not None
    plan = replace(PLAN, stages=(*PLAN.stages[:2], replace(merge, merge=replace(merge.merge, window=window))))
    record = running_query(plan)
    site = record.deployment.wanted[VertexId("merge")] if record.deployment is not None else ""
    record = reported(record, "merge", site, bytes_out_per_s=7.0, bytes_out=600)
    assert rates_of(record, after=age).get(TaskId(OWNER, "merge")) == wanted


def test_a_shared_task_is_measured_when_the_query_that_brought_it_is_over() -> None:
    owner = running_query()
    other = planned(OTHER_PLAN, OTHER, running_of([owner], {OWNER}))
    vertices = told_apart(vertices_of(OTHER_PLAN, RELATIONS, ESTIMATES, owner=OTHER, gateway="hub"), OTHER)
    deployment = deployment_of(other, vertices, running_of([owner], {OWNER}))
    sharer = replace(query(OTHER, state=QueryState.RUNNING), plan=OTHER_PLAN, started_at=START, deployment=deployment)
    sharer = replace(sharer, progress=initial_progress(OTHER, OTHER_PLAN, deployment, placement_of(owner)))
    sharer = reported(sharer, "clicks", "us", bytes_out_per_s=300.0)
    stale = reported(owner, "clicks", "us", bytes_out_per_s=9.0)
    over = replace(stale, state=QueryState.CANCELLED, ended_at=LATER)
    assert rates_of(over, sharer)[TaskId(OWNER, "clicks")] == 300.0


@pytest.mark.parametrize(("rate", "shared"), [(99.0, True), (1900.0, False)])
def test_a_source_that_sends_more_than_was_expected_is_not_shared_where_links_have_no_room(
    rate: float, shared: bool
) -> None:
    """Its site's two links have 2000 bytes/s to spare; a second reader of 1900 bytes/s would double what it sends."""
    record = running_query()
    by_estimate = planned(OTHER_PLAN, OTHER, measured(record))
    assert by_estimate.decision(VertexId("clicks")).action is Action.SHARED
    record = reported(record, "clicks", "us", bytes_out_per_s=rate)
    decision = planned(OTHER_PLAN, OTHER, measured(record)).decision(VertexId("clicks"))
    assert (decision.action is Action.SHARED) == shared
    if not shared:
        (turned_down,) = decision.rejected
        assert turned_down.obstacle == "us has no room to send 3800 bytes/s, 2000 bytes/s are spare"


def test_what_is_decided_stays_and_what_is_added_counts_as_measured() -> None:
    record = reported(running_query(), "clicks", "us", bytes_out_per_s=300.0)
    before = running_of([record], {OWNER})
    running = measured(record)
    assert [(o.id, o.inputs) for o in running.deployed] == [(o.id, o.inputs) for o in before.deployed]
    assert running.placement == before.placement
    plan = planned(OTHER_PLAN, OTHER, running)
    assert plan.used == (TaskId(OWNER, "clicks"), TaskId(OWNER, "clicks", 1))
    assert plan.decision(VertexId("merge")).action is Action.CO_LOCATED
    # IN: what it shares is what flows.
    shared = 100.0 + 300.0
    assert f"receives {shared:.0f} bytes/s of its inputs" in plan.decision(VertexId("merge")).reason
