"""What each site is to run, computed whole from the live queries: level-triggered, to be computed again at any time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from master.errors import MasterError
from master.model import QueryRecord, task_id
from planner.catalog import Catalog, Column, Function, Relation, RelationKind
from planner.plan import Merge, PhysicalPlan, Stage, StageInput, StageKind

PUSH_CONNECTOR = "push"


@dataclass(frozen=True, slots=True)
class ChannelInput:
    channel: str
    site: str
    """The site that produces it."""
    view: str = ""
    columns: tuple[Column, ...] = ()
    """What it carries, so that a channel without rows has a schema all the same."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One stage at one site."""

    task_id: str
    query_id: str
    stage_id: str
    kind: StageKind
    sql: str
    relation: Relation | None = None
    """What to read, or for a SINK to write into; its only binding is the task's site."""
    read_columns: tuple[str, ...] = ()
    inputs: tuple[ChannelInput, ...] = ()
    merge: Merge | None = None
    consumers: tuple[str, ...] = ()
    """Sites whose routers read the output, in order of name."""
    epoch_interval: timedelta = timedelta(seconds=1)
    functions: tuple[Function, ...] = ()
    """Python functions that the SQL calls, by their versions."""


@dataclass(frozen=True, slots=True)
class ResultSpec:
    """Channels that the site keeps for clients."""

    query_id: str
    inputs: tuple[ChannelInput, ...] = ()


@dataclass(frozen=True, slots=True)
class Assignment:
    """Everything one site has to do."""

    tasks: tuple[TaskSpec, ...] = ()
    results: tuple[ResultSpec, ...] = ()
    site_addresses: Mapping[str, str] = field(default_factory=dict)
    streams: tuple[Relation, ...] = ()
    """Streams that clients push to at the site, read or not; the only binding is the site's."""


@dataclass(frozen=True, slots=True)
class AssignmentInput:
    """The snapshot that assignments follow from."""

    queries: Sequence[QueryRecord]
    catalog: Catalog
    sites: Iterable[str]
    site_addresses: Mapping[str, str]
    now: datetime
    held_back: frozenset[str] = frozenset()
    """Queries whose tasks are not given out yet, because they have no slots."""


def build_assignments(
    snapshot: AssignmentInput, *, epoch_interval: timedelta, results_retention: timedelta
) -> dict[str, Assignment]:
    """Every site's assignment; equal snapshots give equal ones.

    Raises:
        MasterError: a live query reads a relation that the catalog does not have.
    """
    tasks: dict[str, list[TaskSpec]] = {}
    results: dict[str, list[ResultSpec]] = {}
    for query in sorted(snapshot.queries, key=lambda q: q.id):
        if query.state.live and query.id not in snapshot.held_back:
            for site, task in _tasks_of(query, snapshot.catalog):
                tasks.setdefault(site, []).append(replace(task, epoch_interval=epoch_interval))
        if keeps_results(query, now=snapshot.now, retention=results_retention):
            results.setdefault(query.plan.gateway, []).append(_results_of(query))
    addresses = dict(sorted(snapshot.site_addresses.items()))
    return {
        site: Assignment(
            tuple(tasks.get(site, ())), tuple(results.get(site, ())), addresses, pushed_streams(snapshot.catalog, site)
        )
        for site in sorted(snapshot.sites)
    }


def keeps_results(query: QueryRecord, *, now: datetime, retention: timedelta) -> bool:
    """Whether the gateway is to keep the query's results now; those of an INSERT are in the sink."""
    if query.plan.sink is not None:
        return False
    return query.ended_at is None or now < query.ended_at + retention


def result_channels(query: QueryRecord) -> tuple[str, ...]:
    return tuple(item.channel for item in _results_of(query).inputs)


def task_sites(plan: PhysicalPlan) -> frozenset[str]:
    """Sites that run a task of the plan or keep its results."""
    return stage_sites(plan) | {plan.gateway}


def stage_sites(plan: PhysicalPlan) -> frozenset[str]:
    """Sites that run a task of the plan."""
    return frozenset(site for stage in plan.stages for site in stage.sites)


def _tasks_of(query: QueryRecord, catalog: Catalog) -> Iterable[tuple[str, TaskSpec]]:
    for stage in query.plan.stages:
        for site in stage.sites:
            yield (
                site,
                TaskSpec(
                    task_id=task_id(query.id, stage.id, site),
                    query_id=query.id,
                    stage_id=stage.id,
                    kind=stage.kind,
                    sql=stage.sql,
                    relation=_bound_at(stage, catalog, site=site, query_id=query.id),
                    read_columns=stage.read_columns,
                    inputs=_inputs(query, stage, site=site),
                    merge=stage.merge,
                    consumers=_consumers(query.plan, stage, site=site),
                    functions=tuple(f for f in query.plan.functions if f.versioned_name in stage.sql),
                ),
            )


def _bound_at(stage: Stage, catalog: Catalog, *, site: str, query_id: str) -> Relation | None:
    if stage.relation is None:
        return None
    relation = catalog.find(stage.relation)
    if relation is None or site not in relation.sites:
        raise MasterError(
            f"query {query_id} reads {stage.relation} at {site}, which the catalog does not have",
            ids={"query": query_id, "relation": stage.relation, "site": site},
        )
    return _at(relation, site)


def pushed_streams(catalog: Catalog, site: str) -> tuple[Relation, ...]:
    """Streams whose rows clients push to the site's agent, in order of name; each with that binding only."""
    return tuple(
        _at(relation, site)
        for _, relation in sorted(catalog.relations.items())
        if relation.kind is RelationKind.STREAM
        and any(b.site == site and b.options.get("connector") == PUSH_CONNECTOR for b in relation.bindings)
    )


def _at(relation: Relation, site: str) -> Relation:
    return replace(relation, bindings=tuple(b for b in relation.bindings if b.site == site))


def _inputs(query: QueryRecord, stage: Stage, *, site: str) -> tuple[ChannelInput, ...]:
    return tuple(
        ChannelInput(
            channel=task_id(query.id, item.stage, producer),
            site=producer,
            view=item.view,
            columns=query.plan.stage(item.stage).columns,
        )
        for item in stage.inputs
        for producer in _producers(query.plan, item, site=site)
    )


def _producers(plan: PhysicalPlan, item: StageInput, *, site: str) -> tuple[str, ...]:
    """Sites whose tasks of the input's stage a task at that site reads."""
    sites = plan.stage(item.stage).sites
    return tuple(s for s in sites if s == site) if item.same_site else sites


def _consumers(plan: PhysicalPlan, stage: Stage, *, site: str) -> tuple[str, ...]:
    readers = {
        reader_site
        for reader in plan.stages
        for item in reader.inputs
        if item.stage == stage.id
        for reader_site in reader.sites
        if site in _producers(plan, item, site=reader_site)
    }
    if stage.id in plan.result_stages:
        readers.add(plan.gateway)
    return tuple(sorted(readers))


def _results_of(query: QueryRecord) -> ResultSpec:
    inputs = tuple(
        ChannelInput(channel=task_id(query.id, stage_id, site), site=site)
        for stage_id in query.plan.result_stages
        for site in query.plan.stage(stage_id).sites
    )
    return ResultSpec(query_id=query.id, inputs=inputs)
