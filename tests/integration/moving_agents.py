"""The sites of tests/integration/moving_sites.py in one process: what the agents do, without their deaths."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from machine.clock import SystemClock
from selat.v1 import site_pb2
from site_agent.agent.convert import assignment_from_proto, status_to_proto
from site_agent.agent.runtime import SiteRuntime, SiteServices
from site_agent.channels.store import ChannelStore
from site_agent.exchange.options import connect
from site_agent.host import start_exchange
from site_agent.router import Router
from tests.e2e.faults import free_port
from tests.integration import crash_site
from tests.integration.crash_site import HOLD, LIMITS, GroupsConnector
from tests.integration.moving_sites import MAY_YIELD, MOVING_SITES, SMALL_WINDOWS, Move, Statements, Step
from tests.unit.site_agent.fakes import TableEngine

FUNCTIONS = {
    "partials": crash_site.partials,
    "combined": crash_site.combined,
    "merged": crash_site.merged,
    "classes": crash_site.classes,
    "combined classes": crash_site.combined_classes,
    "merged classes": crash_site.merged_classes,
}


@dataclass
class Agents:
    """Stands in for the master, and for the processes of the sites."""

    root: Path
    addresses: dict[str, str]
    step: Step
    stacks: dict[str, AsyncExitStack] = field(default_factory=dict)
    runtimes: dict[str, SiteRuntime] = field(default_factory=dict)

    async def start(self, site: str) -> None:
        """Start a site, which does what it was told last."""
        stack = self.stacks[site] = AsyncExitStack()
        directory = self.root / site
        engine = TableEngine(FUNCTIONS)
        store = ChannelStore(directory / "channels")
        router = Router(site, store, connect)
        await start_exchange(self.addresses[site], store, engine, stack)
        services = SiteServices(
            site=site,
            directory=directory,
            engine=engine,
            store=store,
            router=router,
            executor=ThreadPoolExecutor(1),
            clock=SystemClock(),
            connectors={"groups": GroupsConnector(self.root / HOLD)},
            limits=LIMITS,
        )
        runtime = self.runtimes[site] = SiteRuntime(services)
        stack.push_async_callback(router.close)
        stack.push_async_callback(runtime.close)
        await self.give_to(site)

    async def stop(self, site: str) -> None:
        await self.stacks.pop(site).aclose()

    async def give(self, step: Step) -> None:
        self.step = step
        for site in MOVING_SITES:
            await self.give_to(site)

    async def until(self, site: str, task: str, condition: Callable[[site_pb2.TaskStatus], object]) -> None:
        while not condition(self.status(site, task)):
            await asyncio.sleep(0.01)

    def status(self, site: str, task: str) -> site_pb2.TaskStatus:
        return status_to_proto(self.runtimes[site].runners[task].status(), site)

    async def complete(self) -> None:
        while not all(r.complete for site in ("ewr", "sfo") for r in self.runtimes[site].results.statuses()):
            await asyncio.sleep(0.01)

    async def give_to(self, site: str) -> None:
        await self.runtimes[site].apply(assignment_from_proto(self.step.assignment(site)))


@asynccontextmanager
async def moving_agents(root: Path, statements: Statements = SMALL_WINDOWS) -> AsyncIterator[tuple[Move, Agents]]:
    (root / HOLD).write_text(str(MAY_YIELD[1]))
    addresses = {site: f"127.0.0.1:{free_port()}" for site in MOVING_SITES}
    agents = Agents(root, addresses, Step(1, 1, addresses, statements))
    try:
        for site in MOVING_SITES:
            await agents.start(site)
        yield Move(root, agents, addresses, statements), agents
    finally:
        for site in list(agents.stacks):
            await agents.stop(site)
