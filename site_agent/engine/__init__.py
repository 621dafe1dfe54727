"""The engine port: runs one epoch of one stage. The implementation is `site_agent.engine.spark`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from planner.graph.clientplan import ClientPlan
from planner.values.scans import TableScan
from planner.values.splits import FilePart
from site_agent.engine.chunks import Chunks


@dataclass(frozen=True, slots=True)
class Field:
    """A column as Spark names and types it (`type` as in `DECIMAL(10,2)`)."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class MalformedRow:
    """A row of a file that does not fit its columns."""

    file: str
    reason: str
    row: str
    """As it stands in the file."""


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A version of a scalar function written in Python; SQL calls it by `versioned_name`."""

    name: str
    versioned_name: str
    parameters: tuple[Field, ...]
    returns: str
    entry: str
    """Its name in the module."""
    file: str
    source: str
    """The module's text."""
    vectorised: bool
    """It takes and gives whole Arrow arrays."""


MalformedSink = Callable[[Iterator[MalformedRow]], None]
"""Takes an epoch's malformed rows, one or more; called once at most, and durable when it returns."""

MALFORMED_NAME = "malformed.jsonl"
"""File of prepared rows in which `MalformedFile` is kept."""
MALFORMED_OPTION = "columnNameOfCorruptRecord"
"""Option of Spark's reader: malformed rows are set aside, with their text in the column of that name."""


@dataclass(frozen=True, slots=True)
class FilesScan:
    """Whole files or parts of them, decoded by Spark's own readers."""

    format: str
    """`csv`, `json` or `parquet`."""
    paths: tuple[str, ...]
    columns: tuple[Field, ...]
    """All columns of the files, in file order."""
    read_columns: tuple[str, ...]
    """Those of `partitioned_by`, too."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of Spark's reader: header, sep, nullValue, ..."""
    parts: tuple[FilePart, ...] = ()
    """Only these are read; `paths` has their files. None: the files are read whole."""
    partitioned_by: tuple[Field, ...] = ()
    """Columns that are not in the files; each file has one value of them in all its rows."""
    partitions: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    """The values of `partitioned_by` as texts, None for NULL, for each of `paths`."""

    @property
    def malformed_column(self) -> str:
        """Name of the column that marks malformed rows; empty: such a row fails the epoch."""
        return self.options.get(MALFORMED_OPTION, "")

    @property
    def file_columns(self) -> tuple[str, ...]:
        """The columns that are read of the files."""
        outside = {column.name for column in self.partitioned_by}
        return tuple(name for name in self.read_columns if name not in outside)


@dataclass(frozen=True, slots=True)
class ParquetSlice:
    """Rows [start, end) of a Parquet file that we wrote ourselves, in file order."""

    path: str
    start_row: int
    end_row: int


@dataclass(frozen=True, slots=True)
class MalformedFile:
    """Malformed rows that were set aside when files were prepared, as JSON lines of `MalformedRow`."""

    path: str
    rows: int


@dataclass(frozen=True, slots=True)
class SlicesScan:
    """Consecutive slices of Parquet files; small ones go to Spark as Arrow, large ones are read by Spark."""

    slices: tuple[ParquetSlice, ...]
    columns: tuple[Field, ...]
    read_columns: tuple[str, ...]
    malformed: MalformedFile | None = None
    """Belongs to this epoch, too."""


@dataclass(frozen=True, slots=True)
class RangeScan:
    """Rows computed from consecutive row numbers [start, end), named `id` in the expressions."""

    start: int
    end: int
    expressions: tuple[tuple[str, str], ...]
    """(column, Spark SQL expression over `id`)."""


@dataclass(frozen=True, slots=True)
class SetAside:
    """Malformed rows that a connector has taken out of a scan."""

    rows: int
    """Their number, at least one."""
    malformed: Callable[[], Iterator[MalformedRow]]


@dataclass(frozen=True, slots=True)
class ArrowScan:
    """Rows that are in memory already."""

    table: pa.Table
    set_aside: SetAside | None = None
    """Malformed rows of the same epoch."""


@dataclass(frozen=True, slots=True)
class ChunksScan:
    """Rows that are fetched chunk by chunk, because they may be too many for memory."""

    chunks: Callable[[], Iterator[pa.Table]]
    """Begins anew with each call; all chunks have the same columns."""
    columns: tuple[Field, ...]
    """Of the view when there is no chunk."""


@dataclass(frozen=True, slots=True)
class EmptyScan:
    """No rows."""

    columns: tuple[Field, ...]


Scan = FilesScan | SlicesScan | RangeScan | ArrowScan | ChunksScan | EmptyScan


SCATTERED_BY, SCATTERED_OVER = 7919, 9973
SCATTERED_OF = 1_000_003
"""The microseconds of an event time, modulo SCATTERED_OF, times SCATTERED_BY, modulo SCATTERED_OVER: primes, so that
regular times are spread evenly, and the product is exact in 64 bits."""


@dataclass(frozen=True, slots=True)
class Admission:
    """What a SOURCE task lets in: rows whose event time is not behind its watermark. Late ones are only counted."""

    event_time: str
    watermark_us: int | None
    share: float = 1.0
    """The share of these rows that is let in, by their event times; the others count as late."""

    @property
    def threshold(self) -> int:
        """Rows are let in whose `scattered` event time is less."""
        return round(self.share * SCATTERED_OVER)


@dataclass(frozen=True, slots=True)
class EpochRequest:
    """One epoch of one stage."""

    task_id: str
    sql: str
    scan: Scan
    site: str
    """Value of the pseudo-column `site` of the scanned rows."""
    admission: Admission | None = None
    tables: tuple[str, ...] = ()
    """Names (views) of tables put there by `put_table` that the SQL reads."""
    views: Mapping[str, Scan] = field(default_factory=dict)
    """Further rows of this epoch, by the view that the SQL reads them as."""
    malformed: MalformedSink | None = None
    """Where malformed rows go; without it they fail the epoch."""
    functions: tuple[PythonFunction, ...] = ()
    """That the SQL calls."""
    chunked: bool = False
    """The output may be larger than memory; the engine then returns it as `EpochResult.many`."""
    client: ClientPlan | None = None
    """It is run in place of `sql`, over the views."""


@dataclass(frozen=True, slots=True)
class OperatorRows:
    """What one operator of a stage gave out in an epoch."""

    name: str
    """Its kind, as in `Filter`, `Join`, `Aggregate`."""
    rows: int


@dataclass(frozen=True, slots=True)
class EpochResult:
    table: pa.Table
    """Output rows. Timestamps are microseconds in UTC."""
    rows_read: int
    """Well-formed rows."""
    rows_late: int
    """Behind the watermark, or without an event time."""
    max_event_time_us: int | None
    rows_malformed: int = 0
    """Handed to the request's `malformed`."""
    operators: tuple[OperatorRows, ...] = ()
    """Those between the input and the output, in this order; empty when Spark proved that there is no output."""
    many: Chunks | None = None
    """The output rows in place of `table`, which is then empty; only for a request that is `chunked`."""
    input_bytes: int = 0
    """Bytes of the rows that were read, as they lay at the site."""
    planned: bool = True
    """False: it ran through a plan of an epoch before it."""
    cpu_wait_s: float = 0.0
    """How long the JVM's thread waited for a CPU, as far as that is known: not of Spark's jobs."""

    @property
    def chunks(self) -> Chunks:
        """The output rows in either form; the caller iterates them once and closes them."""
        return self.many or Chunks.of(self.table)


@dataclass(frozen=True, slots=True)
class ScannedStatement:
    """A statement over tables."""

    columns: tuple[Field, ...]
    """Of its output."""
    scans: tuple[TableScan, ...]
    """Of the tables; none of a table that the output does not depend on."""


class Engine(Protocol):
    """Blocking; call it from a worker thread. Safe to call from several threads at once."""

    def run(self, request: EpochRequest) -> EpochResult:
        """Run one epoch.

        Raises:
            EngineError: Spark refused or failed.
        """
        ...

    def put_table(self, task_id: str, view: str, table: pa.Table | Sequence[Field]) -> None:
        """Make rows (for columns alone: no rows) available as `view` to the epochs of that task, until `drop_task`."""
        ...

    def drop_task(self, task_id: str) -> None:
        """Forget everything kept for the task."""
        ...

    def analyze(
        self, views: Mapping[str, Sequence[Field]], statement: str, functions: Sequence[PythonFunction] = ()
    ) -> tuple[Field, ...]:
        """Output columns of a statement over empty views, without running it; it may call functions by either name.

        Raises:
            AnalysisError: Spark refuses it.
        """
        ...

    def scans(
        self, tables: Mapping[str, Sequence[Field]], statement: str, functions: Sequence[PythonFunction] = ()
    ) -> ScannedStatement:
        """What scans of these tables must deliver for a statement, without running it; raises as `analyze` does."""
        ...

    def load(self, functions: Sequence[PythonFunction]) -> None:
        """Load the functions' modules where Python runs, without calling anything of theirs.

        Raises:
            AnalysisError: one cannot be loaded, or its name is that of a function of Spark.
        """
        ...


class PlanEngine(Protocol):
    """Handles plans of Spark's own clients. Blocking and safe, as `Engine` is."""

    def plan_scans(
        self, tables: Mapping[str, Sequence[Field]], plan: ClientPlan, functions: Sequence[PythonFunction] = ()
    ) -> ScannedStatement:
        """Return what `scans` returns, for a client's plan."""
        ...

    def ask_plan(
        self,
        tables: Mapping[str, Sequence[Field]],
        plan: ClientPlan,
        question: bytes,
        functions: Sequence[PythonFunction] = (),
    ) -> bytes:
        """Spark's answer to a `spark.connect.AnalyzePlanRequest` over tables without rows; raises as `analyze` does."""
        ...

    def run_plan(self, plan: ClientPlan, job: str) -> pa.Table:
        """The rows of a client's plan that reads no table; `job` names it for `stop_plan`.

        Raises:
            AnalysisError: Spark refuses it.
            EngineError: Spark failed.
        """
        ...

    def stop_plan(self, job: str) -> None:
        """End the job of a `run_plan` that runs."""
        ...


class AnalysisError(Exception):
    """Spark's answer to a statement it refuses; the place is in the statement's text, from 1 (0: none)."""

    def __init__(self, message: str, *, condition: str, line: int, column: int, fragment: str) -> None:
        super().__init__(message)
        self.message = message
        self.condition = condition
        self.line = line
        self.column = column
        self.fragment = fragment
