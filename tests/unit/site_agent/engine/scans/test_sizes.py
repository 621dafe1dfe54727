"""The size of an epoch's input as it lies at the site."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from planner.values.splits import FilePart
from site_agent.engine import ArrowScan, EmptyScan, FilesScan, ParquetSlice, RangeScan, SlicesScan
from site_agent.engine.scans.sizes import input_bytes

ROWS = pa.table({"n": pa.array(range(1000), pa.int64())})


def test_rows_in_memory_and_generated_ones() -> None:
    assert input_bytes(ArrowScan(ROWS)) == 8000
    assert input_bytes(RangeScan(10, 20, (("a", "id"), ("b", "id")))) == 320
    assert input_bytes(EmptyScan(())) == 0


def test_files_count_as_they_are_on_the_disk_and_their_parts_by_length(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("1\n" * 50)
    gone = str(tmp_path / "gone.csv")
    assert input_bytes(FilesScan("csv", (str(file), gone), (), ())) == 100
    assert input_bytes(FilesScan("csv", (str(file),), (), (), parts=(FilePart(str(file), 0, 30),))) == 30


def test_slices_of_a_sorted_copy_count_by_their_rows(tmp_path: Path) -> None:
    file = tmp_path / "part.parquet"
    pq.write_table(ROWS, file, use_dictionary=False)
    whole, tenth = (input_bytes(SlicesScan((ParquetSlice(str(file), 0, end),), (), ())) for end in (1000, 100))
    assert 8000 <= whole < 9000
    assert tenth == round(whole / 10)
    assert input_bytes(SlicesScan((ParquetSlice(str(tmp_path / "gone"), 0, 5),), (), ())) == 0
