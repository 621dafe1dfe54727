"""Logs by arrival, while clocks jump and agents die: times never go back, and what was promised holds."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from site_agent.base.errors import CorruptLogError, DiskFullError
from site_agent.ingest.arrivals import PROMISE_NAME, STEP_US
from site_agent.ingest.log import PushLog
from site_agent.ingest.options import LogLimits
from tests.unit.site_agent.fakes import VirtualClock
from tests.unit.site_agent.ingest.disk import Crash, CrashingDisk, FullDisk
from tests.unit.site_agent.ingest.logs import open_log, push

KEEPS_ALL = LogLimits(segment_bytes=350)

steps = st.lists(
    st.tuples(
        st.sampled_from(["push", "promise", "restart"]),
        st.floats(-100, 100),
        st.integers(0, 4) | st.none(),
        st.booleans(),
    ),
    min_size=1,
    max_size=20,
)


class World:
    """A producer that sends on, a reader that asks how far time has come, and an agent that dies."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = VirtualClock()
        self.disk = CrashingDisk()
        self.promised: list[tuple[int, int]] = []
        """The number of the next record at that time, and what was promised."""
        self.log = self.open()

    def open(self) -> PushLog:
        log = open_log(self.directory, limits=KEEPS_ALL, clock=self.clock, files=self.disk)
        log.order_arrivals()
        return log

    def act(self, what: str) -> None:
        if what == "push":
            self.log.append([push("a", self.log.last_sequence("a") + 1)])
        elif what == "restart":
            self.log = self.open()
        else:
            floor_us = self.log.floor_us(self.log.kept.next_record)
            assert floor_us is not None
            self.promised.append((self.log.kept.next_record, floor_us))

    def recover(self, *, power: bool) -> None:
        self.disk.arm(None)
        if power:
            self.disk.lose_power()
        self.log = self.open()


@settings(max_examples=150, deadline=None)
@given(steps)
def test_times_never_go_back_and_promises_hold(plan: list[tuple[str, float, int | None, bool]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory) / "log")
        for what, jump_s, crash_after, power in plan:
            world.clock.elapsed_s = max(0.0, world.clock.elapsed_s + jump_s)
            world.disk.arm(crash_after)
            try:
                world.act(what)
            except Crash:
                world.recover(power=power)
        world.disk.arm(None)
        kept = world.log.kept
        times = [record.at_us for record in kept.records(0, kept.next_record)]
        assert len(times) == kept.next_record
        assert all(one <= following for one, following in pairwise(times))
        assert all(floor_us <= at_us for first, floor_us in world.promised for at_us in times[first:])


def test_a_promise_follows_the_clock_and_is_written_now_and_then(tmp_path: Path) -> None:
    world = World(tmp_path / "log")
    first = world.log.floor_us(0)
    written = (tmp_path / "log" / PROMISE_NAME).read_bytes()
    world.clock.elapsed_s += STEP_US / 2e6
    assert world.log.floor_us(0) == first
    assert (tmp_path / "log" / PROMISE_NAME).read_bytes() == written
    world.clock.elapsed_s += 1.0
    assert first is not None
    assert world.log.floor_us(0) == first + STEP_US // 2 + 1_000_000


def test_nothing_is_promised_of_records_that_are_there(tmp_path: Path) -> None:
    world = World(tmp_path / "log")
    world.act("push")
    assert world.log.floor_us(0) is None
    assert world.log.floor_us(1) is not None


def test_other_logs_promise_nothing_and_follow_their_clock(tmp_path: Path) -> None:
    clock = VirtualClock()
    clock.elapsed_s = 50.0
    log = open_log(tmp_path / "log", clock=clock)
    log.append([push("a", 1)])
    clock.elapsed_s = 20.0
    log.append([push("a", 2)])
    one, other = log.kept.records(0, 2)
    assert one.at_us - other.at_us == 30_000_000
    assert log.floor_us(2) is None


def test_a_full_disk_keeps_the_last_promise(tmp_path: Path) -> None:
    disk, clock = FullDisk(), VirtualClock()
    log = open_log(tmp_path / "log", clock=clock, files=disk)
    log.order_arrivals()
    first = log.floor_us(0)
    disk.free_bytes = 0
    clock.elapsed_s += 1.0
    with pytest.raises(DiskFullError):
        log.floor_us(0)
    disk.free_bytes = None
    assert first is not None
    assert log.floor_us(0) == first + 1_000_000


def test_a_damaged_promise_is_named(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    (tmp_path / "log" / PROMISE_NAME).write_text("{")
    with pytest.raises(CorruptLogError, match=PROMISE_NAME):
        log.order_arrivals()
