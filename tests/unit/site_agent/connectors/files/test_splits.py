from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.values.ranges import AllOf, AnyOf, Comparison, Condition, Range, may_match
from planner.values.splits import NOTHING, FilePart
from site_agent.base.errors import ConnectorError
from site_agent.connectors.files.footers import group_ranges
from site_agent.connectors.files.listing import FoundFile
from site_agent.connectors.files.splits import Needed, splits_of
from site_agent.connectors.sources import MAX_SPLITS, Split
from site_agent.engine import Field
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


def test_splits_of_a_file_of_parquet_are_of_one_size(tmp_path: Path) -> None:
    """There are as few splits as the size allows, and the last one is not a small rest."""
    found = written(tmp_path / "a", 5)
    sizes = [group.size_bytes for group in row_groups(pq.read_metadata(found.path))]
    splits = splits_of([found], "parquet", sum(sizes[:4]) + 1)
    assert [split.rows for split in splits] in ([300, 200], [200, 300])


def test_parquet_that_arrow_cannot_copy_stays_whole(tmp_path: Path) -> None:
    found = written(tmp_path / "old", 5, use_deprecated_int96_timestamps=True)
    assert parts(splits_of([found], "parquet", 1)) == [FilePart(found.path, 0, found.size_bytes)]


def test_what_is_no_parquet_is_said(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("no")
    with pytest.raises(ConnectorError, match=r"/bad cannot be read as Parquet"):
        splits_of([FoundFile(str(tmp_path / "bad"), 2, 0)], "parquet", 100)


COLUMNS = (Field("n", "BIGINT"), Field("word", "STRING"), Field("day", "DATE"), Field("country", "STRING"))
ROWS = st.lists(
    st.tuples(st.none() | st.integers(0, 9), st.none() | st.text("abé", max_size=2), st.none() | st.integers(0, 9)),
    min_size=1,
    max_size=12,
)
Row = tuple[int | None, str | None, int | None]
SCHEMA = pa.schema({"n": pa.int64(), "word": pa.string(), "day": pa.date32()})


def comparisons_of(column: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[Comparison]:
    return st.builds(Comparison, st.just(column), st.sampled_from(["=", "<", "<=", ">", ">=", "IS NULL"]), values)


COMPARISONS = st.one_of(
    comparisons_of("n", st.integers(0, 9).map(str)),
    comparisons_of("word", st.text("abé", max_size=2)),
    comparisons_of("day", st.integers(0, 9).map(lambda day: f"2026-01-0{day + 1}" if day < 9 else "2026-01-10")),
    comparisons_of("country", st.sampled_from(["us", "eu"])),
)
CONDITIONS = st.builds(
    lambda kind, parts: kind(tuple(parts)),
    st.sampled_from([AllOf, AnyOf]),
    st.lists(COMPARISONS, min_size=1, max_size=3),
)


def holds(condition: Condition, row: Mapping[str, object]) -> bool:
    """By what is known of the row alone."""
    ranges = {name: Range(values=False) if v is None else Range(v, v, nulls=False) for name, v in row.items()}  # type: ignore[arg-type]
    return may_match(condition, ranges, {column.name: column.type for column in COLUMNS})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROWS, min_size=1, max_size=3), st.integers(1, 4), st.sampled_from([1, 500, 10**6]), CONDITIONS)
def test_row_groups_with_rows_that_are_needed_are_in_one_part(
    tmp_path: Path, tables: list[list[Row]], size: int, cut: int, wanted: Condition
) -> None:
    files, partitions, total = [], {}, 0
    for number, rows in enumerate(tables):
        path = tmp_path / f"{number}.parquet"
        days = [None if day is None else date(2026, 1, day + 1) for *_, day in rows]
        columns = [[n for n, *_ in rows], [word for _, word, _ in rows], days]
        pq.write_table(pa.table(columns, schema=SCHEMA), path, row_group_size=size)
        files.append(FoundFile(str(path), path.stat().st_size, 0))
        partitions[str(path)] = (("us", "eu", None)[number],)
        total += files[-1].size_bytes
    splits = splits_of(files, "parquet", cut, needed=Needed(wanted, COLUMNS, COLUMNS[3:], partitions))
    assert sum(split.left_out_bytes for split in splits) + sum(split.size_bytes for split in splits) == total
    for found in files:
        with pq.ParquetFile(found.path) as file:
            for number, group in enumerate(row_groups(file.metadata)):
                mine = [p for p in parts(splits) if p.path == found.path]
                times = sum(p.offset <= group.middle < p.offset + p.length for p in mine)
                country = {"country": partitions[found.path][0]}
                rows_read = file.read_row_group(number).to_pylist()
                assert times == 1 or (times == 0 and not any(holds(wanted, row | country) for row in rows_read))


def test_what_cannot_match_is_left_out(tmp_path: Path) -> None:
    found = written(tmp_path / "a", 5)
    columns = (Field("V", "BIGINT"), Field("ts", "TIMESTAMP"))
    groups = row_groups(pq.read_metadata(found.path))

    def split_by(condition: Condition) -> Sequence[Split]:
        return splits_of([found], "parquet", 10**6, needed=Needed(condition, columns))

    (one,) = split_by(
        AnyOf((Comparison("V", "<", "50"), AllOf((Comparison("V", ">=", "300"), Comparison("V", "<", "320")))))
    )
    assert [part.offset for part in one.parts] == [groups[0].offset, groups[3].offset]
    assert one.left_out_bytes == found.size_bytes - groups[0].size_bytes - groups[3].size_bytes
    (none,) = split_by(Comparison("ts", ">", "2026-01-01 00:00:00"))
    assert (none.parts, none.size_bytes, none.left_out_bytes) == ((NOTHING,), 0, found.size_bytes)
    (every,) = split_by(Comparison("ts", ">=", "2026-01-01"))
    assert (every.parts, every.left_out_bytes) == ((FilePart(found.path, 0, found.size_bytes),), 0)


def test_a_file_without_statistics_is_read(tmp_path: Path) -> None:
    found = written(tmp_path / "a", 2, write_statistics=False)
    needed = Needed(Comparison("v", "<", "0"), (Field("v", "BIGINT"),))
    assert parts(splits_of([found], "parquet", 10**6, needed=needed)) == [FilePart(found.path, 0, found.size_bytes)]


def test_files_of_partitions_that_cannot_match_are_not_looked_at() -> None:
    files = listed(10, 20, 30)
    partitions = {found.path: (country,) for found, country in zip(files, ("us", "eu", "us"), strict=True)}
    needed = Needed(Comparison("country", "=", "eu"), COLUMNS, COLUMNS[3:], partitions)
    (split,) = splits_of(files, "json", 1000, needed=needed)
    assert (split.parts, split.left_out_bytes) == ((FilePart(files[1].path, 0, 20),), 40)


def test_a_split_has_few_partitions() -> None:
    files = listed(*[1] * 100)
    partitions = {found.path: (str(number),) for number, found in enumerate(files)}
    splits = splits_of(files, "json", 1000, needed=Needed(None, COLUMNS, COLUMNS[3:], partitions))
    assert [len(split.parts) for split in splits] == [32, 32, 32, 4]
    assert all(split.left_out_bytes == 0 for split in splits)


@pytest.mark.parametrize(
    ("values", "column_type"),
    [
        (pa.array([date(1800, 1, 1), date(2026, 1, 1)]), "DATE"),
        (pa.array([1.5, float("nan")]), "DOUBLE"),
        (pa.array([b"a", b"b"]), "STRING"),
        (pa.array([[1], [2]]), "BIGINT"),
        (pa.array([1, 2], pa.timestamp("ns")), "TIMESTAMP"),
    ],
)
def test_bounds_that_are_not_held_against_values(tmp_path: Path, values: pa.Array, column_type: str) -> None:
    pq.write_table(pa.table({"v": values}), tmp_path / "a")
    found = group_ranges(pq.read_metadata(tmp_path / "a"), 0, (Field("v", column_type), Field("other", "INT")))
    assert found in ({}, {"v": Range(nulls=False)})


def test_names_that_differ_only_in_case_are_left_alone(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": [1], "V": [2]}), tmp_path / "a")
    assert group_ranges(pq.read_metadata(tmp_path / "a"), 0, (Field("v", "BIGINT"),)) == {}
