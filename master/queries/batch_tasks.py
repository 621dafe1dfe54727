"""The tasks that sites have to run for a batch query. Pure.

    local MAP     TABLE with a split, at the split's site
    remote MAP    TABLE with a split that only reads, at the split's site, and a REDUCE with the MAP's SQL elsewhere
    REDUCE        over the channels of all MAPs, once all of them are complete

A task that was placed stays in the assignments until the query is over, so that its channel stays readable. Its channel
is kept for every site: which of them will read it is not known before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from master.records.model import BatchQuery, BatchTask, TaskStatus
from master.records.specs import ChannelInput, TaskSpec, bound_at
from planner.graph.ids import TaskId
from planner.graph.plan import PhysicalPlan, Split, Stage, only_appends
from planner.relations.catalog import Catalog, Column, Function
from planner.sql.dialect import quoted
from planner.values.names import INPUT_VIEW
from planner.values.stages import StageKind

MAP = "map"
"""The stage in task ids of the MAPs of all stages: their splits are numbered together."""
READ = "read"
"""The stage of tasks that read a split for a MAP at another site."""


def batch_tasks(query: BatchQuery, catalog: Catalog, sites: Collection[str]) -> Iterator[tuple[str, TaskSpec]]:
    """Each task that can run now, with its site.

    Args:
        query: a batch query.
        catalog: all tables and sinks.
        sites: all there are.

    Raises:
        MasterError: the query reads a relation that the catalog does not have.
    """
    for site, task in _tasks(query, catalog, sites):
        yield site, replace(task, reuses=reuses(query))


def reuses(query: BatchQuery) -> bool:
    """Return whether rows are taken again that other queries had made or sent."""
    return query.plan.options is not None and query.plan.options.reuse


def _tasks(query: BatchQuery, catalog: Catalog, sites: Collection[str]) -> Iterator[tuple[str, TaskSpec]]:
    plan = query.plan
    readers = tuple(sorted(sites))
    for stage in plan.stages:
        if stage.kind is StageKind.TABLE:
            for number, site in enumerate(stage.pinned):
                yield site, _copy(query, (stage, number, site), catalog, readers)
    for number, (split, task) in enumerate(zip(query.plan.splits, query.batch.maps, strict=True)):
        if task.placed:
            yield from _map(query, plan.stage(split.stage), catalog, (number, split, task), readers)
    if query.batch.reduce.placed:
        yield from _ending(query, catalog)


def map_id(query: BatchQuery, number: int) -> TaskId:
    """The id of the MAP over the split with that number, among all splits of the query."""
    return TaskId(query.id, MAP, number)


def read_id(query: BatchQuery, number: int) -> TaskId:
    """The id of the task that reads the split with that number for a MAP at another site."""
    return TaskId(query.id, READ, number)


def reduce_id(query: BatchQuery) -> TaskId:
    return TaskId(query.id, query.plan.result_stage)


def source_ids(query: BatchQuery) -> frozenset[TaskId]:
    """The ids of the tasks that read splits."""
    return frozenset(
        map_id(query, number) if task.site == split.site else read_id(query, number)
        for number, (split, task) in enumerate(zip(query.plan.splits, query.batch.maps, strict=True))
        if task.placed
    )


def batch_sites(query: BatchQuery) -> frozenset[str]:
    """Sites that run a task of the query now, or hold some of its data."""
    placed = {task.site for task in (*query.batch.maps, query.batch.reduce) if task.placed}
    held = {site for stage in query.plan.stages if stage.kind is not StageKind.REDUCE for site in stage.pinned}
    return frozenset(placed | held)


def batch_results(query: BatchQuery) -> tuple[ChannelInput, ...]:
    """The results' channel; none before the REDUCE is placed."""
    if not query.batch.reduce.placed:
        return ()
    return (ChannelInput(channel=reduce_id(query), site=query.batch.reduce.site),)


def task_list(query: BatchQuery) -> Iterator[TaskStatus]:
    """Every task that can run now, before its agent has reported it."""
    plan = query.plan
    for stage in plan.stages:
        if stage.kind is StageKind.TABLE:
            yield from (
                TaskStatus(TaskId(query.id, stage.id, number), query.id, stage.id, site)
                for number, site in enumerate(stage.pinned)
            )
    for number, (split, task) in enumerate(zip(query.plan.splits, query.batch.maps, strict=True)):
        if task.placed:
            yield TaskStatus(map_id(query, number), query.id, split.stage, task.site)
            if task.site != split.site:
                yield TaskStatus(read_id(query, number), query.id, READ, split.site)
    if query.batch.reduce.placed:
        yield TaskStatus(reduce_id(query), query.id, plan.result_stage, query.batch.reduce.site)
        if plan.sink is not None:
            site = plan.sink.pinned[0]
            yield TaskStatus(TaskId(query.id, plan.sink.id), query.id, plan.sink.id, site)


def _copy(query: BatchQuery, place: tuple[Stage, int, str], catalog: Catalog, readers: tuple[str, ...]) -> TaskSpec:
    """The task that copies a joined table at one of its sites; `place` is its stage, and the site's number there."""
    stage, number, site = place
    return TaskSpec(
        task_id=TaskId(query.id, stage.id, number),
        query_id=query.id,
        stage_id=stage.id,
        kind=StageKind.TABLE,
        sql=stage.sql,
        relation=bound_at(stage.relation, catalog, site=site, query_id=query.id),
        read_columns=stage.read_columns,
        inputs=_copies(query, stage, site),
        consumers=readers,
        functions=_functions(query.plan, stage.sql),
    )


def _map(
    query: BatchQuery, stage: Stage, catalog: Catalog, placed: tuple[int, Split, BatchTask], readers: tuple[str, ...]
) -> Iterator[tuple[str, TaskSpec]]:
    number, split, task = placed
    relation = bound_at(stage.relation, catalog, site=split.site, query_id=query.id)
    part = split if split.parts else None
    identifier, copies = map_id(query, number), _copies(query, stage, split.site)
    if task.site == split.site:
        yield (
            task.site,
            TaskSpec(
                task_id=identifier,
                query_id=query.id,
                stage_id=stage.id,
                kind=StageKind.TABLE,
                sql=stage.sql,
                relation=relation,
                read_columns=stage.read_columns,
                inputs=copies,
                consumers=readers,
                functions=_functions(query.plan, stage.sql),
                split=part,
            ),
        )
        return
    reading, columns = read_id(query, number), query.plan.read_columns.get(stage.id, ())
    yield (
        split.site,
        TaskSpec(
            task_id=reading,
            query_id=query.id,
            stage_id=READ,
            kind=StageKind.TABLE,
            sql=_read_sql(columns),
            relation=relation,
            read_columns=stage.read_columns,
            consumers=(task.site,),
            split=part,
        ),
    )
    rows = ChannelInput(channel=reading, site=split.site, view=INPUT_VIEW, columns=columns)
    yield (
        task.site,
        TaskSpec(
            task_id=identifier,
            query_id=query.id,
            stage_id=stage.id,
            kind=StageKind.REDUCE,
            sql=stage.sql,
            inputs=(rows, *copies),
            consumers=readers,
            functions=_functions(query.plan, stage.sql),
        ),
    )


def _read_sql(columns: Iterable[Column]) -> str:
    return f"SELECT {', '.join(quoted(column.name) for column in columns)} FROM {INPUT_VIEW}"


def _ending(query: BatchQuery, catalog: Catalog) -> Iterator[tuple[str, TaskSpec]]:
    """The REDUCE, and the SINK that reads it."""
    plan, state = query.plan, query.batch
    stage = plan.stage(plan.result_stage)
    views = {item.stage: item.view for item in stage.inputs}
    inputs = tuple(
        ChannelInput(map_id(query, number), task.site, views[split.stage], plan.stage(split.stage).columns)
        for number, (split, task) in enumerate(zip(query.plan.splits, query.batch.maps, strict=True))
    )
    yield (
        state.reduce.site,
        TaskSpec(
            task_id=reduce_id(query),
            query_id=query.id,
            stage_id=stage.id,
            kind=StageKind.REDUCE,
            sql="" if only_appends(stage, plan.stages) else stage.sql,
            inputs=(*inputs, *_copies(query, stage, None)),
            consumers=(plan.destination.site,),
            functions=plan.functions if stage.client is not None else _functions(plan, stage.sql),
            client=stage.client,
        ),
    )
    sink = plan.sink
    if sink is not None:
        site = sink.pinned[0]
        channel = ChannelInput(reduce_id(query), state.reduce.site, INPUT_VIEW, stage.columns)
        yield (
            site,
            TaskSpec(
                task_id=TaskId(query.id, sink.id),
                query_id=query.id,
                stage_id=sink.id,
                kind=StageKind.SINK,
                sql=sink.sql,
                relation=bound_at(sink.relation, catalog, site=site, query_id=query.id),
                inputs=(channel,),
            ),
        )


def _copies(query: BatchQuery, stage: Stage, site: str | None) -> tuple[ChannelInput, ...]:
    """The copies of joined tables that a stage reads; for a join on `site`, those at the split's own site."""
    return tuple(
        ChannelInput(
            channel=TaskId(query.id, item.stage, number),
            site=producer,
            view=item.view,
            columns=query.plan.stage(item.stage).columns,
        )
        for item in stage.inputs
        if query.plan.stage(item.stage).kind is StageKind.TABLE
        for number, producer in enumerate(query.plan.stage(item.stage).pinned)
        if not item.same_site or producer == site
    )


def _functions(plan: PhysicalPlan, sql: str) -> tuple[Function, ...]:
    return tuple(f for f in plan.functions if f.versioned_name in sql)
