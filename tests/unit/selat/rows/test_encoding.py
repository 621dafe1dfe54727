from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import selat
from contract.arrow_types import arrow_schema
from selat.rows.encoding import BATCH_ROWS, encoded_batches, parsed_timestamps, table_of_dicts, to_table

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)


def taken(kind: str, *values: Any) -> list[Any]:
    schema = arrow_schema((selat.Column("c", kind),))
    column: list[Any] = (
        table_of_dicts([{"c": v} for v in values], schema).column("c").to_pylist(maps_as_pydicts="lossy")
    )
    return column


@pytest.mark.parametrize(
    ("kind", "value", "kept"),
    [
        ("BIGINT", 3.0, 3),
        ("DOUBLE", 3, 3.0),
        ("DOUBLE", Decimal("0.5"), 0.5),
        ("DECIMAL(6,2)", 1.1, Decimal("1.10")),
        ("TIMESTAMP", "2026-01-01T12:00:00", AT),
        ("TIMESTAMP", "2026-01-01T14:00:00+02:00", AT),
        ("TIMESTAMP", AT.replace(tzinfo=None), AT),
        ("DATE", "2026-01-01", date(2026, 1, 1)),
        ("BINARY", "YWI=", b"ab"),
        ("ARRAY<TIMESTAMP>", ["2026-01-01T12:00:00Z", None], [AT, None]),
        ("MAP<STRING,INT>", {"a": 1}, {"a": 1}),
        ("STRUCT<a:INT,b:STRING>", {"a": 1}, {"a": 1, "b": None}),
    ],
)
def test_python_and_json_values_become_the_declared_type(kind: str, value: Any, kept: Any) -> None:
    assert taken(kind, value, None) == [kept, None]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("BIGINT", 1.5),
        ("BIGINT", "1"),
        ("BIGINT", True),
        ("TINYINT", 300),
        ("DOUBLE", "1"),
        ("STRING", 1),
        ("TIMESTAMP", "yesterday"),
        ("TIMESTAMP", 5),
        ("BINARY", "?"),
        ("DECIMAL(4,2)", "x"),
        ("STRUCT<a:INT>", {"b": 1}),
        ("ARRAY<INT>", 1),
    ],
)
def test_other_values_are_refused_with_their_row(kind: str, value: Any) -> None:
    with pytest.raises(selat.InvalidArgument, match=r"row [01]: "):
        taken(kind, None, value)


def test_a_frame_keeps_no_index_and_other_things_are_no_rows() -> None:
    schema = pa.schema([("c", pa.int64())])
    frame = pd.DataFrame({"c": [1]}, index=["x"])
    assert to_table(frame, schema) == pa.table({"c": [1]})
    assert to_table({"C": 1}, schema) == pa.table({"c": [1]})
    for wrong in ("text", 5, None):
        with pytest.raises(selat.InvalidArgument, match="rows cannot be"):
            to_table(wrong, schema)


def test_a_table_is_cut_by_rows_and_bytes_the_same_way_each_time() -> None:
    many = pa.table({"c": pa.nulls(BATCH_ROWS + 1)})
    assert [count for count, _ in encoded_batches(many)] == [BATCH_ROWS, 1]
    wide = pa.table({"c": ["x" * 1_000_000] * 10})
    batches = list(encoded_batches(wide))
    assert sum(count for count, _ in batches) == 10
    assert len(batches) > 1
    in_chunks = pa.concat_tables([wide.slice(0, 3), wide.slice(3)])
    assert list(encoded_batches(in_chunks)) == batches
    assert list(encoded_batches(wide.slice(0, 0))) == []


def test_a_row_that_is_too_large_is_refused() -> None:
    import random

    large = random.Random(1).randbytes(9_000_000)
    with pytest.raises(selat.InvalidArgument, match="bytes long"):
        list(encoded_batches(pa.table({"c": [large]})))


def test_texts_are_parsed_as_instants() -> None:
    for texts in (
        ["2026-01-01T12:00:00Z"],
        ["2026-01-01 12:00:00"],
        ["2026-01-01T12:00:00", "2026-01-01T12:00:00Z", None],
    ):
        parsed = parsed_timestamps(pa.chunked_array([texts]))
        assert parsed.to_pylist()[0] == AT
    with pytest.raises(ValueError, match="x"):
        parsed_timestamps(pa.chunked_array([["x"]]))
