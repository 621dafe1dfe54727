"""The measured output rates of running tasks, from the stored queries. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from master.records.model import QueryRecord, TaskStatus
from planner.graph.ids import TaskId
from planner.sharing.running import Deployed, Running
from planner.sharing.vertices import VertexKind

LEAST = timedelta(seconds=10)
"""A query must have run for this long before its tasks' rates count."""
SHORT_PERIOD = timedelta(seconds=30)
"""Up to this period of a merge's windows, the agents' mean over the last minute covers two of them."""
_FLOWING = (VertexKind.SOURCE, VertexKind.COMBINE, VertexKind.MERGE, VertexKind.FINAL)
"""A table is sent once, and sinks and results send nothing."""


def measured_rates(running: Running, records: Mapping[str, QueryRecord], now: datetime) -> dict[TaskId, float]:
    """The measured output of tasks, in bytes per second; tasks without a measurement are missing.

    The agents' means over the last minute. A merge of long windows sends seldom: of such it is the mean since its query
    began. Nothing in the last while is not a measurement, for it says nothing of the next rows.
    """
    statuses = {
        task.task_id: task
        for record in records.values()
        if record.state.live
        for task in record.progress.tasks.values()
    }
    found: dict[TaskId, float] = {}
    for one in running.deployed:
        status = statuses.get(one.id)
        if one.vertex.kind not in _FLOWING or status is None:
            continue
        if rate := _rate(one, status, records[one.id.query], now):
            found[one.id] = rate
    return found


def _rate(one: Deployed, status: TaskStatus, owner: QueryRecord, now: datetime) -> float:
    """The rate; 0 while there is no measurement."""
    if not status.state.started or owner.started_at is None:
        return 0.0
    merge, age = owner.plan.stage(one.vertex.stage).merge, now - owner.started_at
    period = merge.period if merge is not None else timedelta()
    if age < max(LEAST, 2 * period):
        return 0.0
    return status.bytes_out_per_s if period <= SHORT_PERIOD else status.bytes_out / age.total_seconds()
