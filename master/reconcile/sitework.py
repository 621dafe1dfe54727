"""The work that a draining site still has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from contract.tasks import TaskState
from master.batch.slots import BATCH
from master.leases.manager import LeaseManager
from master.leases.streaming import STREAMING
from master.reconcile.board import AssignmentBoard
from master.records.specs import TaskSpec
from master.sites.status import SiteStatus
from planner.handover.model import place_of
from planner.place.draining import Work, WorkKind
from planner.sharing.running import Running
from planner.sharing.vertices import VertexKind


class SiteWorkView:
    """Reads the assignments in force, the last reports and the table of slots; changes nothing.

    Args:
        board: of the assignments.
        leases: of the slots.
        running: returns what runs.
    """

    def __init__(self, board: AssignmentBoard, leases: LeaseManager, running: Callable[[], Running]) -> None:
        self._board = board
        self._leases = leases
        self._running = running

    def of(self, status: SiteStatus) -> tuple[Work, ...]:
        """The site's work, in the order of its assignment; then the slots that other frameworks hold.

        Raises:
            NotSettledError: the master's state was restored, and nobody knows yet what runs.
        """
        return (*self._assigned(status), *self._leased(status.name))

    def _assigned(self, status: SiteStatus) -> Iterator[Work]:
        assignment = self._board.current(status.name).assignment
        tasks = status.report.tasks if status.report else ()
        ended = {task.task_id for task in tasks if task.state is TaskState.ENDED}
        for task in assignment.tasks:
            yield self._task_work(task, ended=task.task_id in ended)
        for results in assignment.results:
            yield Work(WorkKind.RESULTS, query=results.query_id)
        for stream in assignment.streams:
            yield Work(WorkKind.STREAM, subject=stream.name)

    def _leased(self, site: str) -> Iterator[Work]:
        """Leases of other frameworks: the tasks in Selat's own are listed themselves."""
        for record in self._leases.table.of_site(site):
            if record.lease is not None and record.lease.holder not in (STREAMING, BATCH):
                yield Work(WorkKind.LEASE, subject=str(record.slot), holder=record.lease.holder)

    def _task_work(self, task: TaskSpec, *, ended: bool) -> Work:
        kind = WorkKind.MAP if task.split is not None else WorkKind(task.kind.value)
        subject = task.relation.name if task.relation is not None else ""
        place, running = place_of(task.task_id), self._running()
        beside_source = place in running.placement and running.reads(place, VertexKind.SOURCE)
        return Work(
            kind,
            query=task.query_id,
            task=str(task.task_id),
            subject=subject,
            ended=ended,
            beside_source=beside_source,
        )
