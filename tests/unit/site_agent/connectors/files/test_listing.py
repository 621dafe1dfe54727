from __future__ import annotations

import os
from pathlib import Path

import pytest

from site_agent.base.errors import ConnectorError
from site_agent.connectors.files.listing import complete_files, is_complete


def test_complete_files_oldest_first_then_by_name(tmp_path: Path) -> None:
    for name, modified_s in (("b", 5), ("a", 5), ("c", 1)):
        (tmp_path / name).write_text(name * 3)
        os.utime(tmp_path / name, (modified_s, modified_s))
    found = complete_files(tmp_path, "*")
    assert [Path(f.path).name for f in found] == ["c", "a", "b"]
    assert (found[0].size_bytes, found[0].modified_ns) == (3, 1_000_000_000)


@pytest.mark.parametrize("name", [".hidden", "_SUCCESS", "a.csv.tmp", "a.part"])
def test_unfinished_files_are_not_there(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x")
    assert not is_complete(Path(name))
    assert complete_files(tmp_path, "*") == []


def test_a_pattern_picks_and_may_go_deeper(tmp_path: Path) -> None:
    for name in ("a.csv", "b.json", "sub/c.csv", ".staging/d.csv", "sub/_temporary/e.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert [Path(f.path).name for f in complete_files(tmp_path, "*.csv")] == ["a.csv"]
    assert sorted(Path(f.path).name for f in complete_files(tmp_path, "**/*.csv")) == ["a.csv", "c.csv"]


def test_a_file_itself_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "_only.csv"
    path.write_text("x")
    assert [f.path for f in complete_files(path, "*")] == [str(path)]


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match="does not exist"):
        complete_files(tmp_path / "nowhere", "*")
    assert complete_files(tmp_path, "*") == []
