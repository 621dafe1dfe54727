"""Tracks whether the tasks of cancelled queries are gone from their sites."""

from __future__ import annotations

from collections.abc import Mapping

from master.queries.progress import tasks_gone
from master.reconcile.assignments import task_sites
from master.reconcile.board import AssignmentBoard
from master.records.model import QueryRecord
from master.sites.status import Sites, SiteStatus
from planner.graph.ids import TaskId


class Removals:
    """Remembers, for each cancelled query, the first assignment versions without its tasks."""

    def __init__(self, board: AssignmentBoard, sites: Sites) -> None:
        self._board = board
        self._sites = sites
        self._removed_at: dict[str, dict[str, int]] = {}
        """By query and site, the version."""

    def note(self, record: QueryRecord, placement: Mapping[TaskId, str]) -> None:
        """Record that the assignments in force have no tasks of this query. Only the first call for a query counts."""
        if record.id not in self._removed_at:
            self._removed_at[record.id] = {site: self._board.version(site) for site in task_sites(record, placement)}

    def gone(self, record: QueryRecord) -> bool:
        """Whether every site that is alive has applied an assignment without the query's tasks."""
        removed_at = self._removed_at.get(record.id)
        if removed_at is None:
            return False
        alive = self._sites.alive()
        reached = [s for s in self._sites.all() if s.name in alive and s.name in removed_at]
        return tasks_gone(((s.name, _version_in_force(s)) for s in reached), removed_at)

    def forget(self, query: str) -> None:
        self._removed_at.pop(query, None)


def _version_in_force(status: SiteStatus) -> int:
    """The version that the site has applied; -1 before it has reported since it registered, or since the master's
    start."""
    return status.report.assignment_version if status.report else -1
