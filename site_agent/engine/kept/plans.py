"""The kept plans of one task, and an epoch through one of them."""

from __future__ import annotations

import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
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
from site_agent.engine import Admission, EpochRequest, EpochResult, FilesScan, OperatorRows
from site_agent.engine.kept.admission import Admitted, admitted
from site_agent.engine.kept.inputs import SlotFiles, SlotInput, SlotRows, slot_files, slot_rows
from site_agent.engine.kept.slots import files_text, leaf, places, slot, write_rows
from site_agent.engine.output.admission import InputMetrics, ObservedInput
from site_agent.engine.output.operators import kind_of, without_halves
from site_agent.engine.scans.sizes import input_bytes

_MOST = 16
"""Plans of a task; beyond this, the one that was used longest ago is dropped."""
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
    views: tuple[tuple[str, tuple[object, ...]], ...]
    """The name of each, and what its input has to do with the plan."""


class _Plan:
    """A plan in the JVM with the files that it reads and writes."""

    def __init__(self, runner: JavaObject, directory: Path, schema: pa.Schema, watermark: JavaObject | None) -> None:
        self._runner = runner
        self._directory = directory
        self._schema = schema
        self._watermark = watermark

    def run(self, found: Mapping[str, SlotInput], admission: Admission | None) -> tuple[pa.Table, _Counters]:
        """The output and the counters of an epoch over these rows or files, by view."""
        if self._watermark is not None and admission is not None:
            known = admission.watermark_us
            self._watermark.set(_BEFORE_ALL_US if known is None else known)
        output = self._directory / "output"
        files = ""
        try:
            for view, item in found.items():
                if isinstance(item, SlotFiles):
                    files = files_text(item, self._directory)
                else:
                    write_rows(item, slot(self._directory, view))
            counters = _Counters.parsed(self._runner.run(str(output), INPUT_VIEW, files))
            with pa.memory_map(str(output)) as file:
                table = ipc.open_stream(file).read_all()
        finally:
            # The table is mapped: the next epoch must not write into the same file.
            output.unlink(missing_ok=True)
            for view in found:
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
    cpu_wait_s: float
    """How long the thread waited for a CPU."""

    @staticmethod
    def parsed(text: str) -> _Counters:
        """From the lines of `KeptPlan.run`."""
        observed: InputMetrics | None = None
        way: list[OperatorRows] = []
        cpu_wait_s, reads_input = 0.0, False
        for what, *values in (line.split("\t") for line in text.splitlines()):
            reads_input |= what != "waited"
            if what == "waited":
                cpu_wait_s = int(values[0]) / 1e9
            elif what == "observed":
                observed = InputMetrics.counted([int(value) if value else None for value in values])
            elif (kind := kind_of(values[0])) is not None:
                way.append(OperatorRows(kind, int(values[1])))
        return _Counters(observed, without_halves(way), reads_input, cpu_wait_s)


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
        """The result of an epoch; None: Spark has to plan it.

        Of malformed rows only the number is in it, and of rows in memory not those that the scan has set aside.

        Args:
            request: the epoch; views of tables are in the session.
            query: called when a plan has to be made, while the session has the other views of the request.

        Raises:
            EngineError: a file is not what its format says, or has broken records that nothing takes.
            PySparkException, Py4JError, OSError, ArrowException: Spark refused or failed.
        """
        with ExitStack() as stack:
            found = _found(request, self._directory, stack)
            return None if found is None else self._run(request, found, query)

    def _run(self, request: EpochRequest, found: Mapping[str, SlotInput], query: Query) -> EpochResult | None:
        first = found[INPUT_VIEW]
        let_in: Admitted | None = None
        if first.computed and request.admission is not None and request.admission.share < 1:
            # A kept plan has a watermark that can be set, and no share.
            return None
        if isinstance(first, SlotRows) and not first.computed:
            let_in = admitted(first.rows, request.admission)
            if let_in is None:
                return None
            found = {**found, INPUT_VIEW: replace(first, rows=let_in.rows)}
        key = _key_of(request, found)
        planned = key not in self._plans
        plan = self._plan(key, request, found, query)
        if plan is None:
            return None
        try:
            table, counters = plan.run(found, request.admission)
        except BaseException:
            del self._plans[key]
            raise
        if let_in is not None:
            assert isinstance(first, SlotRows)
            return replace(
                _result_of_rows(request, first, let_in, table, counters),
                planned=planned,
                cpu_wait_s=counters.cpu_wait_s,
            )
        if counters.observed is None:
            # The plan does not read its input, so that nothing is counted.
            self._plans[key] = None
            return None
        broken = first.broken if isinstance(first, SlotFiles) else 0
        return replace(
            _result(request, counters.observed, table, counters, broken),
            planned=planned,
            cpu_wait_s=counters.cpu_wait_s,
        )

    def forget(self) -> None:
        """Drop all plans, as when a table that they read is another."""
        self._plans.clear()

    def _plan(self, key: _Key, request: EpochRequest, found: Mapping[str, SlotInput], query: Query) -> _Plan | None:
        if key in self._plans:
            self._plans.move_to_end(key)
            return self._plans[key]
        plan = self._plans[key] = self._made(request, found, query)
        if len(self._plans) > _MOST:
            self._plans.popitem(last=False)
        return plan

    def _made(self, request: EpochRequest, found: Mapping[str, SlotInput], query: Query) -> _Plan | None:
        directory = Path(tempfile.mkdtemp(dir=self._directory, prefix="kept-"))
        watermark: JavaObject | None = None
        try:
            for view, item in found.items():
                frame = leaf(self._session, view, item, directory)
                if view == INPUT_VIEW:
                    frame, watermark = self._input(frame, request, item)
                frame.createOrReplaceTempView(quoted_name(view))
            output = query()
        finally:
            for view in found:
                self._session.catalog.dropTempView(view)
        runner = self._session._jvm.selat.KeptPlan(output._jdf, str(places(directory)))
        first = found[INPUT_VIEW]
        if runner.refusal(first.places if isinstance(first, SlotFiles) else 0):
            return None
        return _Plan(runner, directory, to_arrow_schema(output.schema, timezone="UTC"), watermark)

    def _input(self, frame: DataFrame, request: EpochRequest, found: SlotInput) -> tuple[DataFrame, JavaObject | None]:
        """The view `input`; where Spark admits the rows, it does so by a watermark that can be set."""
        if not any(name.lower() == SITE_COLUMN for name in frame.columns):
            frame = frame.withColumn(SITE_COLUMN, sf.lit(request.site))
        if not found.computed:
            return frame, None
        watermark = self._session._jvm.selat.Changing()
        column = found.scan.malformed_column if isinstance(found, SlotFiles) else ""
        observed = ObservedInput(frame, request.admission, column, watermark=Column(watermark.array()))
        return observed.admitted, watermark


def has_kept_plans(session: SparkSession) -> bool:
    """Whether the session's JVM has the classes (`jar`)."""
    return isinstance(session._jvm.selat.KeptPlan, JavaClass)


def _found(request: EpochRequest, directory: Path, stack: ExitStack) -> dict[str, SlotInput] | None:
    """What the epoch reads, by view, as long as `stack` is open; None: it cannot be put into slots."""
    found: dict[str, SlotInput] = {}
    for view, scan in {**request.views, INPUT_VIEW: request.scan}.items():
        item: SlotInput | None
        if isinstance(scan, FilesScan):
            item = stack.enter_context(slot_files(scan, directory)) if view == INPUT_VIEW else None
        else:
            item = slot_rows(scan)
        if item is None:
            return None
        found[view] = item
    return found


def _key_of(request: EpochRequest, found: Mapping[str, SlotInput]) -> _Key:
    return _Key(
        request.sql,
        request.site,
        request.admission.event_time if request.admission is not None else "",
        tuple(function.versioned_name for function in request.functions),
        tuple((view, item.shape) for view, item in found.items()),
    )


def _result(
    request: EpochRequest, observed: InputMetrics, table: pa.Table, counters: _Counters, broken: int
) -> EpochResult:
    """Of rows that Spark has admitted."""
    return EpochResult(
        table,
        observed.rows,
        observed.rows_late,
        observed.max_event_time_us,
        observed.rows_malformed + broken,
        counters.operators,
        input_bytes=input_bytes(request.scan),
    )


def _result_of_rows(
    request: EpochRequest, first: SlotRows, let_in: Admitted, table: pa.Table, counters: _Counters
) -> EpochResult:
    """Of rows that were admitted before Spark saw them."""
    operators = counters.operators
    filtered = operators[:1] and operators[0].name == "Filter"
    if request.admission is not None and counters.reads_input and not filtered:
        # Where Spark admits rows, a filter of its own does; so the operators of an epoch are the same either way.
        operators = (OperatorRows("Filter", let_in.rows.num_rows), *operators)
    return EpochResult(
        table,
        first.rows.num_rows,
        let_in.rows_late,
        let_in.max_event_time_us,
        0,
        operators,
        input_bytes=input_bytes(request.scan),
    )
