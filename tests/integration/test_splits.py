"""Splits of tables on a real Spark: whatever the files and the splits, each row is read once."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.relations.connectors.directories import NULL_DIRECTORY
from planner.values.ranges import AllOf, AnyOf, Comparison, Condition
from site_agent.connectors.registry import find_connector, make_connectors
from site_agent.connectors.sources import SourceContext, Split, Table
from site_agent.engine import ChunksScan, EmptyScan, EpochRequest, Field, FilesScan, MalformedRow, Scan
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


PARTITIONED = (Field("country", "STRING"), *COLUMNS, Field("day", "DATE"))
PLACES = (
    "country=a%3Ab/day=2026-01-31",
    f"country={NULL_DIRECTORY}/day=2026-02-01",
    f"country=us/day={NULL_DIRECTORY}",
)
VALUES = (("a:b", date(2026, 1, 31)), (None, date(2026, 2, 1)), ("us", None))


def partitioned(engine: SparkEngine, root: Path, needed: Condition | None = None, **options: str) -> Table:
    context = SourceContext(
        relation="words",
        site="us",
        columns=PARTITIONED,
        read_columns=("country", "n", "word", "day"),
        event_time="",
        options={"connector": "files", "path": str(root), "partition_by": "day, country", **options},
        directory=root,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        needed=needed,
    )
    return find_connector(make_connectors(engine), context.options).open_table(context)


def written(root: Path, kind: str) -> Path:
    """Three rows in each of the places, a malformed one beside them where the format has any."""
    made = directory(root)
    for number, place in enumerate(PLACES):
        (made / place).mkdir(parents=True)
        file = made / place / f"part.{kind}"
        rows = [(10 * number + n, f"w{n}") for n in range(3)]
        if kind == "parquet":
            table = pa.table({"n": [n for n, _ in rows], "word": [word for _, word in rows]})
            pq.write_table(table, file, row_group_size=1)
        elif kind == "csv":
            file.write_bytes(as_csv(rows, header=False, bad=True))
        else:
            file.write_text("".join(json.dumps({"n": n, "word": word}) + "\n" for n, word in rows) + "no\n")
    return made


def read_partitioned(engine: SparkEngine, scan: Scan, malformed: list[MalformedRow]) -> list[tuple[object, ...]]:
    sql = "SELECT country, n, day FROM input"
    result = engine.run(EpochRequest("splits", sql, scan, "us", malformed=malformed.extend))
    return [tuple(row.values()) for row in result.table.to_pylist()]


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
@pytest.mark.parametrize("split_bytes", [8, 30, 10**6, None])
def test_columns_of_directories(spark_engine: SparkEngine, tmp_path: Path, kind: str, split_bytes: int | None) -> None:
    found = partitioned(spark_engine, written(tmp_path, kind), format=kind)
    splits = [None] if split_bytes is None else found.splits(split_bytes)
    malformed: list[MalformedRow] = []
    rows = [row for split in splits for row in read_partitioned(spark_engine, found.scan(split), malformed)]
    expected = [(country, 10 * place + n, day) for place, (country, day) in enumerate(VALUES) for n in range(3)]
    assert Counter(rows) == Counter(expected)
    assert len(malformed) == (0 if kind == "parquet" else 3)


def test_columns_of_directories_alone_are_counted(spark_engine: SparkEngine, tmp_path: Path) -> None:
    found = partitioned(spark_engine, written(tmp_path, "parquet"), format="parquet")
    scan = found.scan()
    assert isinstance(scan, FilesScan)
    scan = replace(scan, read_columns=("country",))
    sql = "SELECT country, count(*) AS n FROM input GROUP BY country ORDER BY country"
    result = spark_engine.run(EpochRequest("splits", sql, scan, "us"))
    assert result.table.to_pydict() == {"country": [None, "a:b", "us"], "n": [3, 3, 3]}


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_rows_that_are_needed_are_in_the_splits(spark_engine: SparkEngine, tmp_path: Path, kind: str) -> None:
    needed = AnyOf((Comparison("country", "=", "us"), Comparison("day", ">=", "2026-02-01")))
    found = partitioned(spark_engine, written(tmp_path, kind), AllOf((needed,)), format=kind)
    (split,) = found.splits(10**6)
    assert [Path(part.path).parts[-3:-1] for part in split.parts] == [Path(place).parts for place in PLACES[1:]]
    assert len(read_partitioned(spark_engine, found.scan(split), [])) == 6
    none = partitioned(spark_engine, written(tmp_path, kind), Comparison("country", "=", "eu"), format=kind)
    (split,) = none.splits(10**6)
    assert read_partitioned(spark_engine, none.scan(split), []) == []


def test_row_groups_that_are_needed(spark_engine: SparkEngine, tmp_path: Path) -> None:
    needed = AllOf((Comparison("n", ">=", "2"), Comparison("n", "<=", "11")))
    found = partitioned(spark_engine, written(tmp_path, "parquet"), needed, format="parquet")
    (split,) = found.splits(10**6)
    assert {n for _, n, _ in read_partitioned(spark_engine, found.scan(split), [])} == {2, 10, 11}
