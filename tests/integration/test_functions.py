"""Python functions on a real Spark: where they can stand, their types, and what users learn of failures."""

from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from site_agent.engine import AnalysisError, ArrowScan, EpochRequest, Field, PythonFunction
from site_agent.engine.spark import SparkEngine
from site_agent.errors import FunctionError, FunctionsRefusedError

pytestmark = pytest.mark.spark

GEO = """
from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.compute as pc


@dataclass
class Cell:
    x: int


def cell(lat: float, size: int = 10) -> str | None:
    if lat is None:
        return None
    if lat > 90:
        raise ValueError(f"no latitude: {lat}")
    return f"c{Cell(int(lat // size)).x}"


def half(value: pa.Array) -> pa.Array:
    if pc.any(pc.equal(value, 13)).as_py():
        raise RuntimeError("unlucky")
    return pc.divide(value, 2)


def later(ts: datetime) -> datetime:
    assert ts.tzinfo is not None and ts.utcoffset() == timedelta(0)
    return ts + timedelta(hours=1)


def wrong(value: int) -> int:
    return "text"
"""


def function(entry: str, parameters: dict[str, str], returns: str, **changes: object) -> PythonFunction:
    fields = tuple(Field(name, kind) for name, kind in parameters.items())
    made = PythonFunction(entry, f"{entry}__0123456789ab", fields, returns, entry, "geo.py", GEO, entry == "half")
    return replace(made, **changes)  # type: ignore[arg-type]


CELL = function("cell", {"lat": "DOUBLE", "size": "INT"}, "STRING")
HALF = function("half", {"value": "BIGINT"}, "BIGINT")
LATER = function("later", {"ts": "TIMESTAMP"}, "TIMESTAMP")
WRONG = function("wrong", {"value": "BIGINT"}, "BIGINT")
ALL = (CELL, HALF, LATER, WRONG)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROWS = pa.table(
    {
        "id": pa.array(range(12), pa.int64()),
        "lat": pa.array([None if i == 11 else i * 5.0 for i in range(12)], pa.float64()),
        "ts": pa.array([NOON] * 12, pa.timestamp("us", "UTC")),
    }
)
VIEWS = {"input": (Field("id", "BIGINT"), Field("lat", "DOUBLE"), Field("ts", "TIMESTAMP"), Field("s", "ARRAY<INT>"))}


def run(engine: SparkEngine, sql: str, rows: pa.Table = ROWS) -> list[dict[str, object]]:
    try:
        table = engine.run(EpochRequest("functions", sql, ArrowScan(rows), "us", functions=ALL)).table
    finally:
        engine.drop_task("functions")
    found: list[dict[str, object]] = table.to_pylist()
    return found


def test_in_where_keys_and_aggregates(spark_engine: SparkEngine) -> None:
    sql = """SELECT k, count(DISTINCT cell__0123456789ab(a, 20)) AS n, max(half__0123456789ab(id)) AS h
        FROM (SELECT cell__0123456789ab(lat, 20) AS k, lat AS a, id FROM input
              WHERE cell__0123456789ab(lat, 10) <> 'c0') AS kept
        GROUP BY k HAVING length(cell__0123456789ab(max(a), 1)) > 1"""

    assert sorted(run(spark_engine, sql), key=str) == [
        {"k": "c0", "n": 1, "h": 1},
        {"k": "c1", "n": 1, "h": 3},
        {"k": "c2", "n": 1, "h": 5},
    ]


def test_values_are_python_values_and_instants_are_in_utc(spark_engine: SparkEngine) -> None:
    sql = "SELECT later__0123456789ab(ts) AS l, cell__0123456789ab(lat, 10) AS c FROM input WHERE id IN (0, 11)"

    assert run(spark_engine, sql) == [
        {"l": NOON.replace(hour=13), "c": "c0"},
        {"l": NOON.replace(hour=13), "c": None},
    ]


def test_arguments_are_converted_to_the_declared_types(spark_engine: SparkEngine) -> None:
    assert run(spark_engine, "SELECT cell__0123456789ab(id, 1.0) AS c FROM input WHERE id = 7") == [{"c": "c7"}]


def test_no_rows_call_nothing(spark_engine: SparkEngine) -> None:
    assert run(spark_engine, "SELECT wrong__0123456789ab(id) AS w FROM input WHERE id < 0") == []


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "cell__0123456789ab(lat + 40.5, 10)",
            "function cell failed at geo.py:20: ValueError: no latitude: 90.5; arguments lat = 90.5, size = 10",
        ),
        (
            "half__0123456789ab(id + 5)",
            "function half failed at geo.py:26: RuntimeError: unlucky; arguments value = 13",
        ),
        (
            "wrong__0123456789ab(id)",
            "function wrong returned 'text' (str), which is no BIGINT; arguments value = 0",
        ),
    ],
)
def test_a_failure_names_function_line_and_arguments(spark_engine: SparkEngine, sql: str, message: str) -> None:
    with pytest.raises(FunctionError) as caught:
        run(spark_engine, f"SELECT {sql} AS x FROM input")

    assert caught.value.message == message
    assert caught.value.code == "FUNCTION_ERROR"
    assert pickle.loads(pickle.dumps(caught.value)).message == message


def test_versions_live_side_by_side(spark_engine: SparkEngine) -> None:
    newer = replace(CELL, versioned_name="cell__ffffffffffff", source=GEO.replace('f"c{', 'f"d{'))
    sql = "SELECT cell__0123456789ab(lat, 10) AS old, cell__ffffffffffff(lat, 10) AS new FROM input WHERE id = 4"
    result = spark_engine.run(EpochRequest("versions", sql, ArrowScan(ROWS), "us", functions=(CELL, newer)))
    spark_engine.drop_task("versions")

    assert result.table.to_pylist() == [{"old": "c2", "new": "d2"}]


def test_analysis_knows_both_names_and_types(spark_engine: SparkEngine) -> None:
    sql = "SELECT cell(lat, 10) AS c, half__0123456789ab(id) AS h, later(ts) AS l FROM input GROUP BY ALL"

    assert spark_engine.analyze(VIEWS, sql, ALL) == (
        Field("c", "STRING"),
        Field("h", "BIGINT"),
        Field("l", "TIMESTAMP"),
    )


@pytest.mark.parametrize("call", ["cell(s, 1)", "transform(s, x -> half(x))", "cell(lat)"])
def test_analysis_refuses_what_spark_cannot_run(spark_engine: SparkEngine, call: str) -> None:
    with pytest.raises(AnalysisError):
        spark_engine.analyze(VIEWS, f"SELECT {call} AS c FROM input", ALL)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": "import nowhere_to_be_found\n\ndef cell(lat, size): pass"}, "ModuleNotFoundError"),
        ({"source": "x = 1 / 0\n\ndef cell(lat, size): pass"}, "at geo.py:1: ZeroDivisionError"),
        ({"source": "raise SystemExit(3)\n\ndef cell(lat, size): pass"}, "SystemExit: 3"),
        ({"source": "def cell(lat, size): pass\n\ndel cell"}, "has no function cell"),
        ({"name": "upper"}, "Spark has a function upper already"),
    ],
)
def test_what_cannot_be_loaded_is_refused(spark_engine: SparkEngine, changes: dict[str, str], message: str) -> None:
    digest = f"{abs(hash(str(changes))):012x}"[:12]
    with pytest.raises(AnalysisError, match=message):
        spark_engine.load((replace(CELL, versioned_name=f"cell__{digest}", **changes),))  # type: ignore[arg-type]


def test_what_can_be_loaded_is(spark_engine: SparkEngine) -> None:
    spark_engine.load(ALL)


def test_an_agent_that_was_told_so_runs_none(spark_engine: SparkEngine, tmp_path: Path) -> None:
    engine = SparkEngine(spark_engine._base, scratch=tmp_path, python_functions=False)
    said = "this agent runs no Python functions"
    with pytest.raises(AnalysisError, match=said):
        engine.load(ALL)
    with pytest.raises(AnalysisError, match=said):
        engine.analyze(VIEWS, "SELECT cell(lat, 10) AS c FROM input", ALL)
    with pytest.raises(FunctionsRefusedError, match=said):
        run(engine, "SELECT id FROM input")
    assert engine.analyze(VIEWS, "SELECT id FROM input") == (Field("id", "BIGINT"),)
