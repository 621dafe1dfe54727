"""A producer of pushed rows at one site: keeps each batch until the agent has it, over all breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pyarrow as pa

from selat.v1 import ingest_pb2, ingest_pb2_grpc
from tests.simulation.rows import batches, pushed, pushed_s
from tests.simulation.world import AGENT_PORT, World
from wire.channels import aio_channel
from wire.names import MemberName, Role

RETRY_S = 0.5
ANSWER_S = 30.0
"""A batch whose answer takes longer is sent again by another call."""
OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 3_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)


class Producer:
    """Pushes the batches of `rows.pushed` at their times, and says at the end that no more will come."""

    def __init__(self, world: World, stream: str, site: str) -> None:
        self._world = world
        self._stream = stream
        self._site = site
        self._count = batches(world.plan.rows)
        channel = aio_channel(f"{site}:{AGENT_PORT}", MemberName(Role.SITE, site), world.security, OPTIONS)
        self._stub: Any = ingest_pb2_grpc.IngestServiceStub(channel)

    async def run(self) -> None:
        """Until all is stored."""
        while True:
            try:
                return await self._push()
            except (grpc.aio.AioRpcError, TimeoutError, asyncio.InvalidStateError) as error:
                said = error.details() if isinstance(error, grpc.aio.AioRpcError) else repr(error)
                self._world.tell("push again", site=self._site, said=said)
            await asyncio.sleep(RETRY_S)

    async def _push(self) -> None:
        acknowledged: asyncio.Queue[int] = asyncio.Queue()
        call = self._stub.Push(self._requests(acknowledged))
        try:
            last = 0
            while last < self._count:
                # Before a batch is due nobody owes an answer.
                wait_s = max(0.0, pushed_s(last) - self._world.loop.time()) + ANSWER_S
                async with asyncio.timeout(wait_s):
                    response = await call.read()
                if response is grpc.aio.EOF:  # type: ignore[attr-defined]  # not in the stubs
                    raise TimeoutError
                match response.WhichOneof("message"):
                    case "opened":
                        last = response.opened.last_sequence
                        acknowledged.put_nowait(last)
                    case "acknowledge":
                        last = response.acknowledge.sequence
                        self._world.tell("pushed", site=self._site, sequence=last)
        finally:
            call.cancel()
        await self._stub.Finish(ingest_pb2.FinishRequest(stream=self._stream, site=self._site), timeout=ANSWER_S)

    async def _requests(self, acknowledged: asyncio.Queue[int]) -> AsyncIterator[ingest_pb2.PushRequest]:
        opening = ingest_pb2.OpenPush(stream=self._stream, site=self._site, producer=f"producer-{self._site}")
        yield ingest_pb2.PushRequest(open=opening)
        for batch in range(await acknowledged.get(), self._count):
            await asyncio.sleep(max(0.0, pushed_s(batch) - self._world.loop.time()))
            yield ingest_pb2.PushRequest(
                batch=ingest_pb2.PushBatch(
                    sequence=batch + 1, arrow_stream=_encoded(pushed(self._stream, self._site, batch))
                )
            )


def _encoded(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())
