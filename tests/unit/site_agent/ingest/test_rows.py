from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from site_agent.base.errors import ConnectorError, PushRequestError, SchemaMismatchError
from site_agent.engine import Field
from site_agent.ingest import MAX_BATCH_BYTES, MAX_BATCH_ROWS
from site_agent.ingest.rows import RowFormat

AT = datetime(2026, 1, 1, tzinfo=UTC)


def encoded(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_a_type_that_cannot_be_pushed_is_refused() -> None:
    with pytest.raises(ConnectorError, match=r"VARCHAR\(20\)"):
        RowFormat([Field("c", "VARCHAR(20)")])


def fitted(kind: str, values: pa.Array) -> list[Any]:
    return list(RowFormat([Field("c", kind)]).fitted(pa.table({"c": values})).column("c").to_pylist())


@pytest.mark.parametrize(
    ("kind", "values", "kept"),
    [
        ("INT", pa.array([1, None], pa.int64()), [1, None]),
        ("TINYINT", pa.array([255 - 256], pa.int64()), [-1]),
        ("BIGINT", pa.array([3.0], pa.float64()), [3]),
        ("DOUBLE", pa.array([7], pa.int64()), [7.0]),
        ("FLOAT", pa.array([0.5, float("inf"), None], pa.float64()), [0.5, float("inf"), None]),
        ("FLOAT", pa.array([0.5, None], pa.float32()).cast(pa.float16()), [0.5, None]),
        ("DECIMAL(10,2)", pa.array([5], pa.int32()), [Decimal("5.00")]),
        ("DECIMAL(10,2)", pa.array([Decimal("1.5")]), [Decimal("1.50")]),
        ("STRING", pa.array(["a", "a"]).dictionary_encode(), ["a", "a"]),
        ("STRING", pa.array(["a"], pa.large_string()), ["a"]),
        ("BINARY", pa.array([b"ab"], pa.binary(2)), [b"ab"]),
        ("BOOLEAN", pa.array([None], pa.null()), [None]),
        ("DATE", pa.array([date(2026, 1, 1)], pa.date64()), [date(2026, 1, 1)]),
        ("TIMESTAMP", pa.array([AT.replace(tzinfo=None)], pa.timestamp("ns")), [AT]),
        ("TIMESTAMP", pa.array([AT], pa.timestamp("s", tz="Asia/Tokyo")), [AT]),
        ("ARRAY<INT>", pa.array([[1, 2]], pa.large_list(pa.int64())), [[1, 2]]),
        ("STRUCT<a:INT>", pa.array([{"a": 1}], pa.struct([("a", pa.int64())])), [{"a": 1}]),
    ],
)  # fmt: skip
def test_values_that_fit_are_taken(kind: str, values: pa.Array, kept: list[Any]) -> None:
    assert fitted(kind, values) == kept


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("INT", pa.array([2**31], pa.int64())),
        ("BIGINT", pa.array([1.5], pa.float64())),
        ("BIGINT", pa.array(["1"])),
        ("DOUBLE", pa.array([2**53 + 1], pa.int64())),
        ("DOUBLE", pa.array([Decimal("1.5")])),
        ("FLOAT", pa.array([0.1], pa.float64())),
        ("DECIMAL(4,2)", pa.array([Decimal("1.005")])),
        ("DECIMAL(10,2)", pa.array([1.5], pa.float64())),
        ("STRING", pa.array([1])),
        ("STRING", pa.array([b"a"])),
        ("BOOLEAN", pa.array([1])),
        ("TIMESTAMP", pa.array([1], pa.timestamp("ns"))),
        ("TIMESTAMP", pa.array([date(2026, 1, 1)])),
        ("TIMESTAMP", pa.array(["2026-01-01"])),
        ("DATE", pa.array([AT])),
        ("ARRAY<INT>", pa.array([["a"]])),
        ("STRUCT<a:INT>", pa.array([{"b": 1}])),
        ("ARRAY<FLOAT>", pa.array([[0.1]])),
        ("DECIMAL(4,2)", pa.array([100])),
    ],
)
def test_values_that_would_change_are_refused_with_their_column(kind: str, values: pa.Array) -> None:
    with pytest.raises(SchemaMismatchError, match=f"column c is {kind.split('<')[0].split('(')[0]}") as caught:
        fitted(kind, values)
    assert caught.value.ids == {"column": "c"}


def test_columns_are_found_by_name_without_case_and_in_any_order() -> None:
    rows = RowFormat([Field("a", "INT"), Field("B", "STRING")])
    table = rows.fitted(pa.table({"b": ["x"], "A": pa.array([1], pa.int32())}))
    assert table.schema.names == ["a", "B"]
    assert table.to_pylist() == [{"a": 1, "B": "x"}]
    with pytest.raises(SchemaMismatchError, match="column A is there twice"):
        rows.fitted(pa.Table.from_arrays([pa.array([1])] * 2, names=["a", "A"]))


def test_several_batches_are_one_push_and_none_are_none() -> None:
    rows = RowFormat([Field("a", "BIGINT")])
    taken = rows.take(encoded(pa.concat_tables([pa.table({"a": [1]}), pa.table({"a": [2]})])))
    assert taken is not None
    assert taken.rows == 2
    assert rows.take(encoded(pa.table({"a": pa.array([], pa.int64())}))) is None


def test_a_name_that_is_not_utf_8_is_refused() -> None:
    fitting = encoded(pa.table({"id": pa.array([1], pa.int64())}))
    place = fitting.index(b"id\0")
    with pytest.raises(PushRequestError, match="no Arrow IPC stream"):
        RowFormat([Field("id", "BIGINT")]).take(fitting[:place] + b"\xff" + fitting[place + 1 :])


def test_what_is_too_large_is_refused() -> None:
    rows = RowFormat([Field("a", "BIGINT")])
    with pytest.raises(PushRequestError, match=f"{MAX_BATCH_BYTES + 1} bytes long"):
        rows.take(bytes(MAX_BATCH_BYTES + 1))
    with pytest.raises(PushRequestError, match=f"{MAX_BATCH_ROWS + 1} rows"):
        rows.take(encoded(pa.table({"a": pa.nulls(MAX_BATCH_ROWS + 1)})))


@given(st.data())
def test_garbled_streams_are_refused_and_never_more(data: st.DataObject) -> None:
    table = pa.table({"a": [1, 2, 3], "b": ["x", None, "yy"], "c": pa.array(["k", "l", "k"]).dictionary_encode()})
    content = bytearray(encoded(table))
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    rows = RowFormat([Field("a", "BIGINT"), Field("b", "STRING"), Field("c", "STRING")])
    try:
        rows.take(bytes(content[:cut]))
    except (PushRequestError, SchemaMismatchError):
        return
