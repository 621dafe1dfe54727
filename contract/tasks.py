"""Kinds and states of tasks, and where the readers of their channels begin."""

from __future__ import annotations

from enum import Enum

from planner.values.stages import StageKind
from selat.v1 import site_pb2


class TaskState(Enum):
    STARTING = "starting"
    RUNNING = "running"
    BACK_PRESSURED = "back_pressured"
    RETRYING = "retrying"
    ENDED = "ended"
    FAILED = "failed"
    PAUSED = "paused"

    @property
    def started(self) -> bool:
        """Whether the task has run, and may have rows out."""
        return self not in (TaskState.STARTING, TaskState.FAILED, TaskState.PAUSED)


class ReadFrom(Enum):
    """The epoch at which a reader may begin a channel that it has not read yet."""

    OWN = "own"
    """At the channel's first epoch that is kept: the channel belongs to the reader's own query."""
    FIRST = "first"
    """At epoch 0; a channel that no longer keeps it is not read at all."""
    OLDEST = "oldest"
    """At the oldest epoch that is kept."""


STAGE_KINDS = {
    StageKind.SOURCE: site_pb2.STAGE_KIND_SOURCE,
    StageKind.TABLE: site_pb2.STAGE_KIND_TABLE,
    StageKind.COMBINE: site_pb2.STAGE_KIND_COMBINE,
    StageKind.MERGE: site_pb2.STAGE_KIND_MERGE,
    StageKind.FINAL: site_pb2.STAGE_KIND_FINAL,
    StageKind.SINK: site_pb2.STAGE_KIND_SINK,
    StageKind.REDUCE: site_pb2.STAGE_KIND_REDUCE,
    StageKind.DERIVE: site_pb2.STAGE_KIND_DERIVE,
}
"""The kinds of tasks that an agent runs: it knows no MAP."""
STAGE_KINDS_BACK = {wire: kind for kind, wire in STAGE_KINDS.items()} | {
    site_pb2.STAGE_KIND_MERGE_PART: StageKind.MERGE
}

TASK_STATES = {
    TaskState.STARTING: site_pb2.TASK_STATE_STARTING,
    TaskState.RUNNING: site_pb2.TASK_STATE_RUNNING,
    TaskState.BACK_PRESSURED: site_pb2.TASK_STATE_BACK_PRESSURED,
    TaskState.RETRYING: site_pb2.TASK_STATE_RETRYING,
    TaskState.ENDED: site_pb2.TASK_STATE_ENDED,
    TaskState.FAILED: site_pb2.TASK_STATE_FAILED,
    TaskState.PAUSED: site_pb2.TASK_STATE_PAUSED,
}
TASK_STATES_BACK = {wire: state for state, wire in TASK_STATES.items()}

READ_FROM = {
    ReadFrom.OWN: site_pb2.READ_FROM_UNSPECIFIED,
    ReadFrom.FIRST: site_pb2.READ_FROM_FIRST,
    ReadFrom.OLDEST: site_pb2.READ_FROM_OLDEST,
}
READ_FROM_BACK = {wire: start for start, wire in READ_FROM.items()}
