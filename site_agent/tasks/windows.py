"""Open windows of a merge: partial rows that wait until the watermark passes their window's end.

State is input that was already combined: rows are kept as they came, and compacted by the stage's combine SQL when
they have grown. Windows begin every slide, and the length is a multiple of it, so they end at multiples of the slide.
A row says where its window starts. Where windows overlap it says where its *pane* starts, a slide long: it is in each
window that the pane lies in, and stays until the last of them is closed. A window is closed when its end is not after
the watermark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from site_agent.tasks.spec import WindowSpec

_BEFORE_ALL_US = -(2**63)
_MICROSECONDS = pa.timestamp("us", tz="UTC")


class OpenWindows:
    """The buffer. `closed_us` is the watermark up to which windows were emitted; rows are late for those."""

    def __init__(self, spec: WindowSpec, *, closed_us: int | None = None) -> None:
        self._spec = spec
        self._rows = _Rows(spec.column)
        self.closed_us = closed_us

    @property
    def rows(self) -> int:
        return sum(t.num_rows for t in self._rows.tables)

    @property
    def size_bytes(self) -> int:
        return sum(t.get_total_buffer_size() for t in self._rows.tables)

    def add(self, tables: Sequence[pa.Table]) -> int:
        """Take rows in; those whose windows were all emitted are dropped.

        Returns:
            How many came too late for a window that they are in.
        """
        late = 0
        for table in tables:
            kept = self._still_open(table)
            late += table.num_rows - kept.num_rows
            if self._spec.panes and self.closed_us is not None and kept.num_rows:
                missed = pc.less_equal(self._rows.starts(kept), self.closed_us - self._spec.slide_us)
                late += pc.sum(missed).as_py() or 0
            self._rows.add(kept)
        return late

    def begin_at(self, start_us: int) -> None:
        """Leave out all windows that begin earlier, as if they were emitted; rows of them alone are dropped."""
        out_us = start_us + self._spec.length_us - 1
        self.closed_us = max(out_us, _BEFORE_ALL_US if self.closed_us is None else self.closed_us)
        rows = self.table()
        if rows is not None:
            self.replace(self._still_open(rows))

    def close(self, watermark_us: int | None) -> pa.Table | None:
        """Take out the rows of all windows that end at or before the watermark; None when there are none.

        A row that is in several of them comes once for each, with its start.
        """
        before_us = _BEFORE_ALL_US if self.closed_us is None else self.closed_us
        if watermark_us is None or (self.closed_us is not None and watermark_us <= before_us):
            return None
        self.closed_us = watermark_us
        earliest_us = self._rows.earliest_us
        first_us = self._spec.slide_us if self._spec.panes else self._spec.length_us
        if earliest_us is None or earliest_us + first_us > watermark_us:
            return None
        rows = pa.concat_tables(self._rows.tables, promote_options="permissive")
        starts = self._rows.starts(rows)
        is_over = pc.less_equal(starts, watermark_us - self._spec.length_us)
        panes = self._spec.panes
        closed = self._of_windows(rows, starts, before_us, watermark_us) if panes else rows.filter(is_over)
        if pc.any(is_over).as_py():
            self.replace(rows.filter(pc.invert(is_over)))
        return closed if closed is not None and closed.num_rows else None

    def crosses_boundary(self, watermark_us: int | None) -> bool:
        """Whether moving the watermark there ends at least one window, with rows or without."""
        if watermark_us is None:
            return False
        slide_us = self._spec.slide_us
        return self.closed_us is None or watermark_us // slide_us > self.closed_us // slide_us

    def table(self) -> pa.Table | None:
        """All open rows; None when there are none."""
        tables = self._rows.tables
        return pa.concat_tables(tables, promote_options="permissive") if tables else None

    def replace(self, rows: pa.Table | None) -> None:
        """Put these open rows in the place of all."""
        self._rows = _Rows(self._spec.column)
        if rows is not None:
            # A copy, so that a small remainder does not keep the large buffers it was filtered from alive.
            self._rows.add(rows.combine_chunks())

    def _still_open(self, table: pa.Table) -> pa.Table:
        if self.closed_us is None or not table.num_rows:
            return table
        return table.filter(pc.greater(self._rows.starts(table), self.closed_us - self._spec.length_us))

    def _of_windows(
        self, rows: pa.Table, starts: pa.ChunkedArray, before_us: int, watermark_us: int
    ) -> pa.Table | None:
        """The rows of panes for each window that ends after `before_us` and not after the watermark."""
        found = []
        for end_us in self._ends(starts, before_us, watermark_us):
            start_us = end_us - self._spec.length_us
            is_in = pc.and_(pc.greater_equal(starts, start_us), pc.less(starts, end_us))
            found.append(_started_at(rows.filter(is_in), self._spec.column, start_us))
        return pa.concat_tables(found) if found else None

    def _ends(self, starts: pa.ChunkedArray, before_us: int, watermark_us: int) -> Iterator[int]:
        """The ends of the windows that panes lie in, between these bounds."""
        slide_us = self._spec.slide_us
        extremes = pc.min_max(starts).as_py()
        first_us = max(extremes["min"], before_us) // slide_us * slide_us + slide_us
        last_us = min(extremes["max"] + self._spec.length_us, watermark_us)
        yield from range(first_us, last_us + 1, slide_us)


@dataclass(slots=True)
class _Rows:
    """Tables of rows, and the earliest start in them."""

    column: str
    tables: list[pa.Table] = field(default_factory=list)
    earliest_us: int | None = None

    def add(self, table: pa.Table) -> None:
        if not table.num_rows:
            return
        self.tables.append(table)
        earliest_us = pc.min(self.starts(table)).as_py()
        if self.earliest_us is None or earliest_us < self.earliest_us:
            self.earliest_us = earliest_us

    def starts(self, table: pa.Table) -> pa.ChunkedArray:
        return table.column(self.column).cast(_MICROSECONDS).cast(pa.int64())


def _started_at(rows: pa.Table, column: str, start_us: int) -> pa.Table:
    """The rows with this start."""
    place = rows.schema.get_field_index(column)
    field_ = rows.schema.field(place)
    start = pa.scalar(start_us, pa.int64()).cast(_MICROSECONDS).cast(field_.type)
    return rows.set_column(place, field_, pa.repeat(start, rows.num_rows))
