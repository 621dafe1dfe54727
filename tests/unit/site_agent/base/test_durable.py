from __future__ import annotations

from pathlib import Path

import pytest

from site_agent.base.durable import replacing, sole_owner, write_atomically
from site_agent.base.errors import SiteAgentError


def test_a_file_is_replaced_whole_and_nothing_is_left_beside(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, b"old")
    write_atomically(path, b"new")

    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, b"old")
    with pytest.raises(TypeError), replacing(path) as file:
        file.write("no bytes")  # type: ignore[call-overload]

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_has_one_owner_at_a_time(tmp_path: Path) -> None:
    with sole_owner(tmp_path / "us"), pytest.raises(SiteAgentError, match="another agent"), sole_owner(tmp_path / "us"):
        pass
    with sole_owner(tmp_path / "us"):
        assert (tmp_path / "us").is_dir()
