"""The gRPC status code of each class of errors."""

from __future__ import annotations

from typing import NoReturn

import grpc

from contract import trailers
from contract.trailers import Context, detail
from selat.v1.common_pb2 import ErrorDetail
from site_agent.base.errors import (
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
}
"""A class that is not listed has the code of its nearest ancestor."""


def status_of(error: SiteAgentError) -> grpc.StatusCode:
    return next(STATUS_CODES[kind] for kind in type(error).__mro__ if kind in STATUS_CODES)


def detail_of(error: SiteAgentError) -> ErrorDetail:
    """The detail of an error, as it is sent."""
    return detail(error.code, error.message, hint=error.hint, ids=error.ids)


async def abort(context: Context, error: SiteAgentError) -> NoReturn:
    """End the call with this error."""
    await trailers.abort(context, status_of(error), detail_of(error))
