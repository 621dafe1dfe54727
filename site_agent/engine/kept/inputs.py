"""What a kept plan reads in an epoch: rows in memory, or files."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from site_agent.engine import ArrowScan, EmptyScan, FilesScan, RangeScan, Scan, SlicesScan
from site_agent.engine.scans.files import readable_files, total_bytes
from site_agent.engine.scans.slices import read_slices
from site_agent.engine.sql.types import schema_of

MAX_ROWS = 1_000_000
MAX_BYTES = 64 * 1024 * 1024
"""Beyond these an epoch is worth several threads, and memory is better spent than on two copies of its rows."""

MAX_FILES_BYTES = 8 * 1024 * 1024
"""Text is dear to parse: beyond this, a new plan over several threads ends earlier."""
_PLACES = (1, 4, 16, 64)
"""For how many files a plan may have room."""

_NUMBERS = StructType([StructField("id", LongType(), nullable=False)])


@dataclass(frozen=True, slots=True)
class SlotRows:
    """Rows for one slot of a plan."""

    rows: pa.Table
    """In the Arrow types that Spark has for the schema."""
    schema: StructType
    expressions: tuple[tuple[str, str], ...] = ()
    """(column, Spark SQL) over the rows; none: the rows are the columns."""

    @property
    def shape(self) -> tuple[object, ...]:
        """What a plan depends on."""
        return self.schema.json(), self.expressions

    @property
    def computed(self) -> bool:
        """Whether Spark computes the columns, so that it has to admit the rows too."""
        return bool(self.expressions)


@dataclass(frozen=True, slots=True)
class SlotFiles:
    """Files for the places of a plan, which Spark's own reader decodes."""

    scan: FilesScan
    """The scan whose files they stand for."""
    record_end: str
    """The character that ends each record; empty: a line break, or the format, does."""
    paths: tuple[str, ...]
    broken: int
    """Malformed rows of the scan that are not in these files."""

    @property
    def shape(self) -> tuple[object, ...]:
        """What a plan depends on."""
        scan = self.scan
        options = tuple(sorted(scan.options.items()))
        return scan.format, scan.columns, scan.read_columns, options, self.record_end, self.places

    @property
    def computed(self) -> bool:
        """Spark has to admit the rows."""
        return True

    @property
    def places(self) -> int:
        """For how many files the plan has room."""
        return next(count for count in _PLACES if count >= len(self.paths))


SlotInput = SlotRows | SlotFiles


@contextmanager
def slot_files(scan: FilesScan, scratch: Path) -> Iterator[SlotFiles | None]:
    """The files of a scan, until the context ends; None: they are too many or too large, gone, not all
    of one form, or of partitions.

    Raises:
        EngineError: a file is not what its format says, or has broken records that nothing takes.
        OSError: a file has just gone, or a copy cannot be written.
    """
    size_bytes = sum(part.length for part in scan.parts) if scan.parts else total_bytes(scan.paths)
    many = len(scan.parts or scan.paths) > _PLACES[-1] or size_bytes > MAX_FILES_BYTES
    # What Spark says of a file that is gone depends on how it meets it.
    if many or scan.partitioned_by or not scan.paths or not all(Path(path).is_file() for path in scan.paths):
        yield None
        return
    with readable_files(scan, scratch) as files:
        if len(files.paths) > 1:
            yield None
            return
        ((record_end, paths),) = files.paths.items()
        yield SlotFiles(scan, record_end, paths, len(files.broken))


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
