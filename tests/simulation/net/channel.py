"""The client's side of connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Mapping
from contextlib import suppress
from typing import Any

import grpc
import grpc.aio

from tests.simulation.loop import Process
from tests.simulation.net.call import Call, Method
from tests.simulation.net.network import Connection, Network

_FIRST_BACKOFF_S = 0.1
_BACKOFF_FACTOR = 1.6
_CONNECT_MS = 20_000
"""How long gRPC waits for a connection by default."""


class Channel:
    """See `grpc.aio.Channel`. It connects for its first call, and again after a break."""

    def __init__(self, network: Network, process: Process, address: str, options: Mapping[str, Any]) -> None:
        self.network, self.process, self.address = network, process, address
        self.calls: dict[Call, None] = {}
        self._connection: Connection | None = None
        self._waiting: list[Call] = []
        self._refused_until_s = -1.0
        self._backoff_s = _FIRST_BACKOFF_S
        self._most_backoff_s = options.get("grpc.max_reconnect_backoff_ms", 120_000) / 1000
        self._connect_s = options.get("grpc.min_reconnect_backoff_ms", _CONNECT_MS) / 1000
        self._closed = False

    def begin(self, call: Call) -> None:
        """Give the call a connection, now or later."""
        loop = self.network.loop
        if self._closed:
            raise grpc.aio.UsageError("Channel is closed.")
        self.calls[call] = None
        if self._connection is not None:
            call.begin(self._connection)
        elif loop.time() < self._refused_until_s:
            loop.call_soon(call.finish, grpc.StatusCode.UNAVAILABLE, f"connections to {self.address} failed lately")
        else:
            self._waiting.append(call)
            if len(self._waiting) == 1:
                self._connect()

    def forget(self, connection: Connection) -> None:
        """The connection is lost."""
        if self._connection is connection:
            self._connection = None

    def unary_unary(self, *arguments: Any, **named: Any) -> Callable[..., Call]:
        return self._asking(_method(*arguments, **named))

    def unary_stream(self, *arguments: Any, **named: Any) -> Callable[..., Call]:
        return self._asking(_method(*arguments, **named))

    def stream_unary(self, *arguments: Any, **named: Any) -> Callable[..., Call]:
        return self._streaming(_method(*arguments, **named))

    def stream_stream(self, *arguments: Any, **named: Any) -> Callable[..., Call]:
        return self._streaming(_method(*arguments, **named))

    async def close(self, grace: float | None = None) -> None:
        self._closed = True
        for call in list(self.calls):
            call.cancel()
        if self._connection is not None:
            # After the cancellations, which are under way.
            self._connection.send(True, 0, self._connection.lost, "channel closed")
            self._connection = None

    async def __aenter__(self) -> Channel:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def _connect(self) -> None:
        server = self.network.servers.get(self.address)
        there = server.process.name if server is not None else self.address.partition(":")[0]
        round_s = sum(self.network.link(*pair).latency_s for pair in self._pairs(there))
        if self.network.reaches(self.process.name, there):
            self.network.loop.call_later(round_s, self._connected, context=self.process.context())
        else:
            self.network.loop.call_later(self._connect_s, self._refused, context=self.process.context())

    def _pairs(self, there: str) -> tuple[tuple[str, str], tuple[str, str]]:
        return (self.process.name, there), (there, self.process.name)

    def _connected(self) -> None:
        server = self.network.servers.get(self.address)
        if server is None or self._closed:
            self._refused()
            return
        self._backoff_s = _FIRST_BACKOFF_S
        self._connection = Connection(self.network, self, server)
        for call in self._taken():
            if call.status is None:
                call.begin(self._connection)

    def _refused(self) -> None:
        self._refused_until_s = self.network.loop.time() + self._backoff_s
        self._backoff_s = min(self._most_backoff_s, self._backoff_s * _BACKOFF_FACTOR)
        for call in self._taken():
            call.finish(grpc.StatusCode.UNAVAILABLE, f"failed to connect to {self.address}: Connection refused")

    def _taken(self) -> list[Call]:
        taken, self._waiting = self._waiting, []
        return taken

    def _asking(self, method: Method) -> Callable[..., Call]:
        def ask(request: Any, *, timeout: float | None = None, metadata: Any = None, **_: Any) -> Call:
            call = Call(self, method, timeout_s=timeout, metadata=metadata or ())
            call.ask(request)
            return call

        return ask

    def _streaming(self, method: Method) -> Callable[..., Call]:
        def stream(
            requests: AsyncIterable[Any] | None = None, timeout: float | None = None, metadata: Any = None, **_: Any
        ) -> Call:
            call = Call(self, method, timeout_s=timeout, metadata=metadata or ())
            if requests is not None:
                call.feeding = self.network.loop.create_task(_feed(call, requests))
            return call

        return stream


async def _feed(call: Call, requests: AsyncIterable[Any]) -> None:
    with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
        async for request in requests:
            await call.write(request)
        await call.done_writing()


def _method(
    path: str, request_serializer: Any = None, response_deserializer: Any = None, _registered_method: bool = False
) -> Method:
    return Method(path, request_serializer, response_deserializer)
