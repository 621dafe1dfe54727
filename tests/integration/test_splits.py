"""Splits of tables on a real Spark: whatever the files and the splits, each row is read once."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from site_agent.connectors.registry import find_connector, make_connectors
from site_agent.connectors.sources import SourceContext, Split, Table
from site_agent.engine import ChunksScan, EmptyScan, EpochRequest, Field, MalformedRow, Scan
from site_agent.engine.scans.frames import SMALL_ROWS
from site_agent.engine.spark import SparkEngine

pytestmark = pytest.mark.spark

COLUMNS = (Field("n", "BIGINT"), Field("word", "STRING"))
FEW = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))

WORDS = st.text(st.characters(codec="utf-8", exclude_characters='\r\n"\\\x00', exclude_categories=["Cs", "Zs", "Cc"]))
ROWS = st.lists(st.tuples(st.integers(0, 10**6), WORDS.filter(bool)), max_size=25)
FILES = st.lists(ROWS, min_size=1, max_size=3)
SIZES = st.integers(1, 400)
NUMBERS = count()

Row = tuple[int, str]


def table(engine: SparkEngine, directory: Path, **options: str) -> Table:
    context = SourceContext(
        relation="words",
        site="us",
        columns=COLUMNS,
        read_columns=("n", "word"),
        event_time="",
        options={"connector": "files", "path": str(directory), **options},
        directory=directory,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    return find_connector(make_connectors(engine), context.options).open_table(context)


def read(engine: SparkEngine, scan: Scan, malformed: list[MalformedRow] | None = None) -> list[Row]:
    def take(rows: Iterator[MalformedRow]) -> None:
        assert malformed is not None
        malformed.extend(rows)

    result = engine.run(EpochRequest("splits", "SELECT n, word FROM input", scan, "us", malformed=take))
    return [(row["n"], row["word"]) for row in result.table.to_pylist()]


def all_splits(engine: SparkEngine, found: Table, split_bytes: int) -> tuple[list[Row], list[MalformedRow]]:
    malformed: list[MalformedRow] = []
    splits: Sequence[Split] = found.splits(split_bytes)
    return [row for split in splits for row in read(engine, found.scan(split), malformed)], malformed


def directory(root: Path) -> Path:
    made = root / f"files-{next(NUMBERS)}"
    made.mkdir()
    return made


def as_csv(rows: Sequence[Row], *, header: bool, bad: bool) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n", quoting=csv.QUOTE_NONNUMERIC)
    if header:
        text.write("\nn,word\n")
    for number, row in enumerate(rows):
        writer.writerow(row)
        if bad and number % 3 == 0:
            text.write(f"x,bad {number}\n")
    return text.getvalue().encode()


@FEW
@given(files=FILES, split_bytes=SIZES, header=st.booleans(), bad=st.booleans(), packed=st.booleans())
def test_csv(
    spark_engine: SparkEngine,
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[Row]],
    split_bytes: int,
    header: bool,
    bad: bool,
    packed: bool,
) -> None:
    made = directory(tmp_path_factory.getbasetemp())
    bad_rows = 0
    for number, rows in enumerate(files):
        text = as_csv(rows, header=header, bad=bad)
        bad_rows += text.count(b"x,bad")
        (made / f"{number}.csv").write_bytes(text)
        if packed and number == 0:
            (made / "0.csv").rename(made / "plain")
            (made / "0.csv.gz").write_bytes(gzip.compress((made / "plain").read_bytes()))
            (made / "plain").unlink()
    found = table(spark_engine, made, format="csv", header=str(header).lower(), null_value="\x01")
    read_rows, malformed = all_splits(spark_engine, found, split_bytes)
    assert Counter(read_rows) == Counter(row for rows in files for row in rows)
    assert len(malformed) == bad_rows
    assert {row.file for row in malformed} <= {str(path) for path in made.iterdir()}


@FEW
@given(files=FILES, split_bytes=SIZES)
def test_json(
    spark_engine: SparkEngine,
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[Row]],
    split_bytes: int,
) -> None:
    made = directory(tmp_path_factory.getbasetemp())
    for number, rows in enumerate(files):
        lines = [json.dumps({"n": n, "word": word}, ensure_ascii=False) for n, word in rows]
        (made / f"{number}.json").write_text("\n".join(lines))
    read_rows, malformed = all_splits(spark_engine, table(spark_engine, made, format="json"), split_bytes)
    assert Counter(read_rows) == Counter(row for rows in files for row in rows)
    assert malformed == []


@FEW
@given(files=FILES, split_bytes=SIZES, group=st.integers(1, 9))
def test_parquet(
    spark_engine: SparkEngine,
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[Row]],
    split_bytes: int,
    group: int,
) -> None:
    made = directory(tmp_path_factory.getbasetemp())
    for number, rows in enumerate(files):
        columns: Mapping[str, pa.Array] = {
            "Word": pa.array([word for _, word in rows], pa.string()),
            "other": pa.array([None] * len(rows), pa.float64()),
            "n": pa.array([n for n, _ in rows], pa.int64()),
        }
        pq.write_table(pa.table(columns), made / f"{number}.parquet", row_group_size=group)
    read_rows, _ = all_splits(spark_engine, table(spark_engine, made, format="parquet"), split_bytes)
    assert Counter(read_rows) == Counter(row for rows in files for row in rows)


@pytest.mark.parametrize("rows", [0, 3, SMALL_ROWS])
def test_chunks_are_one_view_however_many_they_are(spark_engine: SparkEngine, rows: int) -> None:
    """With and without a column that may be NULL, as SQL over several sites gives it."""
    strict = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("word", pa.string())])
    first = pa.table({"n": list(range(rows)), "word": ["a"] * rows}, schema=strict)
    second = pa.table({"n": list(range(rows, 2 * rows)), "word": ["b"] * rows})
    scan = ChunksScan(lambda: iter([first, second] if rows else []), COLUMNS)
    sql = "SELECT count(*) AS n, sum(n) AS s, count(DISTINCT word) AS w FROM input"
    (row,) = spark_engine.run(EpochRequest("chunks", sql, scan, "us")).table.to_pylist()
    assert row == {"n": 2 * rows, "s": sum(range(2 * rows)) if rows else None, "w": 2 if rows else 0}


def test_views_of_chunks_are_joined_without_a_view_input(spark_engine: SparkEngine) -> None:
    left = ChunksScan(lambda: iter([pa.table({"n": [1, 2], "word": ["a", "b"]})]), COLUMNS)
    right = ChunksScan(lambda: iter([pa.table({"n": [2], "word": ["c"]})]), COLUMNS)
    sql = "SELECT l.word || r.word AS w FROM l JOIN r ON l.n = r.n"
    request = EpochRequest("views", sql, EmptyScan(()), "us", views={"l": left, "r": right})
    assert spark_engine.run(request).table.to_pydict() == {"w": ["bc"]}
