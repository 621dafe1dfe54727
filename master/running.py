"""All that runs now, worked out anew when a query has come, gone or changed its state."""

from __future__ import annotations

from master.queries import QueryRegistry
from master.sharing import running_of
from planner.sharing.running import Running


class RunningQueries:
    """The operators of all live queries, with those of queries that are over where they are needed."""

    def __init__(self, queries: QueryRegistry) -> None:
        self._queries = queries
        self._version = -1
        self._running = Running()

    def now(self) -> Running:
        """Not to be changed."""
        if self._version != self._queries.version:
            records = self._queries.all()
            self._running = running_of(records, frozenset(record.id for record in records if record.state.live))
            self._version = self._queries.version
        return self._running
