"""One call: the client's end as stubs hand it out, and what the server's end needs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from grpc.aio import AioRpcError, Metadata

from tests.simulation.net.streams import Inbox, Outbox

if TYPE_CHECKING:
    from tests.simulation.net.channel import Channel
    from tests.simulation.net.network import Connection

EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]  # not in the stubs

_HEADER_BYTES = 9
_CONTROL_BYTES = 13
_STATUS_BYTES = 30
_OPENING_BYTES = 100

Serialize = Callable[[Any], bytes]


@dataclass(frozen=True, slots=True)
class Method:
    """A method as a stub asks for it."""

    path: str
    serialize: Serialize | None
    deserialize: Callable[[bytes], Any] | None


@dataclass(frozen=True, slots=True)
class Status:
    """How a call ended."""

    code: grpc.StatusCode
    details: str = ""
    trailers: tuple[tuple[str, Any], ...] = ()


def encoded(serialize: Serialize | None, message: Any) -> bytes:
    """Maps in the order of their keys: otherwise the bytes would differ from process to process."""
    if hasattr(message, "SerializeToString"):
        data: bytes = message.SerializeToString(deterministic=True)
        return data
    return serialize(message) if serialize is not None else message


class Call:
    """See `grpc.aio.Call`, of all four kinds."""

    def __init__(self, channel: Channel, method: Method, *, timeout_s: float | None, metadata: Sequence[Any]) -> None:
        self.path = method.path
        self.metadata = tuple(metadata)
        self.connection: Connection | None = None
        self.status: Status | None = None
        self.requests = Inbox(lambda size: self._acknowledge(True, size))
        self._responses = Inbox(lambda size: self._acknowledge(False, size))
        self._up, self._down = Outbox(), Outbox()
        self._channel = channel
        self._method = method
        self._loop = channel.network.loop
        self._opened, self._ended = self._loop.create_future(), self._loop.create_future()
        self._cancelled_here = False
        self._handler: asyncio.Task[None] | None = None
        self._callbacks: list[Callable[[Any], None]] = []
        self.feeding: asyncio.Task[None] | None = None
        """Writes the requests of an iterator."""
        self.deadline_s = None if timeout_s is None else self._loop.time() + timeout_s
        self._timer = None if timeout_s is None else self._loop.call_later(timeout_s, self._expired)
        channel.begin(self)

    def begin(self, connection: Connection) -> None:
        """The channel has a connection."""
        self.connection = connection
        connection.calls[self] = None
        connection.send(True, _OPENING_BYTES + len(self.path), self._arrived)
        if not self._opened.done():
            self._opened.set_result(None)

    def ask(self, request: Any) -> None:
        """Send the only request, as soon as there is a connection."""
        data = encoded(self._method.serialize, request)

        def go(_: object) -> None:
            if self.status is None and self.connection is not None:
                self.connection.send(True, len(data) + _HEADER_BYTES, self.requests.put, data)
                self._half_close()

        if self._opened.done():
            go(None)
        else:
            self._opened.add_done_callback(go)

    def finish(self, code: grpc.StatusCode, details: str = "", trailers: tuple[tuple[str, Any], ...] = ()) -> None:
        """The client knows how the call ended. Only the first end counts."""
        if self.status is not None:
            return
        self.status = Status(code, details, trailers)
        if self._timer is not None:
            self._timer.cancel()
        if self.connection is not None:
            self.connection.calls.pop(self, None)
        self._channel.calls.pop(self, None)
        if self._cancelled_here:
            self._responses.empty()
        self._responses.end()
        self._up.close()
        for future in (self._opened, self._ended):
            if not future.done():
                future.set_result(None)
        if self.feeding is not None:
            self.feeding.cancel()
        for callback in self._callbacks:
            callback(self)

    # The client's end.

    async def write(self, message: Any) -> None:
        data = encoded(self._method.serialize, message)
        try:
            await self._ready()
            await self._up.room(len(data))
        except asyncio.CancelledError:
            self.cancel()
            raise
        self._check()
        assert self.connection is not None
        self.connection.send(True, len(data) + _HEADER_BYTES, self.requests.put, data)

    async def done_writing(self) -> None:
        await self._ready()
        self._half_close()

    async def read(self) -> Any:
        if self._cancelled_here:
            raise asyncio.CancelledError
        try:
            data = await self._responses.get()
        except asyncio.CancelledError:
            self.cancel()
            raise
        if data is not None:
            return self._method.deserialize(data) if self._method.deserialize is not None else data
        self._raise_failure()
        return EOF

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._messages()

    def __await__(self) -> Generator[Any, None, Any]:
        return self._only().__await__()

    def cancel(self) -> bool:
        if self.status is not None:
            return False
        self._cancelled_here = True
        self._tell_cancelled()
        self.finish(grpc.StatusCode.CANCELLED, "Locally cancelled by application!")
        return True

    def cancelled(self) -> bool:
        return self.status is not None and self.status.code is grpc.StatusCode.CANCELLED

    def done(self) -> bool:
        return self.status is not None

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    async def code(self) -> grpc.StatusCode:
        return (await self._end()).code

    async def details(self) -> str:
        return (await self._end()).details

    async def trailing_metadata(self) -> Metadata:
        return Metadata(*(await self._end()).trailers)

    # The server's end.

    def client_gone(self) -> None:
        """A handler that waits for requests sees their end first, and is cancelled then."""
        self.requests.end()
        self._down.close()
        handler = self._handler
        if handler is not None and not handler.done():
            self._loop.call_soon(self._loop.call_soon, handler.cancel)

    async def respond(self, data: bytes) -> None:
        await self._down.room(len(data))
        if self.connection is not None:
            self.connection.send(False, len(data) + _HEADER_BYTES, self._responses.put, data)

    def answer(self, code: grpc.StatusCode, details: str = "", trailers: tuple[tuple[str, Any], ...] = ()) -> None:
        """End the call from the server's side."""
        if self.connection is not None:
            size_bytes = _STATUS_BYTES + sum(len(value) for _, value in trailers)
            self.connection.send(False, size_bytes, self.finish, code, details, trailers)

    def _arrived(self) -> None:
        server = self._channel.network.servers.get(self._channel.address)
        if server is None:
            self.answer(grpc.StatusCode.UNAVAILABLE, "server stopped")
        else:
            self._handler = server.accept(self)

    def _acknowledge(self, up: bool, size_bytes: int) -> None:
        if self.connection is not None:
            outbox = self._up if up else self._down
            self.connection.send(not up, _CONTROL_BYTES, outbox.taken, size_bytes)

    def _half_close(self) -> None:
        if self.connection is not None:
            self.connection.send(True, _HEADER_BYTES, self.requests.end)

    def _tell_cancelled(self) -> None:
        if self.connection is not None:
            self.connection.send(True, _CONTROL_BYTES, self.client_gone)

    def _expired(self) -> None:
        self._tell_cancelled()
        self.finish(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")

    async def _ready(self) -> None:
        await asyncio.shield(self._opened)
        self._check()

    def _check(self) -> None:
        """Raises what a write to a call that has ended raises."""
        if self.status is not None:
            self._raise_failure()
            raise asyncio.InvalidStateError("RPC already finished.")

    def _raise_failure(self) -> None:
        status = self.status
        if status is None or status.code is grpc.StatusCode.OK:
            return
        if self._cancelled_here:
            raise asyncio.CancelledError
        raise AioRpcError(status.code, Metadata(), Metadata(*status.trailers), status.details, None)

    async def _end(self) -> Status:
        await asyncio.shield(self._ended)
        assert self.status is not None
        return self.status

    async def _messages(self) -> AsyncIterator[Any]:
        while (message := await self.read()) is not EOF:
            yield message

    async def _only(self) -> Any:
        message = await self.read()
        try:
            await asyncio.shield(self._ended)
        except asyncio.CancelledError:
            self.cancel()
            raise
        self._raise_failure()
        return message
