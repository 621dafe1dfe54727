"""A site's agent without Spark, which can put a load on its links: `python -m benchmarks.monitor_site`.

Registration, reports, echoes, probes, exchange and router are the agent's own; only tasks cannot run, so it starts in a
second. A line of JSON on its standard input changes the load: `{"send": CHANNEL, "to": SITE, "bytes_per_s": N}` offers
a channel (N null: as much as goes), `{"pull": CHANNEL, "from": SITE}` has the router read one, `{"end": CHANNEL}` ends
either.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from time import monotonic

import pyarrow as pa

from benchmarks.exchange import UnsyncedFiles, noise
from machine.clock import SystemClock
from site_agent.agent.loops import AgentIdentity, SiteAgent, running
from site_agent.agent.runtime import SiteRuntime, SiteServices
from site_agent.base.durable import write_atomically
from site_agent.base.errors import EngineError
from site_agent.channels.store import ChannelStore
from site_agent.engine import EpochRequest, EpochResult, Field, PythonFunction, ScannedStatement
from site_agent.exchange.options import connect
from site_agent.host import Guests, start_exchange
from site_agent.router import Router

EPOCH_BYTES = 128 * 1024
AHEAD_BYTES = 4 * 1024 * 1024
"""What a sender keeps ready, so that its link never waits for it."""
READER = "benchmark"
_POLL_S = 0.02


class NoEngine:
    """There is no Spark, and nobody submits a query."""

    def run(self, request: EpochRequest) -> EpochResult:
        raise EngineError("this agent only transfers and measures")

    def put_table(self, task_id: str, view: str, table: pa.Table | Sequence[Field]) -> None:
        raise EngineError("this agent only transfers and measures")

    def drop_task(self, task_id: str) -> None:
        """There is none."""

    def analyze(
        self, views: Mapping[str, Sequence[Field]], statement: str, functions: Sequence[PythonFunction] = ()
    ) -> tuple[Field, ...]:
        raise EngineError("this agent only transfers and measures")

    def scans(
        self, tables: Mapping[str, Sequence[Field]], statement: str, functions: Sequence[PythonFunction] = ()
    ) -> ScannedStatement:
        raise EngineError("this agent only transfers and measures")

    def load(self, functions: Sequence[PythonFunction]) -> None:
        raise EngineError("this agent only transfers and measures")


class Load:
    """Channels that are offered, and channels that are read, until they are ended."""

    def __init__(self, store: ChannelStore, router: Router) -> None:
        self._store = store
        self._router = router
        self._running: dict[str, asyncio.Task[None]] = {}

    async def obey(self, command: Mapping[str, object]) -> None:
        if "send" in command:
            channel, rate = str(command["send"]), command["bytes_per_s"]
            work = self._send(channel, str(command["to"]), float(str(rate)) if rate is not None else None)
        elif "pull" in command:
            channel = str(command["pull"])
            work = self._pull(channel, str(command["from"]))
        else:
            await self.end(str(command["end"]))
            return
        self._running[channel] = asyncio.create_task(work)

    async def end(self, channel: str) -> None:
        task = self._running.pop(channel, None)
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def close(self) -> None:
        for channel in tuple(self._running):
            await self.end(channel)

    async def _send(self, channel: str, target: str, bytes_per_s: float | None) -> None:
        """As a task would: an epoch whenever there is room, or time for it."""
        log = self._store.open(channel)
        log.set_consumers([target])
        rows = [noise(EPOCH_BYTES, seed) for seed in range(4)]
        began_s, sent_bytes = monotonic(), 0
        while True:
            early = bytes_per_s is not None and sent_bytes >= (monotonic() - began_s) * bytes_per_s
            if early or log.epochs.retained_bytes >= AHEAD_BYTES:
                await asyncio.sleep(_POLL_S)
                continue
            await asyncio.to_thread(log.publish, log.next_epoch, rows[log.next_epoch % len(rows)], watermark_us=None)
            sent_bytes += EPOCH_BYTES

    async def _pull(self, channel: str, source: str) -> None:
        copy = await self._router.subscribe(channel, source, READER)
        try:
            while True:
                await copy.state.wait(copy.next_epoch)
                await asyncio.to_thread(self._router.acknowledge, channel, READER, copy.next_epoch - 1)
        finally:
            await self._router.unsubscribe(channel, READER)


async def serve(arguments: argparse.Namespace) -> None:
    """Until SIGTERM, SIGINT or the end of standard input."""
    site, directory = arguments.site, arguments.data / arguments.site
    async with AsyncExitStack() as stack:
        store = ChannelStore(directory / "channels", UnsyncedFiles())
        router = Router(site, store, connect)
        stack.push_async_callback(router.close)
        engine = NoEngine()
        executor = ThreadPoolExecutor(max_workers=1)
        stack.callback(executor.shutdown)
        address = await start_exchange(arguments.listen, store, engine, stack, guests=Guests(site))
        runtime = SiteRuntime(SiteServices(site, directory, engine, store, router, executor, SystemClock(), {}))
        stack.push_async_callback(runtime.close)
        load = Load(store, router)
        stack.push_async_callback(load.close)
        agent = SiteAgent(AgentIdentity.new(site, address, 1), runtime=runtime, router=router, directory=directory)
        master = await stack.enter_async_context(connect(arguments.master))
        await stack.enter_async_context(running(agent, master))
        write_atomically(arguments.ready_file, json.dumps({"sites": {site: address}, "pid": os.getpid()}).encode())
        await _obey_until_stopped(load)


async def _obey_until_stopped(load: Load) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    stopping = asyncio.create_task(stop.wait())
    while not stop.is_set():
        line = asyncio.create_task(reader.readline())
        await asyncio.wait({line, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not line.done() or not line.result():
            break
        await load.obey(json.loads(line.result()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--site", "--listen", "--master"):
        parser.add_argument(name, required=True)
    for name in ("--data", "--ready-file"):
        parser.add_argument(name, required=True, type=Path)
    asyncio.run(serve(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
