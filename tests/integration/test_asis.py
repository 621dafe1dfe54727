"""Columns of a table's files that pass through a map as they are, beside what Spark makes of them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from planner.values.splits import FilePart
from site_agent.engine import EpochRequest, EpochResult, Field, FilesScan
from site_agent.engine.output.spool import spooled
from site_agent.engine.spark import SparkEngine

pytestmark = pytest.mark.spark

ROWS = 1000
COLUMNS = (
    Field("id", "BIGINT"),
    Field("address", "STRING"),
    Field("price", "DOUBLE"),
    Field("flag", "BOOLEAN"),
    Field("at", "TIMESTAMP"),
    Field("absent", "STRING"),
)


@pytest.fixture
def by_spark(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """However few rows go in; has an entry for each job that Spark ran."""
    ran: list[str] = []

    def noted(*arguments: Any) -> Any:
        ran.append("job")
        return spooled(*arguments)

    monkeypatch.setattr("site_agent.engine.spark.MANY_BYTES", -1)
    monkeypatch.setattr("site_agent.engine.scans.frames.SMALL_FILES_BYTES", -1)
    monkeypatch.setattr("site_agent.engine.spark.spooled", noted)
    return ran


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A file of four row groups."""
    numbers = range(ROWS)
    rows = pa.table(
        {
            "ID": pa.array(numbers, pa.int64()),
            "address": [None if n % 7 == 0 else f"str. {n}, ü" for n in numbers],
            "price": [float("nan") if n % 11 == 0 else n / 7 for n in numbers],
            "flag": [n % 3 == 0 for n in numbers],
            "at": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * ROWS, pa.timestamp("us", tz="UTC")),
        }
    )
    path = tmp_path / "table.parquet"
    pq.write_table(rows, path, row_group_size=ROWS // 4)
    return path


def run(engine: SparkEngine, sql: str, table: Path, *, chunked: bool = True, part: range | None = None) -> EpochResult:
    read = tuple(column.name for column in COLUMNS)
    part = part or range(table.stat().st_size)
    parts = (FilePart(str(table), part.start, len(part)),)
    scan = FilesScan("parquet", (str(table),), COLUMNS, read, parts=parts)
    return engine.run(EpochRequest("q.asis", sql, scan, "us", chunked=chunked))


def rows_of(result: EpochResult) -> pa.Table:
    with result.chunks as chunks:
        return pa.concat_tables([result.table, *([] if result.many is None else chunks.tables)])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, address, price FROM input",
        "SELECT price AS id, id AS price, flag, flag AS `a.b` FROM input",
        "SELECT n, address FROM (SELECT address, id AS n, at, site FROM (SELECT * FROM input))",
    ],
)
def test_columns_pass_without_spark_and_are_what_spark_makes_of_them(
    spark_engine: SparkEngine, by_spark: list[str], table: Path, sql: str
) -> None:
    passed, collected = (run(spark_engine, sql, table, chunked=chunked) for chunked in (True, False))
    assert passed.many is not None
    assert by_spark == []
    assert passed.rows_read == collected.rows_read == ROWS
    assert collected.many is None
    found = rows_of(passed)
    assert found.schema == collected.table.schema
    assert found.to_pandas().equals(collected.table.to_pandas())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, address FROM input WHERE id < 900",
        "SELECT id + 1 AS id FROM input",
        "SELECT id, site FROM input",
        "SELECT id, at FROM input",
        "SELECT id, absent FROM input",
        "SELECT id, CAST(flag AS STRING) AS flag FROM input",
        "SELECT DISTINCT id FROM input",
        "SELECT id FROM input ORDER BY id LIMIT 10",
        "SELECT id, explode(array(1, 2)) AS n FROM input",
        "SELECT id FROM input UNION ALL SELECT id FROM input",
    ],
)
def test_whatever_is_more_is_computed_by_spark(
    spark_engine: SparkEngine, by_spark: list[str], table: Path, sql: str
) -> None:
    computed, collected = (run(spark_engine, sql, table, chunked=chunked) for chunked in (True, False))
    assert by_spark == ["job"]
    order = [("id", "ascending")]
    assert rows_of(computed).sort_by(order) == collected.table.sort_by(order)
    assert computed.rows_read == collected.rows_read


def test_a_part_of_a_file_is_its_row_groups(spark_engine: SparkEngine, by_spark: list[str], table: Path) -> None:
    size_bytes = table.stat().st_size
    halves = [
        run(spark_engine, "SELECT id FROM input", table, part=part)
        for part in (range(size_bytes // 2), range(size_bytes // 2, size_bytes))
    ]
    assert by_spark == []
    found = [rows_of(half).column("id").to_pylist() for half in halves]
    assert all(found)
    assert [*found[0], *found[1]] == list(range(ROWS))
    assert not [path for path in spark_engine._scratch.rglob("files-*") if path.is_dir()]
