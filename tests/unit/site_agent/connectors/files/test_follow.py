from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from site_agent.base.errors import ConnectorError
from site_agent.connectors.files.follow import FollowSource
from site_agent.connectors.sources import Offset, Poll, ReadLimit, Source
from site_agent.engine import FilesScan
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
