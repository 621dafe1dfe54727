"""A site with two inputs, a merge of them, and the task that takes its place; made again it is a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TypeVar

import pyarrow as pa

from contract.tasks import ReadFrom
from planner.values.names import BIN_COLUMN, BINS
from planner.values.stages import StageKind
from site_agent.channels.log import ChannelLog
from site_agent.state.memory import StateMemory
from site_agent.state.segments import without_bins
from site_agent.tasks.context import TaskLimits
from site_agent.tasks.handover.successor import SuccessorTask, windowed_successor
from site_agent.tasks.merge import MergeTask
from site_agent.tasks.spec import HandOver, InputSpec, SeedSpec, TakeOver, TaskSpec, ViewSpec, WindowSpec
from site_agent.tasks.task import Task
from tests.unit.site_agent.fakes import TIMESTAMP, TableEngine
from tests.unit.site_agent.tasks.place import Place

OLD, NEW, SEED = "q.m1", "q.m1.g1", "q.m1.g1.seed"
INPUTS = (InputSpec("q.s1.us", "hub", "input"), InputSpec("q.s1.eu", "hub", "input"))
WINDOW = WindowSpec("_window_start", 10, 10, (ViewSpec("input", "combine"),), by_bins=True)
SPEC = TaskSpec(OLD, "q", "m1", StageKind.MERGE, "merge", timedelta(0), inputs=INPUTS, window=WINDOW)
TAKE_OVER = TakeOver(OLD, "hub", SEED)
LATE_INPUTS = tuple(replace(item, read_from=ReadFrom.OLDEST, event_delay_us=3) for item in INPUTS)
TAKE_OVER_LATE = TakeOver(OLD, "hub", "", late=True)
SEEDING = HandOver(NEW, "hub", SeedSpec(SEED, {item.channel: 1 for item in INPUTS}))
CUTTING = replace(SEEDING, cut=True)
KEYS = "abcdefgh"
Rows = list[tuple[int, str, int]]


def partials(rows: Rows) -> pa.Table:
    """Rows of (window start, key, count), in bins."""
    return with_bins(
        pa.table(
            {
                "_window_start": pa.array([r[0] for r in rows], TIMESTAMP),
                "k": [r[1] for r in rows],
                "n": pa.array([r[2] for r in rows], pa.int64()),
            }
        )
    )


def with_bins(table: pa.Table) -> pa.Table:
    bins = [KEYS.index(key) * BINS // len(KEYS) for key in table.column("k").to_pylist()]
    return table.append_column(BIN_COLUMN, pa.array(bins, pa.int64()))


def summed(rows: pa.Table) -> pa.Table:
    grouped = without_bins(rows).group_by(["_window_start", "k"]).aggregate([("n", "sum")])
    return grouped.rename_columns(["_window_start", "k", "n"])


class Hub(Place):
    def __init__(self, directory: Path, *, limits: TaskLimits, memory_bytes: int) -> None:
        engine = TableEngine(
            {"merge": summed, "combine": lambda rows: with_bins(summed(rows)), "as it is": lambda rows: rows}
        )
        super().__init__(directory, engine, limits, StateMemory(memory_bytes))
        self.inputs = [self.store.open(i.channel) for i in INPUTS]
        self.old, self.new = self.store.open(OLD), self.store.open(NEW)
        for log in (*self.inputs, self.old, self.new):
            log.set_consumers(["hub"])

    def predecessor(self, hand_over: HandOver | None = None) -> MergeTask:
        return MergeTask(self.context(replace(SPEC, hand_over=hand_over)), WINDOW)

    def successor(self, task: str = NEW, take_over: TakeOver = TAKE_OVER) -> SuccessorTask:
        spec = replace(SPEC, task_id=task, take_over=take_over)
        return windowed_successor(self.context(spec), WINDOW, take_over)

    def publish(self, rows: Rows, *, watermark_us: int) -> None:
        """Half of the rows from each input."""
        for place, log in enumerate(self.inputs):
            log.publish(log.next_epoch, partials(rows[place::2]), watermark_us=watermark_us)

    def results(self) -> Rows:
        return sorted(rows_of(self.old) + rows_of(self.new))


def rows_of(log: ChannelLog) -> Rows:
    tables = [log.epochs.read(e) for e in range(log.first_epoch, log.next_epoch)]
    rows = [row for t in tables if t is not None for row in t.to_pylist()]
    return [(int(r["_window_start"].timestamp() * 1e6), r["k"], r["n"]) for r in rows]


H = TypeVar("H", bound=Hub)


@asynccontextmanager
async def hub_at(
    directory: Path, *, checkpoint_bytes: int = 0, rows_at_once: int = 500_000, memory_bytes: int = 1 << 28
) -> AsyncIterator[Hub]:
    async with hub_of(Hub, directory, checkpoint_bytes, rows_at_once, memory_bytes) as hub:
        yield hub


@asynccontextmanager
async def hub_of(
    kind: type[H],
    directory: Path,
    checkpoint_bytes: int = 0,
    rows_at_once: int = 500_000,
    memory_bytes: int = 1 << 28,
) -> AsyncIterator[H]:
    limits = TaskLimits(checkpoint_bytes=checkpoint_bytes, rows_at_once=rows_at_once, port_batch_bytes=1)
    hub = kind(directory, limits=limits, memory_bytes=memory_bytes)
    async with hub.handing_over([item.channel for item in INPUTS], OLD, NEW):
        yield hub


async def until(condition: Callable[[], object], *tasks: asyncio.Task[None]) -> None:
    """Wait for a condition; a task that fails meanwhile fails the test."""
    async with asyncio.timeout(20):
        while not condition():
            for task in tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.005)


async def stop(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


T = TypeVar("T", bound=Task)


async def perhaps_again(
    random: Random, share: float, task: T, running: asyncio.Task[None], make: Callable[[], T]
) -> tuple[T, asyncio.Task[None]]:
    """Stop a task in the middle and make it again, in that share of the cases."""
    if random.random() >= share:
        return task, running
    await stop(running)
    await task.close()
    task = make()
    return task, asyncio.create_task(task.run())
