from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from planner.values.splits import FilePart
from site_agent.engine import ArrowScan, ChunksScan, Field, FilesScan, ParquetSlice, RangeScan, SlicesScan
from site_agent.engine.kept import inputs
from site_agent.engine.kept.inputs import slot_files, slot_rows

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
    assert slot_rows(ChunksScan(lambda: iter([table]), COLUMNS)) is None


def test_a_type_without_a_counterpart_is_left_to_spark() -> None:
    assert slot_rows(ArrowScan(pa.table({"k": pa.array([1], pa.uint64())}))) is None


def files_of(scan: FilesScan, scratch: Path) -> tuple[tuple[str, ...], str, int, int] | None:
    with slot_files(scan, scratch) as found:
        return None if found is None else (found.paths, found.record_end, found.places, found.broken)


def test_files_are_read_where_they_are(tmp_path: Path) -> None:
    paths = []
    for number in range(5):
        path = tmp_path / f"{number}.json"
        path.write_text('{"k": 1}\n')
        paths.append(str(path))
    for count, places in ((1, 1), (2, 4), (5, 16)):
        scan = FilesScan("json", tuple(paths[:count]), COLUMNS, ("k",))
        assert files_of(scan, tmp_path) == (tuple(paths[:count]), "", places, 0)


def test_the_character_that_ends_records_is_that_of_all_files(tmp_path: Path) -> None:
    plain, quoted, other = (tmp_path / f"{name}.csv" for name in ("plain", "quoted", "other"))
    plain.write_text("1,a\n")
    quoted.write_text('1,"a\nb"\n')
    other.write_text('1,"a\nb"\n2,"\x1e"\n')
    ends = []
    for files in ((plain,), (quoted,), (other,), (plain, quoted), (quoted, other)):
        found = files_of(FilesScan("csv", tuple(map(str, files)), COLUMNS, ("k",)), tmp_path)
        ends.append(None if found is None else found[1])
    assert ends == ["", "\x1e", "\x1f", None, None]


def test_large_files_many_files_and_files_that_are_gone_are_left_to_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"k": 1}\n{"k": 2}\n')
    scan = FilesScan("json", (str(path),), COLUMNS, ("k",))
    assert files_of(scan, tmp_path) is not None
    monkeypatch.setattr(inputs, "MAX_FILES_BYTES", 17)
    assert files_of(scan, tmp_path) is None
    assert files_of(replace(scan, parts=(FilePart(str(path), 0, 9),)), tmp_path) is not None
    monkeypatch.setattr(inputs, "MAX_FILES_BYTES", 10_000)
    assert files_of(replace(scan, paths=(str(path),) * 65), tmp_path) is None
    assert files_of(replace(scan, paths=(str(path), str(tmp_path / "gone.json"))), tmp_path) is None
