"""Places where a test has this process kill itself, as a crash would: with SIGKILL, and nothing cleaned up.

`SELAT_FAULT=query-stored:1` kills at the first passage of that point. Several are separated by commas; points of the
agents are none of ours. With `SELAT_FAULT_MARKS=DIR` a fault leaves a file of its name there, and happens only once,
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

    QUERY_ACCEPTED = "query-accepted"
    """A query is planned and has a number; nothing of it is stored."""
    QUERY_STORED = "query-stored"
    """A query is stored, and no assignment has its tasks."""
    VERSIONS_STORED = "versions-stored"
    """Assignments have their versions, and no site is told."""
    SUBMISSION_DONE = "submission-done"
    """All of a submission is done, and the client has no answer."""
    ASSIGNMENT_SENDING = "assignment-sending"
    """A site is about to be told its assignment."""
    ASSIGNMENT_SENT = "assignment-sent"
    """A site is told its assignment."""
    REPORT_TAKEN = "report-taken"
    """A report is heard, and nothing follows from it yet."""
    MOVE_STORED = "move-stored"
    """A change of a query's state is stored, and nobody is told."""
    CANCEL_STORED = "cancel-stored"
    """A cancellation is stored, and no task is taken away."""
    TASKS_REMOVED = "tasks-removed"
    """The tasks of a cancelled query are in no assignment any more."""
    ANALYSED = "analysed"
    """Spark has checked a query at a site, and it is not placed."""
    RELATION_STORED = "relation-stored"
    """A stream or table is stored, and the client has no answer."""
    BATCH_STORED = "batch-stored"
    """A batch query's tasks are stored with their new slots or ends, and no site is told."""
    LEASES_STORED = "leases-stored"
    """Leases are stored, and nobody is told."""


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


def reached(point: FaultPoint) -> None:
    """Does not return if the process is to die here."""
    if _faults is not None and _faults.passed(point):
        os.kill(os.getpid(), signal.SIGKILL)
