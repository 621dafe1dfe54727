"""How errors cross the wire: a status code, and an ErrorDetail in a trailer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from selat.v1.common_pb2 import ErrorDetail
from site_agent.base.errors import (
    CallerRefusedError,
    CallerUnknownError,
    ChannelError,
    ChannelRequestError,
    ConnectorError,
    CorruptEpochError,
    CorruptLogError,
    DiskFullError,
    EngineError,
    FunctionError,
    FunctionLimitError,
    FunctionsRefusedError,
    IngestError,
    LostChannelError,
    NoSpaceError,
    NotHolderError,
    PathRefusedError,
    PushRequestError,
    SchemaMismatchError,
    SecretError,
    SequenceGapError,
    SiteAgentError,
    StaleFencingError,
    StreamEndedError,
    TrimmedEpochError,
    UnconfirmedChannelsError,
    UnknownChannelError,
    UnknownSlotError,
    UnknownStreamError,
)
from wire.callers import Refused

Context = grpc.aio.ServicerContext[Any, Any]

ERROR_TRAILER = "selat-error-bin"

_MESSAGE_BYTES = 1000
_WORD_BYTES = 200

STATUS_CODES: dict[type[SiteAgentError], grpc.StatusCode] = {
    SiteAgentError: grpc.StatusCode.INTERNAL,
    ConnectorError: grpc.StatusCode.FAILED_PRECONDITION,
    EngineError: grpc.StatusCode.INTERNAL,
    FunctionsRefusedError: grpc.StatusCode.PERMISSION_DENIED,
    PathRefusedError: grpc.StatusCode.PERMISSION_DENIED,
    SecretError: grpc.StatusCode.FAILED_PRECONDITION,
    FunctionError: grpc.StatusCode.INTERNAL,
    FunctionLimitError: grpc.StatusCode.INTERNAL,
    ChannelError: grpc.StatusCode.FAILED_PRECONDITION,
    ChannelRequestError: grpc.StatusCode.INVALID_ARGUMENT,
    UnknownChannelError: grpc.StatusCode.NOT_FOUND,
    UnconfirmedChannelsError: grpc.StatusCode.UNAVAILABLE,
    LostChannelError: grpc.StatusCode.FAILED_PRECONDITION,
    TrimmedEpochError: grpc.StatusCode.OUT_OF_RANGE,
    CorruptEpochError: grpc.StatusCode.DATA_LOSS,
    IngestError: grpc.StatusCode.INTERNAL,
    PushRequestError: grpc.StatusCode.INVALID_ARGUMENT,
    SchemaMismatchError: grpc.StatusCode.INVALID_ARGUMENT,
    UnknownStreamError: grpc.StatusCode.NOT_FOUND,
    SequenceGapError: grpc.StatusCode.FAILED_PRECONDITION,
    StreamEndedError: grpc.StatusCode.FAILED_PRECONDITION,
    DiskFullError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    CorruptLogError: grpc.StatusCode.DATA_LOSS,
    NoSpaceError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    UnknownSlotError: grpc.StatusCode.NOT_FOUND,
    StaleFencingError: grpc.StatusCode.FAILED_PRECONDITION,
    NotHolderError: grpc.StatusCode.PERMISSION_DENIED,
    CallerUnknownError: grpc.StatusCode.UNAUTHENTICATED,
    CallerRefusedError: grpc.StatusCode.PERMISSION_DENIED,
}
"""A class that is not listed has its nearest ancestor's code."""


def status_of(error: SiteAgentError) -> grpc.StatusCode:
    return next(STATUS_CODES[kind] for kind in type(error).__mro__ if kind in STATUS_CODES)


def detail_of(error: SiteAgentError) -> ErrorDetail:
    """Its texts are shortened where needed: gRPC drops a trailer of more than 8 KiB, and with it the status."""
    return ErrorDetail(
        code=error.code,
        message=shortened(error.message, _MESSAGE_BYTES),
        hint=shortened(error.hint, _MESSAGE_BYTES),
        ids={name: shortened(value, _WORD_BYTES) for name, value in error.ids.items()},
    )


def shortened(text: str, limit_bytes: int) -> str:
    """The text, or its beginning and an ellipsis, in so many bytes of UTF-8 at most."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit_bytes:
        return data.decode()
    return data[: limit_bytes - len("…".encode())].decode("utf-8", "ignore") + "…"


async def abort(context: Context, error: SiteAgentError) -> NoReturn:
    """End the call with this error."""
    detail = detail_of(error)
    await context.abort(status_of(error), detail.message, ((ERROR_TRAILER, detail.SerializeToString()),))


async def refuse(context: Context, refused: Refused) -> NoReturn:
    """End the call of a member who may not make it."""
    kinds: tuple[type[SiteAgentError], ...] = (CallerUnknownError, CallerRefusedError)
    kind = next(kind for kind in kinds if kind.code == refused.code)
    detail = detail_of(kind(refused.message, hint=refused.hint))
    await context.abort(refused.status, detail.message, ((ERROR_TRAILER, detail.SerializeToString()),))


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
