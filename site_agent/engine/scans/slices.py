"""Consecutive rows of Parquet files that we wrote, read without Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from site_agent.engine import ParquetSlice


def read_slices(slices: Sequence[ParquetSlice], columns: Sequence[str]) -> pa.Table:
    """The rows of the slices, in order; only the row groups that hold them are decoded.

    Raises:
        OSError: a file is gone.
    """
    return pa.concat_tables([_read(s, list(columns)) for s in slices])


def _read(wanted: ParquetSlice, columns: list[str]) -> pa.Table:
    with pq.ParquetFile(wanted.path, memory_map=True) as file:
        groups, first_row = _overlapping(file.metadata, wanted)
        rows = file.read_row_groups(groups, columns=columns, use_threads=False)
    return rows.slice(wanted.start_row - first_row, wanted.end_row - wanted.start_row).select(columns)


def _overlapping(metadata: pq.FileMetaData, wanted: ParquetSlice) -> tuple[list[int], int]:
    """Row groups that hold wanted rows, and the number of the first row in them."""
    groups: list[int] = []
    first_row = position = 0
    for number in range(metadata.num_row_groups):
        end = position + metadata.row_group(number).num_rows
        if position < wanted.end_row and end > wanted.start_row:
            if not groups:
                first_row = position
            groups.append(number)
        position = end
    return groups, first_row
