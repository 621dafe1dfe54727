from __future__ import annotations

from pathlib import Path

import pytest

from site_agent.base import cpu
from site_agent.base.cpu import CpuUse, Quota, cpu_wait_s


@pytest.mark.parametrize(("text", "waited_s"), [("12 2500000000 7\n", 2.5), ("", 0.0), ("0\n", 0.0), ("a b c", 0.0)])
def test_the_wait_is_the_second_number_in_nanoseconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, waited_s: float
) -> None:
    path = tmp_path / "schedstat"
    monkeypatch.setattr(cpu, "_SCHEDSTAT", path)
    assert cpu_wait_s() == 0.0
    path.write_text(text)
    assert cpu_wait_s() == waited_s


def group(tmp_path: Path, own: str, **quotas: str) -> Quota | None:
    """The quota of a process in the group `own`; `quotas` by the last name of their groups."""
    groups = tmp_path / "groups"
    (groups / own).mkdir(parents=True)
    for directory in (groups, *groups.rglob("*")):
        text = quotas.get(directory.name)
        if text is not None:
            (directory / "cpu.max").write_text(text)
            (directory / "cpu.stat").write_text("usage_usec 1000000\nuser_usec 7\n")
    told = tmp_path / "cgroup"
    told.write_text(f"1:name=systemd:/x\n0::/{own}\n")
    return Quota.found(told, groups)


def test_the_narrowest_quota_on_the_way_up_holds(tmp_path: Path) -> None:
    quota = group(tmp_path, "pods/agent", groups="max 100000\n", pods="50000 100000\n", agent="400000 100000\n")
    assert quota is not None
    assert (quota.cpus, quota.directory.name, quota.used_s()) == (0.5, "pods", 1.0)


def test_a_process_without_a_quota_may_use_the_machine(tmp_path: Path) -> None:
    assert group(tmp_path, "agent", agent="max 100000\n") is None
    assert Quota.found(tmp_path / "absent", tmp_path) is None


def test_the_use_of_a_quota_counts_although_the_machine_is_idle(tmp_path: Path) -> None:
    quota = group(tmp_path, "agent", agent="50000 100000\n")
    assert quota is not None
    now_s = 0.0
    use = CpuUse(quota, clock=lambda: now_s)
    now_s = 4.0
    (quota.directory / "cpu.stat").write_text("usage_usec 3000000\n")
    assert use() == 1.0
    assert 0 <= CpuUse()() <= 1
