"""Small values that the master's tests are built from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from contract.tasks import TaskState
from master.queries.sharing import initial_tasks
from master.queries.sharing import running_of as running_in
from master.records.model import (
    BatchQuery,
    BatchState,
    Progress,
    QueryRecord,
    QueryState,
    SiteRecord,
    SiteReport,
    StreamQuery,
    TaskStatus,
)
from planner.graph.ids import TaskId, VertexId
from planner.graph.plan import BatchPlan, Destination, Merge, PhysicalPlan, Split, Stage, StageInput
from planner.relations.catalog import Binding, Catalog, Column, Relation, RelationKind
from planner.sharing.deployment import Deployment, placed_alone, sites_of
from planner.sharing.running import Running
from planner.values.stages import StageKind
from planner.values.topology import Link, Site, Topology

START = datetime(2026, 1, 1, tzinfo=UTC)

TOPOLOGY = Topology(
    sites={name: Site(name, slots=2) for name in ("hub", "us", "eu")},
    links={("us", "hub"): Link("us", "hub", 2_500_000.0, timedelta(milliseconds=40))},
    gateway="hub",
)

CLICKS = Relation(
    name="clicks",
    kind=RelationKind.STREAM,
    columns=(Column("user_id", "BIGINT"), Column("page", "STRING"), Column("ts", "TIMESTAMP")),
    bindings=tuple(Binding(site, {"connector": "generator", "rows_per_second": "100"}) for site in ("us", "eu")),
    event_time="ts",
    watermark_delay=timedelta(seconds=5),
)

PAGES = Relation(
    name="pages",
    kind=RelationKind.TABLE,
    columns=(Column("page", "STRING"), Column("topic", "STRING")),
    bindings=(Binding("us", {"connector": "files", "path": "/data/pages", "format": "json"}),),
)

CATALOG = Catalog({"clicks": CLICKS, "pages": PAGES})

PLAN = PhysicalPlan(
    stages=(
        Stage("pages", StageKind.TABLE, ("us",), "SELECT page, topic FROM input", relation="pages"),
        Stage(
            "clicks",
            StageKind.SOURCE,
            ("us", "eu"),
            "SELECT window, topic, count(*) n FROM input JOIN t0 USING (page) GROUP BY 1, 2",
            relation="clicks",
            read_columns=("page", "ts"),
            inputs=(StageInput("pages", "t0"),),
        ),
        Stage(
            "merge",
            StageKind.MERGE,
            (),
            "SELECT topic, sum(n) n FROM input GROUP BY 1",
            inputs=(StageInput("clicks", "input"),),
            merge=Merge("window_start", timedelta(seconds=10), "SELECT * FROM input"),
        ),
    ),
    result_stage="merge",
    destination=Destination("hub"),
    columns=(Column("topic", "STRING"), Column("n", "BIGINT")),
    sites={VertexId("merge"): "eu"},
)
"""pages of us join into clicks of us and of eu, merged at eu, kept at hub."""

QUERY_ID = "q-0001-00000a"
PAGES_US = TaskId(QUERY_ID, "pages")
CLICKS_US = TaskId(QUERY_ID, "clicks")
CLICKS_EU = TaskId(QUERY_ID, "clicks", 1)
MERGE_EU = TaskId(QUERY_ID, "merge")


def task_at(query_id: str, stage: str, site: str) -> TaskId:
    """The task of a stage of PLAN at a site."""
    return TaskId(query_id, stage, PLAN.sites_of(PLAN.stage(stage)).index(site))


def placement_of(*records: QueryRecord) -> dict[TaskId, str]:
    """Where their tasks are, when nothing was moved."""
    found: dict[TaskId, str] = {}
    for record in records:
        shared = record.deployment if isinstance(record, StreamQuery) else None
        found |= placed_alone(record.plan, record.id) if shared is None else sites_of(shared, {})
    return found


def running_of(records: Sequence[QueryRecord], among: Collection[str]) -> Running:
    """As the registry has it."""
    return running_in(records, placement_of(*records), among)


def initial_progress(
    identifier: str,
    plan: PhysicalPlan = PLAN,
    deployment: Deployment | None = None,
    placement: Mapping[TaskId, str] | None = None,
) -> Progress:
    """Nothing was heard of the tasks; `placement` has those of other queries."""
    own = placed_alone(plan, identifier) if deployment is None else sites_of(deployment, {})
    return Progress(initial_tasks(identifier, plan, deployment, {**(placement or {}), **own}))


def query(identifier: str = QUERY_ID, *, state: QueryState = QueryState.DEPLOYING, name: str = "") -> StreamQuery:
    """A query over PLAN of which nothing is known yet."""
    return StreamQuery(
        id=identifier,
        name=name,
        sql="SELECT ...",
        plan=PLAN,
        state=state,
        submitted_at=START,
        ended_at=START if state.over else None,
        progress=initial_progress(identifier, PLAN),
    )


def batch_query(batch: BatchState, splits: Sequence[Split] = ()) -> BatchQuery:
    """A query over tables with these tasks."""
    plan = BatchPlan(PLAN.stages, "merge", Destination("hub"), PLAN.columns, splits=tuple(splits))
    return BatchQuery(QUERY_ID, "", "SELECT ...", plan, QueryState.DEPLOYING, START, batch=batch)


def status(task: TaskId, state: TaskState = TaskState.RUNNING, *, site: str = "", **values: object) -> TaskStatus:
    """Of a task of PLAN, or of another at that site."""
    site = site or PLAN.sites_of(PLAN.stage(task.stage))[task.partition]
    return replace(TaskStatus(task, task.query, task.stage, site, state), **values)  # type: ignore[arg-type]


def report(site: str, *tasks: TaskStatus, incarnation: str = "a", **values: object) -> SiteReport:
    return replace(SiteReport(site, f"{site}-{incarnation}", tasks=tasks), **values)  # type: ignore[arg-type]


def site_record(site: str, incarnation: str = "a") -> SiteRecord:
    return SiteRecord(site, f"{site}.example:1", f"{site}-{incarnation}", slots=2, version="0.1.0")
