"""Around every call: errors become a status and a trailer, and calls are logged."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn, TypeAlias, cast

import grpc
import grpc.aio

from master.errors import MasterError
from master.ids import RandomHex
from master.logs import line
from master.status import ERROR_TRAILER, StatusCode, detail_of, status_of, unexpected
from planner.errors import PlannerError
from selat.v1 import common_pb2

logger = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[Any, Any]
# A string: the class takes parameters only in its stubs.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


class ErrorInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """Errors of ours carry an ErrorDetail in the trailer `selat-error-bin`; all others become INTERNAL with an id."""

    def __init__(self, random_hex: RandomHex) -> None:
        self._random_hex = random_hex

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        # Any: a handler is a named tuple at runtime, which the stubs do not say; it is None for an unknown method.
        handler: Any = await continuation(handler_call_details)
        method = str(handler_call_details.method)
        if handler is not None and handler.unary_unary is not None:
            handler = handler._replace(unary_unary=self._unary(handler.unary_unary, method))
        elif handler is not None and inspect.isasyncgenfunction(handler.unary_stream):
            handler = handler._replace(unary_stream=self._stream(handler.unary_stream, method))
        return cast(Handler, handler)

    def _unary(
        self, call: Callable[[Any, Context], Awaitable[Any]], method: str
    ) -> Callable[[Any, Context], Awaitable[Any]]:
        @functools.wraps(call)
        async def wrapped(request: Any, context: Context) -> Any:
            try:
                return await call(request, context)
            except Exception as error:  # noqa: BLE001 - becomes a status, and is logged
                await self._abort(context, error, method)

        return wrapped

    def _stream(
        self, call: Callable[[Any, Context], AsyncIterator[Any]], method: str
    ) -> Callable[[Any, Context], AsyncIterator[Any]]:
        @functools.wraps(call)
        async def wrapped(request: Any, context: Context) -> AsyncIterator[Any]:
            try:
                async for response in call(request, context):
                    yield response
            except Exception as error:  # noqa: BLE001 - becomes a status, and is logged
                await self._abort(context, error, method)

        return wrapped

    async def _abort(self, context: Context, error: Exception, method: str) -> NoReturn:
        if isinstance(error, grpc.aio.AbortError):
            raise error
        if isinstance(error, MasterError | PlannerError):
            logger.info(line("call refused", method=method, code=error.code, message=error.message, **error.ids))
            await _abort(context, status_of(error), detail_of(error))
        error_id = f"e-{self._random_hex(8)}"
        logger.error(line("call failed", method=method, error=error_id), exc_info=error)
        await _abort(context, StatusCode.INTERNAL, unexpected(error_id))


async def _abort(context: Context, code: grpc.StatusCode, detail: common_pb2.ErrorDetail) -> NoReturn:
    trailer = ((ERROR_TRAILER, detail.SerializeToString()),)
    await context.abort(code, detail.message, trailer)
