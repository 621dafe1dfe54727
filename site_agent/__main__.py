"""`python -m site_agent`: one process that runs the agents of one or several sites over one Spark JVM."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack

from site_agent.agent import AgentIdentity, SiteAgent, running
from site_agent.channels.store import ChannelStore
from site_agent.clock import SystemClock
from site_agent.config import AgentConfig, HostedSite, parse_arguments
from site_agent.connectors.registry import make_connectors
from site_agent.durable import sole_owner, write_atomically
from site_agent.engine.session import start_spark
from site_agent.engine.spark import SparkEngine, warm_up
from site_agent.errors import SiteAgentError
from site_agent.exchange.options import connect
from site_agent.host import start_exchange
from site_agent.router import Router
from site_agent.runtime import SiteRuntime, SiteServices
from site_agent.tasks.context import TaskLimits

logger = logging.getLogger("site_agent")


def main() -> int:
    """Exit code: 0 after SIGTERM or SIGINT, 1 when something is wrong, said in one line."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    failed: list[SiteAgentError] = []
    try:
        asyncio.run(_serve(parse_arguments()))
    except* SiteAgentError as group:
        failed = _leaves(group)
    for error in failed:
        logger.error("%s%s", error, f" ({error.hint})" if error.hint else "")
    return 1 if failed else 0


def _leaves(group: BaseExceptionGroup[SiteAgentError]) -> list[SiteAgentError]:
    return [leaf for e in group.exceptions for leaf in (_leaves(e) if isinstance(e, BaseExceptionGroup) else [e])]


async def _serve(config: AgentConfig) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    slots = sum(site.slots for site in config.sites)
    session = await asyncio.to_thread(
        lambda: start_spark(
            slots=slots,
            master_url=config.spark_master,
            scratch=config.data / f"spark-{config.sites[0].name}",
            driver_memory=config.driver_memory,
        )
    )
    async with AsyncExitStack() as stack:
        stack.callback(session.stop)
        master = await stack.enter_async_context(connect(config.master))
        addresses: dict[str, str] = {}
        loops: list[asyncio.Task[None]] = []
        for site in config.sites:
            engine = SparkEngine(session, scratch=config.data / site.name / "scratch")
            agent, address = await _start_site(config, site, engine, stack)
            addresses[site.name] = address
            if len(addresses) == 1:
                await asyncio.to_thread(warm_up, engine)
            loops.append(await stack.enter_async_context(running(agent, master)))
        _announce(config, addresses)
        await _until_stopped(stop, loops)


async def _start_site(
    config: AgentConfig, site: HostedSite, engine: SparkEngine, stack: AsyncExitStack
) -> tuple[SiteAgent, str]:
    directory = config.data / site.name
    stack.enter_context(sole_owner(directory))
    store = ChannelStore(directory / "channels")
    router = Router(site.name, store, connect)
    stack.push_async_callback(router.close)
    executor = ThreadPoolExecutor(max_workers=site.slots, thread_name_prefix=f"slot-{site.name}")
    stack.callback(executor.shutdown)
    address = await start_exchange(config.listen, store, engine, stack)
    services = SiteServices(
        site=site.name,
        directory=directory,
        engine=engine,
        store=store,
        router=router,
        executor=executor,
        clock=SystemClock(),
        connectors=make_connectors(engine),
        limits=TaskLimits(retained_bytes_per_channel=config.retained_bytes),
    )
    runtime = SiteRuntime(services)
    stack.push_async_callback(runtime.close)
    identity = AgentIdentity.new(site.name, config.advertise or address, site.slots)
    return SiteAgent(identity, runtime=runtime, router=router, directory=directory), address


def _announce(config: AgentConfig, addresses: dict[str, str]) -> None:
    logger.info("serving sites=%s master=%s", ",".join(f"{s}@{a}" for s, a in addresses.items()), config.master)
    if config.ready_file is not None:
        content = {"sites": addresses, "pid": os.getpid()}
        write_atomically(config.ready_file, json.dumps(content).encode())


async def _until_stopped(stop: asyncio.Event, loops: list[asyncio.Task[None]]) -> None:
    """Until asked to stop; an agent's loop that ends by itself has failed, and its error is ours."""
    stopping = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait([stopping, *loops], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    for task in done - {stopping}:
        task.result()


if __name__ == "__main__":
    sys.exit(main())
