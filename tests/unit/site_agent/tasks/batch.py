"""A site on which tasks of batch queries run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from site_agent.channels.log import ChannelLog
from site_agent.channels.store import ChannelStore
from site_agent.exchange.options import connect
from site_agent.router import Router
from site_agent.tasks.context import TaskContext, TaskLimits
from site_agent.tasks.progress import Progress
from site_agent.tasks.spec import TaskSpec
from tests.unit.site_agent.fakes import TableEngine, VirtualClock


class BatchSite:
    """`hub`, with its channels; made again over the same directory it is a restart."""

    def __init__(self, directory: Path, engine: TableEngine) -> None:
        self.directory = directory
        self.engine = engine
        self.store = ChannelStore(directory / "channels")
        self.router = Router("hub", self.store, connect)

    def context(self, spec: TaskSpec, limits: TaskLimits | None = None) -> TaskContext:
        return TaskContext(
            site="hub",
            spec=spec,
            engine=self.engine,
            log=self.store.open(spec.task_id),
            router=self.router,
            directory=self.directory / "task",
            dead_letters=self.directory / "dead-letters",
            executor=ThreadPoolExecutor(1),
            clock=VirtualClock(),
            limits=limits or TaskLimits(),
            progress=Progress(0.0),
        )

    def channel(self, name: str, *epochs: pa.Table, ends: bool = True) -> ChannelLog:
        """A channel of this site with these epochs."""
        log = self.store.open(name)
        log.set_consumers(["hub"])
        for epoch, rows in enumerate(epochs):
            log.publish(epoch, rows, watermark_us=None)
        if ends:
            log.finish()
        return log

    async def close(self) -> None:
        await self.router.close()
