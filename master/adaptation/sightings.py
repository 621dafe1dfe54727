"""What sites last reported of tasks and channels, as the planner's pictures of an instant."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from contract.tasks import TaskState
from master.records.model import InputStatus, SiteReport, TaskStatus
from planner.adapt.model import ChannelSeen, Counters, Edge, Phase, Seen, TaskSeen
from planner.graph.ids import TaskId

_PHASES = {
    TaskState.RUNNING: Phase.RUNNING,
    TaskState.BACK_PRESSURED: Phase.RUNNING,
    TaskState.PAUSED: Phase.PAUSED,
    TaskState.ENDED: Phase.ENDED,
    TaskState.FAILED: Phase.ENDED,
}
"""In all other states it is about to run, for the first time or again."""


class Sightings:
    """Takes reports as they come. Of each task and channel the last one counts."""

    def __init__(self, began_at: datetime) -> None:
        self._began_at = began_at
        self._tasks: dict[TaskId, TaskSeen] = {}
        self._statuses: dict[TaskId, TaskStatus] = {}
        self._channels: dict[Edge, ChannelSeen] = {}
        self._inputs: dict[Edge, InputStatus] = {}

    def take(self, report: SiteReport, now: datetime) -> None:
        """Take a report that came now.

        A channel's rows before a link are those of the epochs that its writer had published by the report before: so a
        writer that reports sooner than its reader does not look like a queue.
        """
        results: dict[TaskId, int] = {}
        for one in report.inputs:
            edge = one.channel, one.reader
            self._inputs[edge] = one
            if (writer := self._statuses.get(one.channel)) is not None:
                self._channels[edge] = _channel(writer, one, self._share(edge))
                if one.of_results:
                    results[one.reader] = results.get(one.reader, 0) + self._channels[edge].taken
        for status in report.tasks:
            self._statuses[status.task_id] = status
            phase = _PHASES.get(status.state, Phase.STARTING)
            self._tasks[status.task_id] = TaskSeen(now, phase, report.incarnation, _counters(status))
        for reader, rows in results.items():
            # The agent keeps copies without any work of their own.
            counters = Counters((now - self._began_at).total_seconds(), rows, 0, 0, 0.0, 0.0, 0.0, 0.0)
            self._tasks[reader] = TaskSeen(now, Phase.RUNNING, report.incarnation, counters)

    def seen(self, now: datetime) -> Seen:
        """Everything as it was reported last."""
        return Seen(now, dict(self._tasks), dict(self._channels))

    def keep_only(self, tasks: Collection[TaskId]) -> None:
        """Forget what does not run any more."""
        self._tasks = {name: one for name, one in self._tasks.items() if name in tasks}
        self._statuses = {name: one for name, one in self._statuses.items() if name in tasks}
        self._channels = {edge: one for edge, one in self._channels.items() if edge[1] in tasks}
        self._inputs = {edge: one for edge, one in self._inputs.items() if edge[1] in tasks}

    def _share(self, edge: Edge) -> float:
        """Of a channel's rows, those that are for one of several parts of a merge, by what they took so far."""
        channel, reader = edge
        taken = {
            other: one.taken_rows
            for (name, other), one in self._inputs.items()
            if name == channel and (other.query, other.stage) == (reader.query, reader.stage)
        }
        whole = sum(taken.values())
        return taken[reader] / whole if whole else 1 / len(taken)


def _channel(writer: TaskStatus, read: InputStatus, share: float) -> ChannelSeen:
    published = writer.next_epoch
    mean = writer.rows_out / published if published else 0.0
    produced = round(writer.rows_out * share)
    stored = max(0, produced - round(max(0, published - read.stored_epoch) * mean * share))
    return ChannelSeen(produced, stored, max(0, stored - read.waiting_rows))


def _counters(status: TaskStatus) -> Counters:
    times: Mapping[str, float | None] = dict.fromkeys(("useful_s", "slot_s", "disk_s", "room_s"))
    if status.running_s > 0:
        # Agents of earlier versions do not tell.
        times = {name: getattr(status, name) for name in times}
    return Counters(
        running_s=status.running_s,
        rows_in=status.rows_in,
        rows_out=status.rows_out,
        bytes_out=status.bytes_out,
        useful_s=times["useful_s"],
        slot_s=times["slot_s"],
        disk_s=times["disk_s"],
        room_s=times["room_s"],
        lag_rows=status.lag_rows,
        state_bytes=status.state_bytes,
        busiest_bin=status.busiest_bin_ratio,
    )
