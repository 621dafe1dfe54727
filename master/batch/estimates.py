"""Estimates of what tasks of batch queries need, learned from tasks that have ended."""

from __future__ import annotations

from collections.abc import Callable

from master.batch.scheduled import scheduled
from master.queries.batch_tasks import read_id
from master.records.model import BatchQuery, BatchTask
from planner.batch import EstimateSettings, SentShares, Task, TaskHistory, lease_estimate_s, run_time_s, transfer_s

Bandwidth = Callable[[str, str], float]
"""Bytes per second from one site to another."""


class Estimates:
    """The history of ended tasks and of the bytes sent of their splits, and estimates for other tasks."""

    def __init__(self, settings: EstimateSettings, bandwidth: Callable[[], Bandwidth]) -> None:
        """`bandwidth` returns the bandwidth of a link without other transfers, as known at the time of the call."""
        self._settings = settings
        self._bandwidth = bandwidth
        self._history = TaskHistory(settings.records)
        self._sent = SentShares(settings.records)

    def task(self, record: BatchQuery, number: int | None) -> Task:
        """The MAP of the split with that number, or for None the REDUCE, with the share of its split that is sent."""
        return scheduled(record, number, self._sent)

    def lease_s(self, task: Task, site: str, bandwidth: Bandwidth) -> float:
        """The length of the lease to ask for, in seconds."""
        return lease_estimate_s(task, site, bandwidth, self._history, self._settings)

    def run_time_s(self, task: Task, site: str, bandwidth: Bandwidth) -> float:
        """How long the task would hold a slot of the site, in seconds, for comparing sites."""
        return run_time_s(task, site, bandwidth, self._history, self._settings)

    def learn(self, record: BatchQuery, number: int | None, task: BatchTask) -> None:
        """Learn from a task that has ended how much of its split was sent, and how long it computed."""
        if task.placed_at is None or task.ended_at is None:
            return
        self._note_sent(record, number)
        wanted = self.task(record, number)
        moved_s = transfer_s(wanted, task.site, self._bandwidth())
        took_s = (task.ended_at - task.placed_at).total_seconds() - moved_s
        processing_s = self._history.processing_s(wanted, task.site)
        # The transfer's real time is not known: among MAPs with transfers, the first of a kind has to serve.
        first = number is None or processing_s is None
        if moved_s == 0 or (took_s > 0 and first):
            self._history.add(wanted, task.site, max(took_s, 0.0))
        if moved_s > 0 and number is not None:
            # The first task's processing time has its reading in it.
            self._history.add_reading(wanted, max(took_s - (processing_s or took_s), 0.0))

    def _note_sent(self, record: BatchQuery, number: int | None) -> None:
        """Record how much of a split was sent, where it was read for a task at another site."""
        if number is None:
            return
        split = record.plan.splits[number]
        read = record.progress.tasks.get(read_id(record, number))
        if read is not None and read.bytes_out:
            model = scheduled(record, number).model
            self._sent.add(model, size_bytes=split.size_bytes, sent_bytes=read.bytes_out)
