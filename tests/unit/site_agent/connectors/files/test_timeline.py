from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from site_agent.base.errors import ConnectorError
from site_agent.connectors.files.timeline import Timeline, write_index
from site_agent.engine import ParquetSlice
from site_agent.engine.scans.slices import read_slices
from tests.unit.site_agent.connectors.preparers import TIMESTAMP


def timeline(directory: Path, times: list[int | None], *, rows_per_part: int) -> Timeline:
    ordered = sorted(times, key=lambda t: (t is not None, t or 0))
    table = pa.table({"ts": pa.array(ordered, TIMESTAMP), "v": pa.array(range(len(times)), pa.int64())})
    for number, start in enumerate(range(0, len(times), rows_per_part)):
        part = table.slice(start, rows_per_part)
        pq.write_table(part, directory / f"part-00000-x-c{number:03d}.parquet", row_group_size=2)
    write_index(directory, "ts")
    return Timeline(directory)


event_times = st.lists(st.one_of(st.none(), st.integers(-50, 50)), max_size=30)


@given(event_times, st.integers(1, 7), st.integers(-60, 60))
def test_rows_by_counts_what_is_at_or_before(
    tmp_path_factory: pytest.TempPathFactory, times: list[int | None], rows_per_part: int, instant: int
) -> None:
    found = timeline(tmp_path_factory.mktemp("t"), times, rows_per_part=rows_per_part)
    assert found.rows == len(times)
    assert found.rows_by(instant) == sum(t is None or t <= instant for t in times)
    assert found.first_time_us == min((t for t in times if t is not None), default=None)


@given(event_times, st.integers(1, 7), st.data())
def test_rows_have_their_times_and_places(
    tmp_path_factory: pytest.TempPathFactory, times: list[int | None], rows_per_part: int, data: st.DataObject
) -> None:
    found = timeline(tmp_path_factory.mktemp("t"), times, rows_per_part=rows_per_part)
    ordered = sorted(times, key=lambda t: (t is not None, t or 0))
    assert [found.time_us(row) for row in range(-1, len(times) + 1)] == [None, *ordered, None]
    start = data.draw(st.integers(0, len(times)))
    end = data.draw(st.integers(start, len(times)))
    slices = found.slices(start, end)
    if start == end:
        assert slices == ()
    else:
        assert read_slices(slices, ["v"]).column("v").to_pylist() == list(range(start, end))


def test_parts_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for part, batch, time in ((0, 999, 1), (0, 1000, 2), (1, 0, 3), (100000, 0, 4)):
        table = pa.table({"ts": pa.array([time], TIMESTAMP)})
        pq.write_table(table, tmp_path / f"part-{part:05d}-x-c{batch:03d}.snappy.parquet")
    write_index(tmp_path, "ts")
    assert [Timeline(tmp_path).time_us(row) for row in range(4)] == [1, 2, 3, 4]


def test_slices_name_files_and_rows(tmp_path: Path) -> None:
    found = timeline(tmp_path, [1, 2, 3, 4, 5], rows_per_part=2)
    assert found.slices(1, 4) == (
        ParquetSlice(str(tmp_path / "part-00000-x-c000.parquet"), 1, 2),
        ParquetSlice(str(tmp_path / "part-00000-x-c001.parquet"), 0, 2),
    )


def test_no_rows(tmp_path: Path) -> None:
    found = timeline(tmp_path, [], rows_per_part=1)
    assert (found.rows, found.rows_by(0), found.time_us(0), found.first_time_us) == (0, 0, None, None)
    assert found.row_bytes == 1


def test_a_directory_without_an_index(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match="cannot be read"):
        Timeline(tmp_path)
