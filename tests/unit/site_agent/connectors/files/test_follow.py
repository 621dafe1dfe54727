from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from contract.times import to_us
from site_agent.base.errors import ConnectorError
from site_agent.connectors.files.follow import FollowSource
from site_agent.connectors.sources import Offset, Poll, ReadLimit, Source
from site_agent.engine import Field, FilesScan
from tests.unit.site_agent.connectors.contexts import CREATED, source_context


class Directory:
    """A followed directory and what reads it."""

    def __init__(self, root: Path) -> None:
        self.data = root / "data"
        self.data.mkdir()
        self._own = root / "own"

    def write(self, name: str, text: str = "x\n", *, modified_s: int = 100) -> None:
        (self.data / name).write_text(text)
        os.utime(self.data / name, (modified_s, modified_s))

    def source(self, **options: str) -> Source:
        common: Mapping[str, str] = {"connector": "files", "path": str(self.data), "format": "csv"}
        return FollowSource(source_context(self._own, {**common, **options}))


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(tmp_path)


def poll(source: Source, start: Offset, **limits: int) -> Poll:
    return source.poll(start, now=CREATED, limit=ReadLimit(**limits))


def names(source: Source, start: Offset, end: Offset) -> list[str]:
    scan = source.scan(start, end)
    assert isinstance(scan, FilesScan)
    return [Path(p).name for p in scan.paths]


def test_new_files_as_they_arrive(directory: Directory) -> None:
    directory.write("b")
    source = directory.source()
    start = source.initial()
    first = poll(source, start)
    assert (first.empty, first.ended, names(source, start, first.end)) == (False, False, ["b"])
    assert poll(source, first.end).empty
    directory.write("c")
    second = poll(source, first.end)
    assert names(source, first.end, second.end) == ["c"]


def test_a_file_with_an_old_time_is_not_skipped(directory: Directory) -> None:
    directory.write("new", modified_s=1000)
    source = directory.source()
    first = poll(source, source.initial())
    directory.write("a-old", modified_s=1)
    second = poll(source, first.end)
    assert names(source, first.end, second.end) == ["a-old"]
    assert names(source, source.initial(), second.end) == ["new", "a-old"]


def test_the_same_offsets_give_the_same_files_after_a_restart(directory: Directory) -> None:
    directory.write("b", modified_s=5)
    source = directory.source()
    first = poll(source, source.initial())
    directory.write("a", modified_s=1)
    again = directory.source()
    assert names(again, again.initial(), first.end) == ["b"]
    second = poll(again, first.end)
    assert names(again, first.end, second.end) == ["a"]


def test_limits(directory: Directory) -> None:
    for name in "abcd":
        directory.write(name, "x" * 10)
    source = directory.source()
    assert poll(source, source.initial(), size_bytes=25).end == {"files": 2}
    assert poll(source, source.initial(), size_bytes=5).end == {"files": 1}
    source.reconfigure({"max_files_per_epoch": "3"})
    assert poll(source, source.initial()).end == {"files": 3}
    assert poll(directory.source(max_files_per_epoch="1"), {"files": 3}).end == {"files": 4}


def test_until_end_reads_what_was_there_at_the_start(directory: Directory) -> None:
    for name in "ab":
        directory.write(name)
    source = directory.source(until="end", max_files_per_epoch="1")
    first = poll(source, source.initial())
    assert not first.ended
    directory.write("c")
    second = poll(directory.source(until="end"), first.end)
    assert (second.end, second.ended) == ({"files": 2}, True)
    assert (poll(source, second.end).empty, poll(source, second.end).ended) == (True, True)


def test_until_end_of_nothing(directory: Directory) -> None:
    found = poll(directory.source(until="end"), {"files": 0})
    assert (found.empty, found.ended) == (True, True)


def test_a_file_that_changed_or_vanished_is_named(directory: Directory) -> None:
    directory.write("a", "1\n")
    source = directory.source()
    end = poll(source, source.initial()).end
    directory.write("a", "1\n2\n")
    with pytest.raises(ConnectorError, match=r"/data/a had 2 bytes .* has 4 now"):
        source.scan({"files": 0}, end)
    (directory.data / "a").unlink()
    with pytest.raises(ConnectorError, match=r"/data/a was discovered and cannot be read any more"):
        source.scan({"files": 0}, end)


def test_an_offset_beyond_the_log_is_refused(directory: Directory) -> None:
    with pytest.raises(ConnectorError, match="9 files were read, but only 0"):
        poll(directory.source(), {"files": 9})


def test_a_directory_that_is_not_there_is_named(directory: Directory) -> None:
    directory.data.rmdir()
    with pytest.raises(ConnectorError, match="data does not exist"):
        poll(directory.source(), {"files": 0})


def test_what_spark_is_told(directory: Directory) -> None:
    directory.write("a")
    source = directory.source(null_value="NA")
    scan = source.scan({"files": 0}, poll(source, {"files": 0}).end)
    assert isinstance(scan, FilesScan)
    assert (scan.format, scan.read_columns) == ("csv", ("ts", "v"))
    assert (scan.options["mode"], scan.options["nullValue"]) == ("PERMISSIVE", "NA")
    assert scan.malformed_column == "_selat_malformed"


class TestByArrival:
    def source(self, directory: Directory, **options: str) -> Source:
        common = {"connector": "files", "path": str(directory.data), "format": "csv"}
        context = source_context(
            directory.data.parent / "own", {**common, **options}, read_columns=("v", "arrived"), event_time="arrived"
        )
        return FollowSource(context)

    def at(self, source: Source, start: Offset, seconds: float, **limits: int) -> Poll:
        return source.poll(start, now=CREATED + timedelta(seconds=seconds), limit=ReadLimit(**limits))

    def times(self, source: Source, start: Offset, end: Offset) -> dict[str, float]:
        """Seconds after CREATED, by file."""
        scan = source.scan(start, end)
        assert isinstance(scan, FilesScan)
        assert scan.partitioned_by == (Field("arrived", "TIMESTAMP"),)
        found = {Path(path).name: datetime.fromisoformat(text or "") for path, (text,) in scan.partitions.items()}
        return {name: (time - CREATED).total_seconds() for name, time in found.items()}

    def test_rows_have_the_time_at_which_their_file_was_discovered(self, directory: Directory) -> None:
        directory.write("a")
        source = self.source(directory)
        first = self.at(source, source.initial(), 1.5)
        directory.write("b")
        directory.write("c")
        second = self.at(source, first.end, 4)
        assert self.times(source, source.initial(), first.end) == {"a": 1.5}
        # Discovered for good: a source that begins again reads the same.
        again = self.source(directory)
        assert self.times(again, source.initial(), second.end) == {"a": 1.5, "b": 4.0, "c": 4.0}

    def test_the_floor_is_the_clock_or_the_next_file(self, directory: Directory) -> None:
        source = self.source(directory, max_files_per_epoch="1")
        silent = self.at(source, source.initial(), 1)
        assert (silent.empty, silent.event_time_floor_us) == (True, to_us(CREATED) + 1_000_000)
        directory.write("a")
        directory.write("b")
        one = self.at(source, silent.end, 2)
        assert one.event_time_floor_us == to_us(CREATED) + 2_000_000
        two = self.at(source, one.end, 9)
        assert (self.times(source, one.end, two.end), two.event_time_floor_us) == (
            {"b": 2.0},
            to_us(CREATED) + 9_000_000,
        )

    def test_no_time_goes_back_when_the_clock_does(self, directory: Directory) -> None:
        source = self.source(directory)
        silent = self.at(source, source.initial(), 60)
        directory.write("a")
        # The floor of before is in the offset, whatever else is lost.
        again = self.source(directory)
        first = self.at(again, silent.end, 10)
        assert self.times(again, silent.end, first.end) == {"a": 60.0}
        assert first.event_time_floor_us == silent.event_time_floor_us
        # Without a commit, the log of discovered files has it.
        directory.write("b")
        more = self.at(self.source(directory), source.initial(), 5)
        assert self.times(self.source(directory), source.initial(), more.end) == {"a": 60.0, "b": 60.0}

    def test_an_ended_directory_ends(self, directory: Directory) -> None:
        directory.write("a")
        source = self.source(directory, until="end")
        assert self.at(source, source.initial(), 1).ended


def test_other_streams_promise_nothing(directory: Directory) -> None:
    assert poll(directory.source(), {"files": 0}) == Poll({"files": 0}, empty=True)
