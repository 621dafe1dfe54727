from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.arrow_types import arrow_type
from contract.planes import are_planes, can_be_planes, from_planes, to_planes

_INTEGERS = {f"int{bits}": (getattr(pa, f"int{bits}")(), bits) for bits in (8, 16, 32, 64)}
_FLAT: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    *((kind, st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)) for kind, bits in _INTEGERS.values()),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.null(), st.none()),
    (pa.string(), st.text(st.characters(exclude_categories=["Cs"]))),
    (pa.binary(), st.binary()),
    (pa.decimal128(12, 2), st.integers(-(10**11), 10**11).map(lambda cents: Decimal(cents).scaleb(-2))),
    (pa.timestamp("us", tz="UTC"), st.integers(-(2**62), 2**62)),
    (pa.date32(), st.integers(-(2**20), 2**20)),
]


def _nested(
    flat: st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]],
) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    lists = flat.map(lambda one: (pa.list_(one[0]), st.lists(st.none() | one[1], max_size=4)))
    maps = flat.map(
        lambda one: (pa.map_(pa.string(), one[0]), st.lists(st.tuples(st.text("ab"), st.none() | one[1]), max_size=3))
    )
    structs = st.lists(flat, min_size=1, max_size=3).map(
        lambda many: (
            pa.struct([(f"f{i}", kind) for i, (kind, _) in enumerate(many)]),
            st.fixed_dictionaries({f"f{i}": st.none() | values for i, (_, values) in enumerate(many)}),
        )
    )
    return lists | maps | structs


_COLUMNS = st.lists(st.recursive(st.sampled_from(_FLAT), _nested, max_leaves=4), max_size=4)


@st.composite
def _batches(draw: st.DrawFn) -> pa.RecordBatch:
    kinds = draw(_COLUMNS)
    rows = draw(st.integers(0, 20))
    arrays = [
        pa.array(draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), kind) for kind, values in kinds
    ]
    schema = pa.schema([(f"c{i}", kind) for i, (kind, _) in enumerate(kinds)])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as_read(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(batch.serialize(), batch.schema)


@given(_batches(), st.integers(0, 5), st.integers(0, 20))
def test_rows_come_back(batch: pa.RecordBatch, first: int, count: int) -> None:
    some = _as_read(batch.slice(first, count))
    raw = pa.py_buffer(to_planes(some))
    assert are_planes(raw)
    found = from_planes(raw, batch.schema)
    found.validate(full=True)
    if batch.num_columns:
        assert found.equals(some)


@given(_batches(), st.data())
def test_some_rows_come_alone(batch: pa.RecordBatch, data: st.DataObject) -> None:
    whole = _as_read(batch)
    last = data.draw(st.integers(0, whole.num_rows))
    rows = range(data.draw(st.integers(0, last)), last)
    found = from_planes(pa.py_buffer(to_planes(whole)), batch.schema, rows)
    found.validate(full=True)
    if batch.num_columns:
        assert found.equals(whole.slice(rows.start, len(rows)))


def test_rows_that_are_not_there_are_an_error() -> None:
    raw = pa.py_buffer(to_planes(_as_read(pa.record_batch({"n": [1, 2]}))))
    with pytest.raises(ValueError, match="there are 2"):
        from_planes(raw, pa.schema([("n", pa.int64())]), range(1, 3))


def test_bytes_are_those_of_the_documentation() -> None:
    batch = pa.record_batch({"n": pa.array([1, 2, None], pa.int16()), "t": pa.array(["a", "", "bcd"])})
    numbers = b"\1" + b"\x03" + bytes([1, 2, 0]) + bytes([0, 0, 0])
    texts = b"\0" + bytes([1, 0, 3]) + bytes(9) + b"abcd"
    assert to_planes(_as_read(batch)) == struct.pack("<I", 3) + numbers + texts


def test_a_message_is_no_planes() -> None:
    assert not are_planes(pa.record_batch({"n": [1]}).serialize())
    assert not are_planes(pa.py_buffer(b""))


@pytest.mark.parametrize(
    "text",
    [
        *("BOOLEAN", "TINYINT", "BIGINT", "DOUBLE", "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"),
        *("DECIMAL(38, 10)", "ARRAY<STRUCT<a: INT, b: STRING>>", "MAP<STRING, ARRAY<DOUBLE>>"),
    ],
)
def test_types_of_columns_have_planes(text: str) -> None:
    assert can_be_planes(pa.schema([("c", arrow_type(text))]))


def test_other_types_have_none() -> None:
    assert not can_be_planes(pa.schema([("c", pa.list_(pa.large_string()))]))


@given(_batches(), st.data())
def test_damaged_rows_are_an_error_or_other_rows(batch: pa.RecordBatch, data: st.DataObject) -> None:
    raw = bytearray(to_planes(_as_read(batch)))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    cut = raw[: data.draw(st.integers(4, len(raw)))]
    try:
        found = from_planes(pa.py_buffer(bytes(cut)), batch.schema)
    except ValueError:
        return
    found.validate()
