"""Open windows of a merge: partial rows that wait until the watermark passes their window's end.

State is input that was already combined: rows are kept as they came, and compacted by the stage's combine SQL when
they have grown. A row's window ends at its window-start column plus the window length; it is closed when that end is
not after the watermark. Windows begin every slide, and the length is a multiple of it, so they end at multiples of the
slide too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class Split:
    """Rows by what a watermark means for them."""

    closed: pa.Table | None
    late: int


class OpenWindows:
    """The buffer. `closed_us` is the watermark up to which windows were emitted; rows of those are late."""

    def __init__(self, column: str, length_us: int, slide_us: int, *, closed_us: int | None = None) -> None:
        self._column = column
        self._length_us = length_us
        self._slide_us = slide_us
        self._tables: list[pa.Table] = []
        self._earliest_start_us: int | None = None
        self.closed_us = closed_us

    @property
    def rows(self) -> int:
        return sum(t.num_rows for t in self._tables)

    @property
    def size_bytes(self) -> int:
        return sum(t.get_total_buffer_size() for t in self._tables)

    def add(self, tables: Sequence[pa.Table]) -> int:
        """Take rows in; those of windows already emitted are dropped.

        Returns:
            How many were dropped.
        """
        dropped = 0
        for table in tables:
            kept = self._still_open(table)
            dropped += table.num_rows - kept.num_rows
            if kept.num_rows:
                self._tables.append(kept)
                self._note_earliest(kept)
        return dropped

    def begin_at(self, start_us: int) -> None:
        """Leave out all windows that begin earlier, as if they were emitted; rows of them are dropped."""
        self.closed_us = max(start_us + self._length_us - 1, -(2**63) if self.closed_us is None else self.closed_us)
        rows = self.table()
        if rows is not None:
            self.replace(self._still_open(rows))

    def close(self, watermark_us: int | None) -> pa.Table | None:
        """Take out the rows of all windows that end at or before the watermark; None when there are none."""
        if watermark_us is None or (self.closed_us is not None and watermark_us <= self.closed_us):
            return None
        self.closed_us = watermark_us
        if self._earliest_start_us is None or self._earliest_start_us + self._length_us > watermark_us:
            return None
        rows = pa.concat_tables(self._tables, promote_options="permissive")
        is_closed = pc.less_equal(self._starts(rows), pa.scalar(watermark_us - self._length_us, pa.int64()))
        closed = rows.filter(is_closed)
        self.replace(rows.filter(pc.invert(is_closed)))
        return closed

    def crosses_boundary(self, watermark_us: int | None) -> bool:
        """Whether moving the watermark there ends at least one window, with rows or without."""
        if watermark_us is None:
            return False
        return self.closed_us is None or watermark_us // self._slide_us > self.closed_us // self._slide_us

    def table(self) -> pa.Table | None:
        """All open rows; None when there are none."""
        return pa.concat_tables(self._tables, promote_options="permissive") if self._tables else None

    def replace(self, rows: pa.Table | None) -> None:
        """Put these open rows in the place of all."""
        self._tables = []
        self._earliest_start_us = None
        if rows is not None and rows.num_rows:
            # A copy, so that a small remainder does not keep the large buffers it was filtered from alive.
            self._tables = [rows.combine_chunks()]
            self._note_earliest(rows)

    def _starts(self, table: pa.Table) -> pa.ChunkedArray:
        return table.column(self._column).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())

    def _still_open(self, table: pa.Table) -> pa.Table:
        if self.closed_us is None or not table.num_rows:
            return table
        return table.filter(pc.greater(self._starts(table), pa.scalar(self.closed_us - self._length_us, pa.int64())))

    def _note_earliest(self, table: pa.Table) -> None:
        earliest = pc.min(self._starts(table)).as_py()
        if self._earliest_start_us is None or earliest < self._earliest_start_us:
            self._earliest_start_us = earliest
