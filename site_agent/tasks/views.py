"""The views of a merge: for each the rows of its open windows; all close together, at one watermark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from planner.values.names import INPUT_VIEW
from site_agent.engine import ArrowScan, EmptyScan, Field, Scan
from site_agent.tasks.spec import ViewSpec, WindowSpec
from site_agent.tasks.windows import OpenWindows

COMPACT_ROWS = 20_000
"""Open windows of a view with fewer rows are not worth a compaction."""

Rows = Mapping[str, pa.Table]
"""By view; views without rows are not in it."""


class OpenViews:
    """The state of a merge. `closed_us` is the watermark up to which windows were emitted."""

    def __init__(self, spec: WindowSpec, *, closed_us: int | None = None) -> None:
        self._spec = spec
        self._windows = {view.name: OpenWindows(spec, closed_us=closed_us) for view in spec.views}
        self._compacted_rows = dict.fromkeys(self._windows, 0)

    @property
    def closed_us(self) -> int | None:
        return next(iter(self._windows.values())).closed_us

    @property
    def rows(self) -> int:
        return sum(windows.rows for windows in self._windows.values())

    @property
    def size_bytes(self) -> int:
        return sum(windows.size_bytes for windows in self._windows.values())

    def begin_at(self, start_us: int) -> None:
        """Leave out all windows that begin earlier."""
        for windows in self._windows.values():
            windows.begin_at(start_us)

    def add(self, view: str, table: pa.Table) -> int:
        """Take rows in; those of windows already emitted are dropped.

        Returns:
            How many were dropped.

        Raises:
            KeyError: the merge has no such view.
        """
        return self._windows[view].add([table])

    def crosses_boundary(self, watermark_us: int | None) -> bool:
        """Whether moving the watermark there ends at least one window, with rows or without."""
        return next(iter(self._windows.values())).crosses_boundary(watermark_us)

    def close(self, watermark_us: int | None) -> Rows:
        """Take out the rows of all windows that end at or before the watermark."""
        closed = {view: windows.close(watermark_us) for view, windows in self._windows.items()}
        return {view: rows for view, rows in closed.items() if rows is not None}

    def can_match(self, closed: Rows) -> bool:
        """Whether these rows can give a result."""
        return bool(closed) and all(view.name in closed for view in self._spec.views if view.required)

    def grown(self) -> Iterator[tuple[ViewSpec, pa.Table]]:
        """Views whose partials have become worth a compaction."""
        for view in self._spec.views:
            windows = self._windows[view.name]
            if view.combine_sql and windows.rows >= max(COMPACT_ROWS, 2 * self._compacted_rows[view.name]):
                yield view, windows.table()

    def compact(self, view: str, combined: pa.Table) -> None:
        """Put the combined partials of a view in the place of all."""
        self._windows[view].replace(combined)
        self._compacted_rows[view] = combined.num_rows

    def tables(self) -> Rows:
        """All open rows."""
        found = {view: windows.table() for view, windows in self._windows.items()}
        return {view: rows for view, rows in found.items() if rows is not None}


def scans_of(closed: Rows, columns: Mapping[str, tuple[Field, ...]]) -> tuple[Scan, dict[str, Scan]]:
    """Rows for the engine: those of `input`, and those of the other views; `columns` has the schema of each."""
    scans: dict[str, Scan] = {
        view: ArrowScan(closed[view]) if view in closed else EmptyScan(fields) for view, fields in columns.items()
    }
    return scans.pop(INPUT_VIEW), scans
