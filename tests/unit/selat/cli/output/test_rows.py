"""Golden text of every output format."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selat.cli.commands.push_files import read_tables
from selat.cli.output.rows import ArrowWriter, CsvWriter, JsonWriter, TableWriter, text_rows

WINDOW = {"start": datetime(2013, 1, 1, tzinfo=UTC), "end": datetime(2013, 1, 1, 0, 0, 10, tzinfo=UTC)}
STAMP = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("window", pa.struct([("start", STAMP), ("end", STAMP)])),
        ("carrier", pa.string()),
        ("n", pa.int64()),
        ("mean", pa.float64()),
        ("cost", pa.decimal128(10, 2)),
        ("late", pa.bool_()),
        ("tags", pa.map_(pa.string(), pa.int32())),
    ]
)
BATCH = pa.RecordBatch.from_pylist(
    [
        {
            "window": WINDOW,
            "carrier": 'U"A',
            "n": 12,
            "mean": 1.5,
            "cost": Decimal("2.50"),
            "late": True,
            "tags": [("a", 1)],
        },
        {"window": None, "carrier": "a,b\nc", "n": -3, "mean": float("nan"), "cost": None, "late": False, "tags": None},
    ],
    schema=SCHEMA,
)

JSON = """\
{"window": {"start": "2013-01-01T00:00:00Z", "end": "2013-01-01T00:00:10Z"}, "carrier": "U\\"A", "n": 12, \
"mean": 1.5, "cost": 2.50, "late": true, "tags": {"a": 1}}
{"window": null, "carrier": "a,b\\nc", "n": -3, "mean": "NaN", "cost": null, "late": false, "tags": null}
"""

CSV = """\
window,carrier,n,mean,cost,late,tags
"{""start"": ""2013-01-01T00:00:00Z"", ""end"": ""2013-01-01T00:00:10Z""}","U""A",12,1.5,2.50,true,"{""a"": 1}"
,"a,b
c",-3,NaN,,false,
"""

TABLE = r"""
window                                                  carrier   n  mean  cost  late   tags
------------------------------------------------------  -------  --  ----  ----  -----  ------
{start: 2013-01-01 00:00:00, end: 2013-01-01 00:00:10}  U"A      12   1.5  2.50  true   {a: 1}
NULL                                                    a,b\nc   -3   nan  NULL  false  NULL
(2 rows)
"""[1:]


def test_json_lines() -> None:
    out = io.StringIO()
    writer = JsonWriter(out)
    writer.write(BATCH)
    writer.close()
    assert out.getvalue() == JSON


def test_csv() -> None:
    out = io.StringIO()
    writer = CsvWriter(out, SCHEMA)
    writer.write(BATCH)
    writer.close()
    assert out.getvalue() == CSV


def test_table() -> None:
    out = io.StringIO()
    writer = TableWriter(out, SCHEMA)
    writer.write(BATCH)
    writer.close()
    assert out.getvalue() == TABLE


def test_a_table_begins_once_and_cuts_nothing() -> None:
    out = io.StringIO()
    schema = pa.schema([("page", pa.string()), ("n", pa.int64())])
    writer = TableWriter(out, schema)
    for page, n in (("/a", 1), ("/a-long-page", 1000)):
        writer.write(pa.RecordBatch.from_pydict({"page": [page], "n": [n]}, schema=schema))
    writer.close()
    assert out.getvalue().splitlines() == ["page  n", "----  -", "/a    1", "/a-long-page  1000", "(2 rows)"]


def test_wide_characters_line_up() -> None:
    out = io.StringIO()
    schema = pa.schema([("name", pa.string()), ("n", pa.int64())])
    TableWriter(out, schema).write(pa.RecordBatch.from_pydict({"name": ["日本", "abcd"], "n": [1, 2]}, schema=schema))
    assert out.getvalue().splitlines()[2:] == ["日本  1", "abcd  2"]


def test_arrow() -> None:
    out = io.BytesIO()
    writer = ArrowWriter(out, SCHEMA)
    writer.write(BATCH)
    writer.write(BATCH)
    writer.close()
    table = pa.ipc.open_stream(out.getvalue()).read_all()
    assert table.schema == SCHEMA
    assert table.num_rows == 4


def test_without_rows_there_are_still_columns() -> None:
    schema = pa.schema([("page", pa.string()), ("n", pa.int64())])
    as_json, as_csv, as_table, as_arrow = io.StringIO(), io.StringIO(), io.StringIO(), io.BytesIO()
    for writer in (
        JsonWriter(as_json),
        CsvWriter(as_csv, schema),
        TableWriter(as_table, schema),
        ArrowWriter(as_arrow, schema),
    ):
        writer.close()
    assert as_json.getvalue() == ""
    assert as_csv.getvalue() == "page,n\n"
    assert as_table.getvalue() == "page  n\n----  -\n(0 rows)\n"
    assert pa.ipc.open_stream(as_arrow.getvalue()).read_all().schema == schema


@pytest.mark.parametrize("rows", [[], [[None, 1]], [["a", 1], [None, 2]]])
def test_text_rows(rows: list[list[object]]) -> None:
    batch = text_rows(["a", "b"], rows)
    assert batch.schema.names == ["a", "b"]
    assert batch.column("a").to_pylist() == [row[0] for row in rows]
    assert batch.schema.field("a").type == pa.string()


TEXTS = st.text(st.sampled_from('a,"\n\r é') | st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@given(st.lists(st.tuples(st.none() | TEXTS, st.none() | TEXTS, st.none() | st.integers(-9, 9)), max_size=10))
def test_csv_is_read_back_as_it_was(rows: list[tuple[str | None, str | None, int | None]]) -> None:
    """By `selat push`, which tells an empty text from NULL, and by Python."""
    schema = pa.schema([("a,", pa.string()), ('"b', pa.string()), ("n", pa.int64())])
    out = io.StringIO(newline="")
    writer = CsvWriter(out, schema)
    writer.write(pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema))
    writer.close()
    python = list(csv.reader(io.StringIO(out.getvalue(), newline="")))
    assert python == [schema.names, *([v or "" if not isinstance(v, int) else str(v) for v in row] for row in rows)]
    if rows:
        source = io.BytesIO(out.getvalue().encode())
        found = pa.concat_tables(read_tables(source, "csv", schema, rows=3))
        assert [tuple(row.values()) for row in found.to_pylist()] == rows


def test_csv_of_one_column_has_a_line_for_each_row() -> None:
    out = io.StringIO(newline="")
    writer = CsvWriter(out, pa.schema([("a", pa.string())]))
    writer.write(pa.RecordBatch.from_pydict({"a": ["x", "", None]}))
    assert out.getvalue() == 'a\nx\n""\n""\n'


def test_line_breaks_within_quotes_are_pushed_wherever_blocks_meet() -> None:
    schema = pa.schema([("n", pa.int64()), ("text", pa.string())])
    text = "".join(f'{n},"a\n""b"", {"x" * (n % 90)}\r\n"\r\n' for n in range(40_000))
    source = io.BytesIO(b"n,text\r\n" + text.encode())
    found = pa.concat_tables(read_tables(source, "csv", schema, rows=10_000))
    assert found.column("text").to_pylist() == [f'a\n"b", {"x" * (n % 90)}\r\n' for n in range(40_000)]
