"""How errors cross the wire: a status code, and an ErrorDetail in a trailer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from selat.v1.common_pb2 import ErrorDetail
from site_agent.errors import (
    ChannelError,
    ChannelRequestError,
    ConnectorError,
    CorruptEpochError,
    EngineError,
    SiteAgentError,
    TrimmedEpochError,
    UnknownChannelError,
)

Context = grpc.aio.ServicerContext[Any, Any]

ERROR_TRAILER = "selat-error-bin"

STATUS_CODES: dict[type[SiteAgentError], grpc.StatusCode] = {
    SiteAgentError: grpc.StatusCode.INTERNAL,
    ConnectorError: grpc.StatusCode.FAILED_PRECONDITION,
    EngineError: grpc.StatusCode.INTERNAL,
    ChannelError: grpc.StatusCode.FAILED_PRECONDITION,
    ChannelRequestError: grpc.StatusCode.INVALID_ARGUMENT,
    UnknownChannelError: grpc.StatusCode.NOT_FOUND,
    TrimmedEpochError: grpc.StatusCode.OUT_OF_RANGE,
    CorruptEpochError: grpc.StatusCode.DATA_LOSS,
}
"""A class that is not listed has its nearest ancestor's code."""


def status_of(error: SiteAgentError) -> grpc.StatusCode:
    return next(STATUS_CODES[kind] for kind in type(error).__mro__ if kind in STATUS_CODES)


def detail_of(error: SiteAgentError) -> ErrorDetail:
    return ErrorDetail(code=error.code, message=error.message, hint=error.hint, ids=error.ids)


async def abort(context: Context, error: SiteAgentError) -> NoReturn:
    """End the call with this error."""
    trailer = ((ERROR_TRAILER, detail_of(error).SerializeToString()),)
    await context.abort(status_of(error), error.message, trailer)


def received_detail(error: grpc.aio.AioRpcError) -> ErrorDetail | None:
    """What the other end said, None when it was not one of ours (a broken connection)."""
    # The stubs describe the trailer as one item instead of a sequence of them.
    for key, value in cast("Iterable[tuple[str, str | bytes]]", error.trailing_metadata() or ()):
        if key == ERROR_TRAILER and isinstance(value, bytes):
            try:
                return ErrorDetail.FromString(value)
            except DecodeError:
                return None
    return None
