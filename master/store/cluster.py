"""The cluster, and the versions of its assignments."""

from __future__ import annotations

from collections.abc import Iterable

from master.records.model import AssignmentMark
from master.store import ClusterRecord
from master.store.database import Database, readable


class ClusterTables(Database):
    """See `master.store.ClusterStore`."""

    def cluster(self, proposed_id: str) -> ClusterRecord:
        with self._transaction():
            self._connection.execute("INSERT OR IGNORE INTO cluster VALUES (1, ?, 0, 0)", (proposed_id,))
            row = self._one("SELECT id, version FROM cluster")
        return ClusterRecord(id=row[0], version=row[1])

    def assignment_marks(self) -> tuple[AssignmentMark, ...]:
        with readable("the list of assignments"):
            rows = self._connection.execute("SELECT site, version, digest FROM assignments ORDER BY site")
            return tuple(AssignmentMark(*row) for row in rows)

    def put_assignment_marks(self, marks: Iterable[AssignmentMark]) -> None:
        rows = [(mark.site, mark.version, mark.digest) for mark in marks]
        with self._transaction():
            self._connection.executemany("INSERT OR REPLACE INTO assignments VALUES (?, ?, ?)", rows)
            self._connection.executemany(
                "UPDATE cluster SET version = max(version, ?)", [(version,) for _, version, _ in rows]
            )
