"""Open windows of a view of a merge: rows that wait until the watermark passes their window's end.

State is input that was already combined: rows are kept as they came, and compacted by the stage's combine SQL when
they have grown. A row says where its window starts. Where windows overlap it says where its *pane* starts, of which
windows are made up: it is in each window that the pane lies in, and stays until the last of them is closed. A window is
closed when its end is not after the watermark. Which windows there are is for `WindowSpec` to say.

Rows that came since the last checkpoint are in memory, all others in runs on disk (`site_agent.state`); what memory
has of those is a cache. A run's file keeps the rows of closed windows, too: they are left out when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from planner.values.names import BIN_COLUMN
from site_agent.state.runs import RunFile
from site_agent.state.segments import ALL_BINS, NO_BIN, Extent, extent_of, of_bins, starts_of, without_bins
from site_agent.state.stored import Alive, StoredRows
from site_agent.tasks.spec import WindowSpec

_BEFORE_ALL_US = -(2**63)
_MICROSECONDS = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class _Fresh:
    """Rows that no checkpoint has stored."""

    table: pa.Table
    extent: Extent
    size_bytes: int
    """Counted once: the rows are asked for their size with each batch that joins them."""


class OpenWindows:
    """The rows. `closed_us` is the watermark up to which windows were emitted; rows are late for those.

    Args:
        spec: how windows close.
        closed_us: see above.
        runs: what the last checkpoint names.
        alive: which rows of a run still count; None: all of them, until their window closes.
    """

    def __init__(
        self,
        spec: WindowSpec,
        *,
        closed_us: int | None = None,
        runs: Sequence[RunFile] = (),
        alive: Alive | None = None,
    ) -> None:
        self._spec = spec
        self._alive = alive
        self._fresh: list[_Fresh] = []
        self.runs = [self.stored_rows(run) for run in runs]
        self.closed_us = closed_us

    @property
    def rows(self) -> int:
        """Those on disk included, and of those the ones whose windows have closed since."""
        on_disk = sum(run.run.rows if run.cached is None else run.cached.num_rows for run in self.runs)
        return self.fresh_rows + on_disk

    @property
    def size_bytes(self) -> int:
        """What all rows take in memory, or would."""
        on_disk = sum(run.run.raw_bytes if run.cached is None else run.memory_bytes for run in self.runs)
        return self.fresh_bytes + on_disk

    @property
    def fresh_rows(self) -> int:
        return sum(fresh.table.num_rows for fresh in self._fresh)

    @property
    def fresh_has_bins(self) -> bool:
        """Whether the bin of each row that no checkpoint has stored is known."""
        return all(fresh.extent.has_bins for fresh in self._fresh)

    @property
    def fresh_bytes(self) -> int:
        return sum(fresh.size_bytes for fresh in self._fresh)

    @property
    def cached_bytes(self) -> int:
        """Of rows in memory that are on disk as well."""
        return sum(run.memory_bytes for run in self.runs)

    def add(self, tables: Sequence[pa.Table], *, late_us: int | None = None) -> int:
        """Take rows in; those whose windows were all emitted are dropped.

        Returns:
            How many came too late for a window that they are in.
        """
        late = 0
        for table in tables:
            kept = self._still_open(table)
            late += table.num_rows - kept.num_rows
            if self._spec.panes and self.closed_us is not None and kept.num_rows:
                missed = pc.less(starts_of(kept, self._spec.column), self._spec.last_end_us(self.closed_us))
                late += pc.sum(missed).as_py() or 0
            self._add_fresh(kept)
        return late

    def begin_at(self, start_us: int) -> None:
        """Leave out all windows that begin earlier, as if they were emitted; rows of them alone are dropped."""
        out_us = self._spec.all_before_us(start_us)
        self.advance(max(out_us, _BEFORE_ALL_US if self.closed_us is None else self.closed_us))

    def ends_by(self, watermark_us: int | None) -> int:
        """How many rows may be of windows that end at or before the watermark and are not closed; never too few."""
        return self._rows_of(self._due(watermark_us, ALL_BINS))

    def has_bins(self, watermark_us: int | None) -> bool:
        """Whether the bin of each row is known that may be of windows that the watermark ends."""
        wanted = self._due(watermark_us, ALL_BINS)
        extents = [fresh.extent for fresh in self._fresh]
        extents += [segment.extent for run in self.runs for segment in run.run.segments]
        return all(extent.has_bins for extent in extents if wanted(extent))

    def closing(self, watermark_us: int | None, bins: range = ALL_BINS) -> pa.Table | None:
        """The rows of these bins in all windows that end at or before the watermark and are not closed; None: none.

        A row that is in several of them comes once for each, with its start. Nothing changes until `advance`.

        Raises:
            DamagedStateError: a run is not as it was written.
        """
        wanted = self._due(watermark_us, bins)
        found = [of_bins(fresh.table, bins) for fresh in self._fresh if wanted(fresh.extent)]
        for run in self.runs:
            found += [of_bins(table, bins) for table in run.read(wanted)]
        if watermark_us is None or not found:
            return None
        rows = self._still_open(pa.concat_tables(found, promote_options="permissive"))
        if not rows.num_rows:
            return None
        starts = starts_of(rows, self._spec.column)
        if self._spec.panes:
            closed = self._of_windows(rows, starts, watermark_us)
        else:
            closed = rows.filter(pc.less_equal(starts, watermark_us - self._spec.length_us))
        return without_bins(closed) if closed is not None and closed.num_rows else None

    def advance(self, watermark_us: int | None) -> None:
        """All windows that end at or before the watermark are closed: their rows go."""
        if watermark_us is None or (self.closed_us is not None and watermark_us <= self.closed_us):
            return
        self.closed_us = watermark_us
        open_us = self._open_from_us
        fresh, self._fresh = self._fresh, []
        for item in fresh:
            # A copy, so that a small remainder does not keep the large buffers it was filtered from alive.
            rows = item.table if item.extent.first_us >= open_us else self._still_open(item.table).combine_chunks()
            self._add_fresh(rows)
        self.runs = [run for run in self.runs if any(s.extent.last_us >= open_us for s in run.run.segments)]
        for run in self.runs:
            cached = run.cached
            if cached is not None and any(s.extent.first_us < open_us for s in run.run.segments):
                run.cached = self._still_open(cached).combine_chunks()

    def crosses_boundary(self, watermark_us: int | None) -> bool:
        """Return True if moving the watermark there may let results out: it ends a window, with rows or without."""
        if watermark_us is None:
            return False
        return self.closed_us is None or self._boundary(watermark_us) > self._boundary(self.closed_us)

    def _boundary(self, watermark_us: int) -> int:
        """Return what grows when the watermark lets results out."""
        return self._spec.last_end_us(watermark_us)

    def steps(self, watermark_us: int | None) -> list[int | None]:
        """Return the watermarks at which to stop on the way to one, the last of them."""
        return [watermark_us]

    def grouped(self, rows: pa.Table) -> pa.Table:
        """The rows as the combining SQL takes them together."""
        return rows

    def fresh(self, bins: range = ALL_BINS) -> pa.Table | None:
        """The rows of these bins that no checkpoint has stored; None: there are none."""
        found = [of_bins(f.table, bins) for f in self._fresh if f.extent.meets(bins)]
        rows = pa.concat_tables(found, promote_options="permissive") if found else None
        return rows if rows is not None and rows.num_rows else None

    def replace_fresh(self, rows: pa.Table | None) -> None:
        """Put these rows in the place of all that no checkpoint has stored."""
        self._fresh = []
        if rows is not None:
            self._add_fresh(rows.combine_chunks())

    def stored_rows(self, run: RunFile, cached: pa.Table | None = None) -> StoredRows:
        """A run of this view, and its rows where memory has them."""
        return StoredRows(run, cached, self._alive)

    def filter_fresh(self, keep: Callable[[pa.Table], pa.Table]) -> None:
        """Keep of the rows that no checkpoint has stored only those that `keep` returns."""
        fresh, self._fresh = self._fresh, []
        for item in fresh:
            rows = keep(item.table)
            if rows is item.table:
                self._fresh.append(item)
            else:
                # A copy, so that a small remainder does not keep the large buffers it was filtered from alive.
                self._add_fresh(rows.combine_chunks())

    def newest(self) -> pa.Table | None:
        """The rows that came last, if no checkpoint has stored them."""
        return self._fresh[-1].table if self._fresh else None

    def clear(self) -> None:
        """All rows go; their windows stay open."""
        self._fresh, self.runs = [], []

    def of_window(self, start_us: int, bins: range = ALL_BINS) -> Iterator[pa.Table]:
        """The rows of a window or pane, and of segments that have some of these bins. Raises DamagedStateError."""

        def wanted(extent: Extent) -> bool:
            return extent.first_us <= start_us <= extent.last_us and extent.meets(bins)

        stored = (table for run in self.runs for table in run.read(wanted))
        for rows in chain((fresh.table for fresh in self._fresh if wanted(fresh.extent)), stored):
            yield rows.filter(pc.equal(starts_of(rows, self._spec.column), start_us))

    def stored(self, runs: Sequence[StoredRows], bins: range) -> pa.Table | None:
        """The rows of these bins and of open windows that runs have; None: there are none. Raises DamagedStateError."""
        columns = [run.run.columns.empty_table() for run in runs]
        tables = [of_bins(table, bins) for run in runs for table in run.read(lambda extent: extent.meets(bins))]
        # The columns are those of all runs, whichever of them have rows of these bins.
        rows = self._still_open(pa.concat_tables([*columns, *tables], promote_options="permissive"))
        return rows if rows.num_rows else None

    def stored_open(self) -> Iterator[pa.Table]:
        """The rows of open windows that runs have, in pieces, each of one segment. Raises DamagedStateError."""
        open_us = self._open_from_us
        for run in self.runs:
            for table in run.read(lambda extent: extent.last_us >= open_us):
                rows = self._still_open(table)
                if rows.num_rows:
                    yield rows

    def _add_fresh(self, rows: pa.Table) -> None:
        if rows.num_rows:
            if self._spec.by_bins and BIN_COLUMN not in rows.column_names:
                rows = rows.append_column(BIN_COLUMN, pa.repeat(pa.scalar(NO_BIN, pa.int64()), rows.num_rows))
            self._fresh.append(_Fresh(rows, extent_of(rows, self._spec.column), rows.get_total_buffer_size()))

    def _rows_of(self, wanted: Callable[[Extent], bool]) -> int:
        """Return how many rows the tables and segments have that are wanted."""
        fresh_rows: int = sum(fresh.table.num_rows for fresh in self._fresh if wanted(fresh.extent))
        return fresh_rows + sum(run.rows(wanted) for run in self.runs)

    def _due(self, watermark_us: int | None, bins: range) -> Callable[[Extent], bool]:
        """Whether rows may be of these bins, and of windows that end by the watermark and are not closed."""
        spec, closed_us = self._spec, self.closed_us
        if watermark_us is None or (closed_us is not None and watermark_us <= closed_us):
            return lambda _: False
        by_us = watermark_us - (spec.pane_us if spec.panes else spec.length_us)
        open_us = self._open_from_us
        return lambda extent: extent.first_us <= by_us and extent.last_us >= open_us and extent.meets(bins)

    @property
    def _open_from_us(self) -> int:
        """The first start of rows of a window that is not closed."""
        if self.closed_us is None:
            return _BEFORE_ALL_US
        spec = self._spec
        return spec.first_open_us(self.closed_us) if spec.panes else self.closed_us - spec.length_us + 1

    def _still_open(self, table: pa.Table) -> pa.Table:
        if self.closed_us is None or not table.num_rows:
            return table
        return table.filter(pc.greater_equal(starts_of(table, self._spec.column), self._open_from_us))

    def _of_windows(self, rows: pa.Table, starts: pa.ChunkedArray, watermark_us: int) -> pa.Table | None:
        """The rows of panes for each window that is not closed and ends by the watermark."""
        found = []
        for end_us in self._ends(starts, watermark_us):
            is_in = pc.and_(pc.greater_equal(starts, self._spec.start_us(end_us)), pc.less(starts, end_us))
            found.append(_started_at(rows.filter(is_in), self._spec.column, end_us - self._spec.length_us))
        return pa.concat_tables(found) if found else None

    def _ends(self, starts: pa.ChunkedArray, watermark_us: int) -> Iterator[int]:
        """The ends of the windows that panes lie in, between these bounds."""
        spec, extremes = self._spec, pc.min_max(starts).as_py()
        first_us = spec.last_end_us(max(extremes["min"], _BEFORE_ALL_US if self.closed_us is None else self.closed_us))
        last_us = min(extremes["max"] + spec.length_us, watermark_us)
        yield from range(first_us + spec.slide_us, last_us + 1, spec.slide_us)


def _started_at(rows: pa.Table, column: str, start_us: int) -> pa.Table:
    """The rows with this start."""
    place = rows.schema.get_field_index(column)
    field_ = rows.schema.field(place)
    start = pa.scalar(start_us, pa.int64()).cast(_MICROSECONDS).cast(field_.type)
    return rows.set_column(place, field_, pa.repeat(start, rows.num_rows))
