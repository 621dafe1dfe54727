"""Sites with real exchange servers and routers, for the tests of the data plane."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

import grpc.aio
import pyarrow as pa

from selat.v1 import exchange_pb2 as pb
from selat.v1.exchange_pb2_grpc import ExchangeServiceStub
from site_agent.base.errors import EngineError
from site_agent.channels.log import ChannelLog
from site_agent.channels.reuse import ReusableRows
from site_agent.channels.store import ChannelStore
from site_agent.exchange.assembler import EpochAssembler, ReceivedEpoch
from site_agent.exchange.options import connect
from site_agent.exchange.outbound import Outbound
from site_agent.exchange.server import ExchangeServicer, exchange_server
from site_agent.exchange.wire import serialize
from site_agent.router import PullSettings, Router

CHANNEL = "q-0001-a1b2c3.s0.ewr"


async def _refuse_analysis(request: pb.AnalyzeRequest) -> pb.AnalyzeResponse:
    if not request.statements:
        raise EngineError("no statement", hint="send one", ids={"site": "ewr"})
    return pb.AnalyzeResponse(analyses=[pb.Analysis()])


class Site:
    """One site's data plane: store, served exchange, router."""

    def __init__(self, name: str, root: Path, settings: PullSettings) -> None:
        self.outbound = Outbound()
        self.name = name
        self.root = root
        self.settings = settings
        self.port = 0
        self.server: grpc.aio.Server | None = None
        self.mangle: Callable[[pb.PullResponse], pb.PullResponse] = lambda response: response
        self.pulls = 0

    async def start(self) -> Site:
        self.store = ChannelStore(self.root)
        reusable = ReusableRows(self.root.with_name(f"{self.name}.reuse"))
        self.router = Router(self.name, self.store, connect, self.settings, reusable=reusable)
        await self.serve()
        return self

    async def serve(self) -> None:
        site = self

        class Servicer(ExchangeServicer):
            async def Pull(self, request_iterator, context):  # type: ignore[no-untyped-def]
                site.pulls += 1
                async for response in super().Pull(request_iterator, context):
                    yield site.mangle(pb.PullResponse.FromString(serialize(response)))

        self.server = exchange_server()
        self.servicer = Servicer(self.store, _refuse_analysis, outbound=self.outbound)
        self.servicer.add_to(self.server)
        self.port = self.server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self.server.start()

    async def stop_serving(self) -> None:
        if self.server is not None:
            await self.server.stop(None)
            self.servicer.close()
            self.server = None

    async def restart(self) -> None:
        """As if the agent had been killed and started again on the same disk and address."""
        await self.stop_serving()
        await self.router.close()
        await self.start()

    async def stop(self) -> None:
        await self.router.close()
        await self.stop_serving()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@asynccontextmanager
async def sites(
    root: Path, *names: str, window_bytes: int = 8 * 1024 * 1024, now_s: Callable[[], float] = monotonic
) -> AsyncIterator[tuple[Site, ...]]:
    settings = PullSettings(window_bytes, random=lambda: 1.0, now_s=now_s)
    started = tuple([await Site(name, root / name, settings).start() for name in names])
    try:
        for site in started:
            site.router.set_addresses({other.name: other.address for other in started})
        yield started
    finally:
        for site in started:
            await site.stop()


def numbers(first: int, rows: int) -> pa.Table:
    return pa.table({"n": pa.array(range(first, first + rows), pa.int64())})


def noise(seed: int, size_bytes: int) -> pa.Table:
    """Rows that do not compress."""
    count = size_bytes // 8
    words = pa.py_buffer(random.Random(seed).randbytes(8 * count))
    return pa.table({"n": pa.Array.from_buffers(pa.uint64(), count, [None, words])})


def rows_of(log: ChannelLog, epochs: range) -> list[int]:
    tables = [log.epochs.read(epoch) for epoch in epochs]
    return [value for table in tables if table is not None for value in table.column("n").to_pylist()]


async def eventually(condition: Callable[[], bool], *, within_s: float = 30.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.01)


class PullCall:
    """A reader that speaks the protocol by hand."""

    def __init__(self, site: Site) -> None:
        self._connection = connect(site.address)
        self.call = ExchangeServiceStub(self._connection).Pull(None)

    async def open(self, **fields: object) -> PullCall:
        values = {"channel": CHANNEL, "consumer": "client", "credit_bytes": 1 << 30, "planes": True, **fields}
        await self.call.write(pb.PullRequest(open=pb.OpenChannel(**values)))  # type: ignore[arg-type]
        return self

    async def grant(self, size_bytes: int) -> None:
        await self.call.write(pb.PullRequest(credit=pb.Credit(bytes=size_bytes)))

    async def acknowledge(self, epoch: int) -> None:
        await self.call.write(pb.PullRequest(acknowledge=pb.Acknowledge(epoch=epoch)))

    async def read(self, *, within_s: float = 30.0) -> pb.PullResponse | None:
        async with asyncio.timeout(within_s):
            response = await self.call.read()
        return response if isinstance(response, pb.PullResponse) else None

    async def rest(self) -> list[pb.PullResponse]:
        responses = []
        while (response := await self.read()) is not None:
            responses.append(response)
        return responses

    async def silent(self, *, for_s: float = 0.2) -> bool:
        """Nothing comes for a while. The pending read is left to the next call of `read_pending`."""
        self._pending = asyncio.ensure_future(self.call.read())
        done, _ = await asyncio.wait({self._pending}, timeout=for_s)
        return not done

    async def read_pending(self) -> pb.PullResponse:
        async with asyncio.timeout(30):
            response = await self._pending
        assert isinstance(response, pb.PullResponse)
        return response

    async def close(self) -> None:
        self.call.cancel()
        await self._connection.close(None)


async def pulled(site: Site, **fields: object) -> list[pb.PullResponse]:
    call = await PullCall(site).open(**fields)
    try:
        await call.call.done_writing()
        return await call.rest()
    finally:
        await call.close()


def epochs_in(responses: Sequence[pb.PullResponse], *, first: int = 0) -> list[ReceivedEpoch]:
    assembler = EpochAssembler(CHANNEL, first)
    received = [assembler.feed(response.SerializeToString()) for response in responses]
    return [item for item in received if isinstance(item, ReceivedEpoch)]
