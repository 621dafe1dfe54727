from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from contract.tasks import TaskState
from planner.values.stages import StageKind
from site_agent.base.errors import EngineError
from site_agent.channels.manifest import END_OF_TIME_US
from site_agent.channels.store import ChannelStore
from site_agent.exchange.options import connect
from site_agent.port import Port, PortBatch
from site_agent.router import Router
from site_agent.tasks.context import TaskContext, TaskLimits
from site_agent.tasks.merge import MergeTask
from site_agent.tasks.progress import Progress
from site_agent.tasks.spec import InputSpec, TaskSpec, ViewSpec, WindowSpec
from tests.unit.site_agent.fakes import TIMESTAMP, TableEngine, VirtualClock

WINDOW = WindowSpec("_window_start", 10, 10, (ViewSpec("input", "combine"),))
INPUTS = (InputSpec("q.s1.us", "hub", "input"), InputSpec("q.s1.eu", "hub", "input"))
COMPACT_ROWS = TaskLimits().compact_rows
SPEC = TaskSpec("q.m1.hub", "q", "m1", StageKind.MERGE, "merge", timedelta(0), inputs=INPUTS, window=WINDOW)


def partials(*rows: tuple[int, str, int]) -> pa.Table:
    """Rows of (window start, key, count)."""
    return pa.table(
        {
            "_window_start": pa.array([r[0] for r in rows], TIMESTAMP),
            "k": [r[1] for r in rows],
            "n": pa.array([r[2] for r in rows], pa.int64()),
        }
    )


def summed(rows: pa.Table) -> pa.Table:
    grouped = rows.group_by(["_window_start", "k"]).aggregate([("n", "sum")])
    return grouped.rename_columns(["_window_start", "k", "n"])


class Site:
    """One site's channels and a merge over two of them; made again over the same directory it is a restart."""

    def __init__(
        self, directory: Path, engine: TableEngine, limits: TaskLimits, readers: Sequence[str] = ("hub",)
    ) -> None:
        self.store = ChannelStore(directory / "channels")
        self.router = Router("hub", self.store, connect)
        self.log = self.store.open(SPEC.task_id)
        self.inputs = [self.store.open(i.channel) for i in INPUTS]
        self.log.set_consumers(readers)
        for log in self.inputs:
            log.set_consumers(["hub"])
        self.context = TaskContext(
            site="hub",
            spec=SPEC,
            engine=engine,
            log=self.log,
            router=self.router,
            directory=directory / "task",
            dead_letters=directory / "task" / "dead-letters",
            executor=ThreadPoolExecutor(1),
            clock=VirtualClock(),
            limits=limits,
            progress=Progress(0.0),
        )

    def results(self) -> list[tuple[int, str, int]]:
        tables = [self.log.epochs.read(e) for e in range(self.log.next_epoch)]
        rows = [row for t in tables if t is not None for row in t.to_pylist()]
        return sorted((int(r["_window_start"].timestamp() * 1e6), r["k"], r["n"]) for r in rows)


@asynccontextmanager
async def site(directory: Path, engine: TableEngine, *, checkpoint_bytes: int = 0) -> AsyncIterator[Site]:
    made = Site(directory, engine, TaskLimits(checkpoint_bytes=checkpoint_bytes))
    try:
        yield made
    finally:
        await made.router.close()


def engine() -> TableEngine:
    return TableEngine({"merge": summed, "combine": summed})


async def test_a_window_is_emitted_once_when_every_channel_has_passed_its_end(tmp_path: Path) -> None:
    async with site(tmp_path, engine()) as hub:
        us, eu = hub.inputs
        us.publish(0, partials((0, "a", 1), (10, "a", 5)), watermark_us=12)
        task = asyncio.create_task(MergeTask(hub.context, WINDOW).run())
        eu.publish(0, partials((0, "a", 2)), watermark_us=9)
        await asyncio.sleep(0.05)
        assert hub.results() == []

        eu.publish(1, partials((10, "b", 7)), watermark_us=11)
        while not hub.results():
            await hub.log.state.wait(hub.log.next_epoch)
        assert hub.results() == [(0, "a", 3)]
        # The window from 0 to 10 microseconds ended in 1970; the end of time ends no window.
        since_s = hub.context.clock.now().timestamp() - 10e-6
        us.finish()
        eu.finish()
        await asyncio.wait_for(task, 10)

        assert hub.results() == [(0, "a", 3), (10, "a", 5), (10, "b", 7)]
        assert hub.log.end is not None
        assert hub.log.epochs.manifest(hub.log.next_epoch - 1).watermark_us == END_OF_TIME_US
        assert hub.context.progress.state is TaskState.ENDED
        assert (hub.context.progress.totals.rows_in, hub.context.progress.totals.rows_out) == (4, 3)
        figures = hub.context.progress.measured
        assert figures.emissions == 1
        assert abs(figures.emit_delay_s - since_s) < 60


async def test_a_window_does_not_wait_because_a_watermark_came_just_before(tmp_path: Path) -> None:
    """The first watermark is published though no window has rows: no time was spent that would call for a pause."""
    async with site(tmp_path, engine()) as hub:
        paced = replace(hub.context, spec=replace(SPEC, epoch_interval=timedelta(seconds=1)))
        task = asyncio.create_task(MergeTask(paced, WINDOW).run())
        for number, channel in enumerate(hub.inputs):
            channel.publish(0, partials((0, "a", number)), watermark_us=5)
        async with asyncio.timeout(10):
            await hub.log.state.wait(0)
            for channel in hub.inputs:
                channel.finish()
            await task
        assert paced.clock.monotonic() == 0
        assert hub.results() == [(0, "a", 1)]


async def test_a_window_does_not_wait_because_rows_came_just_before(tmp_path: Path) -> None:
    async with site(tmp_path, engine()) as hub:
        paced = replace(hub.context, spec=replace(SPEC, epoch_interval=timedelta(seconds=1)))
        task = asyncio.create_task(MergeTask(paced, WINDOW).run())
        us, eu = hub.inputs
        us.publish(0, partials((0, "a", 1)), watermark_us=12)
        async with asyncio.timeout(10):
            while paced.progress.totals.rows_in < 1 and not task.done():
                await asyncio.sleep(0.01)
            assert paced.clock.monotonic() == 0
            eu.publish(0, partials((0, "a", 2)), watermark_us=12)
            await hub.log.state.wait(0)
        assert paced.clock.monotonic() <= 1
        assert hub.results() == [(0, "a", 3)]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("checkpoint_bytes", [0, 10**9])
@pytest.mark.parametrize("kill_at", range(1, 7))
async def test_killed_at_any_epoch_it_emits_every_window_once(
    tmp_path: Path, kill_at: int, checkpoint_bytes: int
) -> None:
    epochs = [partials((w * 10, "a", 1), (w * 10, "b", w), (w * 10 + 10, "a", 1)) for w in range(6)]
    failing = engine()
    async with site(tmp_path, failing, checkpoint_bytes=checkpoint_bytes) as hub:
        for number, rows in enumerate(epochs[:kill_at]):
            for log in hub.inputs:
                log.publish(number, rows, watermark_us=number * 10)
        task = asyncio.create_task(MergeTask(hub.context, WINDOW).run())
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    async with site(tmp_path, engine(), checkpoint_bytes=checkpoint_bytes) as hub:
        task = asyncio.create_task(MergeTask(hub.context, WINDOW).run())
        for number, rows in list(enumerate(epochs))[kill_at:]:
            for log in hub.inputs:
                log.publish(number, rows, watermark_us=number * 10)
        for log in hub.inputs:
            log.finish()
        await asyncio.wait_for(task, 10)

        totals = hub.context.progress.totals
        assert (totals.rows_in, totals.rows_late) == (2 * 6 * 3, 0)
        wanted = [(w * 10, k, n) for w in range(6) for k, n in (("a", 4 if w else 2), ("b", 2 * w))]
        assert hub.results() == sorted([*wanted, (60, "a", 2)])
        totals = hub.context.progress.totals
        assert (totals.rows_in, totals.rows_late) == (36, 0), "what is read again must not be counted again"


async def ran(hub: Site, *, until: int, rows_in: int = 0) -> None:
    """Run the merge until its output has so many epochs and it has read so many rows, and kill it."""
    task = asyncio.create_task(MergeTask(hub.context, WINDOW).run())
    async with asyncio.timeout(10):
        await hub.log.state.wait(until - 1)
        while hub.context.progress.totals.rows_in < rows_in or hub.context.progress.state is not TaskState.RUNNING:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("checkpoint_bytes", [0, 10**9])
async def test_its_output_is_idle_when_all_its_inputs_are(tmp_path: Path, checkpoint_bytes: int) -> None:
    async with site(tmp_path, engine(), checkpoint_bytes=checkpoint_bytes) as hub:
        us, eu = hub.inputs
        us.publish(0, partials((0, "a", 1)), watermark_us=12)
        eu.publish(0, None, watermark_us=5, idle=True)
        await ran(hub, until=1)
        us.publish(1, None, watermark_us=12, idle=True)
        await ran(hub, until=2)
    for _ in range(2):
        # Killed and started again it knows, and says nothing twice.
        async with site(tmp_path, engine(), checkpoint_bytes=checkpoint_bytes) as hub:
            await ran(hub, until=2)
            assert [(m.watermark_us, m.idle) for m in map(hub.log.epochs.manifest, range(hub.log.next_epoch))] == [
                (12, False),
                (12, True),
            ]
    async with site(tmp_path, engine(), checkpoint_bytes=checkpoint_bytes) as hub:
        hub.inputs[1].publish(1, partials((20, "b", 1)), watermark_us=22)
        await ran(hub, until=3)
        assert not hub.log.epochs.manifest(2).idle
        assert hub.results() == [(0, "a", 1)]


@pytest.mark.parametrize("checkpoint_bytes", [0, 10**9])
async def test_rows_of_a_channel_that_wakes_are_judged_once(tmp_path: Path, checkpoint_bytes: int) -> None:
    """Rows of windows that are out stay late, even where no checkpoint knows of these windows."""
    async with site(tmp_path, engine(), checkpoint_bytes=checkpoint_bytes) as hub:
        us, eu = hub.inputs
        eu.publish(0, None, watermark_us=5, idle=True)
        us.publish(0, partials((0, "a", 1), (10, "a", 1), (20, "a", 1)), watermark_us=25)
        us.publish(1, None, watermark_us=25, idle=True)
        await ran(hub, until=1)
        assert hub.results() == [(0, "a", 1), (10, "a", 1)]
    for died in range(3):
        async with site(tmp_path, engine(), checkpoint_bytes=checkpoint_bytes) as hub:
            us, eu = hub.inputs
            if not died:
                eu.publish(1, partials((10, "a", 7), (20, "a", 7)), watermark_us=12)
            await ran(hub, until=hub.log.next_epoch, rows_in=5)
            assert hub.context.progress.totals.rows_late == 1
            assert (hub.context.progress.watermark_us or 0) >= 25
    async with site(tmp_path, engine(), checkpoint_bytes=checkpoint_bytes) as hub:
        for log in hub.inputs:
            log.finish()
        await asyncio.wait_for(MergeTask(hub.context, WINDOW).run(), 10)
        assert hub.results() == [(0, "a", 1), (10, "a", 1), (20, "a", 8)]
        marks = [hub.log.epochs.manifest(epoch).watermark_us or 0 for epoch in range(hub.log.next_epoch)]
        assert marks == sorted(marks)


async def test_a_failed_merge_loses_nothing(tmp_path: Path) -> None:
    failing = engine()
    failing.failures = [EngineError("no memory")]
    async with site(tmp_path, failing) as hub:
        for log in hub.inputs:
            log.publish(0, partials((0, "a", 1)), watermark_us=20)
            log.finish()
        with pytest.raises(EngineError):
            await MergeTask(hub.context, WINDOW).run()

        await asyncio.wait_for(MergeTask(hub.context, WINDOW).run(), 10)

        assert hub.results() == [(0, "a", 2)]


async def test_large_open_windows_are_compacted(tmp_path: Path) -> None:
    async with site(tmp_path, engine()) as hub:
        us, eu = hub.inputs
        many = pa.concat_tables([partials((0, "a", 1))] * (COMPACT_ROWS + 1)).combine_chunks()
        us.publish(0, many, watermark_us=5)
        eu.publish(0, partials((0, "a", 1)), watermark_us=5)
        task = asyncio.create_task(MergeTask(hub.context, WINDOW).run())
        while hub.context.progress.epochs == 0:
            await asyncio.sleep(0.01)
        assert hub.context.progress.measured.state_rows < COMPACT_ROWS
        us.finish()
        eu.finish()
        await asyncio.wait_for(task, 10)

        assert hub.results() == [(0, "a", COMPACT_ROWS + 2)]


async def test_it_acknowledges_what_it_took_though_nothing_more_comes(tmp_path: Path) -> None:
    async with site(tmp_path, engine(), checkpoint_bytes=10**9) as hub:
        object.__setattr__(hub.context.limits, "checkpoint_interval", timedelta(milliseconds=50))
        us, _ = hub.inputs
        us.publish(0, partials((0, "a", 1)), watermark_us=5)
        us.publish(1, partials((0, "a", 1)), watermark_us=6)
        task = asyncio.create_task(MergeTask(hub.context, WINDOW).run())
        async with asyncio.timeout(10):
            while us.readers.acknowledged("hub") != 1:
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("rows_in", [0, 2], ids=["before it has restored", "while it reads"])
async def test_channels_join_and_leave_while_it_runs(tmp_path: Path, rows_in: int) -> None:
    async with site(tmp_path, engine()) as hub:
        us, eu = hub.inputs
        late = hub.store.open("q.s1.asia")
        late.set_consumers(["hub"])
        merge = MergeTask(hub.context, WINDOW)
        task = asyncio.create_task(merge.run())
        us.publish(0, partials((0, "a", 1)), watermark_us=5)
        eu.publish(0, partials((0, "a", 1)), watermark_us=5)
        while hub.context.progress.totals.rows_in < rows_in:
            await asyncio.sleep(0.01)
        await merge.set_inputs([*INPUTS, InputSpec("q.s1.asia", "hub", "input")])
        late.publish(0, partials((0, "z", 9)), watermark_us=20)
        us.publish(1, partials((10, "a", 1)), watermark_us=20)
        eu.publish(1, partials((10, "a", 1)), watermark_us=20)
        while not hub.results():
            await asyncio.sleep(0.01)
        await merge.set_inputs(INPUTS)
        for log in (us, eu):
            log.finish()
        await asyncio.wait_for(task, 10)

        assert hub.results() == [(0, "a", 2), (0, "z", 9), (10, "a", 2)]


class ReadyPort(Port):
    """Has a batch as soon as it is told, and a cursor that no checkpoint has."""

    def __init__(self, router: Router) -> None:
        super().__init__(router, reader="q.m1.hub", query_id="q")
        self.ready = asyncio.Event()

    @property
    def cursors(self) -> Mapping[str, int]:
        return {"q.s1.us": 1}

    async def next(self, *, max_bytes: int) -> PortBatch:
        await self.ready.wait()
        return PortBatch((), (), self.cursors, None, False, 0)


async def test_a_cancellation_that_comes_together_with_a_batch_ends_the_merge(tmp_path: Path) -> None:
    async with site(tmp_path, engine()) as hub:
        merge, port = MergeTask(hub.context, WINDOW), ReadyPort(hub.router)
        merge._port = port
        taking = asyncio.create_task(merge._next())
        await asyncio.sleep(0.01)
        port.ready.set()
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
