"""A run and, while there is memory for it, its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from site_agent.state.runs import RunFile
from site_agent.state.segments import Extent

Alive = Callable[[RunFile, pa.Table], pa.Table]
"""It returns those of a run's rows that still count."""


class StoredRows:
    """Rows of a run of whose windows some are open. Its file may have rows of closed windows as well."""

    def __init__(self, run: RunFile, cached: pa.Table | None = None, alive: Alive | None = None) -> None:
        self.run = run
        self.alive = alive
        """Leaves out rows when it is read; None: all of them count until their window closes."""
        self.memory_bytes = 0
        """The cached rows take so much memory. It is asked for often, and counted when they change."""
        self.cached = cached

    @property
    def cached(self) -> pa.Table | None:
        """All its rows of open windows; None: they are read from the file."""
        return self._cached

    @cached.setter
    def cached(self, rows: pa.Table | None) -> None:
        self._cached = rows
        self.memory_bytes = 0 if rows is None else rows.get_total_buffer_size()

    def rows(self, wanted: Callable[[Extent], bool]) -> int:
        """How many rows its segments that are wanted have; those of closed windows count as well."""
        return sum(segment.rows for segment in self.run.segments if wanted(segment.extent))

    def read(self, wanted: Callable[[Extent], bool]) -> Iterator[pa.Table]:
        """Rows, among which are all of the segments that are wanted. Raises DamagedStateError."""
        # Another merge that needs memory may have it forgotten meanwhile.
        cached = self.cached
        tables = self.run.read(wanted) if cached is None else iter([cached] if cached.num_rows else [])
        for table in tables:
            yield table if self.alive is None else self.alive(self.run, table)
