from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from site_agent.engine import ArrowScan, ChunksScan, Field, FilesScan, ParquetSlice, RangeScan, SlicesScan
from site_agent.engine.kept import inputs
from site_agent.engine.kept.inputs import slot_rows

COLUMNS = (Field("k", "BIGINT"), Field("s", "STRING"))


def test_rows_in_memory_get_the_types_of_spark() -> None:
    found = slot_rows(ArrowScan(pa.table({"s": pa.array(["a", None], pa.large_string())})))
    assert found is not None
    assert found.rows.schema == pa.schema([("s", pa.string())])
    assert found.rows["s"].to_pylist() == ["a", None]


def test_numbers_of_a_range_with_its_expressions() -> None:
    found = slot_rows(RangeScan(5, 8, (("k", "id * 2"),)))
    assert found is not None
    assert found.rows["id"].to_pylist() == [5, 6, 7]
    assert found.expressions == (("k", "id * 2"),)


def test_slices_are_read_in_order(tmp_path: Path) -> None:
    path = str(tmp_path / "rows.parquet")
    pq.write_table(pa.table({"k": range(10), "s": ["x"] * 10}), path, row_group_size=4)
    scan = SlicesScan((ParquetSlice(path, 3, 6), ParquetSlice(path, 0, 1)), COLUMNS, ("k",))
    found = slot_rows(scan)
    assert found is not None
    assert found.rows.to_pydict() == {"k": [3, 4, 5, 0]}


def test_what_is_large_or_not_in_memory_is_left_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"k": range(100)})
    assert slot_rows(ArrowScan(table)) is not None
    monkeypatch.setattr(inputs, "MAX_BYTES", 100)
    assert slot_rows(ArrowScan(table)) is None
    monkeypatch.setattr(inputs, "MAX_ROWS", 99)
    assert slot_rows(RangeScan(0, 100, ())) is None
    assert slot_rows(SlicesScan((ParquetSlice("/gone", 0, 100),), COLUMNS, ("k",))) is None
    assert slot_rows(FilesScan("csv", (), COLUMNS, ("k",))) is None
    assert slot_rows(ChunksScan(lambda: iter([table]), COLUMNS)) is None


def test_a_type_without_a_counterpart_is_left_to_spark() -> None:
    assert slot_rows(ArrowScan(pa.table({"k": pa.array([1], pa.uint64())}))) is None
