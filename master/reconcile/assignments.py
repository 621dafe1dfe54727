"""Computes what each site is to run from the live queries, as a whole and at any time (level-triggered)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from contract.tasks import ReadFrom
from master.queries.batch_tasks import batch_results, batch_sites, batch_tasks
from master.queries.sharing import (
    deployed_of,
    deployment_of,
    is_task,
    readers_by_query,
    reads_of,
    result_reads,
    running_of,
    tasks_by_vertex,
)
from master.reconcile.generations import Generations
from master.records.model import BatchQuery, QueryRecord, QueryState, StreamQuery
from master.records.specs import (
    Assignment,
    ChannelInput,
    ResultsLimit,
    ResultSpec,
    TaskSpec,
    bound_at,
    relation_at,
)
from planner.graph.ids import TaskId
from planner.graph.origins import source_behind
from planner.graph.plan import Stage
from planner.handover.model import Lineage
from planner.relations.catalog import Catalog, Relation, RelationKind
from planner.relations.connectors.table import traits_of
from planner.sharing.deployment import Start
from planner.sharing.forking import own_task
from planner.sharing.running import Deployed, Running
from planner.values.stages import StageKind

_READ_FROM = {Start.HISTORY: ReadFrom.FIRST, Start.NEXT_WINDOW: ReadFrom.OLDEST}


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
    tasks: dict[str, list[TaskSpec]] = {}
    for one in sorted(running.deployed, key=lambda o: o.id.query):
        if is_task(one):
            task = _task(known[one.id.query], one, snapshot, readers.get(one.id, set()))
            task = replace(task, paused=one.id not in at_work, readers=by_query.get(one.id, ()))
            task = replace(task, epoch_interval=epoch_interval)
            query = known[one.id.query]
            for site, found in (
                *_successions(generations.tasks(task, running.site(one.id)), query, one, snapshot, generations),
                *_new_parts(task, query, one, snapshot, generations),
                *_forks(task, known, snapshot, generations, running, at_work),
            ):
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
    return readers


def _task(query: QueryRecord, one: Deployed, snapshot: AssignmentInput, readers: Collection[str]) -> TaskSpec:
    """A task as planned by the query that brought it, whichever queries need it now."""
    stage, site = query.plan.stage(one.vertex.stage), snapshot.placement[one.id]
    derived = bool(one.residual)
    relation = None if derived else bound_at(stage.relation, snapshot.catalog, site=site, query_id=query.id)
    sql = one.residual or stage.sql
    return TaskSpec(
        task_id=one.id,
        query_id=query.id,
        stage_id=stage.id,
        kind=StageKind.DERIVE if derived else stage.kind,
        sql=sql,
        relation=relation,
        read_columns=() if derived else stage.read_columns,
        inputs=_inputs(query, one, snapshot),
        merge=stage.merge,
        consumers=tuple(sorted(readers)),
        functions=tuple(f for f in query.plan.functions if f.versioned_name in sql),
    )


def _successions(
    found: Iterable[tuple[str, TaskSpec]],
    query: QueryRecord,
    one: Deployed,
    snapshot: AssignmentInput,
    generations: Generations,
) -> Iterator[tuple[str, TaskSpec]]:
    """The tasks in a place, each with its site; those that begin late read from the middle of their inputs."""
    for site, task in found:
        if task.take_over is None or not task.take_over.late:
            yield site, task
        else:
            yield site, replace(task, inputs=generations.named(_inputs(query, one, snapshot, late=True)))


def _new_parts(
    first: TaskSpec, query: QueryRecord, one: Deployed, snapshot: AssignmentInput, generations: Generations
) -> Iterator[tuple[str, TaskSpec]]:
    """The tasks that begin in the middle of the inputs of a merge beside its parts, given the first of these, each with
    its site."""
    found = tuple(generations.new_parts(first.task_id))
    stage = replace(query.plan.stage(first.stage_id), parts=len(found)) if found else None
    for name, site, reader in found:
        assert stage is not None
        late = generations.named(_inputs(query, one, snapshot, late=True))
        inputs = tuple(_with_bins_of(item, stage, name.partition) for item in late)
        yield site, replace(first, task_id=name, inputs=inputs, consumers=(reader,), readers=())


def _forks(  # noqa: PLR0913 - the task, and all that it is computed from
    shared: TaskSpec,
    known: Mapping[str, QueryRecord],
    snapshot: AssignmentInput,
    generations: Generations,
    running: Running,
    at_work: Collection[TaskId],
) -> Iterator[tuple[str, TaskSpec]]:
    """Yield the task of a query that goes on with one of its own, given the one that it shares, with its site."""
    for fork, take_over, readers in generations.forks(shared.task_id):
        query = known[fork.query]
        deployment = deployment_of(query)
        own = own_task(deployment, query.id, shared.task_id, running) if deployment is not None else None
        if own is None:
            continue
        sites = {site for reader in readers for site in generations.reading_sites(reader)}
        placed = replace(snapshot, placement={**snapshot.placement, own.id: fork.site})
        task = _task(query, own, placed, sites)
        inputs = generations.named(_inputs(query, own, placed, late=take_over.late))
        yield (
            fork.site,
            replace(
                task,
                task_id=fork.task,
                inputs=inputs,
                paused=not any(reader in at_work for reader in readers),
                epoch_interval=shared.epoch_interval,
                take_over=take_over,
            ),
        )


def pushed_streams(catalog: Catalog, site: str) -> tuple[Relation, ...]:
    """Streams whose rows clients push to the site's agent, by name; each with that site's binding only."""
    return tuple(
        relation_at(relation, site)
        for _, relation in sorted(catalog.relations.items())
        if relation.kind is RelationKind.STREAM
        and any(b.site == site and traits_of(b.options).has_log for b in relation.bindings)
    )


def _inputs(
    query: QueryRecord, one: Deployed, snapshot: AssignmentInput, *, late: bool = False
) -> tuple[ChannelInput, ...]:
    """The channels that a task reads; if it begins `late`, from the oldest epoch that there is."""
    inputs = []
    for read in reads_of(query, one, snapshot.placement):
        stage = query.plan.stage(read.item.stage)
        source = source_behind(stage, query.plan.stages)
        read_from, delay = _read_from(query, read.channel, source, snapshot.catalog)
        if late:
            read_from = ReadFrom.OLDEST
        if late or query.plan.stage(one.vertex.stage).kind is StageKind.COMBINE:
            # It tells from it when all rows of a window have come, before the watermark does.
            delay = _event_delay(source, snapshot.catalog)
        # The channel of another query has the columns of that query's stage; its epochs carry their schema.
        columns = () if one.residual else stage.columns
        channel = ChannelInput(read.channel, read.site, read.item.view, columns, read_from, delay)
        inputs.append(_with_bins(channel, query.plan.stage(one.vertex.stage), one))
    return tuple(inputs)


def _with_bins(channel: ChannelInput, stage: Stage, one: Deployed) -> ChannelInput:
    """The input with the bins that a part of a MERGE reads of it; what is derived from such a part has them already."""
    return channel if one.residual else _with_bins_of(channel, stage, one.vertex.id.partition)


def _with_bins_of(channel: ChannelInput, stage: Stage, partition: int) -> ChannelInput:
    bins = stage.bins(partition) if stage.waits_for(channel.view) else None
    return replace(channel, first_bin=bins.start if bins else 0, bins=len(bins) if bins else 0)


def _read_from(query: QueryRecord, channel: TaskId, stage: Stage, catalog: Catalog) -> tuple[ReadFrom, timedelta]:
    """The epoch at which the query may begin to read the channel, and how late its rows may be."""
    if begins_at_zero(query, channel):
        return ReadFrom.OWN, timedelta(0)
    start = _READ_FROM[_start_of(query)]
    return start, _event_delay(stage, catalog) if start is ReadFrom.OLDEST else timedelta(0)


def begins_at_zero(query: QueryRecord, channel: TaskId) -> bool:
    """Whether the query itself starts the channel, at epoch 0; another query's channel may have started long before."""
    # A derived channel begins where the channel from which it is derived begins.
    return channel.query == query.id and (_start_of(query) is Start.HISTORY or not channel.derived)


def _start_of(query: QueryRecord) -> Start:
    deployment = deployment_of(query)
    return deployment.start if deployment is not None else Start.HISTORY


def _event_delay(stage: Stage, catalog: Catalog) -> timedelta:
    relation = catalog.find(stage.relation) if stage.relation is not None else None
    return relation.watermark_delay if relation is not None else timedelta(0)


def _results_of(query: QueryRecord, snapshot: AssignmentInput) -> ResultSpec:
    if isinstance(query, BatchQuery):
        return ResultSpec(query.id, batch_results(query))
    inputs = []
    for channel, site, stage in result_reads(query, snapshot.placement):
        lineage = snapshot.lineages.get(channel)
        origin = channel if lineage is None else lineage.origin
        read_from, delay = _read_from(query, origin, query.plan.stage(stage), snapshot.catalog)
        inputs.append(ChannelInput(channel, site, read_from=read_from, event_delay=delay))
    return ResultSpec(query.id, tuple(inputs))
