from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from site_agent.engine import Field
from site_agent.engine.sql.types import fields_of, type_name

WINDOW = StructType([StructField("start", TimestampType()), StructField("end", TimestampType(), nullable=False)])


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (LongType(), "BIGINT"),
        (BooleanType(), "BOOLEAN"),
        (DecimalType(10, 2), "DECIMAL(10,2)"),
        (TimestampNTZType(), "TIMESTAMP_NTZ"),
        (WINDOW, "STRUCT<start: TIMESTAMP, end: TIMESTAMP>"),
        (StructType([StructField("a b", IntegerType())]), "STRUCT<`a b`: INT>"),
        (MapType(StringType(), ArrayType(IntegerType())), "MAP<STRING, ARRAY<INT>>"),
    ],
)
def test_type_names(kind: DataType, name: str) -> None:
    assert type_name(kind) == name


def test_fields_keep_names_and_order() -> None:
    schema = StructType([StructField("B", LongType()), StructField("a", StringType())])
    assert fields_of(schema) == (Field("B", "BIGINT"), Field("a", "STRING"))
