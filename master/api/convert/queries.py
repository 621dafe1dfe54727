"""Queries and results, as clients see them."""

from __future__ import annotations

from datetime import datetime

from contract.times import to_us
from master.batch.view import BatchView
from master.convert.relations import column_to_proto
from master.convert.reports import link_to_proto, task_status_to_proto
from master.queries.savings import SharedOperator, SharedParts
from master.records.model import QueryState
from master.results.fetch import FetchedEpoch
from master.views.outcomes import Done, Explained, Outcome, Rows, SettingChanged
from master.views.queries import QueryView
from planner.graph.plan import upsert_keys
from selat.v1 import query_pb2

_STATES = {
    QueryState.DEPLOYING: query_pb2.QUERY_STATE_DEPLOYING,
    QueryState.RUNNING: query_pb2.QUERY_STATE_RUNNING,
    QueryState.CANCELLING: query_pb2.QUERY_STATE_CANCELLING,
    QueryState.CANCELLED: query_pb2.QUERY_STATE_CANCELLED,
    QueryState.FINISHED: query_pb2.QUERY_STATE_FINISHED,
    QueryState.FAILED: query_pb2.QUERY_STATE_FAILED,
    QueryState.PAUSED: query_pb2.QUERY_STATE_PAUSED,
    QueryState.RESUMING: query_pb2.QUERY_STATE_RESUMING,
}


STATES_BACK = {wire: state for state, wire in _STATES.items()}


def query_to_proto(view: QueryView) -> query_pb2.Query:
    """All that is known of a query."""
    message = query_summary(view)
    record = view.record
    message.columns.extend(column_to_proto(c) for c in record.plan.columns)
    message.tasks.extend(task_status_to_proto(t) for _, t in sorted(record.progress.tasks.items()))
    message.links.extend(link_to_proto(link) for link in view.links)
    upsert_by = upsert_keys(record.plan.stages)
    if upsert_by is not None:
        message.changes.CopyFrom(query_pb2.Changes(upsert_by=upsert_by))
    if view.shared is not None:
        message.sharing.CopyFrom(_sharing_to_proto(view.shared))
    return message


def query_summary(view: QueryView) -> query_pb2.Query:
    """A query as lists show it: without tasks, links, columns and what it shares."""
    record, totals = view.record, view.totals
    end = record.plan.destination
    return query_pb2.Query(
        id=record.id,
        name=record.name,
        sql=record.sql,
        state=_STATES[record.state],
        reason=view.reason,
        submitted_at_us=to_us(record.submitted_at),
        started_at_us=_instant_us(record.started_at),
        ended_at_us=_instant_us(record.ended_at),
        gateway=end.site,
        rows_in=totals.rows_in,
        rows_out=totals.rows_out,
        rows_late=totals.rows_late,
        rows_malformed=totals.rows_malformed,
        rows_shed=totals.rows_shed,
        watermark_us=totals.watermark_us,
        sink=end.sink or "",
        sink_site=end.site if end.sink else "",
        disk_bytes=view.disk_bytes,
        owner=record.owner,
        batch=_batch_to_proto(view.batch) if view.batch is not None else None,
        input_bytes=totals.input_bytes,
        wan_bytes=view.wan_bytes,
        wan_cost=view.wan_cost,
        currency=view.currency,
    )


def _batch_to_proto(batch: BatchView) -> query_pb2.BatchProgress:
    waits = [
        query_pb2.BatchWait(
            task=wait.task,
            slot=str(wait.slot) if wait.slot is not None else "",
            until_us=_instant_us(wait.until),
            reason=wait.reason,
        )
        for wait in batch.waits
    ]
    return query_pb2.BatchProgress(
        tasks=batch.tasks,
        waiting=batch.waiting,
        running=batch.running,
        done=batch.done,
        local=batch.local,
        size_bytes=batch.size_bytes,
        done_bytes=batch.done_bytes,
        scheduler=batch.scheduler.value,
        waits=waits,
    )


def shared_operator_to_proto(operator: SharedOperator) -> query_pb2.SharedOperator:
    return query_pb2.SharedOperator(
        task_id=str(operator.task_id),
        kind=operator.kind,
        site=operator.site,
        queries=operator.queries,
        links=[
            query_pb2.SharedLink(
                from_site=link.from_site, to_site=link.to_site, bytes=link.bytes, bytes_saved=link.bytes_saved
            )
            for link in operator.links
        ],
        bytes_out_per_s=operator.bytes_out_per_s,
    )


def _sharing_to_proto(shared: SharedParts) -> query_pb2.QuerySharing:
    return query_pb2.QuerySharing(
        mode=shared.mode,
        start=shared.start,
        starts_at_us=shared.starts_at_us,
        operators=[shared_operator_to_proto(operator) for operator in shared.operators],
        bytes_saved=shared.bytes_saved,
    )


def outcome_to_proto(outcome: Outcome, *, line: int) -> query_pb2.ExecuteResponse:
    if isinstance(outcome, QueryView):
        return query_pb2.ExecuteResponse(line=line, query=query_to_proto(outcome))
    if isinstance(outcome, Rows):
        return query_pb2.ExecuteResponse(line=line, rows=_rows_to_proto(outcome))
    if isinstance(outcome, Explained):
        return query_pb2.ExecuteResponse(line=line, explanation=explanation_to_proto(outcome))
    if isinstance(outcome, SettingChanged):
        said = f"{outcome.name} is {outcome.value}"
        return query_pb2.ExecuteResponse(line=line, done=said, settings={outcome.name: outcome.value})
    return query_pb2.ExecuteResponse(line=line, done=_done(outcome))


def explanation_to_proto(explained: Explained) -> query_pb2.Explanation:
    return query_pb2.Explanation(text=explained.text, json=explained.json)


def epoch_to_proto(epoch: FetchedEpoch) -> query_pb2.FetchResultsResponse:
    response = query_pb2.FetchResultsResponse(
        channel=epoch.channel,
        epoch=epoch.epoch,
        arrow_stream=epoch.arrow_stream,
        rows=epoch.rows,
        watermark_us=epoch.watermark_us,
    )
    if not epoch.arrow_stream:
        response.schema, response.payload = epoch.sent.schema, epoch.sent.payload
        response.raw_bytes = epoch.sent.raw_bytes
    return response


def _rows_to_proto(rows: Rows) -> query_pb2.RowSet:
    return query_pb2.RowSet(columns=rows.columns, rows=[query_pb2.Row(values=row) for row in rows.rows])


def _done(outcome: Done) -> str:
    return outcome.text


def _instant_us(instant: datetime | None) -> int | None:
    return None if instant is None else to_us(instant)
