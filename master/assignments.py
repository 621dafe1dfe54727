"""What each site is to run, computed whole from the live queries: level-triggered, to be computed again at any time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from master.batch.tasks import batch_results, batch_sites, batch_tasks
from master.model import QueryRecord, task_id
from master.specs import Assignment, ChannelInput, ResultSpec, TaskSpec, bound_at, relation_at
from planner.catalog import Catalog, Relation, RelationKind
from planner.plan import PhysicalPlan, Stage, StageInput

PUSH_CONNECTOR = "push"


@dataclass(frozen=True, slots=True)
class AssignmentInput:
    """The snapshot that assignments follow from."""

    queries: Sequence[QueryRecord]
    catalog: Catalog
    sites: Collection[str]
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
            for site, task in _tasks_of(query, snapshot):
                tasks.setdefault(site, []).append(replace(task, epoch_interval=epoch_interval))
        kept = _results_of(query)
        if kept.inputs and keeps_results(query, now=snapshot.now, retention=results_retention):
            results.setdefault(query.plan.gateway, []).append(kept)
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


def task_sites(query: QueryRecord) -> frozenset[str]:
    """Sites that run a task of the query or keep its results."""
    sites = stage_sites(query.plan) if query.batch is None else batch_sites(query)
    return sites | {query.plan.gateway}


def stage_sites(plan: PhysicalPlan) -> frozenset[str]:
    """Sites that run a task of the plan."""
    return frozenset(site for stage in plan.stages for site in stage.sites)


def _tasks_of(query: QueryRecord, snapshot: AssignmentInput) -> Iterable[tuple[str, TaskSpec]]:
    if query.batch is not None:
        yield from batch_tasks(query, snapshot.catalog, snapshot.sites)
        return
    catalog = snapshot.catalog
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
                    relation=bound_at(stage.relation, catalog, site=site, query_id=query.id),
                    read_columns=stage.read_columns,
                    inputs=_inputs(query, stage, site=site),
                    merge=stage.merge,
                    consumers=_consumers(query.plan, stage, site=site),
                    functions=tuple(f for f in query.plan.functions if f.versioned_name in stage.sql),
                ),
            )


def pushed_streams(catalog: Catalog, site: str) -> tuple[Relation, ...]:
    """Streams whose rows clients push to the site's agent, in order of name; each with that binding only."""
    return tuple(
        relation_at(relation, site)
        for _, relation in sorted(catalog.relations.items())
        if relation.kind is RelationKind.STREAM
        and any(b.site == site and b.options.get("connector") == PUSH_CONNECTOR for b in relation.bindings)
    )


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
    if query.batch is not None:
        return ResultSpec(query_id=query.id, inputs=batch_results(query))
    inputs = tuple(
        ChannelInput(channel=task_id(query.id, stage_id, site), site=site)
        for stage_id in query.plan.result_stages
        for site in query.plan.stage(stage_id).sites
    )
    return ResultSpec(query_id=query.id, inputs=inputs)
