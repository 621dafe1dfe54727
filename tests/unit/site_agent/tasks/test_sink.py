from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contract.tasks import ReadFrom, TaskState
from planner.values.stages import StageKind
from site_agent.base.files import Files
from site_agent.channels.codec import decode, encode
from site_agent.channels.manifest import END_OF_TIME_US, EndMark
from site_agent.channels.store import ChannelStore
from site_agent.connectors.parquet.sink import ParquetSink
from site_agent.exchange.options import connect
from site_agent.router import Router
from site_agent.tasks.context import TaskContext, TaskLimits
from site_agent.tasks.ledger import Ledger
from site_agent.tasks.progress import Progress
from site_agent.tasks.sink import Collected, SinkTask
from site_agent.tasks.spec import InputSpec, TaskSpec
from tests.unit.site_agent.connectors.parquet.rows import Epoch, rows_of, seen
from tests.unit.site_agent.fakes import TableEngine, VirtualClock

US, EU = "q.s1.us", "q.s1.eu"
INPUTS = (InputSpec(US, "hub", "input"), InputSpec(EU, "hub", "input"))
SPEC = TaskSpec("q.sink.hub", "q", "sink", StageKind.SINK, "", timedelta(0), inputs=INPUTS)
AT_ONCE = {"target_file_bytes": "1"}


class FullDisk(Files):
    """Refuses so many writes of Parquet files."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals

    def write(self, path: Path, parts: Sequence[bytes], *, sync: bool) -> None:
        if parts[0].startswith(b"PAR1") and self.refusals:
            self.refusals -= 1
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        super().write(path, parts, sync=sync)


class TellingProgress(Progress):
    """Remembers the states it was in, and why."""

    def __init__(self, started_s: float) -> None:
        super().__init__(started_s)
        self.entered: list[tuple[TaskState, str]] = []

    def enter(self, state: TaskState, reason: str = "") -> None:
        self.entered.append((state, reason.partition(":")[0]))
        super().enter(state, reason)


class TickingClock(VirtualClock):
    """A second passes whenever somebody looks."""

    def monotonic(self) -> float:
        self.elapsed_s += 1.0
        return self.elapsed_s


class Site:
    """One site's channels and a sink over two of them; made again over the same directory it is a restart."""

    def __init__(self, directory: Path, files: Files | None = None, options: Mapping[str, str] = AT_ONCE) -> None:
        self.out = directory / "out"
        self.store = ChannelStore(directory / "channels", files)
        self.router = Router("hub", self.store, connect)
        self.inputs = [self.store.open(i.channel) for i in INPUTS]
        self.directory = directory
        for log in self.inputs:
            log.set_consumers(["hub"])
        self.clock = VirtualClock()
        self.progress = Progress(0.0)
        self.sink = ParquetSink(files)
        self.options = {"connector": "parquet", "path": str(self.out), **options}

    def task(self, spec: TaskSpec = SPEC) -> SinkTask:
        context = TaskContext(
            site="hub",
            spec=spec,
            engine=TableEngine({}),
            log=self.store.open(SPEC.task_id),
            router=self.router,
            directory=self.directory / "task",
            dead_letters=self.directory / "task" / "dead-letters",
            executor=ThreadPoolExecutor(1),
            clock=self.clock,
            limits=TaskLimits(),
            progress=self.progress,
        )
        context.directory.mkdir(exist_ok=True)
        return SinkTask(context, self.sink, self.options)

    def publish(self, channel: str, *epochs: int, end: bool = False) -> None:
        log = self.store.open(channel)
        for epoch in epochs:
            log.publish(epoch, rows_of([(channel, epoch)]), watermark_us=epoch)
        if end:
            log.finish()


@asynccontextmanager
async def site(
    directory: Path, files: Files | None = None, options: Mapping[str, str] = AT_ONCE
) -> AsyncIterator[Site]:
    made = Site(directory, files, options)
    try:
        yield made
    finally:
        await made.router.close()


@asynccontextmanager
async def running(task: SinkTask) -> AsyncIterator[asyncio.Task[None]]:
    """Stopped at the end, as a runner stops it."""
    run = asyncio.create_task(task.run())
    try:
        yield run
    finally:
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run
        await task.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


def epochs(channel: str, count: int) -> list[Epoch]:
    return [(channel, epoch) for epoch in range(count)]


async def test_all_epochs_of_all_channels_are_written_and_acknowledged(tmp_path: Path) -> None:
    async with site(tmp_path) as hub:
        hub.publish(US, 0, 1)
        hub.publish(EU, 0)
        async with running(hub.task()) as run:
            await until(lambda: len(seen(hub.out)) == 3)
            hub.publish(US, 2, end=True)
            hub.publish(EU, end=True)
            await asyncio.wait_for(run, 20)

        assert seen(hub.out) == epochs(EU, 1) + epochs(US, 3)
        assert [log.epochs.retained_bytes for log in hub.inputs] == [0, 0]
        progress = hub.progress
        assert (progress.state, progress.watermark_us) == (TaskState.ENDED, END_OF_TIME_US)
        assert (progress.totals.rows_in, progress.totals.rows_out) == (4, 4)
        assert progress.totals.bytes_out == sum(p.stat().st_size for p in hub.out.glob("*.parquet"))
        assert not list((hub.out / "_selat").iterdir())


async def test_epochs_of_a_channel_that_continues_another_are_written_under_their_numbers(tmp_path: Path) -> None:
    new = "q.s1.us.g1"
    async with site(tmp_path) as hub:
        hub.publish(US, 0, 1)
        hub.store.open(US).finish_as(EndMark(1, new, "hub"))
        hub.store.open(new).set_consumers(["hub"])
        hub.store.open(new).begin_at(2)
        hub.publish(new, 2)
        async with running(hub.task()):
            await until(lambda: len(seen(hub.out)) == 3)
    # Restarted, when its spec names the new channel alone.
    async with site(tmp_path) as hub:
        hub.publish(new, 3, end=True)
        hub.publish(EU, end=True)
        listed = (InputSpec(new, "hub", "input", from_epoch=2), INPUTS[1])
        async with running(hub.task(replace(SPEC, inputs=listed))) as run:
            await asyncio.wait_for(run, 20)
        assert seen(hub.out) == [(US, 0), (US, 1), (new, 2), (new, 3)]


@pytest.mark.parametrize("rows_in", [0, 2], ids=["before it has restored", "while it reads"])
async def test_channels_join_while_it_runs(tmp_path: Path, rows_in: int) -> None:
    async with site(tmp_path) as hub:
        late = "q.s1.asia"
        hub.publish(US, 0, end=True)
        hub.publish(EU, 0)
        hub.store.open(late).set_consumers(["hub"])
        task = hub.task()
        async with running(task) as run:
            await asyncio.sleep(0)
            await until(lambda: hub.progress.totals.rows_in >= rows_in)
            await task.set_inputs([*INPUTS, InputSpec(late, "hub", "input")])
            hub.publish(late, 0, end=True)
            hub.publish(EU, end=True)
            await asyncio.wait_for(run, 20)

        assert seen(hub.out) == [*epochs(late, 1), *epochs(EU, 1), *epochs(US, 1)]


async def test_a_sink_that_begins_in_the_middle_says_from_when_on_it_is_whole(tmp_path: Path) -> None:
    async with site(tmp_path) as hub:
        hub.publish(US, 0, 1)
        hub.inputs[0].acknowledge("hub", 0)
        hub.publish(EU, 0)
        inputs = tuple(replace(item, read_from=ReadFrom.OLDEST, event_delay_us=50) for item in INPUTS)
        async with running(hub.task(replace(SPEC, inputs=inputs))):
            await until(lambda: len(seen(hub.out)) == 2)
        # The oldest epoch that is there has the watermark 1, and rows may be late by 50.
        assert hub.progress.starts_at_us == 52


async def test_small_epochs_share_a_file_and_wait_unacknowledged(tmp_path: Path) -> None:
    async with site(tmp_path, options={}) as hub:
        hub.publish(US, 0, 1, 2)
        async with running(hub.task()) as run:
            await until(lambda: hub.progress.measured.state_rows == 3)
            assert seen(hub.out) == []
            assert hub.inputs[0].readers.acknowledged("hub") is None
            hub.publish(US, end=True)
            hub.publish(EU, 0, end=True)
            await asyncio.wait_for(run, 20)
        assert len(list(hub.out.glob("*.parquet"))) == 1
        assert seen(hub.out) == epochs(EU, 1) + epochs(US, 3)


class NoRoomForSecond(Files):
    """The second commit's file does not fit."""

    def write(self, path: Path, parts: Sequence[bytes], *, sync: bool) -> None:
        if path.name == "2-0.tmp":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        super().write(path, parts, sync=sync)


FOUR_EPOCHS = {"target_file_bytes": str(4 * decode(encode(rows_of([(US, 0)]))).get_total_buffer_size())}


async def test_rows_that_wait_for_two_files_become_two_commits_one_after_the_other(tmp_path: Path) -> None:
    for files, there in ((NoRoomForSecond(), epochs(EU, 4)), (None, epochs(EU, 4) + epochs(US, 4))):
        async with site(tmp_path, files, options=FOUR_EPOCHS) as hub:
            if files is not None:
                hub.publish(US, *range(4), end=True)
                hub.publish(EU, *range(4), end=True)
            async with running(hub.task()) as run:
                await until(lambda: run.done() or hub.progress.state is TaskState.RETRYING)
                assert run.done() is (files is None)
            assert seen(hub.out) == there
            assert [log.epochs.retained_bytes > 0 for log in hub.inputs] == [files is not None] * 2
            ledger = Ledger(tmp_path / "task")
            ledger.load()
            assert (ledger.number, ledger.pending is None) == ((1, False) if files else (2, True))
            assert ledger.reached.totals.rows_out == len(there)
            assert ledger.reached.ended == (() if files else (EU, US))
    assert sorted(pq.read_metadata(path).num_rows for path in (tmp_path / "out").glob("*.parquet")) == [4, 4]


async def test_what_was_collected_and_not_committed_is_read_again(tmp_path: Path) -> None:
    async with site(tmp_path, options={}) as hub:
        hub.publish(US, 0)
        async with running(hub.task()):
            await until(lambda: hub.progress.measured.state_rows == 1)
    async with site(tmp_path, options={}) as hub:
        hub.publish(US, 1, end=True)
        hub.publish(EU, end=True)
        await asyncio.wait_for(hub.task().run(), 20)
        assert seen(hub.out) == epochs(US, 2)
        assert hub.progress.totals.rows_in == 2


async def test_a_commit_under_way_is_written_again_with_the_same_epochs(tmp_path: Path) -> None:
    async with site(tmp_path, FullDisk(refusals=10**9)) as hub:
        hub.publish(US, 0, 1)
        async with running(hub.task()):
            await until(lambda: hub.progress.state is TaskState.RETRYING)
    # More has come meanwhile; the commit keeps its number and its epochs.
    async with site(tmp_path) as hub:
        hub.publish(US, 2, end=True)
        hub.publish(EU, 0, end=True)
        await asyncio.wait_for(hub.task().run(), 20)
        first = sorted(hub.out.glob("*.parquet"))[0]
        assert first.name == "q-000000001.parquet"
        assert seen(hub.out) == epochs(EU, 1) + epochs(US, 3)
        assert hub.progress.totals.rows_out == 4


async def test_a_full_disk_is_waited_for_and_named(tmp_path: Path) -> None:
    disk = FullDisk(refusals=12)
    async with site(tmp_path, disk) as hub:
        hub.progress = told = TellingProgress(0.0)
        hub.publish(US, 0, end=True)
        hub.publish(EU, end=True)
        await asyncio.wait_for(hub.task().run(), 20)
        assert seen(hub.out) == epochs(US, 1)
    assert (TaskState.RETRYING, "No space left on device") in told.entered
    assert disk.refusals == 0


async def test_a_path_that_is_a_file_is_waited_for(tmp_path: Path) -> None:
    async with site(tmp_path) as hub:
        hub.out.write_text("in the way")
        hub.publish(US, 0, end=True)
        hub.publish(EU, end=True)
        async with running(hub.task()) as run:
            await until(lambda: hub.progress.state is TaskState.RETRYING)
            assert str(hub.out) in hub.progress.reason
            hub.out.unlink()
            await asyncio.wait_for(run, 20)
        assert seen(hub.out) == epochs(US, 1)
        assert hub.progress.state is TaskState.ENDED


async def test_a_query_goes_on_where_it_began_to_write(tmp_path: Path) -> None:
    async with site(tmp_path) as hub:
        hub.publish(US, 0)
        async with running(hub.task()):
            await until(lambda: len(seen(hub.out)) == 1)
    elsewhere = {**AT_ONCE, "path": str(tmp_path / "elsewhere"), "compression": "snappy"}
    async with site(tmp_path, options=elsewhere) as hub:
        hub.publish(US, 1, end=True)
        hub.publish(EU, end=True)
        await asyncio.wait_for(hub.task().run(), 20)
    assert seen(tmp_path / "out") == epochs(US, 2)
    assert not (tmp_path / "elsewhere").exists()


async def test_changed_options_count_from_now_on_and_wrong_ones_never(tmp_path: Path) -> None:
    async with site(tmp_path, options={}) as hub:
        hub.publish(US, 0)
        task = hub.task()
        async with running(task):
            await until(lambda: hub.progress.measured.state_rows == 1)
            task.reconfigure({"path": str(hub.out), "target_file_bytes": "a lot"})
            task.reconfigure({"path": str(hub.out), "target_file_bytes": "1"})
            hub.publish(US, 1)
            await until(lambda: len(seen(hub.out)) == 2)


async def test_an_ended_sink_stays_ended(tmp_path: Path) -> None:
    for _ in range(2):
        async with site(tmp_path) as hub:
            hub.publish(US, 0, end=True)
            hub.publish(EU, end=True)
            await asyncio.wait_for(hub.task().run(), 20)
            assert hub.progress.totals.rows_out == 1
            assert hub.progress.state is TaskState.ENDED
    assert seen(tmp_path / "out") == epochs(US, 1)


async def test_epochs_without_rows_are_acknowledged_and_make_no_file(tmp_path: Path) -> None:
    async with site(tmp_path, options={"roll_interval": "1 us"}) as hub:
        for epoch in range(3):
            hub.inputs[0].publish(epoch, None, watermark_us=epoch)
        hub.clock = TickingClock()
        async with running(hub.task()):
            await until(lambda: hub.inputs[0].readers.acknowledged("hub") == 2)
        assert seen(hub.out) == []
    ledger = Ledger(tmp_path / "task")
    ledger.load()
    assert (ledger.number, ledger.reached.cursors[US]) == (0, 3)


def test_rows_are_in_the_order_of_their_epochs() -> None:
    collected = Collected()
    for origin in ((US, 1), (EU, 0), (US, 0)):
        collected.add(origin, pa.table({"v": [f"{origin[0]}{origin[1]}"]}))
    assert collected.in_order().column("v").to_pylist() == [f"{EU}0", f"{US}0", f"{US}1"]
    assert {c: (r.first, r.next) for c, r in collected.ranges().items()} == {EU: (0, 1), US: (0, 2)}


def test_rows_are_cut_between_epochs_into_parts_of_like_size() -> None:
    collected = Collected()
    for epoch in (3, 0, 2, 1):
        collected.add((US, epoch), pa.table({"v": pa.array([epoch] * 10, pa.int64())}))
    collected.add((EU, 0), pa.table({"v": pa.array([9] * 10, pa.int64())}))

    def cut(size_bytes: int) -> list[list[int]]:
        return [part.in_order().column("v").to_pylist()[::10] for part in collected.cut(size_bytes)]

    assert cut(collected.size_bytes + 1) == cut(collected.size_bytes) == [[9, 0, 1, 2, 3]]
    assert cut(collected.size_bytes // 2) == [[9, 0, 1], [2, 3]]
    assert cut(collected.size_bytes // 5) == cut(1) == [[9], [0], [1], [2], [3]]
