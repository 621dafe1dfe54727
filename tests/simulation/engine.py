"""DuckDB behind the engine port: runs the stages of the workload's queries, and remembers what it has run.

Queries of other worlds have the same stages over the same rows, so that most epochs are found in the memo.
tests/integration/test_simulated_engine.py has Spark run the same epochs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from planner.relations.catalog import SITE_COLUMN
from planner.values.names import BIN_COLUMN, INPUT_VIEW
from site_agent.base.errors import EngineError
from site_agent.engine import (
    AnalysisError,
    ArrowScan,
    ChunksScan,
    EmptyScan,
    EpochRequest,
    EpochResult,
    Field,
    PythonFunction,
    Scan,
    ScannedStatement,
)
from tests.simulation.memo import Memo, Views
from tests.unit.planner.engine import connect, in_duckdb

ANALYSES = Path(__file__).with_name("analyses.json")
"""Spark's answers to what the master asks about the workload's statements, where DuckDB has none or another."""

_DECIMAL = re.compile(r"DECIMAL\((\d+), ?(\d+)\)")
INSTANT = pa.timestamp("us", tz="UTC")
_TYPES = {
    "BIGINT": pa.int64(),
    "INT": pa.int32(),
    "TINYINT": pa.int8(),
    "STRING": pa.string(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP": INSTANT,
    "ARRAY<BIGINT>": pa.list_(pa.int64()),
    "ARRAY<STRING>": pa.list_(pa.string()),
}

Analyses = dict[str, list[list[str]]]
"""Columns, each with name and type, by `question`."""
Answers = dict[str, tuple[Field, ...] | ScannedStatement]
"""All that Spark says of drawn queries, by `question`."""


_NAMES = {kind: name for name, kind in _TYPES.items()}


def question(views: Mapping[str, Sequence[Field]], statement: str) -> str:
    """The text under which an analysis is kept."""
    told = [f"{view}({', '.join(f'{f.name} {f.type}' for f in fields)})" for view, fields in sorted(views.items())]
    return "; ".join([*told, " ".join(statement.split())])


@cache
def recorded() -> Analyses:
    """The analyses of the workload's statements."""
    found: Analyses = json.loads(ANALYSES.read_text())
    return found


@cache
def to_duckdb(sql: str) -> str:
    """A stage's statement in DuckDB's words."""
    return sqlglot.parse_one(sql, dialect="spark").transform(_translated).sql(dialect="duckdb")


def _translated(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Struct):
        return exp.Struct(expressions=[_named(field) for field in node.expressions])
    return in_duckdb(node)


def _named(field: exp.Expr) -> exp.Expr:
    """A field of a structure, which keeps its name."""
    name = field.this.name if isinstance(field, exp.PropertyEQ) else field.alias
    value = field.expression if isinstance(field, exp.PropertyEQ) else field.this
    return exp.PropertyEQ(this=exp.to_identifier(name), expression=value)


def _empty(columns: Sequence[Field]) -> pa.Table:
    return pa.schema([(column.name, _type(column.type)) for column in columns]).empty_table()


def _name(kind: pa.DataType) -> str:
    if not pa.types.is_struct(kind):
        return _NAMES[kind]
    return f"STRUCT<{', '.join(f'{field.name}: {_name(field.type)}' for field in kind)}>"


def _type(name: str) -> pa.DataType:
    if name.upper() in _TYPES:
        return _TYPES[name.upper()]
    if name.upper().startswith("ARRAY<"):
        return pa.list_(_type(name[len("ARRAY<") : -1]))
    if name.upper().startswith("STRUCT<"):
        fields = (field.split(": ") for field in name[len("STRUCT<") : -1].split(", "))
        return pa.struct([(field, _type(kind)) for field, kind in fields])
    decimal = _DECIMAL.fullmatch(name.upper())
    assert decimal is not None, name
    return pa.decimal128(*map(int, decimal.groups()))


def _rows(scan: Scan) -> pa.Table:
    match scan:
        case ArrowScan(table=table):
            return table
        case ChunksScan(chunks=chunks, columns=columns):
            tables = list(chunks())
            return pa.concat_tables(tables, promote_options="permissive") if tables else _empty(columns)
        case EmptyScan(columns=columns):
            return _empty(columns)
    raise EngineError(f"the simulated engine reads no {type(scan).__name__}")


def _as_spark(table: pa.Table) -> pa.Table:
    """With the types that Spark has for DuckDB's, in the order of their bins, and else in one of its own."""
    schema = pa.schema([pa.field(field.name, _spark_type(field.type)) for field in table.schema])
    cast = table.cast(schema).combine_chunks()
    names = [field.name for field in schema if not pa.types.is_nested(field.type)]
    keys = [(name, "ascending") for name in sorted(names, key=lambda name: name != BIN_COLUMN)]
    return cast.sort_by(keys) if cast.num_rows > 1 and keys else cast


def _spark_type(kind: pa.DataType) -> pa.DataType:
    if (pa.types.is_decimal(kind) and kind.scale == 0) or pa.types.is_uint64(kind):
        return pa.int64()
    if pa.types.is_timestamp(kind):
        return INSTANT
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _spark_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_spark_type(kind.value_type))
    return kind


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """One for the process: to make it takes longer than many epochs."""
    database = connect()
    # The instant has the type of the rows' own, so that a key has one hash wherever it is computed.
    database.execute("CREATE OR REPLACE MACRO timestamp_micros(n) AS make_timestamp(n) AT TIME ZONE 'UTC'")
    return database


def computed(sql: str, views: Views) -> pa.Table:
    """Return what a stage gives over these rows, with Spark's types. Raises EngineError."""
    database = _database()
    try:
        for view, table in views.items():
            database.register(view, table)
        return _as_spark(database.sql(to_duckdb(sql)).to_arrow_table())
    except duckdb.Error as error:
        raise EngineError(f"{error}: {to_duckdb(sql)}") from error
    finally:
        for view in views:
            database.unregister(view)


class SimulatedEngine:
    """See `site_agent.engine.Engine`.

    Args:
        memo: Shared with the engines of other sites and worlds.
        analyses: What Spark says of statements, where DuckDB has no answer, or another.
        answers: The same of drawn queries, where DuckDB is not asked.
    """

    def __init__(self, memo: Memo, analyses: Analyses, answers: Answers | None = None) -> None:
        self._memo = memo
        self._analyses = analyses
        self._answers = answers or {}
        self._tables: dict[str, dict[str, pa.Table]] = {}

    def run(self, request: EpochRequest) -> EpochResult:
        """See `Engine.run`."""
        table = _rows(request.scan)
        read, late, newest_us = table.num_rows, 0, None
        if request.admission is not None:
            at_us = table.column(request.admission.event_time).cast(pa.int64())
            newest_us = pc.max(at_us).as_py()
            if request.admission.watermark_us is not None:
                table = table.filter(pc.greater_equal(at_us, request.admission.watermark_us))
                late = read - table.num_rows
            assert request.admission.share == 1.0
        views = {INPUT_VIEW: _with_site(table, request.site)}
        views |= {view: self._tables[request.task_id][view] for view in request.tables}
        views |= {view: _rows(scan) for view, scan in request.views.items()}
        return EpochResult(self._memo.output(request.sql, views), read, late, newest_us, input_bytes=read)

    def put_table(self, task_id: str, view: str, table: pa.Table | Sequence[Field]) -> None:
        """See `Engine.put_table`."""
        rows = table if isinstance(table, pa.Table) else _empty(table)
        self._tables.setdefault(task_id, {})[view] = rows

    def drop_task(self, task_id: str) -> None:
        """See `Engine.drop_task`."""
        self._tables.pop(task_id, None)

    def analyze(
        self, views: Mapping[str, Sequence[Field]], statement: str, functions: Sequence[PythonFunction] = ()
    ) -> tuple[Field, ...]:
        """See `Engine.analyze`."""
        answer = self._answers.get(question(views, statement))
        if isinstance(answer, tuple):
            return answer
        columns = self._analyses.get(question(views, statement))
        if columns is not None:
            return tuple(Field(name, kind) for name, kind in columns)
        try:
            output = self._memo.output(statement, {view: _empty(fields) for view, fields in views.items()})
            return tuple(Field(column.name, _name(column.type)) for column in output.schema)
        except (EngineError, SqlglotError, KeyError) as error:
            asked = f"{error!r}: {question(views, statement)}"
            raise AnalysisError(asked, condition="UNKNOWN", line=0, column=0, fragment="") from error

    def scans(
        self, tables: Mapping[str, Sequence[Field]], statement: str, functions: Sequence[PythonFunction] = ()
    ) -> ScannedStatement:
        """See `Engine.scans`: of drawn queries alone."""
        answer = self._answers.get(question(tables, statement))
        if isinstance(answer, ScannedStatement):
            return answer
        raise AnalysisError(question(tables, statement), condition="UNKNOWN", line=0, column=0, fragment="")

    def load(self, functions: Sequence[PythonFunction]) -> None:
        """There are none."""


def _with_site(table: pa.Table, site: str) -> pa.Table:
    if SITE_COLUMN in table.column_names:
        return table
    return table.append_column(SITE_COLUMN, pa.array([site] * table.num_rows, pa.string()))
