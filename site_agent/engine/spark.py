"""The engine port on Apache Spark: one epoch is one batch job.

Each task has a Spark session of its own inside the shared JVM (a few milliseconds to make), so that the views of tasks
that run at the same time never meet.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock

import pyarrow as pa
from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from planner.relations.catalog import SITE_COLUMN
from planner.values.literals import quoted_name
from planner.values.names import INPUT_VIEW
from site_agent.base.errors import EngineError, FunctionsRefusedError
from site_agent.engine import (
    AnalysisError,
    EpochRequest,
    EpochResult,
    Field,
    FilesScan,
    MalformedRow,
    PythonFunction,
    ScannedStatement,
)
from site_agent.engine.chunks import Chunks
from site_agent.engine.client.plans import client_rows
from site_agent.engine.failures import SPARK_ERRORS, analysis_error, engine_error, out_of_memory, result_too_large
from site_agent.engine.functions import DEFAULT_LIMITS, load, register
from site_agent.engine.kept.plans import KeptPlans, has_kept_plans
from site_agent.engine.output.admission import ObservedInput
from site_agent.engine.output.collect import collect
from site_agent.engine.output.operators import operator_rows
from site_agent.engine.output.spool import MANY_BYTES, empty_of, spooled
from site_agent.engine.pyworker import Limits
from site_agent.engine.scans.asis import chunks_as_they_are, picked_columns
from site_agent.engine.scans.file_access import FileAccess, LocalFiles
from site_agent.engine.scans.frames import Frame, Frames, set_aside
from site_agent.engine.scans.sizes import input_bytes
from site_agent.engine.scans.sorting import write_sorted
from site_agent.engine.sql import statements
from site_agent.engine.sql.statements import Names
from site_agent.engine.sql.table_scans import table_scans, table_view
from site_agent.engine.sql.types import fields_of

FUNCTIONS_REFUSED = "this agent runs no Python functions"
FUNCTIONS_HINT = "start it with --python-functions allow"

_ERRORS = (AnalysisError, *SPARK_ERRORS)


class _TaskSession:
    """Spark session, tables and files of one task; an epoch holds the lock."""

    def __init__(self, session: SparkSession, directory: Path, *, keep_plans: bool) -> None:
        self.session = session
        self.directory = directory
        self.functions: set[str] = set()
        self.tables: dict[str, ExitStack] = {}
        """Views of tables, with what their rows are read from."""
        self.lock = Lock()
        self.kept = KeptPlans(session, directory) if keep_plans else None
        """None: each epoch is planned anew."""
        self._partitions = 0
        self._plans: dict[tuple[str, Names], JavaObject] = {}
        """Statements that were checked: a task runs the same ones in each epoch."""

    def query(self, text: str, names: Names) -> DataFrame:
        """See `statements.query`."""
        plan = self._plans.get((text, names))
        if plan is None:
            plan = self._plans[text, names] = statements.plan(self.session, text, names)
        return statements.rows(self.session, plan)

    def use_partitions(self, count: int) -> None:
        if count == self._partitions:
            return
        self.session.conf.set("spark.sql.shuffle.partitions", str(count))
        self.session.conf.set("spark.sql.leafNodeDefaultParallelism", str(count))
        self._partitions = count

    def use_functions(self, functions: Sequence[PythonFunction], limits: Limits | None) -> None:
        for function in functions:
            if function.versioned_name not in self.functions:
                register(self.session, function, limits)
                self.functions.add(function.versioned_name)

    def forget(self) -> None:
        for view in (*self.tables, INPUT_VIEW):
            self.session.catalog.dropTempView(view)
        for kept in self.tables.values():
            kept.close()
        self.tables.clear()
        if self.kept is not None:
            self.kept.forget()
        shutil.rmtree(self.directory, ignore_errors=True)


class SparkEngine:
    """Engine of one site.

    Args:
        session: A session of the process's JVM; only new sessions made from it are used.
        scratch: Directory for rows on their way to Spark; it may be emptied between runs.
        files: How executors come to files of this machine; they share its disk when absent.
        out_of_memory: Called before the error is raised when a job's JVM had no more heap.
        functions: Limits of the processes that run Python functions of users; None: none may run here.
    """

    def __init__(
        self,
        session: SparkSession,
        *,
        scratch: Path,
        files: FileAccess | None = None,
        out_of_memory: Callable[[], None] | None = None,
        functions: Limits | None = DEFAULT_LIMITS,
    ) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        self._base = session
        self._out_of_memory = out_of_memory
        self._functions = functions
        self.keeps_plans = has_kept_plans(session)
        """Whether small epochs of new tasks run through plans of epochs before them; may be set to False."""
        self._scratch = Path(tempfile.mkdtemp(dir=scratch, prefix="engine-"))
        self._frames = Frames(self._scratch, partial(_slots, session), files or LocalFiles())
        self._tasks: dict[str, _TaskSession] = {}
        self._lock = Lock()

    def run(self, request: EpochRequest) -> EpochResult:
        """See `Engine.run`."""
        if request.functions and self._functions is None:
            raise FunctionsRefusedError(FUNCTIONS_REFUSED, hint=FUNCTIONS_HINT, ids={"task": request.task_id})
        task = self._task(request.task_id)
        with task.lock:
            missing = sorted(set(request.tables) - task.tables.keys())
            if missing:
                raise EngineError(f"no rows were put for table view {missing[0]}", ids={"task": request.task_id})
            try:
                return self._run(task, request)
            except _ERRORS as error:
                raise self._failure(error, request.task_id) from error

    def put_table(self, task_id: str, view: str, table: pa.Table | Sequence[Field]) -> None:
        """See `Engine.put_table`."""
        task = self._task(task_id)
        with task.lock:
            try:
                self._put(task, view, table)
            except _ERRORS as error:
                raise self._failure(error, task_id) from error

    def drop_task(self, task_id: str) -> None:
        """See `Engine.drop_task`. Waits for the task's epoch when one is running."""
        with self._lock:
            task = self._tasks.pop(task_id, None)
        if task is None:
            return
        with task.lock:
            try:
                task.forget()
            except SPARK_ERRORS as error:
                raise engine_error(error, task_id) from error

    def prepare(self, scan: FilesScan, event_time: str, directory: Path) -> None:
        """See `Preparer.prepare`.

        Raises:
            EngineError: the files cannot be read or written.
        """
        try:
            write_sorted(self._base.newSession(), self._frames, scan, event_time=event_time, directory=directory)
        except _ERRORS as error:
            raise self._failure(error) from error

    def analyze(
        self, views: Mapping[str, Sequence[Field]], statement: str, functions: Sequence[PythonFunction] = ()
    ) -> tuple[Field, ...]:
        """See `Engine.analyze`."""
        try:
            session, names = self._analyst(views, functions)
            for name, columns in views.items():
                statements.empty_view(session, name, columns)
            return fields_of(statements.query(session, statement, names).schema)
        except SPARK_ERRORS as error:
            raise analysis_error(error, statement) from error

    def scans(
        self, tables: Mapping[str, Sequence[Field]], statement: str, functions: Sequence[PythonFunction] = ()
    ) -> ScannedStatement:
        """See `Engine.scans`."""
        try:
            session, names = self._analyst(tables, functions)
            plans = {name: table_view(session, name, columns) for name, columns in tables.items()}
            rows = statements.query(session, statement, names)
            return ScannedStatement(fields_of(rows.schema), table_scans(session, rows, plans))
        except SPARK_ERRORS as error:
            raise analysis_error(error, statement) from error

    def _analyst(self, views: Iterable[str], functions: Sequence[PythonFunction]) -> tuple[SparkSession, Names]:
        """A session to analyse a statement in, and what the statement may name."""
        self._check_functions(functions)
        session = self._base.newSession()
        for function in functions:
            register(session, function, self._functions, with_own_name=True)
        return session, _names(views, [name for f in functions for name in (f.name, f.versioned_name)])

    def load(self, functions: Sequence[PythonFunction]) -> None:
        """See `Engine.load`."""
        self._check_functions(functions)
        load(self._base.newSession(), functions, self._functions)

    def _check_functions(self, functions: Sequence[PythonFunction]) -> None:
        """Raises AnalysisError when there are functions and none may run here."""
        if functions and self._functions is None:
            raise AnalysisError(f"{FUNCTIONS_REFUSED}: {FUNCTIONS_HINT}", condition="", line=0, column=0, fragment="")

    def _failure(self, error: Exception, task_id: str = "") -> EngineError:
        """The error to raise when a job failed or was refused."""
        if isinstance(error, AnalysisError):
            return EngineError(f"{error.message} [{error.condition}]", ids={"task": task_id} if task_id else {})
        if self._out_of_memory is not None and out_of_memory(error):
            self._out_of_memory()
        return engine_error(error, task_id)

    def _task(self, task_id: str) -> _TaskSession:
        with self._lock:
            task = self._tasks.get(task_id)
            if task is None:
                directory = Path(tempfile.mkdtemp(dir=self._scratch, prefix="task-"))
                task = self._tasks[task_id] = _TaskSession(
                    self._base.newSession(), directory, keep_plans=self.keeps_plans
                )
            return task

    def _put(self, task: _TaskSession, view: str, table: pa.Table | Sequence[Field]) -> None:
        with ExitStack() as stack:
            if isinstance(table, pa.Table):
                directory = stack.enter_context(tempfile.TemporaryDirectory(dir=task.directory))
                rows = stack.enter_context(self._frames.keep(task.session, table, Path(directory) / "table.parquet"))
                rows.createOrReplaceTempView(quoted_name(view))
            else:
                statements.empty_view(task.session, view, table)
            before, task.tables[view] = task.tables.get(view), stack.pop_all()
        if task.kept is not None:
            # Plans hold the rows that the table had when they were made.
            task.kept.forget()
        if before is not None:
            before.close()

    def _run(self, task: _TaskSession, request: EpochRequest) -> EpochResult:
        task.use_functions(request.functions, self._functions)
        return self._run_kept(task, request) or self._run_planned(task, request)

    def _run_kept(self, task: _TaskSession, request: EpochRequest) -> EpochResult | None:
        """The epoch through a plan of epochs before it; None: Spark has to plan it."""
        if task.kept is None or request.chunked or request.client is not None:
            return None

        def query() -> DataFrame:
            task.use_partitions(1)
            return task.query(request.sql, _names_of(task, request))

        result = task.kept.run(request, query)
        if result is None:
            return None
        if result.rows_malformed:
            # The plan gives their number; the rows themselves are worth a plan of their own.
            with self._frames.open(task.session, request.scan) as frame:
                _hand_over(request, frame.malformed, result.rows_malformed)
        aside = set_aside(request.scan)
        if aside is None:
            return result
        _hand_over(request, aside.malformed, aside.rows)
        return replace(result, rows_malformed=aside.rows)

    def _run_planned(self, task: _TaskSession, request: EpochRequest) -> EpochResult:
        with ExitStack() as source, ExitStack() as stack:
            frame: Frame = source.enter_context(self._frames.open(task.session, request.scan))
            others = {
                view: stack.enter_context(self._frames.open(task.session, scan)) for view, scan in request.views.items()
            }
            task.use_partitions(max(f.partitions for f in (frame, *others.values())))
            for view, other in others.items():
                other.rows.createOrReplaceTempView(quoted_name(view))
                stack.callback(task.session.catalog.dropTempView, view)
            rows = _with_site(frame.rows, request.site)
            observed = ObservedInput(rows, request.admission, frame.malformed_column)
            observed.admitted.createOrReplaceTempView(INPUT_VIEW)
            stack.callback(task.session.catalog.dropTempView, INPUT_VIEW)
            output = _query(task, request, stack)
            if (passed := self._passed(output, request, frame, source)) is not None:
                return passed
            output, table, many = self._output(output, task, request, (frame, *others.values()))
            metrics = observed.metrics(output)
            rows_malformed = metrics.rows_malformed + frame.set_aside
            if rows_malformed:
                _hand_over(request, frame.malformed, rows_malformed)
        return EpochResult(
            table,
            metrics.rows,
            metrics.rows_late,
            metrics.max_event_time_us,
            rows_malformed,
            operator_rows(output),
            many,
            input_bytes(request.scan),
        )

    def _passed(self, output: DataFrame, request: EpochRequest, frame: Frame, source: ExitStack) -> EpochResult | None:
        """The result of an epoch that passes on columns of a large part of a table, and Spark need not run; else None.

        What `source` keeps for the frame is then kept as long as the rows.
        """
        scan = request.scan
        if not isinstance(scan, FilesScan) or scan.format != "parquet" or not (request.chunked and scan.parts):
            return None
        if self._frames.remote or frame.size_bytes <= MANY_BYTES:
            return None
        columns, empty = picked_columns(output), empty_of(output)
        chunks = chunks_as_they_are(columns, scan, frame.files, empty.schema, source) if columns else None
        return EpochResult(empty, chunks.rows, 0, None, many=chunks, input_bytes=input_bytes(scan)) if chunks else None

    def _output(
        self, output: DataFrame, task: _TaskSession, request: EpochRequest, frames: Sequence[Frame]
    ) -> tuple[DataFrame, pa.Table, Chunks | None]:
        """Run the query. Returns the executed frame and its rows: collected by the driver or, if many, spooled.

        A small input may have more output than the driver collects; the job then runs again, into the spool.
        """
        may_be_many = request.chunked and not self._frames.remote
        if not may_be_many or sum(frame.size_bytes for frame in frames) <= MANY_BYTES:
            try:
                return output, collect(output, spill=task.directory), None
            except SPARK_ERRORS as error:
                if not (may_be_many and result_too_large(error)):
                    raise
        executed, many = spooled(output, task.directory)
        return executed, empty_of(output), many


def _query(task: _TaskSession, request: EpochRequest, made: ExitStack) -> DataFrame:
    """Return the rows that the request asks for over the existing views; a client plan's views go with `made`."""
    names = _names_of(task, request)
    if request.client is None:
        return task.query(request.sql, names)
    return client_rows(task.session, request.client, names, made)


def _slots(session: SparkSession) -> int:
    """Cores of the executors that are there now."""
    return int(session.sparkContext.defaultParallelism)


def _with_site(rows: DataFrame, site: str) -> DataFrame:
    """Rows in memory may carry where they were born; all others were born here."""
    if any(name.lower() == SITE_COLUMN for name in rows.columns):
        return rows
    return rows.withColumn(SITE_COLUMN, sf.lit(site))


def _hand_over(request: EpochRequest, malformed: Callable[[], Iterator[MalformedRow]] | None, count: int) -> None:
    if request.malformed is None or malformed is None:
        raise EngineError(f"{count} rows are malformed, and nothing takes them", ids={"task": request.task_id})
    request.malformed(malformed())


def _names_of(task: _TaskSession, request: EpochRequest) -> Names:
    """What the request's statement may name."""
    return _names((INPUT_VIEW, *task.tables, *request.views), [f.versioned_name for f in request.functions])


def _names(relations: Iterable[str], functions: Iterable[str]) -> Names:
    return Names(frozenset(r.lower() for r in relations), frozenset(f.lower() for f in functions))
