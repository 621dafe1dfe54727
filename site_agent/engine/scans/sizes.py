"""The size of a scan's input as it lies at the site: what would have to be sent if nothing were done there."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache

import pyarrow as pa
import pyarrow.parquet as pq

from site_agent.engine import ArrowScan, FilesScan, ParquetSlice, RangeScan, Scan, SlicesScan
from site_agent.engine.scans.frames import VALUE_BYTES


def input_bytes(scan: Scan) -> int:
    """Bytes of the scan's rows with all their columns, compressed or not, as they lie there.

    Files count as they are on the disk, rows in memory as Arrow, rows of sorted copies as Parquet before compression,
    and generated rows by estimate. What cannot be looked at any more, and what another site sent, counts nothing.
    """
    if isinstance(scan, ArrowScan):
        return int(scan.table.nbytes)
    if isinstance(scan, FilesScan):
        return sum(part.length for part in scan.parts) if scan.parts else sum(map(_file_bytes, scan.paths))
    if isinstance(scan, SlicesScan):
        return sum(map(_slice_bytes, scan.slices))
    if isinstance(scan, RangeScan):
        return (scan.end - scan.start) * len(scan.expressions) * VALUE_BYTES
    return 0


def _file_bytes(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _slice_bytes(part: ParquetSlice) -> int:
    with suppress(OSError, pa.ArrowException):
        return round((part.end_row - part.start_row) * _row_bytes(part.path))
    return 0


@lru_cache(maxsize=256)
def _row_bytes(path: str) -> float:
    """The mean size of a row of a file that never changes once it is written."""
    footer = pq.read_metadata(path)
    size_bytes = sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))
    return size_bytes / footer.num_rows if footer.num_rows else 0.0
