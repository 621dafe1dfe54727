"""Python functions on a real Spark: where they can stand, their types, and what users learn of failures."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from site_agent.base.errors import FunctionError, FunctionLimitError, FunctionsRefusedError
from site_agent.engine import AnalysisError, ArrowScan, EpochRequest, Field, PythonFunction
from site_agent.engine.functions import DEFAULT_LIMITS
from site_agent.engine.pyworker import kept_variable
from site_agent.engine.spark import SparkEngine

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
    engine = SparkEngine(spark_engine._base, scratch=tmp_path, functions=None)
    said = "this agent runs no Python functions"
    with pytest.raises(AnalysisError, match=said):
        engine.load(ALL)
    with pytest.raises(AnalysisError, match=said):
        engine.analyze(VIEWS, "SELECT cell(lat, 10) AS c FROM input", ALL)
    with pytest.raises(FunctionsRefusedError, match=said):
        run(engine, "SELECT id FROM input")
    assert engine.analyze(VIEWS, "SELECT id FROM input") == (Field("id", "BIGINT"),)


GREEDY = """
def spins(value: int) -> int:
    while True:
        pass


def hoards(value: int) -> int:
    return len(bytearray(8 * 1024 ** 3))


def opens(value: int) -> int:
    return len([open("/dev/null") for _ in range(200)])


def looks(value: int) -> str:
    import json
    import os
    import pathlib

    pairs = [part.partition("=") for part in pathlib.Path("/proc/self/environ").read_text().split("\\0") if part]
    return json.dumps([dict(os.environ), {name: value for name, _, value in pairs}])
"""


def greedy(entry: str, returns: str = "BIGINT") -> PythonFunction:
    return function(entry, {"value": "BIGINT"}, returns, source=GREEDY, file="greedy.py")


@pytest.fixture(scope="module")
def strict(spark_engine: SparkEngine, tmp_path_factory: pytest.TempPathFactory) -> SparkEngine:
    """An engine that gives functions little."""
    scratch = tmp_path_factory.mktemp("strict")
    return SparkEngine(spark_engine._base, scratch=scratch, functions=DEFAULT_LIMITS._replace(cpu_s=2))


def call(engine: SparkEngine, called: PythonFunction) -> list[dict[str, object]]:
    sql = f"SELECT {called.versioned_name}(id) AS x FROM input WHERE id = 3"
    task = f"limits-{called.name}"
    try:
        table = engine.run(EpochRequest(task, sql, ArrowScan(ROWS), "us", functions=(called,))).table
        found: list[dict[str, object]] = table.to_pylist()
        return found
    finally:
        engine.drop_task(task)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("spins", "function spins took more than 2 s of CPU time"),
        ("hoards", "function hoards failed at greedy.py:8: MemoryError; arguments value = 3"),
        ("opens", "function opens failed at greedy.py:12: OSError: [Errno 24] Too many open files"),
    ],
)
def test_a_function_that_takes_too_much_fails_with_the_reason_and_no_other(
    strict: SparkEngine, entry: str, message: str
) -> None:
    with pytest.raises(FunctionLimitError) as caught:
        call(strict, greedy(entry))
    assert caught.value.message.startswith(message)
    assert "--function-" in caught.value.hint
    assert run(strict, "SELECT cell__0123456789ab(id, 1) AS c FROM input WHERE id = 7") == [{"c": "c7"}]


def test_a_function_sees_no_variables_of_the_agent(strict: SparkEngine) -> None:
    """Those of the JVM, which were the agent's when it started it."""
    (row,) = call(strict, greedy("looks", "STRING"))
    for seen in json.loads(str(row["x"])):
        assert seen["PATH"]
        assert {name for name in os.environ if not kept_variable(name) and seen.get(name)} == set()


def test_large_results_are_spooled_by_other_workers(strict: SparkEngine) -> None:
    """By ones that may have more memory and files than functions."""
    files = PythonFunction(
        "files", "files__0123456789ab", (Field("value", "BIGINT"),), "BIGINT", "files", "files.py", FILES, False
    )
    (row,) = call(strict, files)
    assert row["x"] == DEFAULT_LIMITS.open_files
    unconfined = strict._base.newSession().range(1).mapInArrow(_open_files, "files BIGINT").collect()
    assert unconfined[0][0] != DEFAULT_LIMITS.open_files


FILES = """
import resource


def files(value: int) -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
"""


def _open_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import resource

    list(batches)
    yield pa.RecordBatch.from_pydict({"files": [resource.getrlimit(resource.RLIMIT_NOFILE)[0]]})
