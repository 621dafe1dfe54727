"""Queries, what they share, and answers to statements."""

from __future__ import annotations

from selat.convert.relations import column
from selat.convert.sites import link_use, task_status
from selat.convert.times import to_datetime
from selat.v1 import query_pb2
from selat.values import (
    BatchProgress,
    BatchWait,
    Done,
    Explanation,
    QueryInfo,
    QuerySharing,
    QueryState,
    Rows,
    SharedLink,
    SharedOperator,
)

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
        upsert_by=tuple(message.changes.upsert_by) if message.HasField("changes") else None,
        gateway=message.gateway,
        tasks=tuple(map(task_status, message.tasks)),
        links=tuple(map(link_use, message.links)),
        rows_in=message.rows_in,
        rows_out=message.rows_out,
        rows_late=message.rows_late,
        rows_malformed=message.rows_malformed,
        rows_shed=message.rows_shed,
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


def rows(message: query_pb2.RowSet) -> Rows:
    return Rows(tuple(message.columns), tuple(tuple(row.values) for row in message.rows))


def explanation(message: query_pb2.Explanation) -> Explanation:
    return Explanation(message.text, message.json)


def done(message: str) -> Done:
    return Done(message)
