"""Durations of calls, by service, method and status."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

import grpc
import grpc.aio

from machine.durations import Durations

Context = grpc.aio.ServicerContext[Any, Any]
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

_NAMES = {code.value[0]: code.name for code in grpc.StatusCode}


class TimingInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """Observes calls with one answer; calls with several follow something for as long as the caller wants."""

    def __init__(self, durations: Durations) -> None:
        self._durations = durations

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        # Any: a handler is a named tuple at runtime, which the stubs do not say; it is None for an unknown method.
        handler: Any = await continuation(handler_call_details)
        if handler is not None and handler.unary_unary is not None:
            handler = handler._replace(unary_unary=self._timed(handler.unary_unary, str(handler_call_details.method)))
        return cast(Handler, handler)

    def _timed(
        self, call: Callable[[Any, Context], Awaitable[Any]], path: str
    ) -> Callable[[Any, Context], Awaitable[Any]]:
        service, _, method = path.removeprefix("/").rpartition("/")

        @functools.wraps(call)
        async def timed(request: Any, context: Context) -> Any:
            began_s = time.monotonic()
            code = ""
            try:
                return await call(request, context)
            except asyncio.CancelledError:
                code = grpc.StatusCode.CANCELLED.name
                raise
            finally:
                self._durations.observe(time.monotonic() - began_s, service, method, code or _code(context))

        return timed


def _code(context: Context) -> str:
    """The present status of the call; it is a number at run time, whatever the stubs say."""
    code: Any = context.code()
    if isinstance(code, grpc.StatusCode):
        return code.name
    return _NAMES.get(code or 0, "UNKNOWN")
