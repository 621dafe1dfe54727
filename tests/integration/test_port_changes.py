"""Channels join and leave a merge's port under load: real exchange servers, a real router, real Spark."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from machine.clock import SystemClock
from planner.values.stages import StageKind
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import EndMark
from site_agent.channels.store import ChannelStore
from site_agent.engine.spark import SparkEngine
from site_agent.exchange.options import connect
from site_agent.host import start_exchange
from site_agent.router import Router
from site_agent.tasks.context import TaskContext, TaskLimits
from site_agent.tasks.merge import MergeTask
from site_agent.tasks.progress import Progress
from site_agent.tasks.spec import InputSpec, TaskSpec, ViewSpec, WindowSpec
from tests.seeds import random_of

pytestmark = pytest.mark.spark

WINDOW_US = 1_000_000
COMBINE = "SELECT _window_start, _k0, sum(_p0) AS _p0 FROM input GROUP BY _window_start, _k0"
MERGE = "SELECT _window_start AS s, _k0 AS k, sum(_p0) AS n FROM input GROUP BY _window_start, _k0"
SPEC = TaskSpec(
    "q.m1.hub",
    "q",
    "m1",
    StageKind.MERGE,
    MERGE,
    timedelta(milliseconds=50),
    window=WindowSpec("_window_start", WINDOW_US, WINDOW_US, (ViewSpec("input", COMBINE),)),
)
Counts = Counter[tuple[int, str]]


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


def partials(rng: random.Random, floor_us: int, sent: Counts) -> pa.Table:
    """A few partial rows at or after the floor, noted in `sent`."""
    rows = [
        ((floor_us // WINDOW_US + rng.randrange(3)) * WINDOW_US, rng.choice("abc"), rng.randrange(1, 5))
        for _ in range(rng.randrange(1, 40))
    ]
    for start, key, count in rows:
        sent[start, key] += count
    starts = pa.array([r[0] for r in rows], pa.timestamp("us", tz="UTC"))
    return pa.table({"_window_start": starts, "_k0": [r[1] for r in rows], "_p0": pa.array([r[2] for r in rows])})


async def produce(log: ChannelLog, *, epochs: int, floor_us: int, sent: Counts) -> int:
    """Publish epochs whose watermark moves on; returns the last watermark."""
    rng = random_of(log.id)
    for _ in range(epochs):
        rows = partials(rng, floor_us, sent)
        floor_us += rng.randrange(WINDOW_US // 4)
        await asyncio.to_thread(log.publish, log.next_epoch, rows, watermark_us=floor_us)
        await asyncio.sleep(0.01)
    return floor_us


def merge_at_hub(root: Path, engine: SparkEngine, router: Router) -> tuple[MergeTask, TaskContext]:
    log = router.store.open(SPEC.task_id)
    log.set_consumers(["hub"])
    context = TaskContext(
        site="hub",
        spec=SPEC,
        engine=engine,
        log=log,
        router=router,
        directory=root / "task",
        dead_letters=root / "task" / "dead-letters",
        executor=ThreadPoolExecutor(1),
        clock=SystemClock(),
        limits=TaskLimits(checkpoint_bytes=4096),
        progress=Progress(0.0),
    )
    assert SPEC.window is not None
    return MergeTask(context, SPEC.window), context


def emitted(log: ChannelLog) -> Counts:
    counts: Counts = Counter()
    for epoch in range(log.next_epoch):
        table = log.epochs.read(epoch)
        for row in table.to_pylist() if table is not None else []:
            place = (round(row["s"].timestamp() * 1e6), row["k"])
            assert place not in counts, f"{place} was emitted twice"
            counts[place] = row["n"]
    return counts


@pytest.mark.seeded
async def test_channels_join_and_leave_under_load(
    tmp_path: Path, spark_engine: SparkEngine, stack: AsyncExitStack
) -> None:
    sent: Counts = Counter()
    logs, addresses = {}, {}
    for site in ("us", "eu", "asia"):
        store = ChannelStore(tmp_path / site)
        logs[site] = store.open(f"q.s1.{site}")
        logs[site].set_consumers(["hub"])
        addresses[site] = await start_exchange("127.0.0.1:0", store, spark_engine, stack)
    router = Router("hub", ChannelStore(tmp_path / "hub"), connect)
    stack.push_async_callback(router.close)
    router.set_addresses(addresses)
    inputs = {site: InputSpec(f"q.s1.{site}", site, "input") for site in logs}
    merge, context = merge_at_hub(tmp_path, spark_engine, router)

    running = asyncio.create_task(merge.run())
    await merge.set_inputs([inputs["us"], inputs["eu"]])
    us = asyncio.create_task(produce(logs["us"], epochs=150, floor_us=0, sent=sent))
    eu_floor = await produce(logs["eu"], epochs=40, floor_us=0, sent=sent)
    # asia joins while us and eu publish; its rows begin where the port has not closed windows yet.
    await produce(logs["eu"], epochs=5, floor_us=eu_floor, sent=sent)
    await merge.set_inputs([*inputs.values()])
    asia = asyncio.create_task(produce(logs["asia"], epochs=60, floor_us=eu_floor + 20 * WINDOW_US, sent=sent))
    # eu leaves: its channel ends and names the channel that goes on, which the port joins by itself.
    successor_store = ChannelStore(tmp_path / "us2")
    successor = successor_store.open("q.s1.us2")
    successor.set_consumers(["hub"])
    successor.begin_at(logs["eu"].next_epoch)
    addresses["us2"] = await start_exchange("127.0.0.1:0", successor_store, spark_engine, stack)
    router.set_addresses(addresses)
    logs["eu"].finish_as(EndMark(logs["eu"].next_epoch - 1, successor.id, "us2"))
    floor_us = logs["eu"].epochs.last_manifest.watermark_us if logs["eu"].epochs.last_manifest else 0
    assert floor_us is not None
    await produce(successor, epochs=60, floor_us=floor_us, sent=sent)
    await us
    await asia
    for log in (logs["us"], logs["asia"], successor):
        log.finish()
    await asyncio.wait_for(running, 60)

    assert emitted(context.log) == sent
    assert context.progress.totals.rows_late == 0
