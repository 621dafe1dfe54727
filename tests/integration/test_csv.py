"""CSV on a real Spark: values with quotes and line breaks equal those of Python's reader, however files are cut."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from site_agent.base.errors import EngineError
from site_agent.connectors.registry import find_connector, make_connectors
from site_agent.connectors.sources import Poll, ReadLimit, Source, SourceContext
from site_agent.engine import EpochRequest, Field, MalformedRow, Scan
from site_agent.engine.spark import SparkEngine

pytestmark = pytest.mark.spark

COLUMNS = (Field("id", "STRING"), Field("name", "STRING"), Field("ts", "TIMESTAMP"))
START = datetime(2026, 1, 1, tzinfo=UTC)
PIECES = (
    "a",
    "Dr, ",
    '"',
    '""',
    ",",
    "\n",
    "\r\n",
    "\r",
    " ",
    "é",
    "日本",
    "\u2028",
    "\t",
    "\\",
    "'",
    ";",
    "NA",
    "x" * 40,
)

Row = tuple[str | None, str | None]


def context(path: Path, directory: Path, **options: str) -> SourceContext:
    return SourceContext(
        relation="people",
        site="us",
        columns=COLUMNS,
        read_columns=("id", "name", "ts"),
        event_time="ts",
        options={"connector": "files", "format": "csv", "path": str(path), **options},
        directory=directory,
        created_at=START,
    )


def read(engine: SparkEngine, scan: Scan) -> tuple[list[Row], list[MalformedRow]]:
    taken: list[MalformedRow] = []
    request = EpochRequest("csv", "SELECT id, name FROM input", scan, "us", malformed=taken.extend)
    result = engine.run(request)
    assert result.rows_malformed == len(taken)
    return [(row["id"], row["name"]) for row in result.table.to_pylist()], taken


def table_rows(
    engine: SparkEngine, path: Path, *, split_bytes: int = 0, options: Mapping[str, str] | None = None
) -> list[Row]:
    found = find_connector(make_connectors(engine), {"connector": "files"}).open_table(
        context(path, path, **(options or {}))
    )
    scans = [found.scan(split) for split in found.splits(split_bytes)] if split_bytes else [found.scan()]
    answers = [read(engine, scan) for scan in scans]
    assert [row for _, malformed in answers for row in malformed] == []
    return [row for rows, _ in answers for row in rows]


def random_rows(random_: random.Random, count: int) -> list[list[str]]:
    def value() -> str:
        return "".join(random_.choice(PIECES) for _ in range(random_.randint(0, 4)))

    return [[str(n), value(), f"2026-01-01 00:00:{n % 60:02d}"] for n in range(count)]


def as_csv(rows: Sequence[Sequence[str]], **how: object) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, **how).writerows(rows)  # type: ignore[arg-type]
    return text.getvalue().encode()


def expected(rows: Sequence[Sequence[str]], null: str = "") -> Counter[Row]:
    return Counter((row[0], None if row[1] in ("", null) else row[1]) for row in rows)


HOW: Mapping[str, tuple[Mapping[str, str], Mapping[str, object]]] = {
    "plain": ({}, {}),
    "all quoted, LF": ({}, {"quoting": csv.QUOTE_ALL, "lineterminator": "\n"}),
    "semicolon, single quotes": ({"sep": ";", "quote": "'"}, {"delimiter": ";", "quotechar": "'"}),
}


@pytest.mark.parametrize("how", HOW)
def test_many_random_files_are_what_python_wrote(spark_engine: SparkEngine, tmp_path: Path, how: str) -> None:
    """A header, a byte order mark, compression and cuts of any length change nothing."""
    options, dialect = HOW[how]
    random_, rows = random.Random(how), []
    for number in range(40):
        made = random_rows(random_, random_.randint(0, 40))
        rows += made
        data = (b"\xef\xbb\xbf" if number % 3 == 0 else b"") + as_csv([["id", "name", "ts"], *made], **dialect)
        suffix, data = {7: (".gz", gzip.compress(data)), 11: (".bz2", bz2.compress(data))}.get(number, ("", data))
        (tmp_path / f"{number:02d}.csv{suffix}").write_bytes(data)
    told = {**options, "header": "true"}
    whole = table_rows(spark_engine, tmp_path, options=told)
    assert Counter(whole) == expected(rows)
    assert Counter(table_rows(spark_engine, tmp_path, split_bytes=4000, options=told)) == expected(rows)


def test_splits_of_one_file_are_exact(spark_engine: SparkEngine, tmp_path: Path) -> None:
    rows = random_rows(random.Random(3), 120)
    (tmp_path / "a.csv").write_bytes(as_csv(rows))
    size = (tmp_path / "a.csv").stat().st_size
    for split_bytes in (size // 2, size // 7):
        assert Counter(table_rows(spark_engine, tmp_path, split_bytes=split_bytes)) == expected(rows)


def test_duckdb_reads_the_same(spark_engine: SparkEngine, tmp_path: Path) -> None:
    # DuckDB takes one kind of line end per file, and no carriage return alone.
    rows = [row for row in random_rows(random.Random(5), 300) if "\r" not in row[1]]
    path = tmp_path / "a.csv"
    path.write_bytes(as_csv(rows, lineterminator="\n"))
    columns = "columns={'id': 'VARCHAR', 'name': 'VARCHAR', 'ts': 'VARCHAR'}"
    options = "delim=',', quote='\"', escape='\"', header=false, auto_detect=false"
    with duckdb.connect() as database:
        theirs = database.execute(f"SELECT id, name FROM read_csv('{path}', {options}, {columns})").fetchall()
    assert Counter(table_rows(spark_engine, path)) == Counter(theirs)


def test_quotes_nulls_and_escapes(spark_engine: SparkEngine, tmp_path: Path) -> None:
    def rows(text: str, **options: str) -> list[Row]:
        path = tmp_path / "a.csv"
        path.write_bytes(text.replace("T", "2026-01-01 00:00:00").encode())
        return table_rows(spark_engine, path, options=options)

    assert rows('1,"Dr, ""x""",T\n') == [("1", 'Dr, "x"')]
    assert rows('1,5" pipe,T\n2,a""b,T\n3, "c",T\n4,\\,T\n5,"\\",T\n') == [
        ("1", '5" pipe'),
        ("2", 'a""b'),
        ("3", ' "c"'),
        ("4", "\\"),
        ("5", "\\"),
    ]
    assert rows('1,,T\n2,"",T\n3," ",T\n4,"""",T\r\n\n') == [("1", None), ("2", None), ("3", " "), ("4", '"')]
    nulls = '1,NA,T\n2,"NA",T\n3,,T\n4,"",T\n5,N,T\n'
    assert rows(nulls, null_value="NA") == [("1", None), ("2", None), ("3", None), ("4", None), ("5", "N")]
    escaped = '1,"Dr, \\"x\\"",T\n2,"\\\\",T\n3,"a\\\\\\"\nb",T\n4,\\n,T\n5,"a\\\\b",T\n6,"a\\b",T\n'
    assert rows(escaped, escape="\\") == [
        ("1", 'Dr, "x"'),
        ("2", "\\"),
        ("3", 'a\\"\nb'),
        ("4", "\\n"),
        ("5", "a\\b"),
        ("6", "a\\b"),
    ]


BROKEN = '1,a,T\n2,"b"c,T\n3,"d\ne",T\n4,"f",T,more\n5\n6,"g\n,,\n'.replace("T", "2026-01-01 00:00:00")


@pytest.mark.parametrize("options", [{}, {"mode": "replay", "replay_speed": "max"}])
def test_broken_records_of_a_stream_are_set_aside(
    spark_engine: SparkEngine, tmp_path: Path, options: Mapping[str, str]
) -> None:
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "a.csv"
    path.write_text(BROKEN)
    directory = tmp_path / "sources" / "one"
    directory.mkdir(parents=True)
    source = find_connector(make_connectors(spark_engine), {"connector": "files"}).open_source(
        context(path.parent, directory, **options)
    )
    rows, malformed = read(spark_engine, everything(source))
    assert sorted(rows, key=str) == [("1", "a"), ("3", "d\ne")]
    assert {row.file for row in malformed} == {str(path)}
    assert {(row.reason, row.row) for row in malformed} == {
        ("1 value for 3 columns", "5"),
        ("4 values for 3 columns", '4,"f",2026-01-01 00:00:00,more'),
        (f"record at byte {BROKEN.index('2,')}: text follows the quote that closes a value", BROKEN.splitlines()[1]),
        (
            f"record at byte {BROKEN.index('6,')}: a quoted value is not closed by the end of the file",
            '6,"g\n,,\n',
        ),
    }


def everything(source: Source) -> Scan:
    start = source.initial()
    poll: Poll = source.poll(start, now=START, limit=ReadLimit())
    return source.scan(start, poll.end)


def test_a_broken_record_fails_the_epoch_where_that_is_asked_for(spark_engine: SparkEngine, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(BROKEN)
    with pytest.raises(EngineError, match=r"a\.csv has a malformed row: record at byte \d+: text follows the quote"):
        table_rows(spark_engine, tmp_path, options={"malformed": "fail"})
