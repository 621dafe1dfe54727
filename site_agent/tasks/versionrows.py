"""The rows of one of two views of which one has versions of the other's rows: which versions are still needed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from planner.values.pairs import PairSide
from site_agent.state.stored import StoredRows
from site_agent.tasks.instants import kept_of
from site_agent.tasks.islands import instants
from site_agent.tasks.pairrows import BEFORE_ALL_US, Needed, OpenRows, Times, pairs_of

Numbers = npt.NDArray[np.int64]
NULL = -1
"""The number of a key with NULL, which is equal to none."""


class OpenVersionRows(OpenRows):
    """The rows of one of the two views: of the second one each until it has come out, of the first one versions."""

    def times(self, rows: pa.Table) -> Times:
        begins = instants(rows, self._spec.column)
        return Times(begins, begins)

    def let_go(self, needed: Needed) -> None:
        """Let go of versions that a newer one replaces, where memory has all; the others go when runs are merged."""
        if self.is_second:
            super().let_go(needed)
            return
        self._let_go_but(self._needed_of)

    def stored(self, runs: Sequence[StoredRows], bins: range) -> pa.Table | None:
        if self.is_second:
            return super().stored(runs, bins)
        return self._stored_open_of(runs, bins, self._needed_of)

    def _needed_of(self, tables: Sequence[pa.Table]) -> list[pa.Table]:
        """Return the versions that no newer one before the watermark replaces, of all there are or all in some bins."""
        if self.closed_us is None or not tables:
            return list(tables)
        side = pairs_of(self._spec).first
        narrow = [table.select([self._spec.column, *side.keys]) for table in tables]
        rows = pa.concat_tables(narrow, promote_options="permissive")
        since, keys = instants(rows, self._spec.column), numbers_of(rows, side, rows, side)[0]
        old = since < self.closed_us
        known = old & (keys != NULL)
        last = np.full(int(keys.max(initial=0)) + 1, BEFORE_ALL_US)
        np.maximum.at(last, keys[known], since[known])
        kept = ~old | (known & (since == last[keys]))
        return kept_of(tables, kept)


def numbers_of(one: pa.Table, own: PairSide, other: pa.Table, its: PairSide) -> tuple[Numbers, Numbers]:
    """Numbers of the keys of two tables, equal where the keys are."""
    total = np.zeros(one.num_rows + other.num_rows, np.int64)
    is_null = np.zeros(len(total), np.bool_)
    for key, same in zip(own.keys, its.keys, strict=True):
        columns = (one.column(key), other.column(same))
        type_ = pa.int64() if all(pa.types.is_integer(column.type) for column in columns) else columns[0].type
        values = pa.chunked_array([chunk for column in columns for chunk in column.cast(type_).chunks], type=type_)
        codes = pc.fill_null(pc.dictionary_encode(values.combine_chunks()).indices, NULL).to_numpy().astype(np.int64)
        is_null |= codes == NULL
        _, total = np.unique(total * (int(codes.max(initial=0)) + 2) + codes + 1, return_inverse=True)
        total = total.astype(np.int64)
    total[is_null] = NULL
    return total[: one.num_rows], total[one.num_rows :]
