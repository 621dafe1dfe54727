"""The server's side of connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
import grpc.aio

from tests.simulation.loop import Process
from tests.simulation.net.call import Call, encoded
from tests.simulation.net.network import Network

_Find = Callable[[Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class CallDetails:
    """See `grpc.HandlerCallDetails`."""

    method: str
    invocation_metadata: tuple[Any, ...]


class Context:
    """See `grpc.aio.ServicerContext`."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.ended_by: tuple[grpc.StatusCode, str, tuple[Any, ...]] = (grpc.StatusCode.OK, "", ())

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Iterable[Any] = ()) -> NoReturn:
        self.ended_by = code, details, tuple(trailing_metadata)
        raise grpc.aio.AbortError("Locally aborted.")

    def code(self) -> grpc.StatusCode:
        return self.ended_by[0]

    def invocation_metadata(self) -> tuple[Any, ...]:
        return self._call.metadata

    def peer(self) -> str:
        assert self._call.connection is not None
        return f"ipv4:{self._call.connection.client.name}:1"

    def time_remaining(self) -> float | None:
        deadline_s = self._call.deadline_s
        return None if deadline_s is None else deadline_s - asyncio.get_running_loop().time()


class Requests:
    """The requests of a call, as its handler iterates over them."""

    def __init__(self, call: Call, deserialize: Callable[[bytes], Any] | None) -> None:
        self._call = call
        self._deserialize = deserialize

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        data = await self._call.requests.get()
        if data is None:
            raise StopAsyncIteration
        return self._deserialize(data) if self._deserialize is not None else data


class Server:
    """See `grpc.aio.Server`."""

    def __init__(self, network: Network, process: Process, interceptors: Sequence[Any]) -> None:
        self.network, self.process = network, process
        self._interceptors = interceptors
        self._generic: list[Any] = []
        self._registered: dict[str, Any] = {}
        self._addresses: list[str] = []
        self._calls: dict[Call, asyncio.Task[None]] = {}

    def add_generic_rpc_handlers(self, handlers: Iterable[Any]) -> None:
        self._generic.extend(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        self._registered.update({f"/{service}/{name}": handler for name, handler in handlers.items()})

    def add_insecure_port(self, address: str) -> int:
        """Raises RuntimeError when another server has the address."""
        host, _, port = address.rpartition(":")
        number = self.network.free_port() if port == "0" else int(port)
        bound = f"{host}:{number}"
        if bound in self.network.servers:
            raise RuntimeError(f"Failed to bind to address {bound}")
        self._addresses.append(bound)
        return number

    async def start(self) -> None:
        self.network.servers.update(dict.fromkeys(self._addresses, self))

    async def stop(self, grace: float | None) -> None:
        for address in self._addresses:
            self.network.servers.pop(address, None)
        if grace and self._calls:
            await asyncio.wait(self._calls.values(), timeout=grace)
        for call in list(self._calls):
            call.client_gone()
            call.answer(grpc.StatusCode.UNAVAILABLE, "Cancelling all calls")

    async def wait_for_termination(self, timeout: float | None = None) -> bool:
        while any(address in self.network.servers for address in self._addresses):
            await asyncio.sleep(1.0)
        return True

    def accept(self, call: Call) -> asyncio.Task[None]:
        """Run the handler of a call that arrived."""
        task = self._calls[call] = asyncio.get_running_loop().create_task(self._serve(call))
        task.add_done_callback(lambda _: self._calls.pop(call, None))
        return task

    async def _find(self, details: Any) -> Any:
        found = self._registered.get(details.method)
        services = iter(self._generic)
        while found is None and (generic := next(services, None)) is not None:
            found = generic.service(details)
        return found

    def _finder(self) -> _Find:
        find: _Find = self._find
        for interceptor in reversed(self._interceptors):
            find = _intercepted(interceptor, find)
        return find

    async def _serve(self, call: Call) -> None:
        context = Context(call)
        try:
            handler = await self._finder()(CallDetails(call.path, call.metadata))
            if handler is None:
                call.answer(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
                return
            await _handle(call, handler, context)
            call.answer(*context.ended_by)
        except grpc.aio.AbortError:
            call.answer(*context.ended_by)
        except Exception as error:  # noqa: BLE001 - becomes a status, as in gRPC
            call.answer(grpc.StatusCode.UNKNOWN, f"Unexpected {type(error)}: {error}")


def _intercepted(interceptor: Any, find: _Find) -> _Find:
    async def found(details: Any) -> Any:
        return await interceptor.intercept_service(find, details)

    return found


async def _handle(call: Call, handler: Any, context: Context) -> None:
    """Run the method of whichever kind, and send what it answers."""
    requests = Requests(call, handler.request_deserializer)
    request: Any = requests
    if not handler.request_streaming:
        try:
            request = await requests.__anext__()
        except StopAsyncIteration:
            return
    if handler.response_streaming:
        method = handler.stream_stream if handler.request_streaming else handler.unary_stream
        async for response in method(request, context):
            await call.respond(encoded(handler.response_serializer, response))
    else:
        method = handler.stream_unary if handler.request_streaming else handler.unary_unary
        await call.respond(encoded(handler.response_serializer, await method(request, context)))
