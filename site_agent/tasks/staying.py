"""Open rows of a merge that stay when they are out, for later rows of their keys need them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import pyarrow as pa

from site_agent.tasks.instants import BEFORE_ALL_US, Mask, OpenInstants
from site_agent.tasks.islands import Instants, instants, of_keys


class StayingRows(OpenInstants):
    """The rows. `closed_us` is the watermark up to which they are out.

    A row comes out when the watermark has passed the cell of time that begins at its instant. Which rows a step lets
    out, and which it needs beside them, follows from the watermarks before and after it.
    """

    @property
    @abstractmethod
    def _keys(self) -> Sequence[str]:
        """Return the columns of the keys."""

    @property
    @abstractmethod
    def _cell_us(self) -> int:
        """Return the length of the cell that begins at a row's instant."""

    def ends_by(self, watermark_us: int | None) -> int:
        """Return how many rows may come out at the watermark and are not out; never too few."""
        if watermark_us is None or (self.closed_us is not None and watermark_us <= self.closed_us):
            return 0
        first_us, last_us = self._first_new_us, watermark_us - self._cell_us
        return self._rows_of(lambda extent: extent.first_us <= last_us and extent.last_us >= first_us)

    @property
    def _first_new_us(self) -> int:
        """Return the first instant of rows that are not out."""
        return BEFORE_ALL_US if self.closed_us is None else self.closed_us - self._cell_us + 1

    def _instants(self, rows: pa.Table) -> Instants:
        return instants(rows, self._spec.column)

    def _are_new(self, at_us: Instants, watermark_us: int) -> Mask:
        """Return a mask of the rows that come out at the watermark and are not out, by their instants."""
        return (at_us >= self._first_new_us) & (at_us <= watermark_us - self._cell_us)

    def _rows_of_new_keys(self, watermark_us: int, bins: range) -> pa.Table | None:
        """Return the rows of these bins that are out at the watermark, of the keys of which some are new; None: none.

        Raises:
            DamagedStateError: a run is not as it was written.
        """
        if not self.ends_by(watermark_us):
            return None
        found = [(table, self._instants(table)) for table in self._tables(lambda _: True, bins)]
        new = [table.filter(pa.array(self._are_new(at_us, watermark_us))) for table, at_us in found]
        some = pa.concat_tables(new, promote_options="permissive") if new else None
        if some is None or not some.num_rows:
            return None
        out = [table.filter(pa.array(at_us <= watermark_us - self._cell_us)) for table, at_us in found]
        asked = [table.filter(pa.array(of_keys(table, some, self._keys))) for table in out]
        return pa.concat_tables(asked, promote_options="permissive")
