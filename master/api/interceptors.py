"""Interceptors around every call: turn errors into a status and a trailer, and log calls."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from contract.trailers import Context, abort
from master.base.errors import (
    InvalidRequestError,
    LimitExceededError,
    MasterError,
    UnauthenticatedError,
)
from master.base.logs import line
from master.base.pending import PendingCalls
from master.base.status import StatusCode, detail_of, status_of, unexpected
from master.records.ids import RandomHex
from planner.values.errors import PlannerError
from selat.v1.common_pb2 import ErrorDetail

logger = logging.getLogger(__name__)

# A string: the class takes parameters only in its stubs.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


_ENDS = "/selat.v1.QueryService/Execute"
"""The only streaming method whose calls end by themselves. The others follow something until the caller ends them."""


End = Callable[[Context, grpc.StatusCode, ErrorDetail], Awaitable[NoReturn]]
"""It ends a call with a status and an error's details."""


class ErrorInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """Sends our own errors as an ErrorDetail in the trailer `selat-error-bin`; all others become INTERNAL
    with an id."""

    def __init__(self, random_hex: RandomHex, pending: PendingCalls, *, end: End = abort) -> None:
        """`pending` counts the calls; `end` ends a call with a status and the error's details."""
        self._random_hex = random_hex
        self._pending = pending
        self._end = end

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        # Any: a handler is a named tuple at runtime, which the stubs do not say; it is None for an unknown method.
        handler: Any = await continuation(handler_call_details)
        method = str(handler_call_details.method)
        if handler is not None and handler.request_deserializer is not None:
            handler = handler._replace(request_deserializer=_tolerant(handler.request_deserializer))
        if handler is not None and handler.unary_unary is not None:
            handler = handler._replace(unary_unary=self._unary(handler.unary_unary, method))
        elif handler is not None and inspect.isasyncgenfunction(handler.unary_stream):
            handler = handler._replace(unary_stream=self._stream(handler.unary_stream, method))
        elif handler is not None and inspect.isasyncgenfunction(handler.stream_stream):
            handler = handler._replace(stream_stream=self._both(handler.stream_stream, method))
        return cast(Handler, handler)

    def _unary(
        self, call: Callable[[Any, Context], Awaitable[Any]], method: str
    ) -> Callable[[Any, Context], Awaitable[Any]]:
        @functools.wraps(call)
        async def wrapped(request: Any, context: Context) -> Any:
            with self._pending.counted():
                try:
                    return await call(_whole(request, method), context)
                except Exception as error:  # noqa: BLE001 - becomes a status, and is logged
                    await self._abort(context, error, method)

        return wrapped

    def _stream(
        self, call: Callable[[Any, Context], AsyncIterator[Any]], method: str
    ) -> Callable[[Any, Context], AsyncIterator[Any]]:
        @functools.wraps(call)
        async def wrapped(request: Any, context: Context) -> AsyncIterator[Any]:
            with self._pending.counted() if method == _ENDS else self._pending.followed():
                try:
                    async for response in call(_whole(request, method), context):
                        yield response
                except Exception as error:  # noqa: BLE001 - becomes a status, and is logged
                    await self._abort(context, error, method)

        return wrapped

    def _both(
        self, call: Callable[[AsyncIterator[Any], Context], AsyncIterator[Any]], method: str
    ) -> Callable[[AsyncIterator[Any], Context], AsyncIterator[Any]]:
        async def wholes(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
            async for request in requests:
                yield _whole(request, method)

        @functools.wraps(call)
        async def wrapped(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
            with self._pending.counted():
                try:
                    async for response in call(wholes(requests), context):
                        yield response
                except Exception as error:  # noqa: BLE001 - becomes a status, and is logged
                    await self._abort(context, error, method)

        return wrapped

    async def _abort(self, context: Context, error: Exception, method: str) -> NoReturn:
        if isinstance(error, grpc.aio.AbortError):
            raise error
        if isinstance(error, MasterError | PlannerError):
            # A flood of calls must not flood the log.
            level = logging.DEBUG if isinstance(error, UnauthenticatedError | LimitExceededError) else logging.INFO
            logger.log(level, _refusal(method, error))
            await self._end(context, status_of(error), detail_of(error))
        error_id = f"e-{self._random_hex(8)}"
        logger.error(line("call failed", method=method, error=error_id), exc_info=error)
        await self._end(context, StatusCode.INTERNAL, unexpected(error_id))


def _refusal(method: str, error: MasterError | PlannerError) -> str:
    """The log line of an error. An id with the name of another field of the line gets an underscore."""
    own = {"method": method, "code": error.code, "message": error.message}
    return line("call refused", **own, **{f"{name}_" if name in own else name: id_ for name, id_ in error.ids.items()})


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """Stands for a request that could not be parsed."""

    reason: str


def _tolerant(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Parses without raising: where a deserializer raises, gRPC answers UNKNOWN without detail."""

    def read(data: bytes) -> Any:
        try:
            return deserialize(data)
        except DecodeError as error:
            return _Unreadable(str(error))

    return read


def _whole(request: Any, method: str) -> Any:
    """Raises InvalidRequestError when a request could not be parsed."""
    if isinstance(request, _Unreadable):
        raise InvalidRequestError(
            f"the request of {method} cannot be read: {request.reason}", hint="send the message that the method takes"
        )
    return request
