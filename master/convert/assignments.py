"""Converts assignments to messages."""

from __future__ import annotations

from datetime import timedelta

from contract.client_plans import plan_to_proto
from contract.splits import parts_from_proto, split_to_proto
from contract.tasks import READ_FROM, STAGE_KINDS
from contract.times import duration_us
from master.convert.functions import function_to_proto
from master.convert.relations import column_to_proto, relation_to_proto
from master.records.specs import ChannelInput, HandOver, ResultsLimit, TakeOver, TaskSpec, VersionedAssignment
from planner.graph.ids import TaskId
from planner.graph.plan import Merge, Neighbours, Pairs, Sessions, Split, Totals
from planner.values.adapting import Degrade, Degrading
from planner.values.names import WINDOW_END
from planner.values.pairs import PairSide
from planner.values.stages import StageKind
from selat.v1 import site_pb2

_MILLISECOND = timedelta(milliseconds=1)


def assignment_to_proto(current: VersionedAssignment, *, cluster_id: str) -> site_pb2.Assignment:
    assignment = current.assignment
    return site_pb2.Assignment(
        cluster_id=cluster_id,
        version=current.version,
        tasks=[_task_to_proto(t) for t in assignment.tasks],
        results=[
            site_pb2.ResultSpec(
                query_id=r.query_id,
                inputs=[_input_to_proto(i) for i in r.inputs],
                limit=_limit_to_proto(r.limit),
                reuses=r.reuses,
            )
            for r in assignment.results
        ],
        site_addresses=assignment.site_addresses,
        streams=[relation_to_proto(r) for r in assignment.streams],
    )


def _limit_to_proto(limit: ResultsLimit | None) -> site_pb2.ResultsLimit | None:
    return site_pb2.ResultsLimit(bytes=limit.size_bytes, age_ms=limit.age // _MILLISECOND) if limit else None


def _task_to_proto(task: TaskSpec) -> site_pb2.TaskSpec:
    return site_pb2.TaskSpec(
        task_id=str(task.task_id),
        query_id=task.query_id,
        stage_id=task.stage_id,
        kind=_kind_to_proto(task),
        sql=task.sql,
        relation=relation_to_proto(task.relation) if task.relation else None,
        read_columns=task.read_columns,
        inputs=[_input_to_proto(i) for i in task.inputs],
        merge=_merge_to_proto(task.merge) if task.merge else None,
        consumers=task.consumers,
        epoch_interval_ms=task.epoch_interval // _MILLISECOND,
        functions=[function_to_proto(f) for f in task.functions],
        split=split_to_proto(task.split) if task.split else None,
        paused=task.paused,
        beside=task.beside,
        client_plan=plan_to_proto(task.client) if task.client else None,
        degrade=_degrade_to_proto(task.degrading) if task.degrading else None,
        reuses=task.reuses,
        readers=[
            site_pb2.QueryReaders(
                query_id=q.query_id,
                readers=[site_pb2.ChannelReader(site=r.site, reader=r.reader) for r in q.readers],
            )
            for q in task.readers
        ],
        hand_over=_hand_over_to_proto(task.hand_over) if task.hand_over else None,
        take_over=_take_over_to_proto(task, task.take_over) if task.take_over else None,
    )


def _degrade_to_proto(allowed: Degrading) -> site_pb2.Degrade:
    return site_pb2.Degrade(samples=allowed.how is Degrade.SAMPLE, after_ms=allowed.after // _MILLISECOND)


def _hand_over_to_proto(order: HandOver) -> site_pb2.HandOver:
    seed = None
    if order.seed is not None:
        seed = site_pb2.Seed(channel=seed_channel(order.successor), first_epochs=order.seed)
    fork = None
    if order.fork is not None:
        fork = site_pb2.Fork(query_id=order.fork.query, channel=str(order.fork.task), site=order.fork.site)
    join = None
    if (other := order.join) is not None:
        join = site_pb2.Join(channel=str(other.channel), site=other.site, first_epoch=other.from_epoch)
    return site_pb2.HandOver(
        successor_channel=str(order.successor),
        successor_site=order.site,
        seed=seed,
        cut=order.cut,
        fork=fork,
        join=join,
    )


def _take_over_to_proto(task: TaskSpec, order: TakeOver) -> site_pb2.TakeOver:
    return site_pb2.TakeOver(
        kind=_own_kind_to_proto(task),
        predecessor_channel=str(order.predecessor),
        predecessor_site=order.site,
        seed_channel=seed_channel(task.task_id) if order.seeded else "",
        late=order.late,
        renumbers=order.renumbers,
    )


def seed_channel(successor: TaskId) -> str:
    """The channel in which a successor gets its predecessor's checkpoint."""
    return f"{successor}.seed"


def _kind_to_proto(task: TaskSpec) -> site_pb2.StageKind.ValueType:
    return site_pb2.STAGE_KIND_SUCCESSOR if task.take_over is not None else _own_kind_to_proto(task)


def _own_kind_to_proto(task: TaskSpec) -> site_pb2.StageKind.ValueType:
    if task.kind is StageKind.MERGE and any(item.bins for item in task.inputs):
        return site_pb2.STAGE_KIND_MERGE_PART
    return STAGE_KINDS[task.kind]


def split_from_proto(message: site_pb2.Split, site: str) -> Split:
    """The split in a message; `site` is that of the agent that lists it."""
    rows = message.rows if message.HasField("rows") else None
    return Split(site, parts_from_proto(message), message.size_bytes, left_out_bytes=message.left_out_bytes, rows=rows)


def _input_to_proto(item: ChannelInput) -> site_pb2.ChannelInput:
    columns = [column_to_proto(c) for c in item.columns]
    return site_pb2.ChannelInput(
        channel=str(item.channel),
        site=item.site,
        view=item.view,
        columns=columns,
        read_from=READ_FROM[item.read_from],
        event_delay_us=duration_us(item.event_delay),
        first_bin=item.first_bin,
        bins=item.bins,
        from_epoch=item.from_epoch,
        behind_us=duration_us(item.behind),
    )


def _merge_to_proto(merge: Merge) -> site_pb2.MergeSpec:
    shifted = merge.offset or merge.cumulates or merge.months or (merge.panes and merge.pane != merge.period)
    return site_pb2.MergeSpec(
        window_column="" if merge.panes or shifted or merge.takes_again else merge.window_column,
        window_us=duration_us(merge.window),
        combine_sql=merge.combine_sql,
        slide_us=duration_us(merge.slide) if merge.slide else 0,
        views=[
            site_pb2.MergeView(view=view.view, combine_sql=view.combine_sql, required=view.required)
            for view in merge.views
        ],
        pane_column=merge.window_column if merge.panes and not shifted else "",
        by_bins=merge.by_bins,
        ranges=[site_pb2.RangeResult(view=found.view, sql=found.sql) for found in merge.ranges],
        over_ranges_sql=merge.over_ranges_sql,
        shifted=_shifted(merge) if shifted else None,
        sessions=_sessions(merge, merge.sessions) if merge.sessions else None,
        pairs=_pairs(merge, merge.pairs) if merge.pairs else None,
        totals=_totals(merge, merge.totals) if merge.totals else None,
        neighbours=_neighbours(merge, merge.neighbours) if merge.neighbours else None,
    )


def _shifted(merge: Merge) -> site_pb2.ShiftedWindows:
    return site_pb2.ShiftedWindows(
        column=merge.window_column,
        panes=merge.panes,
        offset_us=duration_us(merge.offset),
        cumulates=merge.cumulates,
        months=merge.months,
    )


def _sessions(merge: Merge, sessions: Sessions) -> site_pb2.Sessions:
    return site_pb2.Sessions(
        start_column=merge.window_column, end_column=WINDOW_END, keys=sessions.keys, at_start=sessions.at_start
    )


def _totals(merge: Merge, totals: Totals) -> site_pb2.Totals:
    return site_pb2.Totals(
        column=merge.window_column,
        keys=totals.keys,
        compares=totals.compares,
        ttl_us=None if totals.ttl is None else duration_us(totals.ttl),
        ends_column=totals.ends,
    )


def _neighbours(merge: Merge, neighbours: Neighbours) -> site_pb2.Neighbours:
    return site_pb2.Neighbours(
        column=merge.window_column,
        keys=neighbours.keys,
        rows=neighbours.rows,
        within_us=None if neighbours.within is None else duration_us(neighbours.within),
    )


def _pairs(merge: Merge, pairs: Pairs) -> site_pb2.Pairs:
    return site_pb2.Pairs(
        column=merge.window_column,
        first=_pair_side(pairs.first),
        second=_pair_side(pairs.second),
        lower_us=duration_us(pairs.lower),
        upper_us=None if pairs.upper is None else duration_us(pairs.upper),
        until_column=pairs.until,
        emits_pairs=pairs.emits_pairs,
        newest=pairs.newest,
        strict=pairs.strict,
    )


def _pair_side(side: PairSide) -> site_pb2.PairSide:
    return site_pb2.PairSide(view=side.view, keys=side.keys, unmatched=side.unmatched, once=side.once)
