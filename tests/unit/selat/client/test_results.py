from __future__ import annotations

import pyarrow as pa
import pytest

from selat.client.results import aligned, checked_cursor, common_schema
from selat.errors import InvalidArgument


def test_a_cursor_is_copied() -> None:
    cursor = {"c": 1}
    assert checked_cursor(cursor) == cursor
    assert checked_cursor(cursor) is not cursor
    assert checked_cursor(None) == {}


@pytest.mark.parametrize("wrong", [{"c": -1}, {"c": 1.5}, {"c": None}, {2: 1}])
def test_no_cursor(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument, match="is not a cursor"):
        checked_cursor(wrong)


def test_batches_that_differ_in_nullability_fit_one_schema() -> None:
    strict = pa.RecordBatch.from_arrays(
        [pa.array([1], pa.int64())], schema=pa.schema([pa.field("n", pa.int64(), nullable=False)])
    )
    loose = pa.RecordBatch.from_pydict({"n": pa.array([None], pa.int64())})
    schema = common_schema(strict.schema)
    table = pa.Table.from_batches([aligned(strict, schema), aligned(loose, schema)])
    assert table.column("n").to_pylist() == [1, None]
