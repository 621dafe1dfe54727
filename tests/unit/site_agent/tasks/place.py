"""A site at which tests run tasks: with channels, a router and an engine, and without agents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

from site_agent.channels.store import ChannelStore
from site_agent.exchange.options import connect
from site_agent.router import Router
from site_agent.state.memory import StateMemory
from site_agent.tasks.context import TaskContext, TaskLimits
from site_agent.tasks.progress import Progress
from site_agent.tasks.spec import TaskSpec
from tests.unit.site_agent.fakes import TableEngine, VirtualClock


class Place:
    """`hub`, with its channels; made again over the same directory it is a restart."""

    def __init__(
        self,
        directory: Path,
        engine: TableEngine,
        limits: TaskLimits | None = None,
        memory: StateMemory | None = None,
    ) -> None:
        self.directory = directory
        self.engine = engine
        self.limits = limits or TaskLimits()
        self.memory = memory or StateMemory()
        self.store = ChannelStore(directory / "channels")
        self.router = Router("hub", self.store, connect)

    def context(self, spec: TaskSpec, limits: TaskLimits | None = None) -> TaskContext:
        return TaskContext(
            site="hub",
            spec=spec,
            engine=self.engine,
            log=self.store.open(spec.task_id),
            router=self.router,
            directory=self.directory / spec.task_id,
            dead_letters=self.directory / "dead-letters",
            executor=ThreadPoolExecutor(1),
            clock=VirtualClock(),
            limits=limits or self.limits,
            progress=Progress(0.0),
            memory=self.memory,
        )

    @asynccontextmanager
    async def handing_over(self, inputs: Iterable[str], old: str, new: str) -> AsyncIterator[None]:
        """Keep for the task `new`, before it has begun, all that it needs, and the results of both; close the router
        at the end of the block."""
        for channel in (*inputs, old):
            await self.router.subscribe(channel, "hub", new)
        for channel in (old, new):
            await self.router.subscribe(channel, "hub", "results:q", keeps=True)
        try:
            yield
        finally:
            await self.router.close()
