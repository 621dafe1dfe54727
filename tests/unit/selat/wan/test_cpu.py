from __future__ import annotations

from pathlib import Path

import pytest

from selat.wan.cpu import CpuGroups
from selat.wan.errors import WanError


def test_version_2(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory\n")
    (tmp_path / "cgroup.subtree_control").write_text("memory\n")
    groups = CpuGroups("lab", tmp_path)
    groups.make("us", 1.5)
    assert (tmp_path / "selat-lab.us" / "cpu.max").read_text() == "150000 100000"
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu"


def test_version_1(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1")
    groups = CpuGroups("lab", tmp_path)
    groups.make("us", 0.25)
    assert (groups.directory("us") / "cpu.cfs_quota_us").read_text() == "25000"
    assert groups.directory("us") == tmp_path / "cpu" / "selat-lab.us"


def test_neither(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("hugetlb\n")
    with pytest.raises(WanError, match="no CPU controller"):
        CpuGroups("lab", tmp_path).make("us", 1)
