from __future__ import annotations

from pathlib import Path

import pytest

from site_agent.base.errors import ConnectorError
from site_agent.connectors.files.follow import FollowSource
from site_agent.connectors.files.replay import ReplaySource
from site_agent.connectors.registry import find_connector, make_connectors
from site_agent.engine import FilesScan, RangeScan
from tests.unit.site_agent.connectors.contexts import source_context
from tests.unit.site_agent.connectors.preparers import LinesPreparer

CONNECTORS = make_connectors(LinesPreparer())


def test_connectors_have_their_names() -> None:
    assert {name: c.name for name, c in CONNECTORS.items()} == {"files": "files", "generator": "generator"}


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({}, "option 'connector' is missing", "connectors are files, generator"),
        (
            {"connector": "file"},
            "there is no connector 'file'",
            "did you mean 'files'? connectors are files, generator",
        ),
        ({"connector": "kafka"}, "there is no connector 'kafka'", "connectors are files, generator"),
    ],
)
def test_an_unknown_connector_lists_the_known(options: dict[str, str], message: str, hint: str) -> None:
    with pytest.raises(ConnectorError) as caught:
        find_connector(CONNECTORS, options)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_the_mode_decides_how_files_are_read(tmp_path: Path) -> None:
    options = {"connector": "files", "path": str(tmp_path), "format": "csv"}
    files = find_connector(CONNECTORS, options)
    assert isinstance(files.open_source(source_context(tmp_path, options)), FollowSource)
    assert isinstance(files.open_source(source_context(tmp_path, {**options, "mode": "replay"})), ReplaySource)


def test_a_files_table_is_all_files_now(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    options = {"connector": "files", "path": str(data), "format": "json"}
    table = find_connector(CONNECTORS, options).open_table(source_context(tmp_path / "own", options))
    with pytest.raises(ConnectorError, match=r"table clicks: .* has no file"):
        table.scan()
    for name in ("b", "a"):
        (data / name).write_text("{}")
    scan = table.scan()
    assert isinstance(scan, FilesScan)
    assert (scan.paths, scan.read_columns) == ((str(data / "a"), str(data / "b")), ("ts", "v"))


def test_a_split_of_a_files_table_is_its_parts(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    options = {"connector": "files", "path": str(data), "format": "json"}
    table = find_connector(CONNECTORS, options).open_table(source_context(tmp_path / "own", options))
    assert table.splits(10) == ()
    for name in ("b", "a"):
        (data / name).write_text("{}\n{}\n{}\n{}\n{}\n")
    first, *_, last = splits = table.splits(10)
    assert [part.path[-1] for split in splits for part in split.parts] == ["a", "a", "b", "b"]
    scan = table.scan(first)
    assert isinstance(scan, FilesScan)
    assert (scan.parts, scan.paths) == (first.parts, (str(data / "a"),))

    (data / "b").write_text("{}\n")
    with pytest.raises(ConnectorError, match=r"b had 15 bytes at least when the query began and has 3 now"):
        table.scan(last)
    (data / "a").unlink()
    with pytest.raises(ConnectorError, match=r"a was there when the query began: No such file"):
        table.scan(first)


@pytest.mark.parametrize(("split_bytes", "count"), [(1, 10), (40, 4), (10**6, 1)])
def test_splits_of_a_generated_table_are_ranges_of_its_rows(tmp_path: Path, split_bytes: int, count: int) -> None:
    options = {"connector": "generator", "rows": "10"}
    table = find_connector(CONNECTORS, options).open_table(source_context(tmp_path, options))
    splits = table.splits(split_bytes)
    assert len(splits) == count
    assert sum(split.size_bytes for split in splits) == 160
    whole = table.scan()
    scans = [table.scan(split) for split in splits]
    assert isinstance(whole, RangeScan)
    rows = [row for scan in scans if isinstance(scan, RangeScan) for row in range(scan.start, scan.end)]
    assert rows == list(range(whole.start, whole.end))
    assert {scan.expressions for scan in scans if isinstance(scan, RangeScan)} == {whole.expressions}
