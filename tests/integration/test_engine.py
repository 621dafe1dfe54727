"""The engine port on a real Spark: every kind of scan, admission, tables, analysis, errors, concurrency."""

from __future__ import annotations

import bz2
import gzip
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from contract.times import to_us
from site_agent.base.errors import EngineError
from site_agent.engine import (
    Admission,
    AnalysisError,
    ArrowScan,
    EpochRequest,
    EpochResult,
    Field,
    FilesScan,
    MalformedFile,
    MalformedRow,
    ParquetSlice,
    RangeScan,
    Scan,
    SlicesScan,
)
from site_agent.engine.output.collect import collect
from site_agent.engine.scans.frames import SMALL_ROWS
from site_agent.engine.scans.malformed import write_malformed
from site_agent.engine.spark import SparkEngine

pytestmark = pytest.mark.spark

TIMESTAMP = pa.timestamp("us", tz="UTC")
START = datetime(2026, 1, 1, tzinfo=UTC)
START_US = to_us(START)
COLUMNS = (Field("ts", "TIMESTAMP"), Field("k", "INT"), Field("v", "BIGINT"))
NAMES = ("ts", "k", "v")


def rows(count: int, *, step_us: int = 1_000_000) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array([START_US + i * step_us for i in range(count)], TIMESTAMP),
            "k": pa.array([i % 3 for i in range(count)], pa.int32()),
            "v": pa.array(range(count), pa.int64()),
        }
    )


def run(
    engine: SparkEngine,
    sql: str,
    scan: Scan | pa.Table,
    *,
    task: str = "q.s.us",
    admission: Admission | None = None,
    tables: Sequence[str] = (),
) -> EpochResult:
    wanted = ArrowScan(scan) if isinstance(scan, pa.Table) else scan
    return engine.run(EpochRequest(task, sql, wanted, "us", admission, tuple(tables)))


def files(path: Path, kind: str, *, columns: Sequence[Field] = COLUMNS, **options: str) -> FilesScan:
    defaults = {} if kind == "parquet" else {"mode": "FAILFAST"}
    defaults |= {"columnPruning": "false"} if kind == "csv" else {}
    return FilesScan(kind, (str(path),), tuple(columns), tuple(c.name for c in columns), {**defaults, **options})


def tolerant(path: Path, kind: str) -> FilesScan:
    """Malformed rows are set aside."""
    scan = files(path, kind)
    return replace(scan, options={**scan.options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_bad"})


class TestScans:
    TOTALS = "SELECT count(*) AS n, sum(v) AS s, min(ts) AS first, max(site) AS site FROM input"

    def totals(self, engine: SparkEngine, scan: Scan) -> tuple[object, ...]:
        result = run(engine, self.TOTALS, scan)
        row = result.table.to_pylist()[0]
        assert result.rows_read == row["n"]
        return row["n"], row["s"], row["first"], row["site"]

    def test_rows_in_memory(self, spark_engine: SparkEngine) -> None:
        assert self.totals(spark_engine, ArrowScan(rows(10))) == (10, 45, START, "us")

    def test_many_rows_in_memory_leave_no_file_behind(self, spark_engine: SparkEngine) -> None:
        many = SMALL_ROWS + 1
        before = set(spark_engine._scratch.rglob("*.parquet"))
        assert self.totals(spark_engine, ArrowScan(rows(many))) == (many, sum(range(many)), START, "us")
        assert set(spark_engine._scratch.rglob("*.parquet")) == before

    def test_rows_in_memory_keep_the_site_they_carry(self, spark_engine: SparkEngine) -> None:
        table = rows(2).append_column("site", pa.array(["eu", "eu"]))
        assert self.totals(spark_engine, ArrowScan(table)) == (2, 1, START, "eu")

    def test_csv(self, spark_engine: SparkEngine, tmp_path: Path) -> None:
        path = tmp_path / "a b [1]{x}.csv"
        path.write_text("2026-01-01 00:00:00,1,7\n2026-01-01T00:00:01Z,2,8\n")
        assert self.totals(spark_engine, files(path, "csv")) == (2, 15, START, "us")

    @pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress)])
    def test_compressed_text(
        self, spark_engine: SparkEngine, tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]
    ) -> None:
        path = tmp_path / f"a.csv.{suffix}"
        path.write_bytes(compress(b"2026-01-01 00:00:00,1,7\n2026-01-01T00:00:01Z,2,8\n"))
        assert self.totals(spark_engine, files(path, "csv")) == (2, 15, START, "us")

    def test_json(self, spark_engine: SparkEngine, tmp_path: Path) -> None:
        path = tmp_path / "a.json"
        path.write_text('{"v": 7, "ts": "2026-01-01T00:00:00Z", "other": 1}\n\n{"v": 8}\n')
        assert self.totals(spark_engine, files(path, "json")) == (2, 15, START, "us")

    def test_parquet(self, spark_engine: SparkEngine, tmp_path: Path) -> None:
        pq.write_table(rows(5), tmp_path / "a.parquet")
        assert self.totals(spark_engine, files(tmp_path / "a.parquet", "parquet")) == (5, 10, START, "us")

    def test_columns_that_are_not_read_are_not_there(self, spark_engine: SparkEngine, tmp_path: Path) -> None:
        pq.write_table(rows(5), tmp_path / "a.parquet")
        scan = FilesScan("parquet", (str(tmp_path / "a.parquet"),), COLUMNS, ("v",))
        assert run(spark_engine, "SELECT * FROM input", scan).table.column_names == ["v", "site"]

    @pytest.mark.parametrize("count", [10, SMALL_ROWS + 10])
    def test_slices(self, spark_engine: SparkEngine, tmp_path: Path, count: int) -> None:
        table = rows(2 * count)
        for name, part in (("a", table.slice(0, count)), ("b", table.slice(count))):
            pq.write_table(part, tmp_path / f"{name}.parquet", row_group_size=7_000)
        slices = (
            ParquetSlice(str(tmp_path / "a.parquet"), 3, count),
            ParquetSlice(str(tmp_path / "b.parquet"), 0, count - 4),
        )
        result = run(spark_engine, "SELECT v FROM input ORDER BY v", SlicesScan(slices, COLUMNS, ("v", "ts")))
        assert result.table.column("v").to_pylist() == list(range(3, 2 * count - 4))

    @pytest.mark.parametrize("count", [10, SMALL_ROWS + 10])
    def test_range(self, spark_engine: SparkEngine, count: int) -> None:
        scan = RangeScan(5, 5 + count, (("v", "id * 2"), ("my column", "'x'")))
        result = run(spark_engine, "SELECT min(v) AS a, max(v) AS b, max(`my column`) AS c FROM input", scan)
        assert result.table.to_pylist() == [{"a": 10, "b": 2 * (4 + count), "c": "x"}]
        assert result.rows_read == count

    def test_types_survive_both_ways(self, spark_engine: SparkEngine) -> None:
        table = pa.table(
            {
                "decimal": pa.array([Decimal("1.23"), None], pa.decimal128(10, 2)),
                "date": pa.array([date(2026, 1, 2), None]),
                "instant": pa.array([START + timedelta(microseconds=1), None], TIMESTAMP),
                "local": pa.array([START.replace(tzinfo=None), None], pa.timestamp("us")),
                "list": pa.array([[1, None], None], pa.list_(pa.int64())),
                "struct": pa.array([{"a": 1, "b": "x"}, None], pa.struct({"a": pa.int32(), "b": pa.string()})),
                "map": pa.array([[("k", 1.5)], None], pa.map_(pa.string(), pa.float64())),
                "binary": pa.array([b"\x00\xff", None]),
                "boolean": pa.array([True, None]),
            }
        )
        names = ", ".join(f"`{n}`" for n in table.column_names)
        result = run(spark_engine, f"SELECT {names} FROM input", table).table
        assert result.to_pylist() == table.to_pylist()
        assert [result.schema.field(n).type for n in ("decimal", "instant", "local")] == [
            pa.decimal128(10, 2),
            TIMESTAMP,
            pa.timestamp("us"),
        ]

    @pytest.mark.parametrize("held_bytes", [1000, 10**9])
    def test_many_rows_are_in_order_in_memory_or_in_a_file(
        self, spark_engine: SparkEngine, tmp_path: Path, held_bytes: int
    ) -> None:
        ordered = spark_engine._base.range(0, 30_000, 1, 5).orderBy("id", ascending=False)
        found = collect(ordered, spill=tmp_path, held_bytes=held_bytes)
        assert found.column("id").to_pylist() == list(range(29_999, -1, -1))
        assert list(tmp_path.iterdir()) == []
        none = collect(ordered.where("id < 0"), spill=tmp_path, held_bytes=held_bytes)
        assert (none.num_rows, none.schema) == (0, found.schema)

    def test_an_empty_result_keeps_its_schema(self, spark_engine: SparkEngine) -> None:
        table = run(spark_engine, "SELECT window(ts, '1 second') AS w, v FROM input WHERE v > 100", rows(3)).table
        assert table.num_rows == 0
        assert str(table.schema.field("w").type) == "struct<start: timestamp[us, tz=UTC], end: timestamp[us, tz=UTC]>"
        assert table.schema.field("v").type == pa.int64()

    def test_no_rows_at_all(self, spark_engine: SparkEngine) -> None:
        result = run(spark_engine, "SELECT v FROM input", rows(0), admission=Admission("ts", 0))
        assert (result.rows_read, result.rows_late, result.max_event_time_us) == (0, 0, None)


class TestTables:
    @pytest.mark.parametrize("extra", [0, SMALL_ROWS])
    def test_an_epoch_joins_with_a_table(self, spark_engine: SparkEngine, extra: int) -> None:
        names = pa.table({"k": pa.array(range(2 + extra), pa.int32()), "name": [f"n{i}" for i in range(2 + extra)]})
        sql = "SELECT name, count(v) AS n FROM input LEFT JOIN names ON input.k = names.k GROUP BY name ORDER BY name"
        spark_engine.put_table("joined", "names", names)
        for _ in range(2):
            result = run(spark_engine, sql, rows(9).slice(0, 8), task="joined", tables=("names",))
            third = "n2" if extra else None
            counts = {row["name"]: row["n"] for row in result.table.to_pylist()}
            assert counts == {"n0": 3, "n1": 3, third: 2}
        spark_engine.drop_task("joined")
        with pytest.raises(EngineError, match="names"):
            run(spark_engine, sql, rows(3), task="joined", tables=("names",))
        spark_engine.drop_task("joined")

    def test_a_table_without_rows_has_its_columns(self, spark_engine: SparkEngine) -> None:
        spark_engine.put_table("empty", "names", (Field("k", "INT"), Field("name", "STRING")))
        sql = "SELECT v, name FROM input LEFT JOIN names ON input.k = names.k"
        result = run(spark_engine, sql, rows(2), task="empty", tables=("names",))
        spark_engine.drop_task("empty")
        assert result.table.column("name").to_pylist() == [None, None]

    def test_tasks_do_not_see_each_others_tables(self, spark_engine: SparkEngine) -> None:
        for task, text in (("one", "a"), ("two", "b")):
            spark_engine.put_table(task, "t", pa.table({"x": [text]}))
        seen = [run(spark_engine, "SELECT x FROM t, input", rows(1), task=t).table.to_pylist() for t in ("one", "two")]
        assert seen == [[{"x": "a"}], [{"x": "b"}]]
        for task in ("one", "two"):
            spark_engine.drop_task(task)

    def test_dropping_leaves_no_file_and_may_be_repeated(self, spark_engine: SparkEngine) -> None:
        before = set(spark_engine._scratch.iterdir())
        spark_engine.put_table("dropped", "t", rows(SMALL_ROWS + 1))
        assert set(spark_engine._scratch.iterdir()) != before
        spark_engine.drop_task("dropped")
        spark_engine.drop_task("dropped")
        assert set(spark_engine._scratch.iterdir()) == before


def test_tasks_run_at_the_same_time(spark_engine: SparkEngine) -> None:
    def work(number: int) -> list[int]:
        task = f"parallel-{number}"
        table = rows(10 + number)
        found = [
            run(spark_engine, f"SELECT sum(v) + {number} AS s FROM input", table, task=task)
            .table.column("s")[0]
            .as_py()
            for _ in range(4)
        ]
        spark_engine.drop_task(task)
        return found

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(work, range(6)))
    assert found == [[sum(range(10 + n)) + n] * 4 for n in range(6)]


def test_threads_that_come_and_go_do_not_pile_up_in_the_jvm(spark_engine: SparkEngine) -> None:
    jvm = spark_engine._base._jvm
    counted = []
    for _ in range(3):
        for number in range(4):
            thread = Thread(
                target=run, args=(spark_engine, "SELECT v FROM input", rows(1)), kwargs={"task": f"t{number}"}
            )
            thread.start()
            thread.join()
            spark_engine.drop_task(f"t{number}")
        names = [t.getName() for t in jvm.java.lang.Thread.getAllStackTraces().keySet()]
        counted.append(sum(name.startswith("Thread-") for name in names))
    assert counted[-1] <= counted[0] + 4


class TestMalformedRows:
    def run(
        self, engine: SparkEngine, sql: str, scan: Scan, *, admission: Admission | None = None
    ) -> tuple[EpochResult, list[MalformedRow]]:
        taken: list[MalformedRow] = []
        return engine.run(EpochRequest("bad", sql, scan, "us", admission, malformed=taken.extend)), taken

    def test_of_csv_are_set_aside_with_the_reason(self, spark_engine: SparkEngine, tmp_path: Path) -> None:
        path = tmp_path / "a b#[1].csv"
        path.write_text("2026-01-01,1,2\n2026-01-01,one,2\n2026-01-01,1\n,3,4\nyesterday,1,9e9\n")
        result, taken = self.run(
            spark_engine, "SELECT v FROM input", tolerant(path, "csv"), admission=Admission("ts", 0)
        )
        assert result.table.to_pydict() == {"v": [2]}
        assert (result.rows_read, result.rows_late, result.rows_malformed) == (2, 1, 3)
        assert result.max_event_time_us == START_US
        assert taken == [
            MalformedRow(str(path), "k: 'one' is no INT", "2026-01-01,one,2"),
            MalformedRow(str(path), "2 values for 3 columns", "2026-01-01,1"),
            MalformedRow(str(path), "ts: 'yesterday' is no TIMESTAMP; v: '9e9' is no BIGINT", "yesterday,1,9e9"),
        ]

    def test_of_json_are_set_aside_with_the_reason(self, spark_engine: SparkEngine, tmp_path: Path) -> None:
        lines = ['{"v": 1}', "", '{"v": "x", "k": 3}', '{"v": 1', "5", '{"v": 99999999999999999999}', '{"other": 1}']
        (tmp_path / "a.json").write_text("\n".join(lines))
        result, taken = self.run(spark_engine, "SELECT v FROM input", tolerant(tmp_path / "a.json", "json"))
        assert result.table.to_pydict() == {"v": [1, None]}
        assert (result.rows_read, result.rows_malformed) == (2, 4)
        assert [row.row for row in taken] == lines[2:6]
        assert [row.reason for row in taken] == [
            "v: 'x' is no BIGINT",
            "this is no JSON: Expecting ',' delimiter: line 1 column 8 (char 7)",
            "this is a number, not an object",
            "v: 99999999999999999999 is no BIGINT",
        ]

    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT count(*) FROM input",
            "SELECT ts FROM input WHERE v = 5",
            "SELECT 1 FROM input WHERE false",
            "SELECT a.v FROM input a JOIN input b ON a.v = b.v",
            "SELECT v FROM input UNION ALL SELECT v FROM input",
        ],
    )
    @pytest.mark.parametrize("kind", ["csv", "json"])
    def test_are_the_same_whatever_the_query_uses(
        self, spark_engine: SparkEngine, tmp_path: Path, kind: str, sql: str
    ) -> None:
        rows = {"csv": "2026-01-01,one,2\n2026-01-01,1,2\n", "json": '{"k": "one"}\n{"v": 2}\n'}
        (tmp_path / "a").write_text(rows[kind])
        result, taken = self.run(spark_engine, sql, tolerant(tmp_path / "a", kind))
        assert (result.rows_read, result.rows_malformed, len(taken)) == (1, 1, 1)

    def test_count_only_in_columns_that_are_read(self, spark_engine: SparkEngine, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("2026-01-01,one,2\n2026-01-01,1,x\n2026-01-01\n")
        options = tolerant(tmp_path / "a", "csv").options
        for columns, count in ((("v",), 2), (("ts",), 1), ((), 1)):
            scan = FilesScan("csv", (str(tmp_path / "a"),), COLUMNS, columns, options)
            result, taken = self.run(spark_engine, "SELECT count(*) AS n FROM input", scan)
            assert (result.rows_malformed, len(taken)) == (count, count)

    def test_of_many_files_in_many_partitions(self, spark_engine: SparkEngine, tmp_path: Path) -> None:
        count = 100_000
        text = "".join(f"2026-01-01 00:00:00,{i if i % 1000 else 'x'},{i}\n" for i in range(count))
        (tmp_path / "a.csv").write_text(text)
        sql = "SELECT k % 7 AS g, count(*) AS n FROM input GROUP BY k % 7"
        result, taken = self.run(spark_engine, sql, tolerant(tmp_path / "a.csv", "csv"))
        assert sum(result.table.column("n").to_pylist()) == result.rows_read == count - 100
        assert result.rows_malformed == len({row.row for row in taken}) == 100

    def test_fail_the_epoch_when_nothing_takes_them(self, spark_engine: SparkEngine, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("x\n")
        with pytest.raises(EngineError, match="1 rows are malformed, and nothing takes them"):
            run(spark_engine, "SELECT v FROM input", tolerant(tmp_path / "a", "csv"))

    def test_that_were_set_aside_before_belong_to_the_epoch_of_the_slices(
        self, spark_engine: SparkEngine, tmp_path: Path
    ) -> None:
        kept = MalformedRow("/data/a.csv", "why", "x")
        write_malformed(tmp_path / "malformed", iter([kept]))
        before = MalformedFile(str(tmp_path / "malformed"), 1)
        result, taken = self.run(spark_engine, "SELECT v FROM input", SlicesScan((), COLUMNS, ("v",), before))
        assert (result.table.num_rows, result.rows_read, result.rows_malformed, taken) == (0, 0, 1, [kept])


class TestErrors:
    @pytest.mark.parametrize(
        ("sql", "message"),
        [
            ("SELECT 1 / (v - 1) FROM input", "Division by zero [DIVIDE_BY_ZERO]"),
            (
                "SELECT CAST('x' AS INT) + v FROM input",
                'The value \'x\' of the type "STRING" cannot be cast to "INT" because it is malformed '
                "[CAST_INVALID_INPUT]",
            ),
            ("SELECT * FROM nowhere", "nowhere is no relation that can be read here [REFUSED_SQL]"),
        ],
    )
    def test_are_one_sentence(self, spark_engine: SparkEngine, sql: str, message: str) -> None:
        with pytest.raises(EngineError) as caught:
            run(spark_engine, sql, rows(3))
        assert caught.value.message == message
        assert caught.value.ids == {"task": "q.s.us"}

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("2026-01-01 00:00:00,1,2\n2026-01-01 00:00:00,one,2\n", 'For input string: "one"'),
            ("2026-01-01 00:00:00,1,2\n2026-01-01 00:00:00,1\n", "Malformed CSV record: 2026-01-01 00:00:00,1"),
            ("2026-01-01 00:00:00,1,2,3\n", "Malformed CSV record: 2026-01-01 00:00:00,1,2,3"),
            ("yesterday,1,2\n", "yesterday"),
        ],
    )
    def test_malformed_csv_fails_the_epoch(
        self, spark_engine: SparkEngine, tmp_path: Path, text: str, reason: str
    ) -> None:
        path = tmp_path / "bad.csv"
        path.write_text(text)
        with pytest.raises(EngineError) as caught:
            run(spark_engine, "SELECT * FROM input", files(path, "csv"))
        assert str(path) in caught.value.message
        assert reason in caught.value.message
        assert "\n" not in caught.value.message

    def test_a_short_csv_row_fails_also_when_its_last_columns_are_not_read(
        self, spark_engine: SparkEngine, tmp_path: Path
    ) -> None:
        (tmp_path / "bad.csv").write_text("2026-01-01 00:00:00\n")
        scan = FilesScan("csv", (str(tmp_path / "bad.csv"),), COLUMNS, ("ts",), files(tmp_path, "csv").options)
        with pytest.raises(EngineError, match="MALFORMED_CSV_RECORD"):
            run(spark_engine, "SELECT * FROM input", scan)

    def test_a_csv_header_in_another_order_fails(self, spark_engine: SparkEngine, tmp_path: Path) -> None:
        path = tmp_path / "bad.csv"
        path.write_text("k,ts,v\n1,2,3\n")
        with pytest.raises(EngineError, match="header does not conform"):
            run(spark_engine, "SELECT * FROM input", files(path, "csv", header="true", enforceSchema="false"))

    @pytest.mark.parametrize(
        "line", ['{"v": "x"}', '{"v": 1.5}', '{"ts": "junk"}', '{"v": 1', "hello", "5", '{"v": 99999999999999999999}']
    )
    def test_malformed_json_fails_the_epoch(self, spark_engine: SparkEngine, tmp_path: Path, line: str) -> None:
        path = tmp_path / "bad.json"
        path.write_text(json.dumps({"v": 1}) + "\n" + line + "\n")
        with pytest.raises(EngineError) as caught:
            run(spark_engine, "SELECT * FROM input", files(path, "json"))
        assert str(path) in caught.value.message

    def test_parquet_of_other_types_fails_the_epoch(self, spark_engine: SparkEngine, tmp_path: Path) -> None:
        pq.write_table(pa.table({"v": ["x"]}), tmp_path / "bad.parquet")
        with pytest.raises(EngineError, match=r"bad\.parquet"):
            run(spark_engine, "SELECT * FROM input", files(tmp_path / "bad.parquet", "parquet"))

    def test_a_pattern_that_overflows_the_stack_fails_the_epoch_and_not_the_jvm(
        self, spark_engine: SparkEngine
    ) -> None:
        with pytest.raises(EngineError, match="stack overflowed") as caught:
            run(spark_engine, "SELECT rlike(concat(repeat('ab', 300000), v), '(a|b)*c') AS r FROM input", rows(1))
        assert "(a|b)*" in caught.value.hint
        assert run(spark_engine, "SELECT v FROM input", rows(2)).table.num_rows == 2

    def test_a_heap_that_is_too_small_is_told_before_the_error_is_raised(
        self, spark_engine: SparkEngine, tmp_path: Path
    ) -> None:
        told: list[str] = []
        engine = SparkEngine(spark_engine._base, scratch=tmp_path, out_of_memory=lambda: told.append("no more heap"))
        with pytest.raises(EngineError, match="OutOfMemoryError"):
            run(engine, "SELECT length(repeat(CAST(v AS STRING), 2000000000)) AS n FROM input", rows(1))
        assert told == ["no more heap"]

    @pytest.mark.timeout(60)
    def test_a_thread_of_sparks_that_dies_without_a_word_is_not_waited_for(self, spark_engine: SparkEngine) -> None:
        """As it does of whatever Scala calls fatal: here of an interrupt, for it can be had at will."""
        session = spark_engine._base.newSession()
        context = session.sparkContext
        endless = session.sql("SELECT count(*) AS n FROM range(10000000000000) WHERE id % 7 = rand()")
        with ThreadPoolExecutor(1) as caller:
            collected = caller.submit(collect, endless, last_word_s=0.5)
            while not context.statusTracker().getActiveJobsIds():
                time.sleep(0.01)
            threads = context._jvm.java.lang.Thread.getAllStackTraces().keySet().toArray()
            (sender,) = [thread for thread in threads if thread.getName() == "serve-Arrow"]
            sender.interrupt()
            try:
                with pytest.raises(Py4JError, match="died while it sent the rows"):
                    collected.result()
            finally:
                context.cancelAllJobs()

    def test_a_failed_epoch_does_not_harm_the_next(self, spark_engine: SparkEngine) -> None:
        with pytest.raises(EngineError):
            run(spark_engine, "SELECT raise_error('no') FROM input", rows(1))
        assert run(spark_engine, "SELECT v FROM input", rows(2)).table.num_rows == 2

    def test_nothing_is_said_on_stderr(self, spark_engine: SparkEngine, capfd: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(EngineError):
            run(spark_engine, "SELECT nope FROM input", rows(1))
        with pytest.raises(AnalysisError):
            spark_engine.analyze({}, "SELECT nope")
        captured = capfd.readouterr()
        assert captured.out + captured.err == ""


class TestAnalysis:
    VIEWS = {  # noqa: RUF012
        "input": (*COLUMNS, Field("d", "DECIMAL(10,2)"), Field("my column", "ARRAY<STRUCT<a: INT, b: STRING>>")),
        "t": (Field("k", "INT"), Field("name", "STRING")),
    }

    def test_columns_and_types(self, spark_engine: SparkEngine) -> None:
        sql = """SELECT window(ts, '10 seconds') AS w, t.name, sum(d) AS d, avg(v) AS a, count(*) AS n,
                 map('x', max(ts)) AS m, first(`my column`) AS c
                 FROM input LEFT JOIN t ON input.k = t.k GROUP BY window(ts, '10 seconds'), t.name"""
        assert spark_engine.analyze(self.VIEWS, sql) == (
            Field("w", "STRUCT<start: TIMESTAMP, end: TIMESTAMP>"),
            Field("name", "STRING"),
            Field("d", "DECIMAL(20,2)"),
            Field("a", "DOUBLE"),
            Field("n", "BIGINT"),
            Field("m", "MAP<STRING, TIMESTAMP>"),
            Field("c", "ARRAY<STRUCT<a: INT, b: STRING>>"),
        )

    def test_types_it_gives_are_types_it_takes(self, spark_engine: SparkEngine) -> None:
        columns = spark_engine.analyze(self.VIEWS, "SELECT *, window(ts, '1 second') AS w FROM input")
        assert spark_engine.analyze({"input": columns}, "SELECT * FROM input") == columns

    @pytest.mark.parametrize(
        ("sql", "condition", "place", "fragment"),
        [
            ("SELECT v,\n  nope FROM input", "UNRESOLVED_COLUMN.WITH_SUGGESTION", (2, 3), "nope"),
            ("SELECT v,\n lenght(d) FROM input", "REFUSED_SQL", (2, 2), "lenght"),
            ("SELECT 1 FROM\n  other", "REFUSED_SQL", (2, 3), "other"),
            ("SELECT v + ts FROM input", "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES", (1, 8), "v + ts"),
            ("SELECT upper(name, 1) FROM t", "WRONG_NUM_ARGS.WITHOUT_SUGGESTION", (1, 8), "upper(name, 1)"),
            ("SELECT v\nFROM input )", "PARSE_SYNTAX_ERROR", (2, 12), ""),
        ],
    )
    def test_errors_name_the_place(
        self, spark_engine: SparkEngine, sql: str, condition: str, place: tuple[int, int], fragment: str
    ) -> None:
        with pytest.raises(AnalysisError) as caught:
            spark_engine.analyze(self.VIEWS, sql)
        error = caught.value
        assert (error.condition, (error.line, error.column), error.fragment) == (condition, place, fragment)
        assert "SQLSTATE" not in error.message
        assert "[" + condition not in error.message
        assert "pos " not in error.message

    def test_an_unknown_type_has_no_place_in_the_statement(self, spark_engine: SparkEngine) -> None:
        with pytest.raises(AnalysisError) as caught:
            spark_engine.analyze({"input": (Field("a", "TEXT"),)}, "SELECT a FROM input")
        assert (caught.value.condition, caught.value.line) == ("UNSUPPORTED_DATATYPE", 0)


@pytest.mark.parametrize("keeps_plans", [True, False])
def test_rows_behind_an_empty_chunk_are_read(spark_session: SparkSession, tmp_path: Path, keeps_plans: bool) -> None:
    few = pa.table({"k": pa.array([1, 2, 3])})
    table = pa.concat_tables([few, few.slice(0, 0), few])
    engine = SparkEngine(spark_session, scratch=tmp_path)
    engine.keeps_plans = keeps_plans
    result = engine.run(EpochRequest("q.chunks", "SELECT count(*) AS n FROM input", ArrowScan(table), "us"))
    engine.drop_task("q.chunks")
    assert (result.rows_read, result.table["n"].to_pylist()) == (6, [6])
