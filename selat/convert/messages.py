"""Between protobuf messages and values; nothing else in this package looks into a message."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from selat.errors import ServerFault
from selat.v1 import common_pb2, query_pb2, site_pb2
from selat.values import (
    END_OF_TIME,
    BatchProgress,
    BatchWait,
    Binding,
    Column,
    DiskUse,
    Done,
    Explanation,
    Function,
    Link,
    LinkUse,
    Location,
    MemoryUse,
    QueryInfo,
    QuerySharing,
    QueryState,
    Relation,
    RelationKind,
    Rows,
    SharedLink,
    SharedOperator,
    Site,
    SiteState,
    SiteWork,
    StreamLog,
    TaskState,
    TaskStatus,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_END_OF_TIME_US = (END_OF_TIME - _EPOCH) // _MICROSECOND

QUERY_STATES = {
    query_pb2.QUERY_STATE_DEPLOYING: QueryState.DEPLOYING,
    query_pb2.QUERY_STATE_RUNNING: QueryState.RUNNING,
    query_pb2.QUERY_STATE_CANCELLING: QueryState.CANCELLING,
    query_pb2.QUERY_STATE_CANCELLED: QueryState.CANCELLED,
    query_pb2.QUERY_STATE_FINISHED: QueryState.FINISHED,
    query_pb2.QUERY_STATE_FAILED: QueryState.FAILED,
    query_pb2.QUERY_STATE_PAUSED: QueryState.PAUSED,
    query_pb2.QUERY_STATE_RESUMING: QueryState.RESUMING,
}
TASK_STATES = {
    site_pb2.TASK_STATE_STARTING: TaskState.STARTING,
    site_pb2.TASK_STATE_RUNNING: TaskState.RUNNING,
    site_pb2.TASK_STATE_BACK_PRESSURED: TaskState.BACK_PRESSURED,
    site_pb2.TASK_STATE_RETRYING: TaskState.RETRYING,
    site_pb2.TASK_STATE_ENDED: TaskState.ENDED,
    site_pb2.TASK_STATE_FAILED: TaskState.FAILED,
    site_pb2.TASK_STATE_PAUSED: TaskState.PAUSED,
}
SITE_STATES = {
    site_pb2.SITE_STATE_EXPECTED: SiteState.EXPECTED,
    site_pb2.SITE_STATE_ALIVE: SiteState.ALIVE,
    site_pb2.SITE_STATE_UNREACHABLE: SiteState.UNREACHABLE,
}
RELATION_KINDS = {
    RelationKind.STREAM: common_pb2.RELATION_KIND_STREAM,
    RelationKind.TABLE: common_pb2.RELATION_KIND_TABLE,
    RelationKind.VIEW: common_pb2.RELATION_KIND_VIEW,
    RelationKind.SINK: common_pb2.RELATION_KIND_SINK,
}
_KINDS_BACK = {wire: kind for kind, wire in RELATION_KINDS.items()}


def to_datetime(us: int) -> datetime:
    """The instant so many microseconds after the Unix epoch; `END_OF_TIME` for all that lie beyond the calendar."""
    return _EPOCH + timedelta(microseconds=us) if us < _END_OF_TIME_US else END_OF_TIME


def to_us(instant: datetime) -> int:
    """Microseconds since the Unix epoch."""
    return (instant - _EPOCH) // _MICROSECOND


def column(message: common_pb2.Column) -> Column:
    return Column(message.name, message.type)


def link_use(message: common_pb2.LinkUse) -> LinkUse:
    return LinkUse(message.from_site, message.to_site, message.bytes, message.epochs, message.bytes_per_s)


def relation(message: common_pb2.Relation) -> Relation:
    return Relation(
        name=message.name,
        kind=_KINDS_BACK.get(message.kind, RelationKind.STREAM),
        columns=tuple(map(column, message.columns)),
        bindings=tuple(Binding(b.site, dict(sorted(b.options.items()))) for b in message.bindings),
        event_time=message.event_time or None,
        watermark_delay=timedelta(microseconds=message.watermark_delay_us),
        comment=message.comment,
        created_at=to_datetime(message.created_at_us) if message.created_at_us else None,
        definition=message.definition,
    )


def relation_message(value: Relation) -> common_pb2.Relation:
    return common_pb2.Relation(
        name=value.name,
        kind=RELATION_KINDS[value.kind],
        columns=[common_pb2.Column(name=c.name, type=c.type) for c in value.columns],
        event_time=value.event_time or "",
        watermark_delay_us=value.watermark_delay // _MICROSECOND,
        bindings=[common_pb2.Binding(site=b.site, options=dict(b.options)) for b in value.bindings],
        comment=value.comment,
        created_at_us=to_us(value.created_at) if value.created_at else 0,
        definition=value.definition,
    )


def function(message: common_pb2.Function) -> Function:
    return Function(
        name=message.name,
        parameters=tuple(map(column, message.parameters)),
        returns=message.returns,
        entry=message.entry,
        file=message.file,
        source=message.source,
        vectorised=message.vectorised,
        version=f"{message.name.lower()}__{message.digest[:12]}" if message.digest else "",
        created_at=to_datetime(message.created_at_us) if message.created_at_us else None,
    )


def function_message(value: Function) -> common_pb2.Function:
    """What a definition says; the rest is the master's."""
    return common_pb2.Function(
        name=value.name,
        parameters=[common_pb2.Column(name=c.name, type=c.type) for c in value.parameters],
        returns=value.returns,
        entry=value.entry,
        file=value.file,
        source=value.source,
    )


def task_status(message: site_pb2.TaskStatus) -> TaskStatus:
    return TaskStatus(
        task_id=message.task_id,
        query_id=message.query_id,
        stage_id=message.stage_id,
        site=message.site,
        state=TASK_STATES.get(message.state, TaskState.UNKNOWN),
        reason=message.reason,
        epochs=message.epochs,
        rows_in=message.rows_in,
        rows_out=message.rows_out,
        rows_late=message.rows_late,
        rows_malformed=message.rows_malformed,
        bytes_out=message.bytes_out,
        rows_in_per_s=message.rows_in_per_s,
        rows_out_per_s=message.rows_out_per_s,
        bytes_out_per_s=message.bytes_out_per_s,
        busy_ratio=message.busy_ratio,
        lag_rows=message.lag_rows,
        state_rows=message.state_rows,
        state_bytes=message.state_bytes,
        retained_bytes=message.retained_bytes,
        in_flight_bytes=message.in_flight_bytes,
        input_bytes=message.input_bytes,
        watermark=to_datetime(message.watermark_us) if message.HasField("watermark_us") else None,
    )


def query_info(message: query_pb2.Query) -> QueryInfo:
    return QueryInfo(
        id=message.id,
        name=message.name,
        sql=message.sql,
        state=QUERY_STATES.get(message.state, QueryState.UNKNOWN),
        reason=message.reason,
        submitted_at=to_datetime(message.submitted_at_us),
        started_at=to_datetime(message.started_at_us) if message.HasField("started_at_us") else None,
        ended_at=to_datetime(message.ended_at_us) if message.HasField("ended_at_us") else None,
        columns=tuple(map(column, message.columns)),
        gateway=message.gateway,
        tasks=tuple(map(task_status, message.tasks)),
        links=tuple(map(link_use, message.links)),
        rows_in=message.rows_in,
        rows_out=message.rows_out,
        rows_late=message.rows_late,
        rows_malformed=message.rows_malformed,
        watermark=to_datetime(message.watermark_us) if message.HasField("watermark_us") else None,
        sink=message.sink,
        sink_site=message.sink_site,
        batch=_batch(message.batch) if message.HasField("batch") else None,
        sharing=_sharing(message.sharing) if message.HasField("sharing") else None,
        disk_bytes=dict(sorted(message.disk_bytes.items())),
        owner=message.owner,
        input_bytes=message.input_bytes,
        wan_bytes=message.wan_bytes,
        wan_cost=message.wan_cost if message.HasField("wan_cost") else None,
        currency=message.currency,
    )


def _batch(message: query_pb2.BatchProgress) -> BatchProgress:
    return BatchProgress(
        tasks=message.tasks,
        waiting=message.waiting,
        running=message.running,
        done=message.done,
        local=message.local,
        size_bytes=message.size_bytes,
        done_bytes=message.done_bytes,
        scheduler=message.scheduler,
        waits=tuple(
            BatchWait(w.task, w.slot, to_datetime(w.until_us) if w.HasField("until_us") else None, w.reason)
            for w in message.waits
        ),
    )


def shared_operator(message: query_pb2.SharedOperator) -> SharedOperator:
    return SharedOperator(
        task_id=message.task_id,
        kind=message.kind,
        site=message.site,
        queries=tuple(message.queries),
        links=tuple(SharedLink(x.from_site, x.to_site, x.bytes, x.bytes_saved) for x in message.links),
        bytes_out_per_s=message.bytes_out_per_s,
    )


def _sharing(message: query_pb2.QuerySharing) -> QuerySharing:
    return QuerySharing(
        mode=message.mode,
        start=message.start,
        starts_at=to_datetime(message.starts_at_us) if message.HasField("starts_at_us") else None,
        operators=tuple(map(shared_operator, message.operators)),
        bytes_saved=message.bytes_saved,
    )


def site(message: site_pb2.Site) -> Site:
    return Site(
        name=message.name,
        state=SITE_STATES.get(message.state, SiteState.UNKNOWN),
        address=message.address,
        slots=message.slots,
        version=message.version,
        last_report=to_datetime(message.last_report_us) if message.HasField("last_report_us") else None,
        memory_bytes=message.memory_bytes,
        memory=_memory(message.memory),
        gateway=message.gateway,
        tasks=tuple(map(task_status, message.tasks)),
        links=tuple(map(link_use, message.links)),
        outgoing=tuple(
            Link(o.from_site, o.to_site, o.bandwidth_bytes_per_s, timedelta(seconds=o.latency_s))
            for o in message.outgoing
        ),
        stream_logs=tuple(map(_stream_log, message.stream_logs)),
        draining_since=to_datetime(message.draining_since_us) if message.HasField("draining_since_us") else None,
        work=tuple(map(_site_work, message.work)),
        disk=_disk(message.disk) if message.HasField("disk") else None,
        label=message.label,
        location=Location(message.location.lat, message.location.lon) if message.HasField("location") else None,
    )


def _disk(message: site_pb2.DiskUse) -> DiskUse:
    return DiskUse(
        query_bytes=dict(sorted(message.query_bytes.items())),
        replay_bytes=message.replay_bytes,
        stream_log_bytes=message.stream_log_bytes,
        budget_bytes=message.budget_bytes,
        free_bytes=message.free_bytes,
    )


def _site_work(message: site_pb2.SiteWork) -> SiteWork:
    return SiteWork(
        kind=message.kind,
        query_id=message.query_id,
        task_id=message.task_id,
        subject=message.subject,
        movable=message.movable,
        reason=message.reason,
    )


def _stream_log(message: site_pb2.StreamLog) -> StreamLog:
    return StreamLog(
        stream=message.stream,
        size_bytes=message.size_bytes,
        rows=message.rows,
        batches=message.batches,
        rows_stored=message.rows_stored,
        limit_bytes=message.limit_bytes,
        ended=message.ended,
        reason=message.reason,
    )


def _memory(message: site_pb2.MemoryUse) -> MemoryUse:
    return MemoryUse(
        agent_bytes=message.agent_bytes,
        jvm_bytes=message.jvm_bytes,
        heap_used_bytes=message.heap_used_bytes,
        heap_committed_bytes=message.heap_committed_bytes,
        heap_max_bytes=message.heap_max_bytes,
        sites=message.sites,
    )


def rows(message: query_pb2.RowSet) -> Rows:
    return Rows(tuple(message.columns), tuple(tuple(row.values) for row in message.rows))


def explanation(message: query_pb2.Explanation) -> Explanation:
    return Explanation(message.text, message.json)


def done(message: str) -> Done:
    return Done(message)


def record_batch(message: query_pb2.FetchResultsResponse) -> pa.RecordBatch:
    """An epoch's rows, from either form in which a master sends them.

    Raises ServerFault when the data cannot be decoded.
    """
    try:
        return _decompressed(message) if message.schema else _whole_stream(message.arrow_stream)
    except (pa.ArrowException, OSError, ValueError) as error:
        text = f"epoch {message.epoch} of channel {message.channel} cannot be decoded: {error}"
        raise ServerFault(text) from None


def _decompressed(message: query_pb2.FetchResultsResponse) -> pa.RecordBatch:
    schema = pa.ipc.read_schema(pa.py_buffer(message.schema))
    if not message.payload:
        return pa.RecordBatch.from_pylist([], schema=schema)
    raw = pa.decompress(message.payload, decompressed_size=message.raw_bytes, codec="zstd")
    return pa.ipc.read_record_batch(raw, schema)


def _whole_stream(ipc_stream: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(ipc_stream) as reader:
        batches = list(reader)
        if len(batches) == 1:
            return batches[0]
        if not batches:
            return pa.RecordBatch.from_pylist([], schema=reader.schema)
    return pa.concat_batches(batches)
