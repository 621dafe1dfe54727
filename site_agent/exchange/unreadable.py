"""Requests that cannot be parsed: gRPC answers UNKNOWN, without detail, where a deserializer raises."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from contract.trailers import Context
from site_agent.base.errors import ChannelRequestError
from site_agent.base.status import abort

# A string: the class takes parameters only in its stubs.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """Stands for a request that could not be parsed."""

    reason: str


class UnreadableInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """Refuses the single request of a call; a handler of a stream of requests catches DecodeError itself."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        # Any: a handler is a named tuple at run time, which the stubs do not say; None for an unknown method.
        handler: Any = await continuation(handler_call_details)
        if handler is not None and handler.unary_unary is not None:
            handler = handler._replace(
                request_deserializer=_tolerant(handler.request_deserializer), unary_unary=_refusing(handler.unary_unary)
            )
        return cast(Handler, handler)


def unreadable(error: DecodeError) -> ChannelRequestError:
    """The error for a request that could not be parsed."""
    return _refusal(str(error))


def _refusal(reason: str) -> ChannelRequestError:
    return ChannelRequestError(f"the request cannot be read: {reason}", hint="send the message that the method takes")


def _tolerant(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        try:
            return deserialize(data)
        except DecodeError as error:
            return _Unreadable(str(error))

    return read


def _refusing(call: Callable[[Any, Context], Awaitable[Any]]) -> Callable[[Any, Context], Awaitable[Any]]:
    @functools.wraps(call)
    async def wrapped(request: Any, context: Context) -> Any:
        if isinstance(request, _Unreadable):
            await abort(context, _refusal(request.reason))
        return await call(request, context)

    return wrapped
