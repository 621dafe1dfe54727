"""The kept plans of one task, and an epoch through one of them."""

from __future__ import annotations

import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc as ipc
from py4j.java_gateway import JavaClass, JavaObject
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema

from planner.relations.catalog import SITE_COLUMN
from planner.values.literals import quoted_name
from planner.values.names import INPUT_VIEW
from site_agent.engine import Admission, EpochRequest, EpochResult, OperatorRows
from site_agent.engine.kept.admission import Admitted, admitted
from site_agent.engine.kept.inputs import SlotRows, slot_rows
from site_agent.engine.output.admission import InputMetrics, ObservedInput
from site_agent.engine.output.operators import kind_of, without_halves
from site_agent.engine.scans.sizes import input_bytes
from site_agent.engine.sql.statements import expression

_MOST = 16
"""Plans of a task; beyond this, the one that was used longest ago is dropped."""
_SLOT_BATCH_ROWS = 16_384
_BEFORE_ALL_US = -(2**63)
"""The watermark in a plan while there is none."""

Query = Callable[[], DataFrame]
"""The request's statement over the present views of the session."""


@dataclass(frozen=True, slots=True)
class _Key:
    """All that a plan depends on; another epoch of an equal key runs the same plan."""

    sql: str
    site: str
    event_time: str
    functions: tuple[str, ...]
    views: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...]
    """Name, schema and expressions of each."""


class _Plan:
    """A plan in the JVM with the files that it reads and writes."""

    def __init__(self, runner: JavaObject, directory: Path, schema: pa.Schema, watermark: JavaObject | None) -> None:
        self._runner = runner
        self._directory = directory
        self._schema = schema
        self._watermark = watermark

    def run(self, rows: Mapping[str, pa.Table], admission: Admission | None) -> tuple[pa.Table, _Counters]:
        """The output and the counters of an epoch over these rows, by view."""
        if self._watermark is not None and admission is not None:
            known = admission.watermark_us
            self._watermark.set(_BEFORE_ALL_US if known is None else known)
        place = self._directory / "output"
        try:
            for view, table in rows.items():
                _write(table, slot(self._directory, view))
            counters = _Counters.parsed(self._runner.run(str(place), INPUT_VIEW))
            with pa.memory_map(str(place)) as file:
                table = ipc.open_stream(file).read_all()
        finally:
            # The table is mapped: the next epoch must not write into the same file.
            place.unlink(missing_ok=True)
            for view in rows:
                slot(self._directory, view).unlink(missing_ok=True)
        # A table without chunks cannot be cast.
        return (table.cast(self._schema) if table.num_rows else self._schema.empty_table()), counters


@dataclass(frozen=True, slots=True)
class _Counters:
    """What a plan counted while it ran."""

    observed: InputMetrics | None
    """Where rows are admitted in Spark."""
    operators: tuple[OperatorRows, ...]
    reads_input: bool
    """False: Spark has proved that there is no output whatever the input."""

    @staticmethod
    def parsed(text: str) -> _Counters:
        """From the lines of `KeptPlan.run`."""
        observed: InputMetrics | None = None
        way: list[OperatorRows] = []
        for what, *values in (line.split("\t") for line in text.splitlines()):
            if what == "observed":
                rows, late, newest, malformed = (int(value) if value else None for value in values[:4])
                observed, way = InputMetrics(rows or 0, late or 0, newest, malformed or 0), []
            elif (kind := kind_of(values[0])) is not None:
                way.append(OperatorRows(kind, int(values[1])))
        return _Counters(observed, without_halves(way), bool(text))


class KeptPlans:
    """The plans of one task; the caller sees to it that one epoch runs at a time.

    Args:
        session: the task's session.
        directory: takes the slots; it is the caller's to remove.
    """

    def __init__(self, session: SparkSession, directory: Path) -> None:
        self._session = session
        self._directory = directory
        self._plans: OrderedDict[_Key, _Plan | None] = OrderedDict()
        """None: such a plan cannot be kept."""

    def run(self, request: EpochRequest, query: Query) -> EpochResult | None:
        """The result of an epoch, without the malformed rows that its scan has set aside; None: Spark has to plan it.

        Args:
            request: the epoch; views of tables are in the session.
            query: called when a plan has to be made, while the session has the other views of the request.

        Raises:
            PySparkException, Py4JError, OSError, ArrowException: Spark refused or failed.
        """
        rows = _rows_of(request)
        if rows is None:
            return None
        first = rows[INPUT_VIEW]
        let_in = Admitted(first.rows, 0, None) if first.expressions else admitted(first.rows, request.admission)
        if let_in is None:
            return None
        key = _key_of(request, rows)
        planned = key not in self._plans
        plan = self._plan(key, request, rows, query)
        if plan is None:
            return None
        try:
            tables = {view: found.rows for view, found in rows.items()}
            table, counters = plan.run({**tables, INPUT_VIEW: let_in.rows}, request.admission)
        except BaseException:
            del self._plans[key]
            raise
        if first.expressions and counters.observed is None:
            # The plan does not read its input, so that nothing is counted.
            self._plans[key] = None
            return None
        return replace(_result(request, first, let_in, table, counters), planned=planned)

    def forget(self) -> None:
        """Drop all plans, as when a table that they read is another."""
        self._plans.clear()

    def _plan(self, key: _Key, request: EpochRequest, rows: Mapping[str, SlotRows], query: Query) -> _Plan | None:
        if key in self._plans:
            self._plans.move_to_end(key)
            return self._plans[key]
        plan = self._plans[key] = self._made(request, rows, query)
        if len(self._plans) > _MOST:
            self._plans.popitem(last=False)
        return plan

    def _made(self, request: EpochRequest, rows: Mapping[str, SlotRows], query: Query) -> _Plan | None:
        directory = Path(tempfile.mkdtemp(dir=self._directory, prefix="kept-"))
        watermark: JavaObject | None = None
        try:
            for view, found in rows.items():
                frame = _leaf(self._session, view, found, directory)
                if view == INPUT_VIEW:
                    frame, watermark = self._input(frame, request, found)
                frame.createOrReplaceTempView(quoted_name(view))
            output = query()
        finally:
            for view in rows:
                self._session.catalog.dropTempView(view)
        runner = self._session._jvm.selat.KeptPlan(output._jdf)
        if runner.refusal():
            return None
        return _Plan(runner, directory, to_arrow_schema(output.schema, timezone="UTC"), watermark)

    def _input(self, frame: DataFrame, request: EpochRequest, found: SlotRows) -> tuple[DataFrame, JavaObject | None]:
        """The view `input`; with computed columns, Spark admits the rows, by a watermark that can be set."""
        if not any(name.lower() == SITE_COLUMN for name in frame.columns):
            frame = frame.withColumn(SITE_COLUMN, sf.lit(request.site))
        if not found.expressions:
            return frame, None
        watermark = self._session._jvm.selat.Changing()
        return ObservedInput(frame, request.admission, watermark=Column(watermark.array())).admitted, watermark


def has_kept_plans(session: SparkSession) -> bool:
    """Whether the session's JVM has the classes (`jar`)."""
    return isinstance(session._jvm.selat.KeptPlan, JavaClass)


def slot(directory: Path, view: str) -> Path:
    """The file in which a plan finds the rows of a view."""
    return directory / f"{view}.slot"


def _rows_of(request: EpochRequest) -> dict[str, SlotRows] | None:
    found: dict[str, SlotRows] = {}
    for view, scan in {**request.views, INPUT_VIEW: request.scan}.items():
        rows = slot_rows(scan)
        if rows is None:
            return None
        found[view] = rows
    return found


def _key_of(request: EpochRequest, rows: Mapping[str, SlotRows]) -> _Key:
    return _Key(
        request.sql,
        request.site,
        request.admission.event_time if request.admission is not None else "",
        tuple(function.versioned_name for function in request.functions),
        tuple((view, found.schema.json(), found.expressions) for view, found in rows.items()),
    )


def _leaf(session: SparkSession, view: str, found: SlotRows, directory: Path) -> DataFrame:
    path = slot(directory, view)
    reader = session.read.format("selat.SlotSource").schema(found.schema)
    rows = reader.option("path", str(path)).option("view", view).load().coalesce(1)
    if not found.expressions:
        return rows
    return rows.select(*(expression(session, text).alias(name) for name, text in found.expressions))


def _write(rows: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, ipc.new_stream(file, rows.schema) as stream:
        stream.write_table(rows, max_chunksize=_SLOT_BATCH_ROWS)


def _result(
    request: EpochRequest, first: SlotRows, let_in: Admitted, table: pa.Table, counters: _Counters
) -> EpochResult:
    operators = counters.operators
    if counters.observed is not None:
        read, late, newest = counters.observed.rows, counters.observed.rows_late, counters.observed.max_event_time_us
    else:
        read, late, newest = first.rows.num_rows, let_in.rows_late, let_in.max_event_time_us
        filtered = operators[:1] and operators[0].name == "Filter"
        if request.admission is not None and counters.reads_input and not filtered:
            # Where Spark admits rows, a filter of its own does; so the operators of an epoch are the same either way.
            operators = (OperatorRows("Filter", let_in.rows.num_rows), *operators)
    return EpochResult(table, read, late, newest, 0, operators, input_bytes=input_bytes(request.scan))
