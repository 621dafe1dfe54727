"""`python -m site_agent`: one process that runs the agents of one or several sites over one Spark JVM."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from machine.clock import SystemClock
from machine.description import describe
from machine.logs import formatter
from machine.metrics import CannotListenError, serving_metrics
from machine.private import make_private_umask
from machine.terminal import LogFormatter
from machine.tracing import tracing
from planner.graph.ids import log_fields
from site_agent.agent.disk_use import SiteDisk
from site_agent.agent.health import Health
from site_agent.agent.loops import AgentIdentity, SiteAgent, running
from site_agent.agent.measures import Measures
from site_agent.agent.memory import MemoryUse, SharedMemory, heap_use, memory_use
from site_agent.agent.metrics import ROLE, AgentMetrics, SiteFigures
from site_agent.agent.runtime import SiteRuntime, SiteServices
from site_agent.base.cpu import CpuUse, Quota
from site_agent.base.durable import make_usable, sole_owner, write_atomically
from site_agent.base.errors import SiteAgentError
from site_agent.channels.reuse import BUDGET_BYTES, DIRECTORY_NAME, ReusableRows
from site_agent.channels.store import ChannelStore
from site_agent.config import AgentConfig, HostedSite, parse_arguments, security_of
from site_agent.connectors.installed import installed_sinks
from site_agent.connectors.parquet.files import UserFiles
from site_agent.connectors.registry import make_connectors, make_sinks
from site_agent.connectors.secrets.values import RedactingFilter
from site_agent.engine.client_plans import ClientPlans
from site_agent.engine.cluster.driver import driver_ports, serve_files
from site_agent.engine.cluster.file_server import FileServer
from site_agent.engine.jvm.lifeline import Lifeline, exit_on_fatal_errors
from site_agent.engine.jvm.session import clear_scratch, jvm_version, start_spark
from site_agent.engine.jvm.sockets import check_on_loopback
from site_agent.engine.scans.file_access import FileAccess, LocalFiles
from site_agent.engine.spark import SparkEngine
from site_agent.engine.warm import warm_up, warm_up_whole
from site_agent.exchange.options import CLIENT_OPTIONS, connector
from site_agent.exchange.outbound import Outbound
from site_agent.host import Guests, start_exchange
from site_agent.ingest.streams import PushStreams
from site_agent.router import Router
from site_agent.router.pacing import LinkPace
from site_agent.slots.follow import following_slots
from site_agent.slots.guard import SlotGuard
from site_agent.state.memory import StateMemory
from site_agent.tasks.context import TaskLimits
from site_agent.tasks.crashes import Crashes
from site_agent.tasks.outputs import Outputs
from site_agent.tasks.pool import SendPool
from site_agent.tasks.stretch import Stretch
from wire.channels import aio_channel
from wire.names import MASTER
from wire.security import Security

logger = logging.getLogger("site_agent")

TEXT = LogFormatter("%(asctime)s %(levelname)s %(name)s %(message)s")


def main() -> int:
    """Run the agents. The exit code is 0 after SIGTERM or SIGINT, and 1 after an error, which is printed in
    one line."""
    handler = logging.StreamHandler()
    handler.setFormatter(TEXT)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("py4j").setLevel(logging.WARNING)
    failed: list[Exception] = []
    try:
        config = parse_arguments()
        handler.setFormatter(formatter(config.log_format, TEXT, log_fields))
        handler.addFilter(RedactingFilter(config.secrets))
        with tracing(ROLE, os.environ):
            asyncio.run(_serve(config))
    except* (SiteAgentError, OSError) as group:
        failed = _leaves(group)
    for error in failed:
        hint = error.hint if isinstance(error, SiteAgentError) else "look at the disk and the directories"
        logger.error("%s%s", error, f" ({hint})" if hint else "")
    return 1 if failed else 0


def _leaves(group: BaseExceptionGroup[Exception]) -> list[Exception]:
    return [leaf for e in group.exceptions for leaf in (_leaves(e) if isinstance(e, BaseExceptionGroup) else [e])]


def _crashes(config: AgentConfig, stack: AsyncExitStack) -> Crashes:
    """The record of the process's crashes, until the stack is closed."""
    crashes = Crashes(config.data / config.sites[0].name / "crashes", heap=config.spark.driver_memory)
    stack.callback(crashes.stop)
    return crashes


async def _serve(config: AgentConfig) -> None:
    umask = make_private_umask()
    make_usable(config.data)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    securities = {site.name: security_of(config, site.name) for site in config.sites}
    async with AsyncExitStack() as stack:
        for site in config.sites:
            stack.enter_context(sole_owner(config.data / site.name))
            clear_scratch(_scratch(config, site))
        session = await asyncio.to_thread(_start_session, config)
        stack.callback(session.stop)
        exit_on_fatal_errors(session)
        crashes = _crashes(config, stack)
        lifeline = Lifeline(session, crashes.told)
        stack.callback(lifeline.cut)
        # Executors in a cluster end by themselves, and Spark starts others in their place.
        out_of_memory = None if config.spark.executors_elsewhere else lifeline.give_up
        files = _file_access(config, session, stack)
        addresses: dict[str, str] = {}
        loops: list[asyncio.Task[None]] = []
        readiness: list[AbstractAsyncContextManager[None]] = []
        looks: list[Callable[[], SiteFigures]] = []
        state = StateMemory(config.state_memory_bytes)
        memory = SharedMemory(partial(memory_use, partial(heap_use, session), len(config.sites)))
        stretch = await stack.enter_async_context(_stretch())
        for site in config.sites:
            security, scratch = securities[site.name], _scratch(config, site)
            engine = SparkEngine(
                session, scratch=scratch, files=files, out_of_memory=out_of_memory, functions=config.functions
            )
            guard = SlotGuard(site.name, site.slots, config.data / site.name)
            java, plans = jvm_version(session), ClientPlans(session, scratch=scratch, functions=config.functions)
            parts = Parts(engine, memory, guard, crashes, stretch, umask, java, security, state, plans)
            agent, address, health = await _start_site(config, site, parts, stack)
            addresses[site.name] = address
            if len(addresses) == 1:
                await asyncio.to_thread(warm_up, engine)
            channel = aio_channel(config.master, MASTER, security, CLIENT_OPTIONS)
            master = await stack.enter_async_context(channel)
            loops.append(await stack.enter_async_context(running(agent, master)))
            loops.append(await stack.enter_async_context(following_slots(master, site.name, guard, config.bearer)))
            readiness.append(health.following(site.name, agent, config.data / site.name))
            looks.append(partial(_figures, agent, health))
        if not config.insecure:
            ports = _ports(config, addresses) | _cluster_ports(session, files)
            await asyncio.to_thread(check_on_loopback, ports)
        _announce(config, addresses, await _serve_metrics(config.metrics, AgentMetrics(looks), stack))
        await stack.enter_async_context(_warming_up(engine))
        for following in readiness:
            await stack.enter_async_context(following)
        # Installed first: a stop that is requested now must not wait for the epochs that are running.
        stack.callback(crashes.stop)
        await _until_stopped(stop, loops)
        if stop.is_set():
            _end_within(config.stop_timeout_s)


def _start_session(config: AgentConfig) -> SparkSession:
    slots = sum(site.slots for site in config.sites)
    return start_spark(slots=slots, scratch=_spark_scratch(config), options=config.spark)


def _spark_scratch(config: AgentConfig) -> Path:
    return config.data / f"spark-{config.sites[0].name}"


@dataclass(frozen=True, slots=True)
class Parts:
    """What every agent of the process is built from."""

    engine: SparkEngine
    memory: Callable[[], MemoryUse]
    guard: SlotGuard
    crashes: Crashes
    """Counts crashes of the whole process."""
    stretch: Stretch
    umask: int
    """The user's umask, for the files of sinks."""
    java: str
    """Version of the JVM."""
    security: Security
    """The security of the site's connections."""
    state_memory: StateMemory
    plans: ClientPlans
    """Runs plans of Spark's own clients."""


def _paces(config: AgentConfig, site: str) -> Mapping[str, LinkPace]:
    """The paces of links that end at the site, by the site where they begin; empty: links are not slowed down."""
    links = config.emulated_links.links if config.emulated_links is not None else {}
    return {
        source: LinkPace(link.bandwidth_bytes_per_s, link.latency.total_seconds())
        for (source, target), link in links.items()
        if target == site
    }


async def _start_site(
    config: AgentConfig, site: HostedSite, parts: Parts, stack: AsyncExitStack
) -> tuple[SiteAgent, str, Health]:
    engine, directory = parts.engine, config.data / site.name
    store = ChannelStore(directory / "channels")
    budget_bytes = min(BUDGET_BYTES, config.disk_budget_bytes // 4 or BUDGET_BYTES)
    reusable = ReusableRows(directory / DIRECTORY_NAME, budget_bytes)
    router = Router(site.name, store, connector(parts.security), reusable=reusable)
    router.slow_down(_paces(config, site.name))
    stack.push_async_callback(router.close)
    executor = ThreadPoolExecutor(max_workers=site.slots, thread_name_prefix=f"slot-{site.name}")
    stack.callback(executor.shutdown)
    clock = SystemClock()
    streams = PushStreams(site.name, directory, clock=clock)
    stack.push_async_callback(streams.close)
    connectors = make_connectors(engine, streams.log, allowed=config.allowed, secrets=config.secrets)
    own = partial(describe, directory, java=parts.java)
    health = Health()
    outbound = Outbound()
    guests = Guests(site.name, streams, parts.guard, connectors, own, health, parts.security, outbound, parts.plans)
    address = await start_exchange(config.listen, store, engine, stack, guests=guests)
    disk = SiteDisk(directory, store, clock=clock, budget_bytes=config.disk_budget_bytes)
    await asyncio.to_thread(disk.measure)
    services = SiteServices(
        site=site.name,
        directory=directory,
        engine=engine,
        store=store,
        router=router,
        executor=executor,
        clock=clock,
        connectors=connectors,
        sinks=make_sinks(
            UserFiles(parts.umask), allowed=config.allowed, secrets=config.secrets, others=installed_sinks()
        ),
        streams=streams,
        crashes=parts.crashes,
        stretch=parts.stretch,
        pool=SendPool(outbound),
        memory=parts.state_memory,
        outputs=Outputs(reusable),
        disk_full=disk.why_full,
        limits=TaskLimits(
            retained_bytes_per_channel=config.retained_bytes, kept_behind_bytes_per_channel=config.kept_behind_bytes
        ),
    )
    runtime = SiteRuntime(services)
    stack.push_async_callback(runtime.close)
    identity = AgentIdentity.new(site.name, config.advertise or address, site.slots, parts.security, config.bearer)
    measures = Measures(parts.memory, streams.use, disk.measure)
    agent = SiteAgent(identity, runtime=runtime, router=router, directory=directory, measures=measures)
    return agent, address, health


@asynccontextmanager
async def _stretch() -> AsyncIterator[Stretch]:
    """Of epoch intervals; it follows the load until the block ends."""
    stretch, use = Stretch(), CpuUse(Quota.found())
    following = asyncio.create_task(stretch.follow(SystemClock(), use, use.cpus))
    try:
        yield stretch
    finally:
        following.cancel()


@asynccontextmanager
async def _warming_up(engine: SparkEngine) -> AsyncIterator[None]:
    """Warm up in the background; at the end wait for the epoch that runs."""
    stop = threading.Event()
    warming = asyncio.create_task(asyncio.to_thread(warm_up_whole, engine, stop))
    try:
        yield
    finally:
        stop.set()
        (outcome,) = await asyncio.gather(warming, return_exceptions=True)
        if isinstance(outcome, Exception):
            logger.warning("warm-up failed: %s", outcome)


def _figures(agent: SiteAgent, health: Health) -> SiteFigures:
    return replace(agent.figures(), ready=health.ready)


async def _serve_metrics(listen: str, metrics: AgentMetrics, stack: AsyncExitStack) -> str:
    """Serve metrics until the stack unwinds, if an address is configured; returns the bound address.

    Raises:
        SiteAgentError: the port is taken.
    """
    if not listen:
        return ""
    try:
        return await stack.enter_async_context(serving_metrics(listen, metrics.families))
    except CannotListenError as error:
        raise SiteAgentError(str(error), hint=error.hint) from error


def _scratch(config: AgentConfig, site: HostedSite) -> Path:
    return config.data / site.name / "scratch"


def _file_access(config: AgentConfig, session: SparkSession, stack: AsyncExitStack) -> FileAccess:
    """Serves files to executors in a cluster, at the address under which they reach the driver.

    Raises:
        SiteAgentError: the port is taken.
    """
    if not config.spark.executors_elsewhere:
        return LocalFiles()
    try:
        server = serve_files(
            session,
            scratch=_spark_scratch(config),
            port=config.files_port,
            encrypted=config.spark.encrypted,
        )
    except OSError as error:
        raise SiteAgentError(
            f"cannot serve files to executors at port {config.files_port}: {error.strerror}",
            hint="give a free port with --files-port, or none",
        ) from error
    stack.callback(server.close)
    return server


def _ports(config: AgentConfig, addresses: Mapping[str, str]) -> frozenset[int]:
    """The listening ports at which the other end must present a certificate."""
    if config.tls_dir is None:
        return frozenset()
    return frozenset(int(address.rpartition(":")[2]) for address in addresses.values())


def _cluster_ports(session: SparkSession, files: FileAccess) -> frozenset[int]:
    """The listening ports for executors in a cluster, which must prove that they know the cluster's secret."""
    return driver_ports(session) | {files.port} if isinstance(files, FileServer) and files.encrypted else frozenset()


def _announce(config: AgentConfig, addresses: dict[str, str], metrics: str) -> None:
    logger.info("serving sites=%s master=%s", ",".join(f"{s}@{a}" for s, a in addresses.items()), config.master)
    if config.ready_file is not None:
        content = {"sites": addresses, "pid": os.getpid(), **({"metrics": metrics} if metrics else {})}
        write_atomically(config.ready_file, json.dumps(content).encode())


def _end_within(timeout_s: float) -> None:
    """Kill this process after this time, whatever it is doing: its data survive a kill."""

    def end() -> None:
        logger.warning("not stopped in order after %g s; unfinished work is repeated at the next start", timeout_s)
        logging.shutdown()
        os._exit(0)

    timer = threading.Timer(timeout_s, end)
    timer.daemon = True
    timer.start()


async def _until_stopped(stop: asyncio.Event, loops: list[asyncio.Task[None]]) -> None:
    """Wait for a request to stop. An agent's loop that ends by itself has failed: its error is raised."""
    stopping = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait([stopping, *loops], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    for task in done - {stopping}:
        task.result()


if __name__ == "__main__":
    sys.exit(main())
