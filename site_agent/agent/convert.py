"""Converts messages of the master to the agent's own values, and reports back to messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from contract.client_plans import plan_from_proto
from contract.figures import put_figures
from contract.handover import handover_to_proto
from contract.splits import parts_from_proto
from contract.tasks import READ_FROM_BACK, STAGE_KINDS_BACK, TASK_STATES, ReadFrom
from planner.values.adapting import Degrade, Degrading
from planner.values.names import INPUT_VIEW
from planner.values.pairs import PairSide
from selat.v1 import common_pb2, site_pb2
from site_agent.agent.disk_use import DiskUse
from site_agent.agent.memory import MemoryUse
from site_agent.channels.pace import ChannelReader, QueryReaders
from site_agent.connectors.sources import Split
from site_agent.engine.messages import fields_from_proto, functions_from_proto
from site_agent.exchange.convert import fork_from_proto
from site_agent.ingest import StreamLog
from site_agent.port import InputRead
from site_agent.tasks.progress import TaskStatus
from site_agent.tasks.spec import (
    Assignment,
    HandOver,
    InputSpec,
    JoinSpec,
    NeighbourSpec,
    PairSpec,
    RangeSpec,
    RelationSpec,
    ResultsLimit,
    ResultSpec,
    SeedSpec,
    SessionSpec,
    TakeOver,
    TaskSpec,
    TotalsSpec,
    ViewSpec,
    WindowSpec,
)

DEFAULT_EPOCH_INTERVAL = timedelta(seconds=1)


def assignment_from_proto(message: site_pb2.Assignment) -> Assignment:
    """The assignment in a message. Raises KeyError for a stage kind that this agent does not know."""
    return Assignment(
        cluster_id=message.cluster_id,
        version=message.version,
        tasks=tuple(_task(t) for t in message.tasks),
        results=tuple(ResultSpec(r.query_id, _inputs(r.inputs), _limit(r), r.reuses) for r in message.results),
        site_addresses=dict(sorted(message.site_addresses.items())),
        streams=tuple(relation_from_proto(r) for r in message.streams),
    )


def status_to_proto(status: TaskStatus, site: str) -> site_pb2.TaskStatus:
    message = site_pb2.TaskStatus(
        task_id=status.task_id,
        query_id=status.query_id,
        stage_id=status.stage_id,
        site=site,
        state=TASK_STATES[status.state],
        reason=status.reason,
        next_epoch=status.next_epoch,
        watermark_us=status.watermark_us,
        operators=[
            site_pb2.OperatorStatus(name=o.name, rows_out=o.rows_out, rows_out_per_s=o.rows_out_per_s)
            for o in status.operators
        ],
        missed_inputs=status.missed_inputs,
        starts_at_us=status.starts_at_us,
        behind=[
            site_pb2.QueryBehind(query_id=b.query_id, bytes=b.size_bytes, sites=b.sites, left=b.left)
            for b in status.behind
        ],
    )
    if status.handover is not None:
        message.handover.CopyFrom(handover_to_proto(status.handover))
    put_figures(message, status)
    return message


def input_to_proto(reader: str, read: InputRead) -> site_pb2.InputStatus:
    return site_pb2.InputStatus(reader=reader, **asdict(read))


def stream_log_to_proto(log: StreamLog) -> site_pb2.StreamLog:
    return site_pb2.StreamLog(**asdict(log))


def memory_to_proto(memory: MemoryUse) -> site_pb2.MemoryUse:
    return site_pb2.MemoryUse(
        agent_bytes=memory.agent_bytes,
        jvm_bytes=memory.jvm_bytes,
        heap_used_bytes=memory.heap.used_bytes,
        heap_committed_bytes=memory.heap.committed_bytes,
        heap_max_bytes=memory.heap.max_bytes,
        sites=memory.sites,
    )


def disk_to_proto(disk: DiskUse) -> site_pb2.DiskUse:
    return site_pb2.DiskUse(
        query_bytes=disk.queries,
        replay_bytes=disk.replay_bytes,
        stream_log_bytes=disk.stream_log_bytes,
        budget_bytes=disk.budget_bytes,
        free_bytes=disk.free_bytes,
    )


def _task(message: site_pb2.TaskSpec) -> TaskSpec:
    return TaskSpec(
        task_id=message.task_id,
        query_id=message.query_id,
        stage_id=message.stage_id,
        kind=STAGE_KINDS_BACK[_kind(message)],
        sql=message.sql,
        epoch_interval=timedelta(milliseconds=message.epoch_interval_ms) or DEFAULT_EPOCH_INTERVAL,
        relation=relation_from_proto(message.relation) if message.HasField("relation") else None,
        read_columns=tuple(message.read_columns),
        inputs=_inputs(message.inputs),
        window=_window(message.merge) if message.HasField("merge") else None,
        consumers=tuple(message.consumers),
        functions=functions_from_proto(message.functions),
        split=_split(message.split) if message.HasField("split") else None,
        paused=message.paused,
        beside=message.beside,
        client=plan_from_proto(message.client_plan) if message.HasField("client_plan") else None,
        readers=tuple(
            QueryReaders(m.query_id, tuple(ChannelReader(r.site, r.reader) for r in m.readers)) for m in message.readers
        ),
        degrading=_degrading(message.degrade) if message.HasField("degrade") else None,
        reuses=message.reuses,
        hand_over=_hand_over(message.hand_over) if message.HasField("hand_over") else None,
        take_over=_take_over(message.take_over) if message.HasField("take_over") else None,
    )


def _kind(message: site_pb2.TaskSpec) -> site_pb2.StageKind.ValueType:
    """A successor is of its predecessor's kind."""
    return message.take_over.kind if message.kind == site_pb2.STAGE_KIND_SUCCESSOR else message.kind


def _hand_over(message: site_pb2.HandOver) -> HandOver:
    seed = SeedSpec(message.seed.channel, dict(sorted(message.seed.first_epochs.items())))
    return HandOver(
        message.successor_channel,
        message.successor_site,
        seed if message.HasField("seed") else None,
        message.cut,
        fork_from_proto(message.fork) if message.HasField("fork") else None,
        _join(message.join) if message.HasField("join") else None,
    )


def _degrading(message: site_pb2.Degrade) -> Degrading:
    return Degrading(Degrade.SAMPLE if message.samples else Degrade.LATE, timedelta(milliseconds=message.after_ms))


def _join(message: site_pb2.Join) -> JoinSpec:
    return JoinSpec(message.channel, message.site, message.first_epoch)


def _take_over(message: site_pb2.TakeOver) -> TakeOver:
    return TakeOver(
        message.predecessor_channel,
        message.predecessor_site,
        message.seed_channel,
        message.late,
        message.renumbers,
    )


def _split(message: site_pb2.Split) -> Split:
    return Split(parts_from_proto(message), message.size_bytes)


def relation_from_proto(message: common_pb2.Relation) -> RelationSpec:
    options = dict(sorted(message.bindings[0].options.items())) if message.bindings else {}
    return RelationSpec(
        name=message.name,
        columns=fields_from_proto(message.columns),
        event_time=message.event_time,
        watermark_delay=timedelta(microseconds=message.watermark_delay_us),
        options=options,
        created_at=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=message.created_at_us),
    )


def _limit(message: site_pb2.ResultSpec) -> ResultsLimit | None:
    if not message.HasField("limit"):
        return None
    return ResultsLimit(message.limit.bytes, timedelta(milliseconds=message.limit.age_ms))


def _inputs(messages: Iterable[site_pb2.ChannelInput]) -> tuple[InputSpec, ...]:
    return tuple(
        InputSpec(
            m.channel,
            m.site,
            m.view,
            fields_from_proto(m.columns),
            read_from=READ_FROM_BACK.get(m.read_from, ReadFrom.OWN),
            event_delay_us=m.event_delay_us,
            bins=tuple(range(m.first_bin, m.first_bin + m.bins)),
            from_epoch=m.from_epoch,
            behind_us=m.behind_us,
        )
        for m in messages
    )


def _window(message: site_pb2.MergeSpec) -> WindowSpec:
    views = tuple(ViewSpec(v.view, v.combine_sql, v.required) for v in message.views)
    return WindowSpec(
        column=(
            message.shifted.column
            or message.pane_column
            or message.sessions.start_column
            or message.pairs.column
            or message.totals.column
            or message.neighbours.column
            or message.window_column
        ),
        length_us=message.window_us,
        slide_us=message.slide_us or message.window_us,
        views=views or (ViewSpec(INPUT_VIEW, message.combine_sql),),
        panes=message.shifted.panes or bool(message.pane_column),
        by_bins=message.by_bins or bool(message.ranges),
        ranges=tuple(RangeSpec(found.view, found.sql) for found in message.ranges),
        over_ranges_sql=message.over_ranges_sql,
        offset_us=message.shifted.offset_us,
        cumulates=message.shifted.cumulates,
        months=message.shifted.months,
        sessions=(
            SessionSpec(message.sessions.end_column, tuple(message.sessions.keys), message.sessions.at_start)
            if message.HasField("sessions")
            else None
        ),
        pairs=_pairs(message.pairs) if message.HasField("pairs") else None,
        totals=_totals(message.totals) if message.HasField("totals") else None,
        neighbours=_neighbours(message.neighbours) if message.HasField("neighbours") else None,
    )


def _neighbours(message: site_pb2.Neighbours) -> NeighbourSpec:
    within_us = message.within_us if message.HasField("within_us") else None
    return NeighbourSpec(tuple(message.keys), message.rows, within_us)


def _totals(message: site_pb2.Totals) -> TotalsSpec:
    return TotalsSpec(
        tuple(message.keys),
        compares=message.compares,
        ttl_us=message.ttl_us if message.HasField("ttl_us") else None,
        ends=message.ends_column,
    )


def _pairs(message: site_pb2.Pairs) -> PairSpec:
    return PairSpec(
        first=_pair_side(message.first),
        second=_pair_side(message.second),
        lower_us=message.lower_us,
        upper_us=message.upper_us if message.HasField("upper_us") else None,
        until=message.until_column,
        emits_pairs=message.emits_pairs,
        newest=message.newest,
        strict=message.strict,
    )


def _pair_side(message: site_pb2.PairSide) -> PairSide:
    return PairSide(message.view, tuple(message.keys), message.unmatched, message.once)
