"""Places where a test has this process kill itself, as a crash would: with SIGKILL, and nothing cleaned up.

`SELAT_FAULT=epoch-written:3` kills at the third passage of that point. Several are separated by commas; points of the
master are none of ours. With `SELAT_FAULT_MARKS=DIR` a fault leaves a file of its name there, and happens only once,
whoever passes first. Without the variable nothing happens. For tests; docs/operations.md lists the points.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from threading import Lock

FAULT_VARIABLE = "SELAT_FAULT"
MARKS_VARIABLE = "SELAT_FAULT_MARKS"


class FaultPoint(Enum):
    """Where a crash can be asked for."""

    FILE_WRITTEN = "file-written"
    """A file of a channel is written under its temporary name, and not synced."""
    EPOCH_WRITTEN = "epoch-written"
    """An epoch is synced under its temporary name."""
    EPOCH_RENAMED = "epoch-renamed"
    """An epoch has its name, and the directory is not synced."""
    EPOCH_COMMITTED = "epoch-committed"
    """An epoch is durable, and nobody knows."""
    EPOCH_COMPUTED = "epoch-computed"
    """The rows of a source, table, reduce or derived task are computed, and not published."""
    WINDOW_CLOSED = "window-closed"
    """Rows of a closed window are merged, and not published."""
    WINDOW_PUBLISHED = "window-published"
    """They are published, and in no checkpoint."""
    END_STORED = "end-stored"
    """The end of a channel is stored, and its readers are not told."""
    CURSORS_STORED = "cursors-stored"
    """An acknowledgement is stored, and nothing is trimmed yet."""
    EPOCH_TRIMMED = "epoch-trimmed"
    """One of the epochs that nobody needs is removed."""
    EPOCH_SENT = "epoch-sent"
    """An epoch is handed to the connection."""
    COPY_RECEIVED = "copy-received"
    """A router has received an epoch and not stored it."""
    COPY_STORED = "copy-stored"
    """A router has stored an epoch, and granted and acknowledged nothing for it."""
    ACK_SENDING = "ack-sending"
    """A router is about to tell the producer what is not needed."""
    ACK_SENT = "ack-sent"
    """It has told."""
    ACK_RECEIVED = "ack-received"
    """A producer has been told, and has stored nothing of it."""
    ACK_TAKEN = "ack-taken"
    """A producer has stored it and trimmed."""
    READERS_STORED = "readers-stored"
    """The readers of a channel are stored, and no transfer has begun."""
    STATE_WRITTEN = "state-written"
    """A merge's state is written, and its checkpoint is not."""
    REPLACEMENT_WRITTEN = "replacement-written"
    """A small file is written beside the one that it is to replace."""
    CHECKPOINT_SAVED = "checkpoint-saved"
    """A checkpoint counts, and the state before it is not removed."""
    CHECKPOINT_DONE = "checkpoint-done"
    """A checkpoint is whole, and nothing is acknowledged."""
    CHECKPOINT_ACKNOWLEDGED = "checkpoint-acknowledged"
    """What it has passed is acknowledged."""
    ASSIGNMENT_STORED = "assignment-stored"
    """An assignment is stored, and none of it is done."""
    ASSIGNMENT_APPLIED = "assignment-applied"
    """Everything of an assignment is started."""
    CHANNEL_DOOMED = "channel-doomed"
    """A channel has no name any more, and its files are there."""


class Faults:
    """The faults of one process. Safe to use from several threads."""

    def __init__(self, wanted: Mapping[FaultPoint, int], marks: Path | None = None) -> None:
        self._wanted = dict(wanted)
        self._marks = marks
        self._passages: Counter[FaultPoint] = Counter()
        self._lock = Lock()

    def passed(self, point: FaultPoint) -> bool:
        """Whether this passage is the one to die at."""
        if point not in self._wanted:
            return False
        with self._lock:
            self._passages[point] += 1
            return self._passages[point] == self._wanted[point] and self._is_first(point)

    def _is_first(self, point: FaultPoint) -> bool:
        if self._marks is None:
            return True
        try:
            os.close(os.open(self._marks / point.value, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def parse_faults(environment: Mapping[str, str]) -> Faults | None:
    """What the environment asks of this package; None: nothing."""
    by_name = {point.value: point for point in FaultPoint}
    wanted: dict[FaultPoint, int] = {}
    for item in environment.get(FAULT_VARIABLE, "").split(","):
        name, _, passage = item.strip().partition(":")
        if name in by_name:
            wanted[by_name[name]] = int(passage or "1")
    marks = environment.get(MARKS_VARIABLE)
    return Faults(wanted, Path(marks) if marks else None) if wanted else None


_faults = parse_faults(os.environ)


def arm(environment: Mapping[str, str]) -> None:
    """Take over the faults of another environment; for a process that was forked with our modules loaded."""
    global _faults
    _faults = parse_faults(environment)


def reached(point: FaultPoint) -> None:
    """Does not return if the process is to die here."""
    if _faults is not None and _faults.passed(point):
        os.kill(os.getpid(), signal.SIGKILL)
