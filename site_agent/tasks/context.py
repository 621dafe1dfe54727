"""What every task is given, and the steps all of them share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from contract.tasks import TaskState
from machine.clock import Clock
from machine.tracing import sampled_span
from site_agent.base.cpu import cpu_wait_s
from site_agent.base.posix import sync_wait_s
from site_agent.channels.log import ChannelLog
from site_agent.channels.pace import Pressure, pressure
from site_agent.engine import Engine, EpochRequest, EpochResult
from site_agent.router import Router
from site_agent.state.memory import StateMemory
from site_agent.tasks.crashes import Crashes
from site_agent.tasks.outputs import Outputs
from site_agent.tasks.pool import SendPool
from site_agent.tasks.progress import Progress
from site_agent.tasks.spec import TaskSpec
from site_agent.tasks.stretch import Stretch

T = TypeVar("T")
Run = Callable[[EpochRequest], EpochResult]
"""Runs a request where it is called; raises EngineError."""

BACK_PRESSURE_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """Settings of an agent that bound its tasks."""

    retained_bytes_per_channel: int = 1024 * 1024 * 1024
    """A task admits no input while its channel keeps more than this for its readers, those that keep up."""
    kept_behind_bytes_per_channel: int = 8 * 1024 * 1024 * 1024
    """So much more a channel keeps for queries that do not keep up with another that shares it."""
    port_batch_bytes: int = 64 * 1024 * 1024
    """Most that a merge takes from its port at once."""
    table_copy_bytes: int = 64 * 1024 * 1024
    """Largest table that is copied to other sites for a join."""
    checkpoint_bytes: int = 1024 * 1024
    checkpoint_interval: timedelta = timedelta(seconds=5)
    rows_at_once: int = 500_000
    """A merge of more rows works on them range by range of their bins, where they have bins."""
    compact_rows: int = 2_000
    """Fewer new rows of a merge are not worth a job of Spark before they are stored."""
    runs_alike: int = 8
    """So many runs of a like size of a merge's state may become one."""
    runs_most: int = 256
    """More runs of a view of a merge do become fewer."""

    def pressure_of(self, log: ChannelLog) -> Pressure:
        """What the readers of a task's channel mean to it."""
        return pressure(
            log.readers.waiting(),
            retained_bytes=self.retained_bytes_per_channel,
            kept_behind_bytes=self.kept_behind_bytes_per_channel,
            growing=log.end is None,
        )


@dataclass(frozen=True, slots=True)
class TaskContext:
    site: str
    spec: TaskSpec
    engine: Engine
    log: ChannelLog
    router: Router
    directory: Path
    """The task's own, for what outlives a restart."""
    dead_letters: Path
    """Directory for the task's malformed rows; it need not exist."""
    executor: Executor
    """As many threads as the site has slots: each runs one epoch at a time."""
    clock: Clock
    limits: TaskLimits
    progress: Progress
    crashes: Crashes = field(default_factory=Crashes)
    stretch: Stretch = field(default_factory=Stretch)
    pool: SendPool = field(default_factory=SendPool)
    """What the site's combining tasks have to send."""
    memory: StateMemory = field(default_factory=StateMemory)
    """What the site's merges have of their state in memory."""
    outputs: Outputs = field(default_factory=Outputs)
    """The site's cache of the outputs of tasks that read tables."""
    disk_full: Callable[[], str] = str
    """The reason why the site's disk budget admits no rows from outside; empty when it does."""
    cpu_wait_s: Callable[[], float] = cpu_wait_s
    """How long the calling thread has waited for a CPU."""

    @asynccontextmanager
    async def attempt(self) -> AsyncIterator[None]:
        """Around all work that may take the agent with it: should it, the task is known to have been at it.

        An epoch published in the block clears the task. It may begin late, and others may wait for it; so nothing in it
        may wait for another task or site. Not to be nested.
        """
        published, task = self.log.next_epoch, self.spec.task_id
        before = self.progress.state, self.progress.reason
        if waiting := self.crashes.why_waiting(task):
            self.progress.enter(TaskState.RETRYING, waiting)
        async with self.crashes.running(task):
            self.progress.enter(*before)
            with sampled_span("epoch", query=self.spec.query_id, stage=self.spec.stage_id, site=self.site, task=task):
                yield
        if self.log.next_epoch > published:
            self.crashes.completed(task)

    async def run(self, make: Callable[[], EpochRequest]) -> EpochResult:
        """Make an epoch's request and run it, both on a slot. Raises EngineError, and what `make` does."""
        return await self.compute(lambda run: run(make()))

    async def compute(self, work: Callable[[Run], T]) -> T:
        """Do work on a slot, which is given what runs its requests: each change of threads waits behind other tasks.

        Raises EngineError, and what `work` does.
        """
        results: list[EpochResult] = []

        def run(request: EpochRequest) -> EpochResult:
            results.append(self.engine.run(request))
            return results[-1]

        try:
            return await self.in_slot(lambda: work(run))
        finally:
            for result in results:
                self.stretch.count_epoch()
                self.progress.plans += result.planned
                self.progress.waited(result.cpu_wait_s)

    async def in_slot(self, work: Callable[[], T]) -> T:
        """Run an epoch's work on a slot. A cancelled task waits for the work and drops its result."""
        asked_s, waited_s, disk_s = self.clock.monotonic(), 0.0, 0.0

        def on_slot() -> T:
            nonlocal waited_s, disk_s
            waited_s = self.clock.monotonic() - asked_s - self.cpu_wait_s()
            disk_s = -sync_wait_s()
            try:
                return work()
            finally:
                waited_s += self.cpu_wait_s()
                disk_s += sync_wait_s()

        try:
            return await _finish(asyncio.get_running_loop().run_in_executor(self.executor, on_slot))
        finally:
            self.progress.waited(waited_s)
            self.progress.disk_waited(disk_s)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Like `in_slot`, for file work that needs no slot."""
        disk_s = 0.0

        def in_thread() -> T:
            nonlocal disk_s
            disk_s = -sync_wait_s()
            try:
                return work()
            finally:
                disk_s += sync_wait_s()

        try:
            return await _finish(asyncio.get_running_loop().run_in_executor(None, in_thread))
        finally:
            self.progress.disk_waited(disk_s)

    async def wait_for_room(self, *, unless: Callable[[], bool] = lambda: False) -> bool:
        """Back-pressure: wait until less than the channel's budget waits for its readers that keep up, or until
        `unless` holds.

        Returns:
            Whether there was anything to wait for.
        """
        return await self._wait_while(lambda: "" if unless() else self._crowded())

    async def wait_to_read(self) -> bool:
        """As `wait_for_room`, and for the site's disk budget: for tasks that take rows from outside.

        Other tasks go on, because they make room by what they read.
        """
        return await self._wait_while(lambda: self.disk_full() or self._crowded())

    async def _wait_while(self, reason: Callable[[], str]) -> bool:
        waited, began_s = False, self.clock.monotonic()
        while why := reason():
            waited = True
            self.progress.enter(TaskState.BACK_PRESSURED, why)
            await self.clock.sleep(BACK_PRESSURE_POLL_S)
            now_s = self.clock.monotonic()
            self.progress.room_waited(now_s - began_s)
            began_s = now_s
        if waited:
            self.progress.enter(TaskState.RUNNING)
        return waited

    def _crowded(self) -> str:
        """The reason why the channel has no room; empty when it has."""
        found = self.limits.pressure_of(self.log)
        return _why(found, self.log.id) if found.waits else ""

    async def pace(self, started_s: float) -> None:
        """Sleep what is left of the epoch interval since `started_s`; while CPU is short, the interval is longer."""
        interval = self.stretch.interval(self.spec.epoch_interval)
        self.progress.interval_s = interval.total_seconds() if interval > self.spec.epoch_interval else None
        left_s = started_s + interval.total_seconds() - self.clock.monotonic()
        if left_s > 0:
            await self.clock.sleep(left_s)


def _why(found: Pressure, channel: str) -> str:
    left = next((behind for behind in found.behind if behind.left), None)
    if left is not None:
        at = ", ".join(left.sites)
        return f"{left.size_bytes} bytes of {channel} wait for query {left.query_id} at {at}, which is left behind"
    assert found.pace is not None
    where = ", ".join(found.pace.sites)
    return f"{found.pace.size_bytes} bytes wait for readers of {channel}" + (f" at {where}" if where else "")


async def _finish(future: asyncio.Future[T]) -> T:
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if not future.done():
            await asyncio.wait([future])
        raise
