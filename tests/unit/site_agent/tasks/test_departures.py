from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from planner.combining.fewer import WORTH_ROWS
from planner.values.stages import StageKind
from site_agent.channels.log import ChannelLog
from site_agent.channels.store import ChannelStore
from site_agent.exchange.outbound import Outbound
from site_agent.tasks.departures import Departures
from site_agent.tasks.held import HeldGroups
from site_agent.tasks.pool import SendPool
from site_agent.tasks.spec import InputSpec, TaskSpec, ViewSpec, WindowSpec
from tests.unit.site_agent.exchange.test_outbound import RATE, Clock, transfer
from tests.unit.site_agent.fakes import TIMESTAMP

WINDOW_S = 60
WINDOW = WindowSpec("_window_start", WINDOW_S * 1_000_000, WINDOW_S * 1_000_000, (ViewSpec("input"),))
GROUPS = 50_000


class World:
    """A task at eu, of which nobody reads anything yet, and a link to us that is known."""

    def __init__(self, directory: Path) -> None:
        self.clock = Clock()
        self.outbound = Outbound(self.clock)
        self.log: ChannelLog = ChannelStore(directory).open("q.c1.p0")
        self.log.set_consumers([self.log.id])
        inputs = (InputSpec("q.s1.p0", "eu", "input"),)
        second = timedelta(seconds=1)
        spec = TaskSpec(self.log.id, "q", "c1", StageKind.COMBINE, "", second, inputs=inputs, window=WINDOW)
        self.departures = Departures(spec, "eu", self.log, SendPool(self.outbound))
        self.held = HeldGroups(WINDOW)
        transfer(self.outbound, self.clock, 100_000, 40_000)

    def epoch(self, number: int, rows: int) -> None:
        """Take in the epoch of that second, with so many rows, of all groups in turn."""
        groups = np.arange(rows) % GROUPS
        table = pa.table(
            {
                "_window_start": pa.array(np.zeros(rows, np.int64), TIMESTAMP),
                "k": np.random.default_rng(7).integers(0, 2**62, GROUPS)[groups],
                "_group": pa.array(groups),
            }
        )
        self.held.add(table)
        self.departures.came(self.held, number * 1_000_000, self.clock())

    @property
    def leaving(self) -> int:
        return sum(len(found.groups) for found in self.departures.due(self.held, self.clock()))


def test_a_site_that_begins_to_read_while_the_task_runs_is_counted_with(tmp_path: Path) -> None:
    """Queries that share what a task sends begin when it has been running for long."""
    world = World(tmp_path)
    for number in (WINDOW_S - 2, WINDOW_S - 1):
        world.epoch(number, GROUPS)
    assert GROUPS * 8 > 3 * RATE, "the keys alone are more than the link carries in some seconds"
    assert world.departures.are_only_closings(world.held, world.clock()), "nobody reads it"
    assert world.leaving == 0

    world.log.set_consumers(["us", "eu", world.log.id])
    assert world.departures.size_of(world.held.some_rows() or pa.table({})) > 0
    assert not world.departures.are_only_closings(world.held, world.clock())
    assert world.leaving > 0


def test_many_rows_of_few_groups_are_combined_once_before_groups_leave(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.log.set_consumers(["us"])
    for number in (1, 2):
        world.epoch(number, WORTH_ROWS)
    assert not world.departures.is_time_for_fewer(world.held, world.clock()), "there is time"
    world.epoch(WINDOW_S - 5, 0)
    assert world.departures.is_time_for_fewer(world.held, world.clock())
    assert not world.departures.is_time_for_fewer(world.held, world.clock()), "it was done"


def test_what_is_little_is_not_combined_before_groups_leave(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.log.set_consumers(["us"])
    for number in (WINDOW_S - 3, WINDOW_S - 2):
        world.epoch(number, GROUPS)
    assert not world.departures.is_time_for_fewer(world.held, world.clock())
