"""Computes what each site is to run from the live queries, as a whole and at any time (level-triggered)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from master.queries.batch_tasks import batch_results, batch_sites, batch_tasks, reuses
from master.queries.sharing import (
    deployed_of,
    deployment_of,
    is_task,
    readers_by_query,
    result_reads,
    running_of,
    tasks_by_vertex,
)
from master.reconcile.beside import Beside
from master.reconcile.generations import Generations
from master.reconcile.inputs import Placed, read_from_of, task_spec
from master.records.model import BatchQuery, QueryRecord, QueryState, StreamQuery
from master.records.specs import (
    Assignment,
    ChannelInput,
    ResultsLimit,
    ResultSpec,
    TaskSpec,
    relation_at,
)
from planner.graph.ids import TaskId
from planner.handover.model import Lineage
from planner.relations.catalog import Catalog, Relation, RelationKind
from planner.relations.connectors.table import traits_of
from planner.sharing.running import Running
from planner.values.stages import StageKind


@dataclass(frozen=True, slots=True)
class AssignmentInput:
    """The snapshot from which assignments are computed."""

    queries: Sequence[QueryRecord]
    placement: Mapping[TaskId, str]
    catalog: Catalog
    sites: Collection[str]
    site_addresses: Mapping[str, str]
    now: datetime
    held_back: frozenset[str] = frozenset()
    """Queries whose tasks are paused because they have no slots.

    Tasks are kept even of a new query: some may have started while one of its sites was unreachable.
    """
    lineages: Mapping[TaskId, Lineage] = field(default_factory=dict)
    """It holds, by place, the tasks where there was more than one or a handover is under way."""


def build_assignments(
    snapshot: AssignmentInput,
    *,
    epoch_interval: timedelta,
    results_retention: timedelta,
    live_results: ResultsLimit | None = None,
) -> dict[str, Assignment]:
    """Every site's assignment; equal snapshots give equal assignments.

    Args:
        snapshot: everything that is to run.
        epoch_interval: the time between two looks of a task for input.
        results_retention: the time for which results are kept after a query's end.
        live_results: the limit on kept results of streaming queries that are not over; None: no limit.

    Raises:
        MasterError: a live query reads a relation that the catalog does not have.
    """
    known = {query.id: query for query in snapshot.queries}
    given = frozenset(q.id for q in snapshot.queries if q.state.live and q.id not in snapshot.held_back)
    # A query without slots is paused: it must not read again what it has read.
    waiting = (q.id for q in snapshot.queries if q.state.live and q.id in snapshot.held_back)
    kept = frozenset((*waiting, *(q.id for q in snapshot.queries if q.state is QueryState.PAUSED)))
    running = running_of(snapshot.queries, snapshot.placement, given | kept)
    at_work = {name for query in given & running.queries for name in running.needed_by(query)}
    generations = Generations(snapshot.lineages, running)
    readers = _readers(running, generations)
    by_query = readers_by_query(running, always=generations.shadowed, reader_of=generations.reader)
    placed = Placed(snapshot.placement, snapshot.catalog)
    beside = Beside(known, placed, generations, running, at_work)
    tasks: dict[str, list[TaskSpec]] = {}
    for one in sorted(running.deployed, key=lambda o: o.id.query):
        if is_task(one):
            task = task_spec(known[one.id.query], one, placed, readers.get(one.id, set()))
            task = replace(task, paused=one.id not in at_work, readers=by_query.get(one.id, ()))
            task = replace(task, epoch_interval=epoch_interval)
            for site, found in beside.all(task, one):
                tasks.setdefault(site, []).append(found)
    results: dict[str, list[ResultSpec]] = {}
    for query in sorted(snapshot.queries, key=lambda q: q.id):
        if isinstance(query, BatchQuery) and query.id in given:
            for site, task in batch_tasks(query, snapshot.catalog, snapshot.sites):
                tasks.setdefault(site, []).append(replace(task, epoch_interval=epoch_interval))
        spec = generations.results(_results_of(query, snapshot))
        if spec.inputs and keeps_results(query, now=snapshot.now, retention=results_retention):
            # A batch query delivers all its rows at once, when it ends.
            limited = isinstance(query, StreamQuery) and not query.state.over
            spec = replace(spec, limit=live_results if limited else None)
            results.setdefault(query.plan.destination.site, []).append(spec)
    addresses = dict(sorted(snapshot.site_addresses.items()))
    return {
        site: Assignment(
            tuple(tasks.get(site, ())), tuple(results.get(site, ())), addresses, pushed_streams(snapshot.catalog, site)
        )
        for site in sorted(snapshot.sites)
    }


def keeps_results(query: QueryRecord, *, now: datetime, retention: timedelta) -> bool:
    """Whether the gateway keeps the query's results now; those of an INSERT are in the sink."""
    if query.plan.sink is not None:
        return False
    return query.ended_at is None or now < query.ended_at + retention


def result_channels(query: QueryRecord) -> tuple[TaskId, ...]:
    """The channels whose rows are the query's results."""
    if isinstance(query, BatchQuery):
        return tuple(item.channel for item in batch_results(query))
    return tuple(channel for one in deployed_of(query) if not is_task(one) for channel in one.inputs)


def task_sites(query: QueryRecord, placement: Mapping[TaskId, str]) -> frozenset[str]:
    """Sites that run a task of the query, hold data of it, or keep its results."""
    sites = batch_sites(query) if isinstance(query, BatchQuery) else stage_sites(query, placement)
    return sites | {query.plan.destination.site}


def stage_sites(query: QueryRecord, placement: Mapping[TaskId, str]) -> frozenset[str]:
    """Sites that hold data of the query, or run a task for one of its stages, even a task of another query."""
    # A COMBINE may have moved.
    pinned = {site for stage in query.plan.stages if stage.kind is not StageKind.COMBINE for site in stage.pinned}
    tasks = tasks_by_vertex(query.id, query.plan, deployment_of(query)).values()
    return frozenset(pinned | {placement[task] for task in tasks})


def _readers(running: Running, generations: Generations) -> dict[TaskId, set[str]]:
    """The sites that read each task's channel."""
    readers: dict[TaskId, set[str]] = {}
    for one in running.deployed:
        for name in one.inputs:
            readers.setdefault(name, set()).update(generations.reading_sites(one.id))
    for name, site in generations.reads_beside():
        readers.setdefault(name, set()).add(site)
    return readers


def pushed_streams(catalog: Catalog, site: str) -> tuple[Relation, ...]:
    """Streams whose rows clients push to the site's agent, by name; each with that site's binding only."""
    return tuple(
        relation_at(relation, site)
        for _, relation in sorted(catalog.relations.items())
        if relation.kind is RelationKind.STREAM
        and any(b.site == site and traits_of(b.options).has_log for b in relation.bindings)
    )


def _results_of(query: QueryRecord, snapshot: AssignmentInput) -> ResultSpec:
    if isinstance(query, BatchQuery):
        return ResultSpec(query.id, batch_results(query), reuses=reuses(query))
    inputs = []
    for channel, site, stage in result_reads(query, snapshot.placement):
        lineage = snapshot.lineages.get(channel)
        origin = channel if lineage is None else lineage.origin
        read_from, delay = read_from_of(query, origin, query.plan.stage(stage), snapshot.catalog)
        inputs.append(ChannelInput(channel, site, read_from=read_from, event_delay=delay))
    return ResultSpec(query.id, tuple(inputs))
