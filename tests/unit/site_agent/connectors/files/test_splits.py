from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.values.splits import FilePart
from site_agent.base.errors import ConnectorError
from site_agent.connectors.files.listing import FoundFile
from site_agent.connectors.files.splits import splits_of
from site_agent.connectors.sources import MAX_SPLITS, Split
from site_agent.engine.scans.row_groups import row_groups


def listed(*sizes: int, end: str = ".csv") -> list[FoundFile]:
    return [FoundFile(f"/data/{number:03d}{end}", size, 0) for number, size in enumerate(sizes)]


def parts(splits: Sequence[Split]) -> list[FilePart]:
    return [part for split in splits for part in split.parts]


@given(st.lists(st.integers(0, 3000), max_size=8), st.integers(1, 4000), st.sampled_from([".csv", ".json.gz"]))
def test_every_byte_of_text_is_in_one_part(sizes: list[int], split_bytes: int, end: str) -> None:
    files = listed(*sizes, end=end)
    splits = splits_of(files, "csv", split_bytes)
    for found in files:
        position = 0
        for part in (p for p in parts(splits) if p.path == found.path):
            assert part.offset == position
            position += part.length
        assert position == found.size_bytes
    assert all(split.size_bytes == sum(part.length for part in split.parts) for split in splits)
    if end == ".csv":
        assert all(split.size_bytes <= 1.5 * split_bytes + 1 for split in splits)
    else:
        assert len(parts(splits)) == sum(size > 0 for size in sizes)


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 100))
def test_small_files_share_a_split(sizes: list[int], split_bytes: int) -> None:
    splits = splits_of(listed(*sizes), "json", split_bytes)
    assert all(a.size_bytes + b.parts[0].length > split_bytes for a, b in pairwise(splits))


def test_there_are_never_too_many() -> None:
    assert len(splits_of(listed(10**9, 10**9), "csv", 1)) <= MAX_SPLITS


def test_a_split_has_a_byte() -> None:
    with pytest.raises(ConnectorError, match="splits of 0 bytes"):
        splits_of(listed(5), "csv", 0)


def written(path: Path, groups: int, **options: bool) -> FoundFile:
    table = pa.table({"v": list(range(100 * groups)), "ts": [datetime(2026, 1, 1, tzinfo=UTC)] * 100 * groups})
    pq.write_table(table, path, row_group_size=100, **options)
    return FoundFile(str(path), path.stat().st_size, 0)


@pytest.mark.parametrize("split_bytes", [1, 1000, 2000, 100_000])
def test_parquet_is_cut_between_row_groups(tmp_path: Path, split_bytes: int) -> None:
    files = [written(tmp_path / "a", 5), written(tmp_path / "b", 1), written(tmp_path / "c", 0)]
    splits = splits_of(files, "parquet", split_bytes)
    for found in files[:2]:
        middles = [group.middle for group in row_groups(pq.read_metadata(found.path))]
        mine = [part for part in parts(splits) if part.path == found.path]
        assert [sum(p.offset <= middle < p.offset + p.length for p in mine) for middle in middles] == [1] * len(middles)
        assert all(any(p.offset <= middle < p.offset + p.length for middle in middles) for p in mine)
    assert len(splits) == {1: 6, 100_000: 1}.get(split_bytes, len(splits))
    assert all(part.path != files[2].path for part in parts(splits))


def test_parquet_that_arrow_cannot_copy_stays_whole(tmp_path: Path) -> None:
    found = written(tmp_path / "old", 5, use_deprecated_int96_timestamps=True)
    assert parts(splits_of([found], "parquet", 1)) == [FilePart(found.path, 0, found.size_bytes)]


def test_what_is_no_parquet_is_said(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("no")
    with pytest.raises(ConnectorError, match=r"/bad cannot be read as Parquet"):
        splits_of([FoundFile(str(tmp_path / "bad"), 2, 0)], "parquet", 100)
