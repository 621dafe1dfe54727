from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest

from contract.tasks import TaskState
from planner.values.adapting import Degrade, Degrading
from planner.values.stages import StageKind
from site_agent.base.errors import EngineError
from site_agent.channels.pace import ChannelReader, QueryReaders
from site_agent.channels.store import ChannelStore
from site_agent.connectors.sources import Offset, Poll, ReadLimit
from site_agent.engine import ArrowScan, Field, MalformedRow
from site_agent.exchange.options import connect
from site_agent.router import Router
from site_agent.tasks.context import TaskContext, TaskLimits
from site_agent.tasks.progress import Progress
from site_agent.tasks.source import FIRST_LOOK_S, LEAST_EPOCH_ROWS, SourceTask, advance_watermark, read_limit
from site_agent.tasks.spec import RelationSpec, TaskSpec
from tests.unit.site_agent.fakes import TIMESTAMP, ListSource, TableEngine, VirtualClock

T = TypeVar("T")
RELATION = RelationSpec(
    name="events",
    columns=(Field("ts", "TIMESTAMP"), Field("v", "BIGINT")),
    event_time="ts",
    watermark_delay=timedelta(microseconds=3),
    options={"connector": "list", "idle_timeout": "5 seconds"},
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)
SPEC = TaskSpec("q.s1.us", "q", "s1", StageKind.SOURCE, "all", timedelta(seconds=1), RELATION)


def events(*times: int) -> pa.Table:
    return pa.table({"ts": pa.array(times, TIMESTAMP), "v": list(times)})


def context(tmp_path: Path, engine: TableEngine, *, retained_bytes: int = 10**9) -> TaskContext:
    store = ChannelStore(tmp_path / "channels")
    log = store.open(SPEC.task_id)
    log.set_consumers(["hub"])
    return TaskContext(
        site="us",
        spec=SPEC,
        engine=engine,
        log=log,
        router=Router("us", store, connect),
        directory=tmp_path,
        dead_letters=tmp_path / "dead-letters",
        executor=ThreadPoolExecutor(1),
        clock=VirtualClock(),
        limits=TaskLimits(retained_bytes_per_channel=retained_bytes),
        progress=Progress(0.0),
    )


def published(ctx: TaskContext) -> list[list[int]]:
    tables = [ctx.log.epochs.read(epoch) for epoch in range(ctx.log.next_epoch)]
    return [t.column("v").to_pylist() if t is not None else [] for t in tables]


def everything(table: pa.Table) -> pa.Table:
    return table


class GrowingSource(ListSource):
    """Has one row more at each poll, and ends with the tenth."""

    def __init__(self) -> None:
        super().__init__([])
        self.polls = 0

    def initial(self) -> Offset:
        return {"row": 0}

    def poll(self, start: Offset, *, now: datetime, limit: ReadLimit) -> Poll:
        self.polls += 1
        return Poll({"row": min(self.polls, 10)}, empty=False, ended=self.polls >= 10)

    def scan(self, start: Offset, end: Offset) -> ArrowScan:
        return ArrowScan(events(*range(int(str(start["row"])), int(str(end["row"])))))


class BusySlots(ThreadPoolExecutor):
    """Each epoch waits for its slot."""

    def __init__(self, clock: VirtualClock, wait_s: float) -> None:
        super().__init__(1)
        self._clock = clock
        self._wait_s = wait_s

    def submit(self, fn: Callable[..., T], /, *args: object, **kwargs: object) -> Future[T]:
        def later() -> T:
            self._clock.elapsed_s += self._wait_s
            return fn(*args, **kwargs)

        return super().submit(later)


@pytest.mark.parametrize(
    ("wait_s", "epochs"), [(0.0, [[n] for n in range(10)]), (1.0, [[n, n + 1] for n in range(0, 10, 2)])]
)
async def test_rows_that_come_while_an_epoch_waits_for_a_slot_are_in_it(
    tmp_path: Path, wait_s: float, epochs: list[list[int]]
) -> None:
    clock = VirtualClock()
    ctx = replace(context(tmp_path, TableEngine({"all": everything})), clock=clock, executor=BusySlots(clock, wait_s))
    await SourceTask(ctx, RELATION, GrowingSource()).run()
    assert published(ctx) == epochs
    assert (ctx.progress.figures(clock.elapsed_s).waiting_ratio > 0.9) == bool(wait_s)


async def test_each_poll_becomes_one_epoch_and_the_end_ends_the_channel(tmp_path: Path) -> None:
    ctx = context(tmp_path, TableEngine({"all": everything}))

    await SourceTask(ctx, RELATION, ListSource([events(1, 2), events(10), events(12)])).run()

    assert published(ctx) == [[1, 2], [10], [12]]
    assert [ctx.log.epochs.manifest(e).watermark_us for e in range(3)] == [-1, 7, 9]
    assert ctx.log.end is not None
    assert ctx.progress.state is TaskState.ENDED
    assert (ctx.progress.totals.rows_in, ctx.progress.totals.rows_out) == (4, 4)


async def test_rows_behind_the_watermark_are_counted_and_dropped(tmp_path: Path) -> None:
    ctx = context(tmp_path, TableEngine({"all": everything}))

    await SourceTask(ctx, RELATION, ListSource([events(10), events(6, 7, 11)])).run()

    assert published(ctx) == [[10], [7, 11]]
    assert ctx.progress.totals.rows_late == 1


async def test_malformed_rows_are_counted_and_set_aside_by_epoch(tmp_path: Path) -> None:
    engine = TableEngine({"all": everything})
    bad = MalformedRow("/data/a.csv", "why", "x")
    engine.malformed = [(bad, bad), (), (bad,)]
    ctx = context(tmp_path, engine)

    await SourceTask(ctx, RELATION, ListSource([events(1), events(2), events(3)])).run()

    assert published(ctx) == [[1], [2], [3]]
    assert ctx.progress.totals.rows_malformed == 3
    counts = {path.name: len(path.read_text().splitlines()) for path in ctx.dead_letters.iterdir()}
    assert counts == {"000000000000.jsonl": 2, "000000000002.jsonl": 1}
    again = context(tmp_path, engine)
    await SourceTask(again, RELATION, ListSource([events(1), events(2), events(3)])).run()
    assert again.progress.totals.rows_malformed == 3


async def test_after_a_failed_epoch_a_new_run_goes_on_where_the_channel_ends(tmp_path: Path) -> None:
    engine = TableEngine({"all": everything})
    ctx = context(tmp_path, engine)
    source = ListSource([events(1), events(2), events(3)], ends=False)
    engine.failures = []
    task = SourceTask(ctx, RELATION, ListSource([events(1), events(2)]))
    engine.failures = [EngineError("no memory")]
    with pytest.raises(EngineError):
        await task.run()
    assert published(ctx) == []

    await SourceTask(ctx, RELATION, ListSource([events(1), events(2)])).run()

    assert published(ctx) == [[1], [2]]
    assert source.initial() == {"group": 0}


async def test_a_restart_neither_repeats_nor_skips(tmp_path: Path) -> None:
    engine = TableEngine({"all": everything})
    first = context(tmp_path, engine)
    groups = [events(1), events(2), events(3)]
    engine.failures = []

    class Stops(ListSource):
        def scan(self, start, end):  # type: ignore[no-untyped-def]
            if start["group"] == 2:
                raise EngineError("killed")
            return super().scan(start, end)

    with pytest.raises(EngineError):
        await SourceTask(first, RELATION, Stops(groups)).run()
    second = context(tmp_path, engine)

    await SourceTask(second, RELATION, ListSource(groups)).run()

    assert published(second) == [[1], [2], [3]]
    assert second.progress.totals.rows_in == 3


async def test_a_silent_source_says_so_once_after_its_idle_timeout(tmp_path: Path) -> None:
    ctx = context(tmp_path, TableEngine({"all": everything}))
    quiet: list[pa.Table | None] = [None] * 12

    await SourceTask(ctx, RELATION, ListSource([events(10), *quiet, events(20)])).run()

    assert published(ctx) == [[10], [], [20]]
    assert [ctx.log.epochs.manifest(e).idle for e in range(3)] == [False, True, False]


async def test_before_the_first_rows_it_looks_sooner(tmp_path: Path) -> None:
    ctx = context(tmp_path, TableEngine({"all": everything}))
    pauses_s: list[float] = []

    class Noting(VirtualClock):
        async def sleep(self, seconds: float) -> None:
            pauses_s.append(round(seconds, 3))
            await super().sleep(seconds)

    object.__setattr__(ctx, "clock", Noting())
    quiet: list[pa.Table | None] = [None] * 8

    await SourceTask(ctx, RELATION, ListSource([*quiet, events(10), None, events(20)])).run()

    interval_s = ctx.spec.epoch_interval.total_seconds()
    looks_s = [min(FIRST_LOOK_S * 2**n, interval_s) for n in range(8)]
    assert pauses_s == [*looks_s, interval_s, interval_s]


async def test_a_full_channel_stops_the_intake_until_it_is_read(tmp_path: Path) -> None:
    ctx = context(tmp_path, TableEngine({"all": everything}), retained_bytes=1)
    seen: list[TaskState] = []

    class Reader(VirtualClock):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            seen.append(ctx.progress.state)
            if ctx.progress.state is TaskState.BACK_PRESSURED:
                ctx.log.acknowledge("hub", ctx.log.next_epoch - 1)

    object.__setattr__(ctx, "clock", Reader())

    await SourceTask(ctx, RELATION, ListSource([events(10), events(11)])).run()

    assert TaskState.BACK_PRESSURED in seen
    assert ctx.log.next_epoch == 2


async def test_a_site_beyond_its_disk_budget_reads_nothing_until_there_is_room(tmp_path: Path) -> None:
    reasons = ["too much", "", "", "too much", ""]
    ctx = context(tmp_path, TableEngine({"all": everything}))
    seen: list[tuple[TaskState, str, int]] = []

    class Watcher(VirtualClock):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            if ctx.progress.state is TaskState.BACK_PRESSURED:
                seen.append((ctx.progress.state, ctx.progress.reason, ctx.log.next_epoch))

    object.__setattr__(ctx, "clock", Watcher())
    object.__setattr__(ctx, "disk_full", lambda: reasons.pop(0) if reasons else "")

    await SourceTask(ctx, RELATION, ListSource([events(10), events(11), events(12)])).run()

    assert seen == [(TaskState.BACK_PRESSURED, "too much", 0), (TaskState.BACK_PRESSURED, "too much", 2)]
    assert published(ctx) == [[10], [11], [12]]


async def test_results_that_are_kept_for_clients_hold_nobody_back(tmp_path: Path) -> None:
    ctx = context(tmp_path, TableEngine({"all": everything}), retained_bytes=1)
    ctx.log.set_consumers(["us"])
    await ctx.router.subscribe(SPEC.task_id, "us", "results:q", keeps=True)
    await SourceTask(ctx, RELATION, ListSource([events(10), events(11)])).run()
    assert (ctx.log.next_epoch, ctx.log.first_epoch, ctx.log.readers.awaited_bytes) == (2, 0, 0)
    assert ctx.log.epochs.retained_bytes > 1
    # A reader beside it that has to take them does.
    await ctx.router.subscribe(SPEC.task_id, "us", "q.m1.us")
    assert (ctx.log.readers.awaited_bytes, ctx.log.readers.slowest_consumers) == (
        ctx.log.epochs.retained_bytes,
        ("us",),
    )
    ctx.router.acknowledge(SPEC.task_id, "q.m1.us", 1)
    assert (ctx.log.readers.awaited_bytes, ctx.log.first_epoch) == (0, 0)
    await ctx.router.unsubscribe(SPEC.task_id, "q.m1.us")
    await ctx.router.unsubscribe(SPEC.task_id, "results:q")
    assert ctx.log.readers.awaited_bytes == ctx.log.epochs.retained_bytes


@pytest.mark.parametrize(
    ("rows", "size_bytes", "budget_bytes", "wanted"),
    [
        (1000, 100_000, 10_000_000, 25_000),
        (1000, 100_000, 10_000, LEAST_EPOCH_ROWS),
        (1000, 10, 1 << 30, ReadLimit().rows),
        (1000, 0, 10_000, ReadLimit().rows),
        (0, 500, 10_000, ReadLimit().rows),
    ],
    ids=["a part of the budget", "never few", "never more than any epoch", "no bytes", "no rows"],
)
def test_an_epoch_is_a_quarter_of_what_the_channel_may_keep(
    rows: int, size_bytes: int, budget_bytes: int, wanted: int
) -> None:
    assert read_limit(rows, size_bytes, budget_bytes) == ReadLimit(rows=wanted)


async def test_what_came_while_a_source_waited_is_read_in_parts(tmp_path: Path) -> None:
    limits: list[int] = []

    class Asked(ListSource):
        def poll(self, start: Offset, *, now: datetime, limit: ReadLimit) -> Poll:
            limits.append(limit.rows)
            return super().poll(start, now=now, limit=limit)

    many = events(*range(1000))
    ctx = context(tmp_path, TableEngine({"all": everything}), retained_bytes=1_000_000)
    await SourceTask(ctx, RELATION, Asked([many, many])).run()
    assert limits == [ReadLimit().rows, 250_000_000 // ctx.log.epochs.manifest(0).size_bytes]


async def test_rows_that_are_left_out_are_counted_and_move_the_watermark(tmp_path: Path) -> None:
    clock = VirtualClock()

    class Slow(ListSource):
        """Each poll finds rows left outside, and ten seconds have gone by."""

        def poll(self, start: Offset, *, now: datetime, limit: ReadLimit) -> Poll:
            clock.elapsed_s += 10
            return replace(super().poll(start, now=now, limit=limit), lag_rows=5)

    ctx = context(tmp_path, TableEngine({"all": everything}))
    object.__setattr__(ctx, "clock", clock)
    allowed = Degrading(Degrade.LATE, timedelta(seconds=25))
    object.__setattr__(ctx, "spec", replace(SPEC, degrading=allowed))
    await SourceTask(ctx, RELATION, Slow([events(time) for time in (10, 20, 30, 40)])).run()
    totals = ctx.progress.totals
    assert published(ctx) == [[10], [20], [], []]
    assert (totals.rows_in, totals.rows_out, totals.rows_late, totals.rows_shed) == (4, 2, 0, 2)
    last = ctx.log.epochs.last_manifest
    assert last is not None
    assert last.watermark_us == 40 - RELATION.watermark_delay // timedelta(microseconds=1)


async def test_a_query_that_does_not_read_stops_the_intake_only_when_it_is_far_behind(tmp_path: Path) -> None:
    ctx = context(tmp_path, TableEngine({"all": everything}), retained_bytes=1)
    size_bytes = 2500
    object.__setattr__(
        ctx, "limits", TaskLimits(retained_bytes_per_channel=1, kept_behind_bytes_per_channel=size_bytes)
    )
    fast, slow = QueryReaders("a", (ChannelReader("hub", "a.m"),)), QueryReaders("b", (ChannelReader("hub", "b.m"),))
    ctx.log.readers.set_queries([fast, slow])
    seen: list[tuple[int, str]] = []

    class Reader(VirtualClock):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            ctx.log.readers.passed("hub", "a.m", ctx.log.next_epoch)
            behind = ctx.limits.pressure_of(ctx.log).behind
            if any(b.left for b in behind) and ctx.progress.state is TaskState.BACK_PRESSURED:
                seen.append((behind[0].size_bytes, ctx.progress.reason))
                # As when the query has failed: nobody waits for it any more.
                ctx.log.readers.set_queries([fast])
                ctx.log.acknowledge("hub", ctx.log.next_epoch - 1)

    object.__setattr__(ctx, "clock", Reader())

    await SourceTask(ctx, RELATION, ListSource([events(time) for time in range(10, 22)])).run()

    ((behind_bytes, reason),) = seen
    assert size_bytes < behind_bytes < 2 * size_bytes
    assert reason == f"{behind_bytes} bytes of {SPEC.task_id} wait for query b at hub, which is left behind"
    assert ctx.log.next_epoch == 12


@pytest.mark.parametrize(
    ("before", "newest", "floor", "after"),
    [
        (None, None, None, None),
        (None, 10, None, 7),
        (9, 10, None, 9),
        (9, 20, None, 17),
        (9, None, 15, 15),
        (9, 10, 8, 9),
    ],
)
def test_the_watermark_never_goes_back(
    before: int | None, newest: int | None, floor: int | None, after: int | None
) -> None:
    assert advance_watermark(before, max_event_time_us=newest, delay_us=3, floor_us=floor) == after


async def test_a_source_that_starts_anew_is_not_idle_until_it_was_silent_again(tmp_path: Path) -> None:
    quiet: list[pa.Table | None] = [None] * 8
    first = context(tmp_path, TableEngine({"all": everything}))
    running = asyncio.create_task(SourceTask(first, RELATION, ListSource([events(10), *quiet], ends=False)).run())
    await asyncio.wait_for(first.log.state.wait(1), 10)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert first.log.epochs.manifest(1).idle

    again = context(tmp_path, TableEngine({"all": everything}))
    await SourceTask(again, RELATION, ListSource([events(10), *quiet, *quiet, events(20)])).run()

    marks = [(m.watermark_us, m.idle) for m in map(again.log.epochs.manifest, range(again.log.next_epoch))]
    assert marks == [(7, False), (7, True), (7, False), (7, True), (17, False)]
    assert published(again) == [[10], [], [], [], [20]]
    assert again.progress.totals.rows_in == 2
