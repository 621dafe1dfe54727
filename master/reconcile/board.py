"""The assignments in force: stores a new version of each changed one before any site sees it."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping

from machine.faults import reached
from master.base.errors import NotSettledError
from master.base.faults import FaultPoint
from master.base.logs import line
from master.base.notify import Notifier
from master.records.model import AssignmentMark
from master.records.specs import Assignment, VersionedAssignment
from master.store import ClusterStore, codec

logger = logging.getLogger(__name__)


class AssignmentBoard:
    """Holds one assignment per site, and wakes the watchers of a site when it changes."""

    def __init__(self, store: ClusterStore, *, version: int) -> None:
        self._store = store
        self._version = version
        self._marks = {mark.site: mark for mark in store.assignment_marks()}
        self._current: dict[str, VersionedAssignment] = {}
        self._notifiers: dict[str, Notifier] = {}

    def publish(self, assignments: Mapping[str, Assignment]) -> tuple[str, ...]:
        """Put these assignments in force; returns the sites whose assignment differs from the last one."""
        digests = {site: _digest(assignment) for site, assignment in assignments.items()}
        changed = tuple(site for site, digest in digests.items() if self._digest(site) != digest)
        if changed:
            marks = [AssignmentMark(site, self._version + 1, digests[site]) for site in changed]
            self._store.put_assignment_marks(marks)
            reached(FaultPoint.VERSIONS_STORED)
            self._version += 1
            self._marks.update({mark.site: mark for mark in marks})
        for site, assignment in assignments.items():
            self._current[site] = VersionedAssignment(self._marks[site].version, assignment)
        for site in changed:
            self.changes(site).notify()
            logger.info(line("assignment changed", site=site, version=self._version))
        return changed

    def current(self, site: str) -> VersionedAssignment:
        """The site's assignment. Raises NotSettledError while the restored state is not settled: no site has an
        assignment."""
        if not self._current:
            raise NotSettledError.asking()
        return self._current[site]

    def version(self, site: str) -> int:
        """The version of the site's assignment; 0 before the first."""
        mark = self._marks.get(site)
        return mark.version if mark else 0

    def changes(self, site: str) -> Notifier:
        return self._notifiers.setdefault(site, Notifier())

    def _digest(self, site: str) -> str | None:
        mark = self._marks.get(site)
        return mark.digest if mark else None


def _digest(assignment: Assignment) -> str:
    return hashlib.sha256(codec.dumps(assignment).encode()).hexdigest()
