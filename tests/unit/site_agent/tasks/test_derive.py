"""What is made of another query's channel: its epochs under their numbers, each once, whatever happens in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.tasks import ReadFrom, TaskState
from planner.values.stages import StageKind
from site_agent.base.errors import ChannelError, EngineError, SiteAgentError, TrimmedEpochError
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import END_OF_TIME_US, EndMark, Standing
from site_agent.channels.store import ChannelStore
from site_agent.exchange.options import connect
from site_agent.router import Router
from site_agent.tasks.context import TaskContext, TaskLimits
from site_agent.tasks.derive import DeriveTask
from site_agent.tasks.progress import Progress
from site_agent.tasks.spec import InputSpec, TaskSpec, ViewSpec, WindowSpec
from tests.unit.site_agent.fakes import TableEngine, VirtualClock

CHANNEL = "p.s1.hub"
INPUT = InputSpec(CHANNEL, "hub", "input", read_from=ReadFrom.FIRST)
SPEC = TaskSpec("q.s1-derived-hub.hub", "q", "s1", StageKind.DERIVE, "kept", timedelta(0), inputs=(INPUT,))
WINDOW = WindowSpec("_window_start", 20, 10, (ViewSpec("input"),))
Rows = Sequence[int]


def numbers(rows: Rows) -> pa.Table | None:
    return pa.table({"v": pa.array(rows, pa.int64())}) if rows else None


def kept(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.equal(pc.bit_wise_and(rows.column("v"), 1), 0))


class Site:
    """One site's channels and the task; made again over the same directory it is a restart."""

    def __init__(self, directory: Path, spec: TaskSpec, port_bytes: int) -> None:
        self.store = ChannelStore(directory / "channels")
        self.router = Router("hub", self.store, connect)
        self.source, self.log = self.store.open(CHANNEL), self.store.open(spec.task_id)
        for log in (self.source, self.log):
            log.set_consumers(["hub"])
        self.engine = TableEngine({"kept": kept})
        self.context = TaskContext(
            site="hub",
            spec=spec,
            engine=self.engine,
            log=self.log,
            router=self.router,
            directory=directory / "task",
            dead_letters=directory / "task" / "dead-letters",
            executor=ThreadPoolExecutor(1),
            clock=VirtualClock(),
            limits=TaskLimits(port_batch_bytes=port_bytes),
            progress=Progress(0.0),
        )

    def publish(self, *epochs: Rows) -> None:
        for rows in epochs:
            epoch = self.source.next_epoch
            self.source.publish(epoch, numbers(rows), watermark_us=epoch * 10)

    def rows(self) -> list[int]:
        tables = [self.log.epochs.read(epoch) for epoch in range(self.log.first_epoch, self.log.next_epoch)]
        return [value for table in tables if table is not None for value in table.column("v").to_pylist()]

    def marks(self) -> list[int | None]:
        return [
            self.log.epochs.manifest(epoch).watermark_us for epoch in range(self.log.first_epoch, self.log.next_epoch)
        ]

    async def run(self) -> DeriveTask:
        task = DeriveTask(self.context)
        await asyncio.wait_for(task.run(), 10)
        return task


@asynccontextmanager
async def site(directory: Path, spec: TaskSpec = SPEC, *, port_bytes: int = 10**6) -> AsyncIterator[Site]:
    made = Site(directory, spec, port_bytes)
    try:
        yield made
    finally:
        await made.router.close()


async def test_each_epoch_is_made_of_that_of_its_number(tmp_path: Path) -> None:
    async with site(tmp_path) as hub:
        task = asyncio.create_task(DeriveTask(hub.context).run())
        for number, rows in enumerate(((1, 2), (), (3,), (4, 6))):
            hub.publish(rows)
            await asyncio.wait_for(hub.log.state.wait(number), 10)
        hub.source.publish(4, None, watermark_us=END_OF_TIME_US, idle=True)
        hub.source.finish()
        await asyncio.wait_for(task, 10)

        assert [hub.log.epochs.manifest(epoch).rows for epoch in range(5)] == [1, 0, 0, 2, 0]
        assert hub.marks() == [0, 10, 20, 30, END_OF_TIME_US]
        assert hub.log.epochs.manifest(4).idle
        assert hub.log.end is not None
        totals = hub.context.progress.totals
        assert (totals.rows_in, totals.rows_out) == (5, 3)
        assert hub.context.progress.state is TaskState.ENDED
        # Nothing is kept for it any more, and an epoch without rows costs no Spark.
        assert hub.source.first_epoch == 5
        assert len(hub.engine.requests) == 3


async def test_what_waits_is_worked_on_at_once_under_the_same_numbers(tmp_path: Path) -> None:
    async with site(tmp_path) as hub:
        hub.publish((2,), (), (3, 4), (6,))
        hub.source.finish()
        await hub.run()
        assert len(hub.engine.requests) == 1
        assert [hub.log.epochs.manifest(epoch).rows for epoch in range(4)] == [3, 0, 0, 0]
        # An epoch's watermark may be that of the input's only when all rows before it are out.
        assert hub.marks() == [0, 10, 20, 30]


async def test_a_step_takes_no_more_than_fits(tmp_path: Path) -> None:
    async with site(tmp_path, port_bytes=1) as hub:
        hub.publish((2,), (4,), (6,))
        hub.source.finish()
        await hub.run()
        assert [hub.log.epochs.manifest(epoch).rows for epoch in range(3)] == [1, 1, 1]


class Broken:
    """Fails a log's n-th append, of all that the task makes."""

    def __init__(self, log: ChannelLog, after: int, *, part: bool) -> None:
        self._log, self._after, self._part = log, after, part
        self._append_all = log.append_all

    def append_all(self, epochs: Any) -> None:
        self._after -= 1
        if self._after < 0:
            # As after a power loss: some of the epochs have their names.
            self._append_all(epochs[: len(epochs) // 2] if self._part else ())
            raise ChannelError("the disk refused")
        self._append_all(epochs)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    epochs=st.lists(st.lists(st.integers(0, 99), max_size=3), max_size=8),
    published=st.lists(st.integers(0, 8), max_size=3),
    after=st.integers(0, 4),
    part=st.booleans(),
    port_bytes=st.sampled_from((1, 400, 10**6)),
)
def test_wherever_it_fails_each_row_is_made_once(
    tmp_path_factory: pytest.TempPathFactory,
    epochs: list[list[int]],
    published: list[int],
    after: int,
    part: bool,
    port_bytes: int,
) -> None:
    async def check(directory: Path) -> None:
        for until in [*sorted(published), len(epochs)]:
            async with site(directory, port_bytes=port_bytes) as hub:
                hub.publish(*epochs[hub.source.next_epoch : until])
                if until < len(epochs):
                    hub.log.append_all = Broken(hub.log, after, part=part).append_all  # type: ignore[method-assign]
                    with suppress(ChannelError, TimeoutError):
                        await asyncio.wait_for(DeriveTask(hub.context).run(), 0.02)
                    continue
                hub.source.finish()
                await hub.run()
                totals = hub.context.progress.totals
        assert (totals.rows_in, totals.rows_out) == (sum(map(len, epochs)), len(wanted))
        async with site(directory) as hub:
            assert hub.rows() == wanted
            assert hub.marks() == [number * 10 for number in range(len(epochs))]

    wanted = [value for rows in epochs for value in rows if value % 2 == 0]
    asyncio.run(check(tmp_path_factory.mktemp("derived")))


async def test_a_failed_epoch_loses_nothing(tmp_path: Path) -> None:
    async with site(tmp_path) as hub:
        hub.publish((2,), (4,))
        hub.source.finish()
        hub.engine.failures = [EngineError("no memory")]
        with pytest.raises(EngineError):
            await hub.run()
        await hub.run()
        assert hub.rows() == [2, 4]


def forget(log: ChannelLog, epochs: int) -> None:
    """As when all other readers have acknowledged so many."""
    log.acknowledge("hub", epochs - 1)


async def until(holds: Any) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.005)


async def test_a_channel_without_its_first_rows_is_not_read(tmp_path: Path) -> None:
    async with site(tmp_path) as hub:
        hub.publish((2,), (4,))
        forget(hub.source, 1)
        task = DeriveTask(hub.context)
        running = asyncio.create_task(task.run())
        await until(lambda: task.missed_inputs == (CHANNEL,))
        hub.publish((6,))
        forget(hub.source, 3)
        # It holds nothing back, and sends nothing.
        assert (hub.source.first_epoch, hub.log.next_epoch) == (3, 0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


LATE = replace(SPEC, inputs=(replace(INPUT, read_from=ReadFrom.OLDEST),))


async def test_one_that_may_begin_in_the_middle_says_so_by_its_first_number(tmp_path: Path) -> None:
    async with site(tmp_path, LATE) as hub:
        hub.publish((2,), (4,), (6,))
        forget(hub.source, 1)
        hub.source.finish()
        task = await hub.run()
        assert (hub.log.first_epoch, hub.rows(), hub.marks()) == (1, [4, 6], [10, 20])
        assert task.missed_inputs == ()


async def test_a_channel_that_ended_and_holds_nothing_is_not_joined(tmp_path: Path) -> None:
    async with site(tmp_path, LATE) as hub:
        hub.publish((2,))
        forget(hub.source, 1)
        hub.source.finish()
        task = DeriveTask(hub.context)
        running = asyncio.create_task(task.run())
        await until(lambda: task.missed_inputs == (CHANNEL,))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_where_a_copy_begins_may_be_known_before_its_first_epoch(tmp_path: Path) -> None:
    async with site(tmp_path, LATE) as hub:
        running = asyncio.create_task(DeriveTask(hub.context).run())
        await asyncio.sleep(0.01)
        hub.source.begin_at(3)
        await asyncio.sleep(0.01)
        hub.publish((2,))
        hub.source.finish()
        await asyncio.wait_for(running, 10)
        assert (hub.log.first_epoch, hub.rows(), hub.marks()) == (3, [2], [30])


@pytest.mark.parametrize("dies", [False, True])
async def test_one_that_begins_at_a_silent_channel_says_what_that_said(tmp_path: Path, dies: bool) -> None:
    """Its own readers must not wait for an idle channel, and no complete window is left out."""
    async with site(tmp_path, replace(LATE, window=WINDOW)) as hub:
        hub.publish((2,), (4,))
        hub.source.publish(2, None, watermark_us=10, idle=True)
        forget(hub.source, 3)
        running = asyncio.create_task(DeriveTask(hub.context).run())
        await until(lambda: hub.log.standing == Standing(3, 10, idle=True))
        if dies:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            running = asyncio.create_task(DeriveTask(hub.context).run())
        hub.publish((6,))
        hub.source.finish()
        await asyncio.wait_for(running, 10)
        assert (hub.log.first_epoch, hub.rows(), hub.marks()) == (3, [6], [30])
        # Windows of 20 that begin after -10 end after the watermark 10.
        assert hub.context.progress.starts_at_us == 0


@pytest.mark.parametrize("dies", [False, True])
async def test_windows_that_may_be_out_already_are_left_out(tmp_path: Path, dies: bool) -> None:
    spec = replace(LATE, window=WINDOW)
    async with site(tmp_path, spec) as hub:
        hub.publish((2,), (4,), (6,), (8,))
        forget(hub.source, 2)
        hub.source.finish()
        if dies:
            # Where it begins is stored, and nothing is published.
            hub.log.begin_at(2)
        await hub.run()
        # The epoch that it begins with has the watermark 20: windows of 20 that begin after 0 end after it.
        assert (hub.rows(), hub.marks()) == ([8], [20, 30])
        assert hub.context.progress.starts_at_us == 10


async def test_epochs_that_are_gone_in_the_middle_are_an_error(tmp_path: Path) -> None:
    async with site(tmp_path) as hub:
        hub.publish((2,))
        task = asyncio.create_task(DeriveTask(hub.context).run())
        await asyncio.wait_for(hub.log.state.wait(0), 10)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await hub.router.unsubscribe(CHANNEL, SPEC.task_id)
        hub.publish((4,), (6,))
        forget(hub.source, 2)
        with pytest.raises(TrimmedEpochError, match="no longer holds epoch 1"):
            await hub.run()


async def test_it_follows_the_channel_that_continues_its_input(tmp_path: Path) -> None:
    successor = "p.s1.g1"
    async with site(tmp_path) as hub:
        hub.publish((1, 2), (4,))
        hub.source.finish_as(EndMark(1, successor, "hub"))
        task = asyncio.create_task(DeriveTask(hub.context).run())
        await asyncio.wait_for(hub.log.state.wait(1), 10)
        after = hub.store.open(successor)
        after.set_consumers(["hub"])
        after.begin_at(2)
        after.publish(2, numbers((6,)), watermark_us=20)
        await asyncio.wait_for(hub.log.state.wait(2), 10)
        task.cancel()
    # It is restarted, first with the old channel in its spec, then with the new one.
    async with site(tmp_path) as hub:
        after = hub.store.open(successor)
        task = asyncio.create_task(DeriveTask(hub.context).run())
        after.publish(3, numbers((8,)), watermark_us=30)
        await asyncio.wait_for(hub.log.state.wait(3), 10)
        assert hub.router.subscriptions(SPEC.task_id).keys() == {CHANNEL, successor}
        task.cancel()
    listed = InputSpec(successor, "hub", "input", read_from=ReadFrom.FIRST, from_epoch=2)
    async with site(tmp_path, replace(SPEC, inputs=(listed,))) as hub:
        hub.store.open(successor).finish()
        await hub.run()
        assert (hub.rows(), hub.marks()[-1]) == ([2, 4, 6, 8], 30)
        assert hub.router.subscriptions(SPEC.task_id).keys() == {successor}


async def test_it_is_made_of_one_channel(tmp_path: Path) -> None:
    async with site(tmp_path) as hub:
        with pytest.raises(SiteAgentError, match="made of 0 channels"):
            DeriveTask(replace(hub.context, spec=replace(SPEC, inputs=())))
