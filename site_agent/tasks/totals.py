"""Rows of a merge that are added up by key: what comes out of a cell of time is made of all rows of a key up to then.

Rows stay when their cell is out. Which ones are to be looked at follows from the watermark before and after a step: the
keys with rows in a cell that the step ends, and of these all rows. They are handed out once for each such cell, under
its start, so that the stage's SQL groups them as it groups rows of windows. Nothing is marked as out, and nothing that
Spark computes comes back.

What a checkpoint combines of cells that are out becomes one cell, the last: their rows count together from now on.
Where a key begins anew after a silence, rows say the first of their cells as well, as rows of sessions say where they
begin: the rows of a life are those whose cells are not farther apart than the silence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from planner.values.names import LIFE_COLUMN, NEW_COLUMN, SINCE_COLUMN
from site_agent.state.segments import ALL_BINS, without_bins
from site_agent.state.stored import StoredRows
from site_agent.tasks.instants import BEFORE_ALL_US, Mask, kept_of
from site_agent.tasks.islands import Instants, Islands, instants, islands_of, numbered, with_instants
from site_agent.tasks.spec import SessionSpec, TotalsSpec
from site_agent.tasks.staying import StayingRows

CELLS_AT_ONCE = 64
"""A step ends no more cells that have rows: the rows of a key are handed out for each of its cells among them."""
_END = "_end"


class OpenTotals(StayingRows):
    """The rows. `closed_us` is the watermark up to which cells are out."""

    def add(self, tables: Sequence[pa.Table], *, late_us: int | None = None) -> int:
        """Take rows in, but for those of cells that end by an instant; None: all.

        Returns:
            How many were dropped.
        """
        first_us = None if late_us is None else late_us - self._spec.length_us + 1
        return super().add(tables, late_us=first_us)

    def _boundary(self, watermark_us: int) -> int:
        return self._spec.last_end_us(watermark_us)

    def steps(self, watermark_us: int | None) -> list[int | None]:
        """Return the watermarks at which to stop on the way to one, so that no step ends too many cells.

        Raises:
            DamagedStateError: a run is not as it was written.
        """
        if watermark_us is None or not self.ends_by(watermark_us):
            return [watermark_us]
        tables = self._tables(lambda extent: extent.last_us >= self._first_new_us, ALL_BINS)
        starts = np.concatenate([np.zeros(0, np.int64), *map(self._instants, tables)])
        cells = np.unique(starts[self._are_new(starts, watermark_us)])
        stops = cells[CELLS_AT_ONCE - 1 : -1 : CELLS_AT_ONCE] + self._spec.length_us
        return [*map(int, stops), watermark_us]

    def closing(self, watermark_us: int | None, bins: range = ALL_BINS) -> pa.Table | None:
        """Return the rows of these bins, for each cell that ends by the watermark and is not out all rows of its keys
        up to then, under its start; None: no cell has rows. Nothing changes until `advance`.

        Raises:
            DamagedStateError: a run is not as it was written.
        """
        rows = None if watermark_us is None else self._rows_of_new_keys(watermark_us, bins)
        return None if watermark_us is None or rows is None else self._by_cells(without_bins(rows), watermark_us)

    def advance(self, watermark_us: int | None) -> None:
        """All cells that end by the watermark are out. The rows of keys that have ended, or have been silent for too
        long, go; those on disk, where memory does not have them, go when runs are merged."""
        if watermark_us is None or (self.closed_us is not None and watermark_us <= self.closed_us):
            return
        ends_a_cell = self.crosses_boundary(watermark_us)
        self.closed_us = watermark_us
        if self._forgets and ends_a_cell:
            self._let_go_but(self._alive_of)

    def grouped(self, rows: pa.Table) -> pa.Table:
        """Return the rows, those of cells that are out under the last of them, which their key has in one life."""
        if self.closed_us is None:
            return rows
        out = self._instants(rows) < self._first_new_us
        if not out.any():
            return rows
        some = rows.filter(pa.array(out))
        lives = self._lives(some)
        last = lives.ends - self._silence_us
        some = with_instants(some, self._spec.column, last)
        if self._totals.ttl_us is not None:
            some = with_instants(some, SINCE_COLUMN, lives.starts)
        return pa.concat_tables([some, rows.filter(pa.array(~out))])

    def stored(self, runs: Sequence[StoredRows], bins: range) -> pa.Table | None:
        """Return the rows of these bins that runs have, but for those of keys that are forgotten; None: there are none.

        Raises:
            DamagedStateError: a run is not as it was written.
        """
        return self._stored_open_of(runs, bins, self._alive_of)

    @property
    def _keys(self) -> Sequence[str]:
        return self._totals.keys

    @property
    def _cell_us(self) -> int:
        return self._spec.length_us

    @property
    def _totals(self) -> TotalsSpec:
        assert self._spec.totals is not None
        return self._spec.totals

    @property
    def _forgets(self) -> bool:
        return bool(self._totals.ends) or self._totals.ttl_us is not None

    @property
    def _silence_us(self) -> int:
        """Return how long after the start of a cell the next one of the same life begins, at most."""
        ttl_us = self._totals.ttl_us
        return 0 if ttl_us is None else self._spec.length_us + ttl_us - 1

    def _lives(self, rows: pa.Table) -> Islands:
        """Return the first cell of the life that each row is of, and the last instant at which another cell of it may
        begin; where keys never begin anew, their first and last cells."""
        starts, ttl_us = self._instants(rows), self._totals.ttl_us
        if ttl_us is None:
            return _extremes(numbered([rows.column(key) for key in self._totals.keys], rows.num_rows), starts)
        narrow = rows.select(list(dict.fromkeys((SINCE_COLUMN, *self._totals.keys))))
        narrow = narrow.append_column(_END, pa.array(starts + self._silence_us).cast(pa.timestamp("us", tz="UTC")))
        return islands_of(narrow, SINCE_COLUMN, SessionSpec(_END, self._totals.keys))

    def _alive_of(self, tables: Sequence[pa.Table]) -> list[pa.Table]:
        """Return the rows of keys that are not forgotten, of all rows there are or all in some bins."""
        totals, closed_us = self._totals, self.closed_us
        if not tables or closed_us is None or not self._forgets:
            return list(tables)
        own = (self._spec.column, *([SINCE_COLUMN] if totals.ttl_us is not None else []), *totals.keys)
        names = list(dict.fromkeys((*own, *([totals.ends] if totals.ends else []))))
        rows = pa.concat_tables([table.select(names) for table in tables], promote_options="permissive")
        kept = np.ones(rows.num_rows, np.bool_)
        if totals.ends:
            # A key may end within a cell, which is not out before it ends itself.
            kept &= instants(rows, totals.ends) > self._spec.last_end_us(closed_us)
        if totals.ttl_us is not None:
            kept &= self._lives(rows).ends >= closed_us
        return kept_of(tables, kept)

    def _by_cells(self, rows: pa.Table, watermark_us: int) -> pa.Table:
        """Return the rows of keys with new cells, once for each of these and those before it."""
        starts = self._instants(rows)
        lives = numbered([rows.column(key) for key in self._totals.keys], rows.num_rows)
        if self._totals.ttl_us is not None:
            lives = numbered([pa.chunked_array([lives]), pa.chunked_array([self._lives(rows).starts])], rows.num_rows)
        new = self._are_new(starts, watermark_us)
        # The cells before a step are one: the last of them.
        cells = np.where(new, starts, BEFORE_ALL_US)
        order = np.lexsort((cells, lives))
        lives, cells, starts = lives[order], cells[order], starts[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (lives[1:] != lives[:-1]) | (cells[1:] != cells[:-1])
        firsts = np.flatnonzero(begins)
        ends = np.append(firsts[1:], len(order))
        first_of_life = np.searchsorted(lives, lives[firsts], side="left")
        last_starts = np.maximum.reduceat(starts, firsts)
        has_new = np.isin(lives[firsts], lives[cells != BEFORE_ALL_US])
        is_new = cells[firsts] != BEFORE_ALL_US
        told = is_new | (has_new & self._totals.compares)
        return self._copies(rows, order, told, (first_of_life, ends, last_starts, is_new, lives[firsts]))

    def _copies(
        self,
        rows: pa.Table,
        order: npt.NDArray[np.int64],
        told: Mask,
        groups: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Instants, Mask, npt.NDArray[np.int64]],
    ) -> pa.Table:
        """Return the rows of each group that is told, from the first of its life on, with its start and its flags."""
        firsts, ends, starts, is_new, lives = (values[told] for values in groups)
        sizes = ends - firsts
        before = np.cumsum(sizes) - sizes
        places = np.arange(int(sizes.sum())) - np.repeat(before - firsts, sizes)
        copies = with_instants(rows.take(pa.array(order[places])), self._spec.column, np.repeat(starts, sizes))
        copies = copies.append_column(NEW_COLUMN, pa.array(np.repeat(is_new, sizes)))
        return copies.append_column(LIFE_COLUMN, pa.array(np.repeat(lives, sizes)))


def _extremes(keys: npt.NDArray[np.int64], starts: Instants) -> Islands:
    """Return the least and the greatest of the starts that each key has."""
    if not len(starts):
        return Islands(starts, starts)
    size = int(keys.max()) + 1
    first, last = np.full(size, np.iinfo(np.int64).max), np.full(size, BEFORE_ALL_US)
    np.minimum.at(first, keys, starts)
    np.maximum.at(last, keys, starts)
    return Islands(first[keys], last[keys])
