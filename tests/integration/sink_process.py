"""A process with a sink and the two channels that it writes, to be killed at any moment and started again.

python -m tests.integration.sink_process DIRECTORY EPOCHS
"""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from machine.clock import SystemClock
from planner.values.stages import StageKind
from site_agent.channels.log import ChannelLog
from site_agent.channels.store import ChannelStore
from site_agent.connectors.registry import find_sink
from site_agent.exchange.options import connect
from site_agent.router import Router
from site_agent.tasks.context import TaskContext, TaskLimits
from site_agent.tasks.progress import Progress
from site_agent.tasks.sink import SinkTask
from site_agent.tasks.spec import InputSpec, TaskSpec
from tests.unit.site_agent.fakes import TableEngine

CHANNELS = ("q.s1.eu", "q.s1.us")
SPEC = TaskSpec(
    "q.sink.us",
    "q",
    "sink",
    StageKind.SINK,
    "",
    timedelta(0),
    inputs=tuple(InputSpec(channel, "us", "input") for channel in CHANNELS),
)
PARTITIONS = 3


def rows(channel: str, epoch: int) -> pa.Table | None:
    """What an epoch always holds; some hold nothing."""
    if epoch % 5 == 4:
        return None
    parts = [f"p{(epoch + offset) % PARTITIONS}" for offset in range(2)]
    return pa.table({"channel": [channel] * 2, "epoch": [epoch] * 2, "part": parts})


async def produce(log: ChannelLog, epochs: int) -> None:
    for epoch in range(log.next_epoch, epochs):
        log.publish(epoch, rows(log.id, epoch), watermark_us=epoch)
        await asyncio.sleep(0.01)
    log.finish()


async def run(directory: Path, epochs: int) -> None:
    store = ChannelStore(directory / "channels")
    router = Router("us", store, connect)
    logs = [store.open(channel) for channel in CHANNELS]
    for log in logs:
        log.set_consumers(["us"])
    context = TaskContext(
        site="us",
        spec=SPEC,
        engine=TableEngine({}),
        log=store.open(SPEC.task_id),
        router=router,
        directory=directory / "task",
        dead_letters=directory / "dead-letters",
        executor=ThreadPoolExecutor(1),
        clock=SystemClock(),
        limits=TaskLimits(),
        progress=Progress(0.0),
    )
    context.directory.mkdir(exist_ok=True)
    options = {
        "connector": "parquet",
        "path": str(directory / "out"),
        "roll_interval": "20 ms",
        "partition_by": "part",
    }
    task = SinkTask(context, find_sink(options), options)
    await asyncio.gather(task.run(), *(produce(log, epochs) for log in logs))
    await task.close()
    await router.close()


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2])))
