from __future__ import annotations

import pyarrow as pa

from selat.rows.types import arrow_schema
from selat.values import Column


def test_arrow_schema() -> None:
    schema = arrow_schema((Column("n", "BIGINT"), Column("page", "STRING"), Column("place", "GEOGRAPHY")))
    assert schema == pa.schema([("n", pa.int64()), ("page", pa.string()), ("place", pa.string())])
