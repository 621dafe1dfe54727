"""Epochs over files through kept plans give what epochs that are planned anew give."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from planner.values.splits import FilePart
from site_agent.base.errors import EngineError
from site_agent.engine import (
    MALFORMED_OPTION,
    Admission,
    EpochRequest,
    EpochResult,
    Field,
    FilesScan,
    MalformedRow,
)
from site_agent.engine.jvm.jar import find_jar
from site_agent.engine.kept import inputs
from site_agent.engine.spark import SparkEngine
from tests.needs import Lack, Need, unless
from tests.seeds import random_of, several

pytestmark = [
    pytest.mark.spark,
    unless(Lack(Need.MACHINE, "a Java compiler, for scripts/build_jar") if find_jar() is None else None),
]

COLUMNS = (Field("id", "BIGINT"), Field("name", "STRING"), Field("amount", "DOUBLE"), Field("ts", "TIMESTAMP"))
NAMES = ("id", "name", "amount", "ts")
STATEMENTS = {
    "filter": "SELECT id, name, site FROM input WHERE id % 3 = 1",
    "aggregate": "SELECT name, count(*) AS n, sum(id) AS s, max(ts) AS newest FROM input GROUP BY name",
    "count": "SELECT count(*) AS n FROM input",
    "twice": "SELECT id FROM input WHERE id > 5 UNION ALL SELECT -id FROM input WHERE id <= 5",
    "join": "SELECT a.id, b.name FROM input a JOIN input b ON a.id = b.id",
}
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "csv": {"header": "true", MALFORMED_OPTION: "_malformed"},
    "json": {MALFORMED_OPTION: "_malformed"},
    "parquet": {},
}
TASK = "q.files"


@pytest.fixture(scope="module")
def planning_engine(spark_session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkEngine:
    """Plans every epoch anew."""
    engine = SparkEngine(spark_session, scratch=tmp_path_factory.mktemp("anew"))
    engine.keeps_plans = False
    return engine


@dataclass
class Pair:
    """A task in an engine that keeps plans, and in one that does not."""

    kept: SparkEngine
    anew: SparkEngine
    plans: list[bool] = field(default_factory=list)
    """Whether Spark planned, for each epoch of the first."""

    def run(self, scan: FilesScan, sql: str, admission: Admission | None = None) -> EpochResult:
        """The result of the first, after comparison with the second."""
        results = []
        aside: list[list[MalformedRow]] = []
        for engine in (self.kept, self.anew):
            found: list[MalformedRow] = []
            request = EpochRequest(TASK, sql, scan, "eu", admission, malformed=found.extend)
            results.append(engine.run(request))
            aside.append(sorted(found, key=repr))
        kept, anew = results
        assert kept.table.schema == anew.table.schema
        assert in_order(kept.table) == in_order(anew.table)
        assert figures(kept) == figures(anew)
        assert aside[0] == aside[1]
        self.plans.append(kept.planned)
        return kept


def figures(result: EpochResult) -> tuple[Any, ...]:
    return (
        result.rows_read,
        result.rows_late,
        result.max_event_time_us,
        result.rows_malformed,
        result.operators,
        result.input_bytes,
    )


def in_order(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@pytest.fixture
def pair(spark_engine: SparkEngine, planning_engine: SparkEngine) -> Iterator[Pair]:
    yield Pair(spark_engine, planning_engine)
    for engine in (spark_engine, planning_engine):
        engine.drop_task(TASK)


def rows(rng: random.Random, count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": rng.randrange(1000),
            "name": rng.choice(["ann", "böb", "c,d", None]),
            "amount": rng.random(),
            "ts": f"2026-01-01T00:00:{rng.randrange(60):02d}.{rng.randrange(10**6):06d}Z",
        }
        for _ in range(count)
    ]


def write(path: Path, format: str, found: list[dict[str, Any]], *, malformed: str = "") -> str:
    """Returns the path, under which the rows lie now, and the malformed text behind them."""
    if format == "parquet":
        read = pa.Table.from_pylist(found, pa.schema([("id", pa.int64()), ("name", pa.string())]))
        more = {
            "amount": pa.array([row["amount"] for row in found], pa.float64()),
            "ts": pa.array([row["ts"] for row in found], pa.string()).cast(pa.timestamp("us", "UTC")),
        }
        for name, values in more.items():
            read = read.append_column(name, values)
        pq.write_table(read, path, row_group_size=7)
        return str(path)
    if format == "json":
        text = "".join(json.dumps(row) + "\n" for row in found)
    else:
        out = io.StringIO()
        writer = csv.DictWriter(out, NAMES, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
        text = out.getvalue()
    data = (text + malformed).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def scan_of(format: str, *paths: str, read: tuple[str, ...] = NAMES, **options: str) -> FilesScan:
    return FilesScan(format, paths, COLUMNS, read, {**OPTIONS[format], **options})


@pytest.mark.seeded
@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
@pytest.mark.parametrize("name", STATEMENTS)
def test_random_epochs(pair: Pair, tmp_path: Path, format: str, name: str) -> None:
    rng = random_of(f"{format}.{name}")
    for epoch in range(several(4, 8)):
        suffix = rng.choice(["", ".gz"]) if format != "parquet" else ""
        paths = []
        for number in range(rng.choice([1, 1, 3, 5])):
            path = tmp_path / f"{epoch}-{number} 100% [a]*#é.{format}{suffix}"
            broken = rng.choice(["", '{"id": "x"}\n' if format == "json" else "x,y,0.5,2026-01-01T00:00:01Z\n"])
            paths.append(write(path, format, rows(rng, rng.choice([0, 1, 40])), malformed=broken))
        watermark_us = rng.choice([None, 1_767_225_600_000_000 + rng.randrange(60_000_000)])
        pair.run(scan_of(format, *paths), STATEMENTS[name], Admission("ts", watermark_us))
    assert sum(pair.plans) <= 3


def test_parts_of_files(pair: Pair, tmp_path: Path) -> None:
    found = rows(random.Random(1), 200)
    for format in ("csv", "json", "parquet"):
        path = write(tmp_path / f"rows.{format}", format, found)
        size = Path(path).stat().st_size
        cuts = [0, size // 3, size // 2, size]
        read = 0
        for start, end in pairwise(cuts):
            scan = FilesScan(format, (path,), COLUMNS, NAMES, OPTIONS[format], (FilePart(path, start, end - start),))
            read += pair.run(scan, "SELECT id, name FROM input").rows_read
        assert read == 200
    assert sum(pair.plans) == 3


def test_line_breaks_in_quotes_and_broken_records(pair: Pair, tmp_path: Path) -> None:
    plain = 'id,name,amount,ts\n1,"a, b",0.5,2026-01-01T00:00:01Z\n'
    texts = [
        plain,
        plain + '2,"over\nlines",1.5,2026-01-01T00:00:02Z\n',
        plain,
        plain + '3,"over\nlines again",1.5,2026-01-01T00:00:02Z\n4,"un"quoted,0,2026-01-01T00:00:02Z\n5,"open',
    ]
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.csv"
        path.write_text(text)
        pair.run(scan_of("csv", str(path)), "SELECT * FROM input", Admission("ts", None))
    assert pair.plans == [True, True, False, False]


def test_a_malformed_row_that_nothing_takes_fails_the_epoch_alone(pair: Pair, tmp_path: Path) -> None:
    good = write(tmp_path / "good.json", "json", rows(random.Random(2), 5))
    bad = write(tmp_path / "bad.json", "json", [], malformed="{no\n")
    scans = [scan_of("json", path) for path in (good, bad, good)]
    assert pair.run(scans[0], "SELECT id FROM input").rows_read == 5
    for engine in (pair.kept, pair.anew):
        with pytest.raises(EngineError, match="1 rows are malformed, and nothing takes them"):
            engine.run(EpochRequest(TASK, "SELECT id FROM input", scans[1], "eu"))
    assert pair.run(scans[2], "SELECT id FROM input").rows_read == 5
    assert pair.plans == [True, False]


def test_a_file_that_is_gone_is_told_as_before(pair: Pair, tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", "csv", rows(random.Random(3), 5))
    scan = scan_of("csv", path)
    pair.run(scan, "SELECT id FROM input")
    Path(path).unlink()
    messages = set()
    for engine in (pair.kept, pair.anew):
        with pytest.raises(EngineError) as raised:
            engine.run(EpochRequest(TASK, "SELECT id FROM input", scan, "eu"))
        messages.add(str(raised.value))
    assert len(messages) == 1


def test_a_file_may_be_larger_than_all_before(pair: Pair, tmp_path: Path) -> None:
    rng = random.Random(4)
    for count in (1, 30_000, 2):
        path = write(tmp_path / f"{count}.csv", "csv", rows(rng, count))
        assert pair.run(scan_of("csv", path), "SELECT id FROM input").rows_read == count
    assert pair.plans == [True, False, False]


def test_as_many_files_as_a_plan_has_places_for(pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    paths = [write(tmp_path / f"{n}.json", "json", rows(rng, 2)) for n in range(65)]
    for count in (4, 64, 5, 65):
        assert pair.run(scan_of("json", *paths[:count]), "SELECT id FROM input").rows_read == 2 * count
    assert pair.plans == [True, True, True, True]
    monkeypatch.setattr(inputs, "MAX_FILES_BYTES", 10)
    pair.run(scan_of("json", paths[0]), "SELECT id FROM input")
    assert pair.plans[-1]


def test_no_column_is_read(pair: Pair, tmp_path: Path) -> None:
    rng = random.Random(6)
    for format in ("csv", "json", "parquet"):
        for count in (3, 8):
            path = write(tmp_path / f"{count}.{format}", format, rows(rng, count))
            scan = scan_of(format, path, read=())
            assert pair.run(scan, "SELECT count(*) AS n FROM input").table.to_pylist() == [{"n": count}]
    assert pair.plans == [True, False] * 3


def test_a_file_without_the_columns_of_the_others(pair: Pair, tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.parquet", "parquet", rows(random.Random(7), 4))
    lacking = tmp_path / "lacking.parquet"
    pq.write_table(pa.table({"ID": pa.array([1, 2], pa.int32())}), lacking)
    for paths in ((whole,), (str(lacking),), (whole, str(lacking))):
        pair.run(scan_of("parquet", *paths), "SELECT id, name FROM input")
