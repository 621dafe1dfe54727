"""The disk use of a site is told by query, and compared with the budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from site_agent.agent.disk_use import LOOK_EVERY_S, SiteDisk, tree_bytes
from site_agent.channels.store import ChannelStore
from tests.unit.site_agent.fakes import VirtualClock


def write(path: Path, size_bytes: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size_bytes)


@pytest.fixture
def channels(tmp_path: Path) -> ChannelStore:
    return ChannelStore(tmp_path / "channels")


def test_each_byte_is_told_once_and_belongs_to_the_query_that_brought_it(
    tmp_path: Path, channels: ChannelStore
) -> None:
    write(tmp_path / "tasks" / "q1.m.p1" / "checkpoint.json", 10)
    write(tmp_path / "sources" / "q1.s.p1" / "log" / "0", 20)
    write(tmp_path / "sources" / "prepared" / "abc.arrow", 300)
    write(tmp_path / "dead-letters" / "q2.s.p1" / "0.jsonl", 40)
    write(tmp_path / "ingest" / "orders-1" / "0.segment", 5000)
    write(tmp_path / "assignment.pb", 7)
    for name in ("q1.s.p1", "q1.m.p0", "q3.s.p1"):
        channels.open(name).publish(0, None, watermark_us=None)
    epoch_bytes = channels.retained_by_channel()

    use = SiteDisk(tmp_path, channels, clock=VirtualClock()).measure()

    assert use.queries == {
        "q1": 30 + epoch_bytes["q1.s.p1"] + epoch_bytes["q1.m.p0"],
        "q2": 40,
        "q3": epoch_bytes["q3.s.p1"],
    }
    assert (use.replay_bytes, use.stream_log_bytes, use.budget_bytes) == (300, 5000, 0)
    assert use.used_bytes == sum(use.queries.values()) + 5300
    assert use.free_bytes > 0


def test_a_site_that_keeps_nothing_yet_uses_nothing(tmp_path: Path, channels: ChannelStore) -> None:
    disk = SiteDisk(tmp_path, channels, clock=VirtualClock(), budget_bytes=1)
    assert (disk.measure().queries, disk.measure().used_bytes, disk.why_full()) == ({}, 0, "")


def test_directories_are_measured_now_and_then_and_channels_each_time(tmp_path: Path, channels: ChannelStore) -> None:
    clock = VirtualClock()
    disk = SiteDisk(tmp_path, channels, clock=clock)
    assert disk.measure().queries == {}
    write(tmp_path / "tasks" / "q1.m.p1" / "checkpoint.json", 10)
    channels.open("q2.s.p1").publish(0, None, watermark_us=None)
    assert disk.measure().queries.keys() == {"q2"}
    clock.elapsed_s += LOOK_EVERY_S
    assert disk.measure().queries.keys() == {"q1", "q2"}
    channels.remove("q2.s.p1")
    assert disk.measure().queries == {"q1": 10}


def test_beyond_the_budget_there_is_a_reason_that_names_the_largest_query(
    tmp_path: Path, channels: ChannelStore
) -> None:
    write(tmp_path / "tasks" / "q1.m.p1" / "checkpoint.json", 60)
    write(tmp_path / "tasks" / "q2.m.p1" / "checkpoint.json", 40)
    for budget_bytes, reason in (
        (0, ""),
        (100, ""),
        (99, "the site keeps 100 bytes on disk, and its budget is 99; most of a query is 60, of q1"),
    ):
        disk = SiteDisk(tmp_path, channels, clock=VirtualClock(), budget_bytes=budget_bytes)
        disk.measure()
        assert disk.why_full() == reason


def test_pushed_rows_alone_can_use_up_the_budget(tmp_path: Path, channels: ChannelStore) -> None:
    write(tmp_path / "ingest" / "orders-1" / "0.segment", 50)
    disk = SiteDisk(tmp_path, channels, clock=VirtualClock(), budget_bytes=49)
    disk.measure()
    assert disk.why_full() == "the site keeps 50 bytes on disk, and its budget is 49"


def test_links_are_not_followed_and_missing_directories_are_empty(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b" / "file", 5)
    (tmp_path / "a" / "link").symlink_to("b/file")
    (tmp_path / "a" / "around").symlink_to(tmp_path)
    assert tree_bytes(tmp_path / "a") == 5 + len("b/file")
    assert tree_bytes(tmp_path / "nowhere") == 0
