"""The specs of a query's tasks: what each runs, which channels it reads, and from which epoch on. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from contract.tasks import ReadFrom
from master.queries.sharing import deployment_of, reads_of
from master.records.model import QueryRecord
from master.records.specs import ChannelInput, TaskSpec, bound_at
from planner.graph.ids import TaskId
from planner.graph.origins import source_behind
from planner.graph.plan import Stage
from planner.relations.catalog import Catalog
from planner.sharing.deployment import Start
from planner.sharing.running import Deployed
from planner.values.stages import StageKind

_READ_FROM = {Start.HISTORY: ReadFrom.FIRST, Start.NEXT_WINDOW: ReadFrom.OLDEST}


@dataclass(frozen=True, slots=True)
class Placed:
    """The sites of tasks, and the relations that they read."""

    placement: Mapping[TaskId, str]
    catalog: Catalog

    def at(self, sites: Mapping[TaskId, str]) -> Placed:
        """Return the same with other sites of these tasks."""
        return replace(self, placement={**self.placement, **sites})


def task_spec(query: QueryRecord, one: Deployed, placed: Placed, readers: Collection[str]) -> TaskSpec:
    """A task as planned by the query that brought it, whichever queries need it now."""
    stage, site = query.plan.stage(one.vertex.stage), placed.placement[one.id]
    derived = bool(one.residual)
    relation = None if derived else bound_at(stage.relation, placed.catalog, site=site, query_id=query.id)
    sql = one.residual or stage.sql
    return TaskSpec(
        task_id=one.id,
        query_id=query.id,
        stage_id=stage.id,
        kind=StageKind.DERIVE if derived else stage.kind,
        sql=sql,
        relation=relation,
        read_columns=() if derived else stage.read_columns,
        inputs=inputs_of(query, one, placed),
        merge=stage.merge,
        consumers=tuple(sorted(readers)),
        functions=tuple(f for f in query.plan.functions if f.versioned_name in sql),
        degrading=query.plan.degrading if stage.kind is StageKind.SOURCE and not derived else None,
    )


def inputs_of(query: QueryRecord, one: Deployed, placed: Placed, *, late: bool = False) -> tuple[ChannelInput, ...]:
    """The channels that a task reads; if it begins `late`, from the oldest epoch that there is."""
    inputs = []
    for read in reads_of(query, one, placed.placement):
        stage = query.plan.stage(read.item.stage)
        source = source_behind(stage, query.plan.stages)
        read_from, delay = read_from_of(query, read.channel, source, placed.catalog)
        if late:
            read_from = ReadFrom.OLDEST
        if late or query.plan.stage(one.vertex.stage).kind is StageKind.COMBINE:
            # It tells from it when all rows of a window have come, before the watermark does.
            delay = _event_delay(source, placed.catalog)
        # The channel of another query has the columns of that query's stage; its epochs carry their schema.
        columns = () if one.residual else stage.columns
        behind = read.item.behind
        channel = ChannelInput(read.channel, read.site, read.item.view, columns, read_from, delay, behind=behind)
        inputs.append(_with_bins(channel, query.plan.stage(one.vertex.stage), one))
    return tuple(inputs)


def _with_bins(channel: ChannelInput, stage: Stage, one: Deployed) -> ChannelInput:
    """The input with the bins that a part of a MERGE reads of it; what is derived from such a part has them already."""
    return channel if one.residual else with_bins_of(channel, stage, one.vertex.id.partition)


def with_bins_of(channel: ChannelInput, stage: Stage, partition: int) -> ChannelInput:
    """The input with the bins of it that a part of a stage reads."""
    bins = stage.bins(partition) if stage.waits_for(channel.view) else None
    return replace(channel, first_bin=bins.start if bins else 0, bins=len(bins) if bins else 0)


def read_from_of(query: QueryRecord, channel: TaskId, stage: Stage, catalog: Catalog) -> tuple[ReadFrom, timedelta]:
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
