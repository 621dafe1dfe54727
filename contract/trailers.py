"""How errors cross the wire: a status code, and an ErrorDetail in a trailer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from selat.v1.common_pb2 import ErrorDetail
from wire.callers import Refused

Context = grpc.aio.ServicerContext[Any, Any]

ERROR_TRAILER = "selat-error-bin"

_MESSAGE_BYTES = 1000
_WORD_BYTES = 200


def detail(
    code: str, message: str, *, hint: str = "", found: str = "", ids: Mapping[str, str] | None = None
) -> ErrorDetail:
    """The ErrorDetail of an error.

    Its texts are shortened where needed: gRPC drops a trailer of more than 8 KiB, and with it the status.
    """
    return ErrorDetail(
        code=code,
        message=shortened(message, _MESSAGE_BYTES),
        hint=shortened(hint, _MESSAGE_BYTES),
        found=shortened(found, _WORD_BYTES),
        ids={name: shortened(value, _WORD_BYTES) for name, value in (ids or {}).items()},
    )


def shortened(text: str, limit_bytes: int) -> str:
    """The text, or its beginning and an ellipsis, in so many bytes of UTF-8 at most."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit_bytes:
        return data.decode()
    return data[: limit_bytes - len("…".encode())].decode("utf-8", "ignore") + "…"


async def abort(context: Context, status: grpc.StatusCode, told: ErrorDetail) -> NoReturn:
    """End the call with this status and detail."""
    await context.abort(status, told.message, ((ERROR_TRAILER, told.SerializeToString()),))


async def refuse(context: Context, refused: Refused) -> NoReturn:
    """End a call that its caller may not make."""
    await abort(context, refused.status, detail(refused.code, refused.message, hint=refused.hint))


def received_detail(error: grpc.aio.AioRpcError) -> ErrorDetail | None:
    """The ErrorDetail that the other end sent; None when it sent none, as when the connection broke."""
    # The stubs describe the trailer as one item instead of a sequence of them.
    for key, value in cast("Iterable[tuple[str, str | bytes]]", error.trailing_metadata() or ()):
        if key == ERROR_TRAILER and isinstance(value, bytes):
            try:
                return ErrorDetail.FromString(value)
            except DecodeError:
                return None
    return None
