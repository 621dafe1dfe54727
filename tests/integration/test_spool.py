"""Output that Spark's Python workers write to the spool, compared with output that the driver collects."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from site_agent.base.errors import EngineError
from site_agent.engine import ArrowScan, EpochRequest, EpochResult, RangeScan
from site_agent.engine.chunks import CHUNK_BYTES
from site_agent.engine.spark import SparkEngine

pytestmark = pytest.mark.spark

TYPES = """
    id, CAST(id AS INT) AS `a.b`, concat('x', id) AS ```quoted```, id / 3 AS d, CAST(id AS DECIMAL(20, 2)) AS m,
    timestamp_micros(id) AS ts, CAST(timestamp_micros(id) AS TIMESTAMP_NTZ) AS local, date_from_unix_date(id) AS day,
    array(id, NULL) AS list, map('k', id) AS pairs, named_struct('x', id, 'y', array('z')) AS nested,
    CAST(concat('b', id) AS BINARY) AS raw, id % 2 = 0 AS flag, IF(id % 7 = 0, NULL, id) AS sometimes,
    CAST(NULL AS STRING) AS never, make_dt_interval(1, 2, 3, id % 60) AS took
"""


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spool every output, however few rows go in."""
    monkeypatch.setattr("site_agent.engine.spark.MANY_BYTES", -1)


def run(engine: SparkEngine, sql: str, *, rows: int, chunked: bool = True, task: str = "q.spool") -> EpochResult:
    return engine.run(EpochRequest(task, sql, RangeScan(0, rows, (("id", "id"),)), "us", chunked=chunked))


def table_of(result: EpochResult) -> pa.Table:
    assert result.many is not None
    with result.chunks as chunks:
        return pa.concat_tables(list(chunks.tables))


def files_of(engine: SparkEngine) -> list[Path]:
    return [path for path in engine._scratch.rglob("*.arrows") if path.is_file()]


@pytest.mark.usefixtures("always")
class TestSpooled:
    def test_every_type_and_name_is_as_if_it_had_been_collected(self, spark_engine: SparkEngine) -> None:
        sql = f"SELECT {TYPES} FROM input ORDER BY id"
        spooled, collected = (run(spark_engine, sql, rows=100, chunked=chunked) for chunked in (True, False))
        assert collected.many is None
        found = table_of(spooled)
        assert found.schema == collected.table.schema
        assert found == collected.table
        assert spooled.rows_read == collected.rows_read == 100

    def test_rows_are_in_order_over_partitions_and_no_file_stays(self, spark_engine: SparkEngine) -> None:
        result = run(spark_engine, "SELECT id, repeat('x', 100) AS pad FROM input ORDER BY id DESC", rows=300_000)
        assert result.many is not None
        assert (result.table.num_rows, result.many.rows) == (0, 300_000)
        ids, largest = [], 0
        with result.chunks as chunks:
            for table in chunks.tables:
                ids += table.column("id").to_pylist()
                largest = max(largest, table.nbytes)
        assert ids == list(range(299_999, -1, -1))
        assert largest <= 2 * CHUNK_BYTES
        assert files_of(spark_engine) == []

    def test_rows_that_nobody_takes_leave_no_file(self, spark_engine: SparkEngine) -> None:
        result = run(spark_engine, "SELECT id FROM input", rows=100)
        assert files_of(spark_engine)
        result.chunks.close()
        assert files_of(spark_engine) == []

    def test_no_rows(self, spark_engine: SparkEngine) -> None:
        result = run(spark_engine, "SELECT id, 'x' AS x FROM input WHERE id < 0", rows=100)
        assert result.many is not None
        assert (result.many.rows, list(result.many.tables), result.rows_read) == (0, [], 100)

    def test_operators_are_counted(self, spark_engine: SparkEngine) -> None:
        result = run(spark_engine, "SELECT id FROM input WHERE id % 2 = 0", rows=100)
        assert [(operator.name, operator.rows) for operator in result.operators] == [("Filter", 50)]
        result.chunks.close()

    def test_a_job_that_fails_leaves_no_file_and_says_why(self, spark_engine: SparkEngine) -> None:
        with pytest.raises(EngineError, match="Division by zero"):
            run(spark_engine, "SELECT id, 1 div (id - 99) FROM input", rows=100)
        assert files_of(spark_engine) == []

    def test_a_disk_that_is_full_is_named(self, spark_engine: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> None:
        """`/dev/full` refuses every write, as a full disk does."""

        def full(dir: Path, prefix: str) -> str:
            place = Path(dir, prefix)
            place.mkdir()
            for partition in range(4):
                for attempt in range(10_000):
                    os.symlink("/dev/full", place / f"{partition}-{attempt}.arrows")
            return str(place)

        monkeypatch.setattr("site_agent.engine.output.spool.tempfile.mkdtemp", full)
        with pytest.raises(EngineError, match="No space left on device"):
            run(spark_engine, "SELECT id FROM input", rows=100)


def test_few_rows_are_collected(spark_engine: SparkEngine) -> None:
    result = run(spark_engine, "SELECT id FROM input", rows=1000)
    assert result.many is None
    with result.chunks as chunks:
        assert (chunks.rows, pa.concat_tables(list(chunks.tables)).num_rows) == (1000, 1000)


def test_rows_of_a_request_that_is_not_chunked_are_collected(spark_engine: SparkEngine) -> None:
    table = pa.table({"n": range(3_000_000)})
    assert table.nbytes > 16 * 1024 * 1024
    result = spark_engine.run(EpochRequest("q", "SELECT max(n) AS n FROM input", ArrowScan(table), "us"))
    assert (result.many, result.table.to_pydict()) == (None, {"n": [2_999_999]})
