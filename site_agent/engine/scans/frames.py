"""From a scan to a Spark DataFrame, by the cheapest way for its size.

A few rows go into the plan itself and are run in one partition, so that an epoch has no shuffle and no second Spark
stage. Many rows in the plan would fill the driver's heap; they are read from Parquet by all slots, rows in memory
through a file in scratch. Executors that do not see the agent's disk fetch these files (`file_server`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from planner.values.literals import quoted_text
from site_agent.engine import (
    ArrowScan,
    ChunksScan,
    EmptyScan,
    FilesScan,
    MalformedRow,
    ParquetSlice,
    RangeScan,
    Scan,
    SetAside,
    SlicesScan,
)
from site_agent.engine.scans.file_access import FileAccess
from site_agent.engine.scans.files import (
    ReadableFiles,
    converted_columns,
    files_reader,
    literal,
    pick,
    picked,
    readable_files,
    total_bytes,
)
from site_agent.engine.scans.malformed import malformed_rows, read_malformed
from site_agent.engine.scans.parts import READ_ONCE, Origin
from site_agent.engine.scans.slices import read_slices
from site_agent.engine.sql.statements import expression
from site_agent.engine.sql.types import schema_of

SMALL_ROWS = 20_000
SMALL_BYTES = 8 * 1024 * 1024
SMALL_FILES_BYTES = 2 * 1024 * 1024
"""Text is dear to parse: beyond this, files are worth more than one slot."""
VALUE_BYTES = 16
"""The assumed size of a generated value."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows to read, and over how many partitions it is worth to work on them."""

    rows: DataFrame
    partitions: int
    malformed_column: str = ""
    """Column of `rows` that is not NULL in those that are malformed."""
    malformed: Callable[[], Iterator[MalformedRow]] | None = None
    """The malformed rows themselves; costs a Spark job where there is a `malformed_column`."""
    size_bytes: int = 0
    """The approximate size of the input; 0 when it is small or nobody needs it."""
    set_aside: int = 0
    """The number of malformed rows that are not among `rows`."""
    files: tuple[str, ...] = ()
    """Files of this machine, whose rows are all of `rows`; empty when rows come from elsewhere, too."""


class Frames:
    """Opens scans.

    Args:
        scratch: Takes rows that are too many for a plan.
        slots: The most partitions to use, now.
        files: How Spark's readers come to files of this machine.
    """

    def __init__(self, scratch: Path, slots: Callable[[], int], files: FileAccess) -> None:
        self._scratch = scratch
        self._slots = slots
        self._files_access = files

    @property
    def remote(self) -> bool:
        """Whether executors do not see this machine's disk."""
        return self._files_access.remote

    @contextmanager
    def open(self, session: SparkSession, scan: Scan) -> Iterator[Frame]:
        """The rows of a scan, until the context ends."""
        if isinstance(scan, ArrowScan):
            with self._arrow(session, scan.table) as frame:
                yield _with_set_aside(frame, scan)
        elif isinstance(scan, SlicesScan):
            with self._slices(session, scan) as frame:
                yield frame
        elif isinstance(scan, ChunksScan):
            with self._chunks(session, scan) as frame:
                yield frame
        elif isinstance(scan, RangeScan):
            yield self._range(session, scan)
        elif isinstance(scan, EmptyScan):
            yield Frame(session.createDataFrame([], schema_of(scan.columns)), 1)
        else:
            with self._files(session, scan) as frame:
                yield frame

    @contextmanager
    def keep(self, session: SparkSession, table: pa.Table, file: Path) -> Iterator[DataFrame]:
        """Rows that are read again and again, until the context ends; many go to `file`, which the caller removes."""
        if _is_small(table):
            yield _in_plan(session, table)
            return
        with self._through_file(session, table, file) as rows:
            yield rows

    @contextmanager
    def _arrow(self, session: SparkSession, table: pa.Table) -> Iterator[Frame]:
        if _is_small(table):
            yield Frame(_in_plan(session, table), 1)
            return
        with (
            tempfile.NamedTemporaryFile(dir=self._scratch, prefix="rows-", suffix=".parquet") as file,
            self._through_file(session, table, Path(file.name)) as rows,
        ):
            yield Frame(rows, self._slots(), size_bytes=table.nbytes)

    @contextmanager
    def _chunks(self, session: SparkSession, scan: ChunksScan) -> Iterator[Frame]:
        first, rest = _first_chunks(scan.chunks())
        if not first:
            yield Frame(session.createDataFrame([], schema_of(scan.columns)), 1)
            return
        schema = _plain(first[0].schema)
        if rest is None:
            with self._arrow(session, pa.concat_tables(chunk.cast(schema) for chunk in first)) as frame:
                yield frame
            return
        with tempfile.NamedTemporaryFile(dir=self._scratch, prefix="chunks-", suffix=".parquet") as file:
            with pq.ParquetWriter(file.name, schema, **READ_ONCE) as writer:
                for chunk in chain(first, rest):
                    writer.write_table(chunk.cast(schema))
            with self._from_file(session, schema, Path(file.name)) as rows:
                yield Frame(rows, self._slots(), size_bytes=total_bytes([file.name]))

    @contextmanager
    def _through_file(self, session: SparkSession, table: pa.Table, file: Path) -> Iterator[DataFrame]:
        pq.write_table(table, file, **READ_ONCE)
        with self._from_file(session, table.schema, file) as rows:
            yield rows

    @contextmanager
    def _from_file(self, session: SparkSession, schema: pa.Schema, file: Path) -> Iterator[DataFrame]:
        known = from_arrow_schema(schema, prefer_timestamp_ntz=True)
        with self._files_access.offered([str(file)]) as (name,):
            yield session.read.schema(known).parquet(literal(name))

    @contextmanager
    def _slices(self, session: SparkSession, scan: SlicesScan) -> Iterator[Frame]:
        if not scan.slices:
            schema = schema_of(scan.columns)
            rows = pick(session.createDataFrame([], schema), scan.read_columns)
            yield _with_set_aside(Frame(rows, 1), scan)
        elif sum(s.end_row - s.start_row for s in scan.slices) <= SMALL_ROWS:
            with self._arrow(session, read_slices(scan.slices, scan.read_columns)) as frame:
                yield _with_set_aside(frame, scan)
        else:
            with self._files_access.offered([s.path for s in scan.slices]) as names:
                yield _with_set_aside(Frame(_read_by_spark(session, scan, names), self._slots()), scan)

    def _range(self, session: SparkSession, scan: RangeScan) -> Frame:
        partitions = 1 if scan.end - scan.start <= SMALL_ROWS else self._slots()
        numbers = session.range(scan.start, scan.end, 1, partitions)
        columns = [expression(session, text).alias(name) for name, text in scan.expressions]
        size_bytes = (scan.end - scan.start) * len(columns) * VALUE_BYTES
        return Frame(numbers.select(*columns), partitions, size_bytes=size_bytes)

    @contextmanager
    def _files(self, session: SparkSession, scan: FilesScan) -> Iterator[Frame]:
        with readable_files(scan, self._scratch) as files, ExitStack() as stack:
            frames = []
            for (record_end, partition), paths in _alike(files, scan).items():
                names = stack.enter_context(self._files_access.offered(paths))
                rows = files_reader(session, scan, record_end).load([literal(name) for name in names])
                frames.append(self._files_frame(rows, scan, paths, partition, files.origins))
            every = tuple(path for paths in files.paths.values() for path in paths)
            yield replace(_together(frames, files.broken), files=every)

    def _files_frame(
        self,
        rows: DataFrame,
        scan: FilesScan,
        paths: Sequence[str],
        partition: Sequence[str | None],
        origins: Mapping[str, Origin],
    ) -> Frame:
        """A frame of files of one partition; `origins` has the user's file for each path."""
        size_bytes = total_bytes(paths)
        small = size_bytes <= SMALL_FILES_BYTES
        malformed = None
        if scan.malformed_column:
            columns = converted_columns(scan)
            malformed = partial(malformed_rows, rows, scan, columns, path_of=partial(self._origin, origins))
        read = picked(rows, scan, partition)
        partitions = 1 if small else self._slots()
        return Frame(read.coalesce(1) if small else read, partitions, scan.malformed_column, malformed, size_bytes)

    def _origin(self, origins: Mapping[str, Origin], uri: str) -> str:
        path = self._files_access.path_of(uri)
        return origins.get(path, Origin(path)).path


def _alike(files: ReadableFiles, scan: FilesScan) -> Mapping[tuple[str, tuple[str | None, ...]], Sequence[str]]:
    """The files by what ends their records and by the values of columns that are not in them."""
    found: dict[tuple[str, tuple[str | None, ...]], list[str]] = {}
    for record_end, paths in files.paths.items():
        for path in paths:
            found.setdefault((record_end, scan.partitions.get(files.origins[path].path, ())), []).append(path)
    return found


def _together(frames: Sequence[Frame], broken: Sequence[MalformedRow]) -> Frame:
    """A frame with the rows of all frames; `broken` are among its malformed rows."""
    rows = reduce(DataFrame.unionAll, (frame.rows for frame in frames))
    first = frames[0]
    partitions = max(frame.partitions for frame in frames)
    size_bytes = sum(frame.size_bytes for frame in frames)
    if not first.malformed_column:
        return replace(first, rows=rows, partitions=partitions, size_bytes=size_bytes)

    def malformed() -> Iterator[MalformedRow]:
        yield from broken
        for frame in frames:
            assert frame.malformed is not None
            yield from frame.malformed()

    return Frame(rows, partitions, first.malformed_column, malformed, size_bytes, set_aside=len(broken))


def set_aside(scan: Scan) -> SetAside | None:
    """The malformed rows that were taken out of a scan before it was made; None: there are none."""
    if isinstance(scan, ArrowScan):
        return scan.set_aside
    if isinstance(scan, SlicesScan) and scan.malformed is not None:
        return SetAside(scan.malformed.rows, partial(read_malformed, scan.malformed))
    return None


def _with_set_aside(frame: Frame, scan: Scan) -> Frame:
    aside = set_aside(scan)
    return frame if aside is None else replace(frame, malformed=aside.malformed, set_aside=aside.rows)


def _is_small(*tables: pa.Table) -> bool:
    rows, size_bytes = sum(table.num_rows for table in tables), sum(table.nbytes for table in tables)
    return bool(rows <= SMALL_ROWS and size_bytes <= SMALL_BYTES)


def _first_chunks(chunks: Iterator[pa.Table]) -> tuple[list[pa.Table], Iterator[pa.Table] | None]:
    """All of them, and None; or, when they are too many for a plan, the first and the others."""
    first: list[pa.Table] = []
    for chunk in chunks:
        first.append(chunk)
        if not _is_small(*first):
            return first, chunks
    return first, None


def _plain(schema: pa.Schema) -> pa.Schema:
    """What chunks of several origins have in common: columns and types, not which of them happen to have no NULL."""
    return pa.schema([pa.field(column.name, column.type) for column in schema])


def _in_plan(session: SparkSession, table: pa.Table) -> DataFrame:
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    # Spark's reader of Arrow batches takes an empty one for the end, and loses the rows behind it.
    batches = [batch for batch in table.to_batches() if batch.num_rows]
    rows = pa.Table.from_batches(batches, table.schema) if batches else table
    return session.createDataFrame(rows, schema=schema).coalesce(1)


def _read_by_spark(session: SparkSession, scan: SlicesScan, names: Sequence[str]) -> DataFrame:
    rows = session.read.schema(schema_of(scan.columns)).parquet(*map(literal, names))
    return pick(rows.where(expression(session, _within(scan.slices))), scan.read_columns)


def _within(slices: Sequence[ParquetSlice]) -> str:
    """Which rows of the files are in the slices."""
    row = "_metadata.row_index"
    cases = (
        f"WHEN {quoted_text(Path(s.path).name)} THEN {row} >= {s.start_row} AND {row} < {s.end_row}" for s in slices
    )
    return f"CASE _metadata.file_name {' '.join(cases)} END"
