"""An assignment read back from its message, as an agent reads it, into the master's values."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from contract.tasks import READ_FROM_BACK, STAGE_KINDS_BACK
from master.convert.assignments import split_from_proto
from master.convert.functions import function_from_proto
from master.convert.relations import relation_from_proto
from master.records.specs import (
    Assignment,
    ChannelInput,
    ChannelReader,
    QueryReaders,
    ResultsLimit,
    ResultSpec,
    TaskSpec,
    VersionedAssignment,
)
from planner.graph.ids import TaskId
from planner.graph.plan import Merge, MergeView, Pairs
from planner.relations.catalog import Column, Function
from planner.values.pairs import PairSide
from selat.v1 import common_pb2, site_pb2

_MILLISECOND = timedelta(milliseconds=1)


def assignment_from_proto(message: site_pb2.Assignment) -> VersionedAssignment:
    """Raises KeyError for a stage kind that is not said."""
    assignment = Assignment(
        tasks=tuple(_task_from_proto(t) for t in message.tasks),
        results=tuple(
            ResultSpec(r.query_id, tuple(_input_from_proto(i) for i in r.inputs), _limit_from_proto(r))
            for r in message.results
        ),
        site_addresses=dict(message.site_addresses),
        streams=tuple(relation_from_proto(r) for r in message.streams),
    )
    return VersionedAssignment(message.version, assignment)


def _limit_from_proto(message: site_pb2.ResultSpec) -> ResultsLimit | None:
    limit = message.limit
    return ResultsLimit(limit.bytes, limit.age_ms * _MILLISECOND) if message.HasField("limit") else None


def _task_from_proto(message: site_pb2.TaskSpec) -> TaskSpec:
    return TaskSpec(
        task_id=TaskId.parse(message.task_id),
        query_id=message.query_id,
        stage_id=message.stage_id,
        kind=STAGE_KINDS_BACK[message.kind],
        sql=message.sql,
        relation=relation_from_proto(message.relation) if message.HasField("relation") else None,
        read_columns=tuple(message.read_columns),
        inputs=tuple(_input_from_proto(i) for i in message.inputs),
        merge=_merge_from_proto(message.merge) if message.HasField("merge") else None,
        consumers=tuple(message.consumers),
        epoch_interval=message.epoch_interval_ms * _MILLISECOND,
        functions=tuple(_version_from_proto(f) for f in message.functions),
        split=split_from_proto(message.split, _site_of(message)) if message.HasField("split") else None,
        paused=message.paused,
        readers=tuple(
            QueryReaders(q.query_id, tuple(ChannelReader(r.site, r.reader) for r in q.readers)) for q in message.readers
        ),
    )


def _site_of(message: site_pb2.TaskSpec) -> str:
    return message.relation.bindings[0].site if message.relation.bindings else ""


def _input_from_proto(message: site_pb2.ChannelInput) -> ChannelInput:
    columns = tuple(Column(c.name, c.type) for c in message.columns)
    return ChannelInput(
        channel=TaskId.parse(message.channel),
        site=message.site,
        view=message.view,
        columns=columns,
        read_from=READ_FROM_BACK[message.read_from],
        event_delay=timedelta(microseconds=message.event_delay_us),
        first_bin=message.first_bin,
        bins=message.bins,
        behind=timedelta(microseconds=message.behind_us),
    )


def _merge_from_proto(message: site_pb2.MergeSpec) -> Merge:
    return Merge(
        window_column=message.pairs.column or message.window_column,
        window=timedelta(microseconds=message.window_us),
        combine_sql=message.combine_sql,
        slide=timedelta(microseconds=message.slide_us) if message.slide_us else None,
        views=tuple(MergeView(view.view, view.combine_sql, view.required) for view in message.views),
        pairs=_pairs_from_proto(message.pairs) if message.HasField("pairs") else None,
    )


def _pairs_from_proto(message: site_pb2.Pairs) -> Pairs:
    return Pairs(
        first=_side_from_proto(message.first),
        second=_side_from_proto(message.second),
        lower=timedelta(microseconds=message.lower_us),
        upper=timedelta(microseconds=message.upper_us) if message.HasField("upper_us") else None,
        until=message.until_column,
        emits_pairs=message.emits_pairs,
        newest=message.newest,
        strict=message.strict,
    )


def _side_from_proto(message: site_pb2.PairSide) -> PairSide:
    return PairSide(message.view, tuple(message.keys), message.unmatched, message.once)


def _version_from_proto(message: common_pb2.Function) -> Function:
    return replace(function_from_proto(message), vectorised=message.vectorised, digest=message.digest)
