"""The points of the master at which a test can have it kill itself; see `machine.faults`."""

from __future__ import annotations

from enum import Enum


class FaultPoint(Enum):
    """Where a test can have the master crash."""

    QUERY_ACCEPTED = "query-accepted"
    """A query is planned and has a number, and is not stored."""
    QUERY_STORED = "query-stored"
    """A query is stored, and no assignment has its tasks."""
    VERSIONS_STORED = "versions-stored"
    """Assignments have new versions, and no site has received one."""
    SUBMISSION_DONE = "submission-done"
    """A submission is complete, and the client has no answer."""
    ASSIGNMENT_SENDING = "assignment-sending"
    """An assignment is about to be sent to a site."""
    ASSIGNMENT_SENT = "assignment-sent"
    """An assignment was sent to a site."""
    REPORT_TAKEN = "report-taken"
    """A report was received, and has had no effect yet."""
    MOVE_STORED = "move-stored"
    """A change of a query's state is stored, and nobody is notified."""
    CANCEL_STORED = "cancel-stored"
    """A cancellation is stored, and the query's tasks are still assigned."""
    TASKS_REMOVED = "tasks-removed"
    """No assignment has the tasks of a cancelled query any more."""
    ANALYSED = "analysed"
    """Spark has checked a query at a site, and it is not placed."""
    RELATION_STORED = "relation-stored"
    """A relation is stored, and the client has no answer."""
    BATCH_STORED = "batch-stored"
    """The slots or ends of a batch query's tasks are stored, and no site is notified."""
    HANDOVER_STORED = "handover-stored"
    """A step of a handover is stored, and no assignment has it."""
    LEASES_STORED = "leases-stored"
    """Leases are stored, and nobody is notified."""
