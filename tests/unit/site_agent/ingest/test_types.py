from __future__ import annotations

import pyarrow as pa
import pytest

from site_agent.base.errors import ConnectorError
from site_agent.ingest.types import arrow_type

UTC = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("BIGINT", pa.int64()),
        ("TIMESTAMP", UTC),
        ("DECIMAL(10,2)", pa.decimal128(10, 2)),
        ("DECIMAL", pa.decimal128(10, 0)),
        ("ARRAY<STRING>", pa.list_(pa.string())),
        ("MAP<STRING,ARRAY<INT>>", pa.map_(pa.string(), pa.list_(pa.int32()))),
        ("STRUCT<a:INT,`b ``,c`:DECIMAL(3,1)>", pa.struct([("a", pa.int32()), ("b `,c", pa.decimal128(3, 1))])),
        ("STRUCT<a: STRUCT<t: TIMESTAMP>>", pa.struct([("a", pa.struct([("t", UTC)]))])),
    ],
)
def test_declared_types_in_arrow(text: str, kind: pa.DataType) -> None:
    assert arrow_type(text) == kind


@pytest.mark.parametrize("text", ["", "VARCHAR(20)", "ARRAY<INT", "MAP<INT>", "STRUCT<>", "DECIMAL(a)"])
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(ConnectorError, match="no type"):
        arrow_type(text)
