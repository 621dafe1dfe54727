"""The points of the master at which a test can have it kill itself; see `machine.faults`."""

from __future__ import annotations

from enum import Enum


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
