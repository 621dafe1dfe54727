from __future__ import annotations

import errno
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pytest

from planner.values.names import BIN_COLUMN
from site_agent.base import posix
from site_agent.state.runs import DamagedStateError, RunFile, open_run, writing
from site_agent.state.segments import ALL_BINS, SEGMENT_ROWS, Extent, extent_of, of_bins, segments

US = pa.timestamp("us", tz="UTC")


def rows(starts: list[int], bins: list[int] | None, values: list[int] | None = None) -> pa.Table:
    made = pa.table({"w": pa.array(starts, US), "v": values or list(range(len(starts)))})
    return made if bins is None else made.append_column(BIN_COLUMN, pa.array(bins, pa.int64()))


def written(path: Path, *tables: pa.Table) -> RunFile:
    with writing(path, "w") as writer:
        for table in tables:
            writer.add(table)
        return writer.finish()


def test_a_run_comes_back_in_the_order_of_windows_and_bins(tmp_path: Path) -> None:
    made = written(tmp_path / "run", rows([10, 0, 10], [3, 9, 1]), rows([0], [0], [7]))

    found = open_run(tmp_path, made.name)

    assert found == made
    assert (found.rows, found.has_bins) == (4, True)
    together = pa.concat_tables(found.read(lambda _: True))
    assert together.column("v").to_pylist() == [1, 2, 0, 7]
    assert [segment.extent for segment in found.segments] == [Extent(0, 10, range(1, 10)), Extent(0, 0, range(1))]


def test_rows_of_some_bins_are_read_alone(tmp_path: Path) -> None:
    many = SEGMENT_ROWS * 8
    made = written(tmp_path / "run", rows([0] * many, [number % 8 for number in range(many)]))

    read = list(made.read(lambda extent: extent.meets(range(2, 4))))

    assert len(made.segments) == 8
    assert sum(table.num_rows for table in read) == many // 4
    assert set(read[0].column(BIN_COLUMN).to_pylist()) == {2}


def test_rows_without_bins_are_of_all_of_them(tmp_path: Path) -> None:
    made = written(tmp_path / "run", rows([0, 5], None))

    assert not made.has_bins
    assert sum(table.num_rows for table in made.read(lambda extent: extent.meets(range(3, 4)))) == 2
    assert of_bins(rows([0], None), range(3, 4)).num_rows == 1


def test_a_row_whose_bin_is_not_known_makes_the_bins_of_all_unknown() -> None:
    assert not extent_of(rows([0, 0], [-1, 5]), "w").has_bins
    assert of_bins(rows([0, 0], [-1, 5]), ALL_BINS).num_rows == 2


def test_segments_of_one_bin_have_an_end() -> None:
    table = rows([0] * 600_000, [1] * 600_000)
    assert [part.num_rows for part in segments(table, "w")] == [262_144, 262_144, 75_712]


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "run"
    name = written(path, rows([0, 10, 20], [1, 2, 3])).name
    data = path.read_bytes()

    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        with pytest.raises(DamagedStateError, match="cannot be read"):
            list(open_run(tmp_path, name).read(lambda _: True))


@pytest.mark.parametrize("cut", [0, 5, 30])
def test_a_torn_or_missing_run_is_noticed(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "run"
    name = written(path, rows([0], [1])).name
    path.write_bytes(path.read_bytes()[:cut])

    with pytest.raises(DamagedStateError, match="bytes instead of"):
        open_run(tmp_path, name)
    path.unlink()
    with pytest.raises(DamagedStateError, match="No such file"):
        open_run(tmp_path, name)


class FullDisk(posix.Calls):
    """Takes what is written, and has no room for it."""

    def sync(self, file: IO[Any]) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_of_a_run_that_cannot_be_written_nothing_is_left(tmp_path: Path) -> None:
    with posix.taken(FullDisk()), pytest.raises(OSError, match="No space"):
        written(tmp_path / "run", rows([0], [1]))
    assert list(tmp_path.iterdir()) == []


def test_of_a_run_that_is_given_up_nothing_is_left(tmp_path: Path) -> None:
    with writing(tmp_path / "run", "w") as writer:
        writer.add(rows([0], [1]))
        writer.give_up()
    assert list(tmp_path.iterdir()) == []
