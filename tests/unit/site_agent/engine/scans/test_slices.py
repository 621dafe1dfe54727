from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from site_agent.engine import ParquetSlice
from site_agent.engine.scans.slices import read_slices


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Rows 0 to 99 and 100 to 129, in row groups of 7."""
    directory = tmp_path_factory.mktemp("parts")
    for number, values in enumerate((range(100), range(100, 130))):
        table = pa.table({"a": [str(v) for v in values], "v": pa.array(values, pa.int64())})
        pq.write_table(table, directory / f"{number}.parquet", row_group_size=7)
    return [directory / "0.parquet", directory / "1.parquet"]


@given(st.integers(0, 99), st.integers(1, 100), st.integers(1, 30))
def test_rows_and_columns_in_order(parts: list[Path], start: int, length: int, more: int) -> None:
    end = min(100, start + length)
    slices = [ParquetSlice(str(parts[0]), start, end), ParquetSlice(str(parts[1]), 0, more)]
    table = read_slices(slices, ["v", "a"])
    assert table.column_names == ["v", "a"]
    assert table.column("v").to_pylist() == [*range(start, end), *range(100, 100 + more)]


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_slices([ParquetSlice(str(tmp_path / "gone.parquet"), 0, 1)], ["v"])
