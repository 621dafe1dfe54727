"""What scans have in memory for a kept plan."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from site_agent.engine import ArrowScan, EmptyScan, RangeScan, Scan, SlicesScan
from site_agent.engine.scans.slices import read_slices
from site_agent.engine.sql.types import schema_of

MAX_ROWS = 1_000_000
MAX_BYTES = 64 * 1024 * 1024
"""Beyond these an epoch is worth several threads, and memory is better spent than on two copies of its rows."""

_NUMBERS = StructType([StructField("id", LongType(), nullable=False)])


@dataclass(frozen=True, slots=True)
class SlotRows:
    """Rows for one slot of a plan."""

    rows: pa.Table
    """In the Arrow types that Spark has for the schema."""
    schema: StructType
    expressions: tuple[tuple[str, str], ...] = ()
    """(column, Spark SQL) over the rows; none: the rows are the columns."""


def slot_rows(scan: Scan) -> SlotRows | None:
    """The rows of a scan; None: they are too many, or not in memory.

    Raises:
        OSError, ArrowException: a file of the scan is gone or broken.
    """
    if isinstance(scan, RangeScan):
        numbers = _numbers(scan.start, scan.end) if _few(scan.end - scan.start) else None
        rows = None if numbers is None else pa.table([numbers], schema=to_arrow_schema(_NUMBERS, timezone="UTC"))
        return None if rows is None else SlotRows(rows, _NUMBERS, scan.expressions)
    if isinstance(scan, EmptyScan):
        return _without_rows(schema_of(scan.columns))
    if isinstance(scan, ArrowScan):
        return _converted(scan.table)
    if isinstance(scan, SlicesScan):
        if not scan.slices:
            schema = schema_of(scan.columns)
            return _without_rows(StructType([schema[name] for name in scan.read_columns]))
        if _few(sum(part.end_row - part.start_row for part in scan.slices)):
            return _converted(read_slices(scan.slices, scan.read_columns))
    return None


def _numbers(start: int, end: int) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), end - start, [None, pa.py_buffer(array("q", range(start, end)))])


def _few(rows: int) -> bool:
    return rows <= MAX_ROWS


def _without_rows(schema: StructType) -> SlotRows | None:
    return SlotRows(to_arrow_schema(schema, timezone="UTC").empty_table(), schema) if schema.fields else None


def _converted(rows: pa.Table) -> SlotRows | None:
    if not rows.num_columns or not _few(rows.num_rows) or rows.nbytes > MAX_BYTES:
        return None
    try:
        schema = from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
        return SlotRows(rows.cast(to_arrow_schema(schema, timezone="UTC")), schema)
    except (PySparkException, pa.ArrowException):
        # Whether a type has no counterpart, or a value none in it, Spark's own conversion is to say.
        return None
