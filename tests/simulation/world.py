"""A cluster of simulated machines: the product's own master and agents, started and killed."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any

from machine import faults
from machine.description import Description
from master.adaptation.journal import Journal
from master.base.faults import FaultPoint as MasterPoint
from master.config.values import MasterConfig
from master.events.sqlite import SqliteEvents
from master.server import Master, Surroundings, serving
from master.store.sqlite import SqliteStore
from master.wan.sqlite_history import SqliteLinkHistory
from planner.relations.connectors.parquet import COMPRESSION, PATH
from planner.sharing.modes import Sharing
from planner.values.topology import Link, Site, Topology
from site_agent.agent.loops import AgentIdentity, SiteAgent, running
from site_agent.agent.runtime import SiteRuntime, SiteServices
from site_agent.base import posix
from site_agent.channels.store import ChannelStore
from site_agent.connectors.parquet.sink import Layout, ParquetSink, ParquetWriter
from site_agent.connectors.push import PushConnector
from site_agent.engine import Engine
from site_agent.exchange.options import CLIENT_OPTIONS, connector
from site_agent.exchange.outbound import Outbound
from site_agent.host import Guests, start_exchange
from site_agent.ingest.streams import PushStreams
from site_agent.router import Router
from site_agent.router.pull import PullSettings
from site_agent.slots.follow import following_slots
from site_agent.slots.guard import SlotGuard
from site_agent.state.memory import StateMemory
from site_agent.tasks.context import TaskLimits
from site_agent.tasks.crashes import Crashes
from site_agent.tasks.pool import SendPool
from tests.simulation.disk import Disk
from tests.simulation.engine import SimulatedEngine, computed, recorded
from tests.simulation.epochs import Epochs
from tests.simulation.faults import Failing, KillAtPoint
from tests.simulation.loop import PROCESS, Pool, Process, SimulatedLoop
from tests.simulation.memo import Memo
from tests.simulation.net.network import Network
from tests.simulation.paths import SimulatedCalls, on
from tests.simulation.plan import MASTER, SLOTS, Plan
from tests.simulation.rows import BEGIN
from tests.simulation.slots import ahead_of_slots
from tests.simulation.sources import Connector, Shape
from tests.simulation.trace import Trace
from wire.channels import aio_channel
from wire.names import MASTER as MASTER_MEMBER
from wire.security import Security

MASTER_ADDRESS = f"{MASTER}:7410"
AGENT_PORT = 7001
LEAST_EPOCH_S = 0.02
MOST_EPOCH_S = 0.3
CONFIG = MasterConfig(probes=False, epoch_interval=timedelta(seconds=4), report_interval=timedelta(seconds=3))

SHARED = "SELAT_SIMULATION_MEMO"
"""Names the directory in which the processes of a run share what their engines gave."""
MEMO = Memo(computed, Path(os.environ[SHARED]) if SHARED in os.environ else None)


class Clock:
    """See `machine.clock.Clock`."""

    def __init__(self, loop: SimulatedLoop, ahead_s: Callable[[], float]) -> None:
        self._loop = loop
        self._ahead_s = ahead_s

    def now(self) -> datetime:
        return BEGIN + timedelta(microseconds=round((self._loop.time() + self._ahead_s()) * 1e6))

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Sink(ParquetSink):
    """See ParquetSink: its paths are of a simulated disk."""

    def __init__(self, disk: Disk) -> None:
        super().__init__()
        self._disk = disk

    def open(self, options: Mapping[str, str], query_id: str) -> ParquetWriter:
        layout = Layout(on(self._disk, PATH.of(options)), (), COMPRESSION.of(options))
        return ParquetWriter(layout, query_id, self._files, self._allowed)


class World:
    """All machines of one schedule.

    Args:
        loop: Belongs to this world alone.
        plan: Says which machines there are, and at which points they are killed.
        trace: Takes a line for all that happens.
        engine: Makes the engine of a site.
    """

    def __init__(
        self, loop: SimulatedLoop, plan: Plan, trace: Trace, engine: Callable[[], Engine] | None = None
    ) -> None:
        self.loop, self.plan, self.trace = loop, plan, trace
        # A drawn query is computed once: nobody else would look it up.
        memo = Memo(computed) if plan.answers else MEMO
        self._engine = engine or (lambda: SimulatedEngine(memo, recorded(), plan.answers))
        self.network = Network(loop, Random(f"{plan.seed}/network"), trace)
        self.security = Security(transport=self.network)
        self.running: dict[str, Process] = {}
        self.runtimes: dict[str, SiteRuntime] = {}
        self.stores: dict[str, ChannelStore] = {}
        self.failures: list[str] = []
        """Ends of processes that nobody has killed."""
        self.stalled: list[str] = []
        """What did not come in time."""
        self.orders: list[asyncio.Task[None]] = []
        """What the client does beside following results."""
        self.slots: list[str] = []
        """It lists where tasks began that had no slot."""
        self.errors: list[str] = []
        """What was logged as an error."""
        self.faults = 0
        random = Random(f"{plan.seed}/disks")
        self.disks = {site: Disk(Random(random.getrandbits(64)), self.now_s) for site in plan.sites}
        again = any(isinstance(fault, Failing) for fault in plan.faults)
        self.epochs = Epochs(whole=plan.parts == 1, again=again)
        for site, disk in self.disks.items():
            disk.durable = partial(self.epochs.durable, site)
        self.skews_s = {MASTER: 0.0, **dict(zip_longest(plan.sites, plan.skews_s, fillvalue=0.0))}
        """How far each machine's clock is ahead."""
        self.released = False
        """Sources of bursts may send the last ones."""
        self._random = Random(f"{plan.seed}/ids")
        self._serving: Master | None = None
        """The master that runs, or ran last."""
        self._passages: Counter[tuple[str, str]] = Counter()
        self._points = {(f.name, f.point, f.passage): f for f in plan.faults if isinstance(f, KillAtPoint)}
        links = {
            (a, b): Link(a, b, 2.5e6, timedelta(milliseconds=20)) for a in plan.sites for b in plan.sites if a != b
        }
        self._topology = Topology({site: Site(site, slots=SLOTS) for site in plan.sites}, links, plan.sites[0])
        self._state, self._history, self._events, self._decisions = (
            sqlite3.connect(":memory:", isolation_level=None) for _ in "abcd"
        )

    def tell(self, event: str, **values: object) -> None:
        """Add an event to the trace."""
        said = " ".join(f"{key}={value}" for key, value in values.items())
        self.trace(f"{self.loop.time():.6f} world {event} {said}")

    def start(self, name: str) -> None:
        """Start a machine's process, unless it runs."""
        if name not in self.running:
            process = self.running[name] = Process(name)
            process.threads = Pool(6, most_s=self.plan.slow_s)
            self.tell("start", name=name)
            task = self.loop.spawn(process, self._process(name))
            task.add_done_callback(lambda done: self._ended(name, process, done), context=self.loop.world.context())

    def kill(self, name: str, *, power: bool = False, away_s: float) -> None:
        """End a machine's process, or its power, and start it again after a while."""
        process = self.running.pop(name, None)
        if process is None:
            return
        self.faults += 1
        self.tell("kill", name=name, power=power, away_s=f"{away_s:.3f}")
        self.loop.kill(process)
        self.network.died(process, power=power)
        if name == MASTER:
            # Commits of the state are durable; the transaction that was open is not.
            for connection in (self._state, self._history, self._events, self._decisions):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        elif power:
            self.disks[name].lose_power()
        self.loop.call_later(away_s, self.start, name, context=self.loop.world.context())

    def passages(self, point: Enum) -> int:
        """Return how often processes have passed a point."""
        return sum(count for (_, name), count in self._passages.items() if name == point.value)

    def passed(self, point: Enum) -> bool:
        """See `machine.faults.Points`. Raises ProcessKilled when the plan ends the process here."""
        process = PROCESS.get(None)
        if process is None:
            return False
        process.check()
        self._passages[process.name, point.value] += 1
        if point is MasterPoint.ASSIGNMENT_SENDING and self._serving is not None:
            self.slots += ahead_of_slots(self._serving)
        fault = self._points.get((process.name, point.value, self._passages[process.name, point.value]))
        if fault is not None and self.running.get(process.name) is process:
            self.tell("point", name=process.name, point=point.value, passage=fault.passage)
            self.kill(process.name, power=fault.power, away_s=fault.away_s)
            process.check()
        return False

    def now_s(self) -> float:
        return BEGIN.timestamp() + self.loop.time()

    def _hex(self, digits: int) -> str:
        return f"{self._random.getrandbits(digits * 4):0{digits}x}"

    def _process(self, name: str) -> Coroutine[Any, Any, None]:
        return self._master() if name == MASTER else self._agent(name)

    def _ended(self, name: str, process: Process, task: asyncio.Task[None]) -> None:
        if process.alive and not task.cancelled():
            self.failures.append(f"{self.loop.time():.3f} s: {name} ended by itself: {task.exception()!r}")
            self.tell("ended", name=name)

    async def _master(self) -> None:
        around = Surroundings(
            self._clock(MASTER),
            self._hex,
            SqliteLinkHistory(self._history),
            lambda: Description("simulated", "simulated"),
            self.security,
            SqliteEvents(self._events),
            Journal(self._decisions),
        )
        config = replace(CONFIG, sharing=Sharing(self.plan.sharing))
        self._serving = master = Master(SqliteStore(self._state), self._topology, config=config, around=around)
        async with serving(master, MASTER_ADDRESS):
            await asyncio.Event().wait()

    async def _agent(self, site: str) -> None:
        """As `site_agent.__main__` composes it, without a JVM, metrics and readiness."""
        directory = on(self.disks[site], "/data")
        directory.mkdir(parents=True, exist_ok=True)
        connect = connector(self.security)
        async with AsyncExitStack() as stack:
            engine = self._engine()
            store = self.stores[site] = ChannelStore(directory / "channels")
            settings = PullSettings(random=self._random.random, now_s=self.loop.time)
            router = Router(site, store, connect, settings)
            guard = SlotGuard(site, SLOTS, directory)
            clock = self._clock(site)
            streams = PushStreams(site, directory, clock=clock)
            shape = Shape(self.plan.sites[0], self.plan.rows, self.plan.clicks_from_s, lambda: self.released)
            connectors = {c.name: c for c in (Connector(shape), PushConnector(streams.log))}
            outbound = Outbound(self.loop.time)
            told = Guests(
                site,
                streams,
                guard,
                connectors,
                lambda: Description("simulated", "simulated"),
                security=self.security,
                outbound=outbound,
            )
            address = await start_exchange(f"{site}:{AGENT_PORT}", store, engine, stack, guests=told)
            services = SiteServices(
                site=site,
                directory=directory,
                engine=engine,
                store=store,
                router=router,
                executor=Pool(SLOTS, LEAST_EPOCH_S, MOST_EPOCH_S),
                clock=clock,
                connectors=connectors,
                sinks={Sink.name: Sink(self.disks[site])},
                streams=streams,
                crashes=Crashes(directory / "crashes"),
                limits=_limits(self.plan),
                memory=StateMemory(0) if self.plan.tight else StateMemory(),
                pool=SendPool(outbound),
                cpu_wait_s=lambda: 0.0,
            )
            runtime = self.runtimes[site] = SiteRuntime(services)
            identity = AgentIdentity(site, address, SLOTS, self._hex(32), self.security)
            agent = SiteAgent(identity, runtime=runtime, router=router, directory=directory)
            master = aio_channel(MASTER_ADDRESS, MASTER_MEMBER, self.security, CLIENT_OPTIONS)
            serving_master = await stack.enter_async_context(running(agent, master))
            await stack.enter_async_context(following_slots(master, site, guard))
            await serving_master

    def _clock(self, name: str) -> Clock:
        return Clock(self.loop, lambda: self.skews_s[name])


def _limits(plan: Plan) -> TaskLimits:
    limits = TaskLimits(retained_bytes_per_channel=plan.budget_bytes)
    if not plan.tight:
        return limits
    return replace(limits, checkpoint_bytes=2_000, rows_at_once=5, compact_rows=20, runs_alike=2, runs_most=8)


class _Errors(logging.Handler):
    """Takes what the product logs as an error: nothing that a world does calls for one."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        process, said = PROCESS.get(None), record.getMessage()
        # A task of a query that is cancelled may lose its inputs before its own site hears of it; other queries are
        # checked for their state.
        if process is not None and process.alive and not said.startswith("task failed"):
            if record.exc_info and record.exc_info[1] is not None:
                said += f": {record.exc_info[1]!r}"
            if os.strerror(errno.EIO) in said:
                # A disk that fails is worth an error; what matters is that all goes on after it.
                return
            self._world.errors.append(f"{self._world.loop.time():.3f} s: {process}: {said}")


@contextmanager
def in_place(world: World) -> Iterator[None]:
    """Within the block, the product's files, named points and log are this world's."""
    errors = _Errors(world)
    logging.getLogger().addHandler(errors)
    try:
        with posix.taken(SimulatedCalls()), faults.watched(world):
            yield
    finally:
        logging.getLogger().removeHandler(errors)
