"""Pushes, trims and ends, with a crash at any operation of the disk: what was acknowledged is there, once, in order."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from site_agent.ingest import Acknowledged
from site_agent.ingest.log import PushLog
from site_agent.ingest.options import LogLimits
from tests.unit.site_agent.fakes import VirtualClock
from tests.unit.site_agent.ingest.disk import Crash, CrashingDisk
from tests.unit.site_agent.ingest.logs import open_log, push, values

PRODUCERS = ("a", "b")
KEEPS_ALL = LogLimits(segment_bytes=350)
FORGETS = LogLimits(timedelta(seconds=5), segment_bytes=350)

steps = st.lists(
    st.tuples(
        st.lists(st.sampled_from(PRODUCERS), min_size=1, max_size=4),
        st.integers(0, 9) | st.none(),
        st.floats(0, 1),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


class World:
    """Producers that send on until each batch is acknowledged, and an agent that dies."""

    def __init__(self, directory: Path, limits: LogLimits) -> None:
        self.directory = directory
        self.limits = limits
        self.clock = VirtualClock()
        self.disk = CrashingDisk()
        self.acknowledged = dict.fromkeys(PRODUCERS, 0)
        self.log = self.open()

    def open(self) -> PushLog:
        return open_log(self.directory, limits=self.limits, clock=self.clock, files=self.disk)

    def send(self, producers: list[str]) -> None:
        """One group: each producer's next batches; what an earlier crash left open comes again with them."""
        sent = dict(self.acknowledged)
        group = []
        for producer in producers:
            sent[producer] += 1
            group.append(push(producer, sent[producer]))
        for item, outcome in zip(group, self.log.append(group), strict=True):
            assert isinstance(outcome, Acknowledged)
            self.acknowledged[item.producer] = max(self.acknowledged[item.producer], item.sequence)

    def restart(self, *, power: bool) -> None:
        if power:
            self.disk.lose_power()
        self.log = self.open()
        for producer, last in self.acknowledged.items():
            assert self.log.last_sequence(producer) >= last

    def settle(self) -> dict[str, int]:
        """A last batch of each, without crashes; how many batches each has stored by now, heard of or not."""
        self.disk.arm(None)
        self.restart(power=False)
        for producer in PRODUCERS:
            self.acknowledged[producer] = self.log.last_sequence(producer)
            self.send([producer])
        return self.acknowledged


def run(world: World, plan: list[tuple[list[str], int | None, float, bool]]) -> None:
    for producers, crash_after, torn_share, power in plan:
        world.disk.arm(crash_after, torn_share=torn_share)
        try:
            world.send(producers)
            world.clock.elapsed_s += 2.0
            world.log.trim()
        except Crash:
            try:
                world.disk.arm(crash_after, torn_share=torn_share)
                world.restart(power=power)
            except Crash:
                world.disk.arm(None)
                world.restart(power=power)


@settings(max_examples=60, deadline=None)
@given(steps)
def test_nothing_acknowledged_is_lost_and_nothing_is_there_twice(
    plan: list[tuple[list[str], int | None, float, bool]],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory) / "log", KEEPS_ALL)
        run(world, plan)
        sent = world.settle()
        # Each producer's rows are its sequences: all of them, in order, once.
        rows = values(world.log)
        assert len(rows) == world.log.kept.next_row
        assert sorted(rows) == sorted(n for last in sent.values() for n in range(1, last + 1))


@settings(max_examples=60, deadline=None)
@given(steps)
def test_a_log_that_forgets_still_knows_its_producers(plan: list[tuple[list[str], int | None, float, bool]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory) / "log", FORGETS)
        run(world, plan)
        sent = world.settle()
        rows = values(world.log)
        assert world.log.kept.next_row == sum(sent.values())
        assert {p: world.log.last_sequence(p) for p in PRODUCERS} == sent
        assert rows[-2:] == list(sent.values())
