from __future__ import annotations

import pyarrow as pa
import pytest

from selat.rows.types import arrow_schema, arrow_type
from selat.values import Column


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BIGINT", pa.int64()),
        ("int", pa.int32()),
        ("TIMESTAMP", pa.timestamp("us", tz="UTC")),
        ("TIMESTAMP_NTZ", pa.timestamp("us")),
        ("DECIMAL(12,2)", pa.decimal128(12, 2)),
        ("DECIMAL(12)", pa.decimal128(12, 0)),
        ("DECIMAL", pa.decimal128(10, 0)),
        ("ARRAY<INT>", pa.list_(pa.int32())),
        ("MAP<STRING, ARRAY<DOUBLE>>", pa.map_(pa.string(), pa.list_(pa.float64()))),
        (
            "STRUCT<start: TIMESTAMP, end: TIMESTAMP>",
            pa.struct([("start", pa.timestamp("us", tz="UTC")), ("end", pa.timestamp("us", tz="UTC"))]),
        ),
        (
            "STRUCT<`a`: STRUCT<b: DECIMAL(10,2)>, c: INT NOT NULL>",
            pa.struct([("a", pa.struct([("b", pa.decimal128(10, 2))])), pa.field("c", pa.int32(), False)]),
        ),
        ("STRUCT<a INT, b STRUCT<c: INT>>", pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.int32())]))])),
        ("GEOGRAPHY", pa.string()),
    ],
)
def test_arrow_type(text: str, expected: pa.DataType) -> None:
    assert arrow_type(text) == expected


def test_arrow_schema() -> None:
    schema = arrow_schema((Column("n", "BIGINT"), Column("page", "STRING")))
    assert schema == pa.schema([("n", pa.int64()), ("page", pa.string())])
