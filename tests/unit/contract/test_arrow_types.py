from __future__ import annotations

import pyarrow as pa
import pytest

from contract.arrow_types import arrow_schema, arrow_type
from selat.values import Column

UTC = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("BIGINT", pa.int64()),
        ("int", pa.int32()),
        ("TIMESTAMP", UTC),
        ("TIMESTAMP_NTZ", pa.timestamp("us")),
        ("DECIMAL(10,2)", pa.decimal128(10, 2)),
        ("DECIMAL(12)", pa.decimal128(12, 0)),
        ("DECIMAL", pa.decimal128(10, 0)),
        ("ARRAY<STRING>", pa.list_(pa.string())),
        ("MAP<STRING,ARRAY<INT>>", pa.map_(pa.string(), pa.list_(pa.int32()))),
        ("MAP<STRING, ARRAY<DOUBLE>>", pa.map_(pa.string(), pa.list_(pa.float64()))),
        ("STRUCT<a:INT,`b ``,c`:DECIMAL(3,1)>", pa.struct([("a", pa.int32()), ("b `,c", pa.decimal128(3, 1))])),
        ("STRUCT<a: STRUCT<t: TIMESTAMP>>", pa.struct([("a", pa.struct([("t", UTC)]))])),
        ("STRUCT<start: TIMESTAMP, end: TIMESTAMP>", pa.struct([("start", UTC), ("end", UTC)])),
        (
            "STRUCT<`a`: STRUCT<b: DECIMAL(10,2)>, c: INT NOT NULL>",
            pa.struct([("a", pa.struct([("b", pa.decimal128(10, 2))])), pa.field("c", pa.int32(), False)]),
        ),
        ("STRUCT<a INT, b STRUCT<c: INT>>", pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.int32())]))])),
    ],
)
def test_sql_types_in_arrow(text: str, kind: pa.DataType) -> None:
    assert arrow_type(text) == kind
    assert arrow_type(text, unknown=pa.binary()) == kind


UNKNOWN = ["GEOGRAPHY", "VARCHAR(20)", "INTERVAL DAY TO SECOND", "STRING COLLATE UNICODE_CI", "GEOMETRY(MAP<A, B(1)>)"]


@pytest.mark.parametrize("text", UNKNOWN)
def test_unknown_types(text: str) -> None:
    assert arrow_type(text, unknown=pa.string()) == pa.string()
    assert arrow_type(f"ARRAY<{text}>", unknown=pa.string()) == pa.list_(pa.string())
    struct = arrow_type(f"STRUCT<a: {text} NOT NULL, b: {text}, c: INT>", unknown=pa.string())
    assert struct == pa.struct([pa.field("a", pa.string(), False), ("b", pa.string()), ("c", pa.int32())])


@pytest.mark.parametrize("text", [*UNKNOWN, "", "ARRAY<INT", "MAP<INT>", "STRUCT<>", "DECIMAL(a)", "INT INT"])
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no equal in Arrow"):
        arrow_type(text)


@pytest.mark.parametrize("text", ["", "ARRAY<INT", "ARRAY<VARCHAR(2>", "MAP<INT>", "STRUCT<>", "DECIMAL(a)"])
def test_malformed_text_is_refused_in_any_case(text: str) -> None:
    with pytest.raises(ValueError, match="no equal in Arrow"):
        arrow_type(text, unknown=pa.string())


def test_a_schema_has_texts_for_types_that_are_unknown() -> None:
    schema = arrow_schema((Column("n", "BIGINT"), Column("page", "STRING"), Column("place", "GEOGRAPHY")))
    assert schema == pa.schema([("n", pa.int64()), ("page", pa.string()), ("place", pa.string())])
