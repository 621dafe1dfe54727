"""The token that a client shows to its master, and where it may be shown."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from machine.bearer import TokenFileError, checked_token, metadata_of, read_token
from machine.loopback import is_loopback
from selat.errors import Detail, InvalidArgument

TOKEN_FILE_VARIABLE = "SELAT_TOKEN_FILE"


def find_token(token: str | None, token_file: str | Path | None) -> str:
    """The token that was given, else the one in the file that was, else in that of SELAT_TOKEN_FILE; empty: none.

    Raises:
        InvalidArgument: there is no token in the file, or others may read it.
    """
    file = token_file or os.environ.get(TOKEN_FILE_VARIABLE)
    try:
        if token is not None:
            return checked_token(token.strip(), "what was given as token")
        return read_token(Path(file)) if file else ""
    except TokenFileError as error:
        raise InvalidArgument(str(error), detail=Detail(hint=error.hint)) from None


def check_private(address: str, *, insecure: bool) -> None:
    """Raises InvalidArgument when a token would be sent to another machine without encryption."""
    host = address.rpartition(":")[0]
    if not insecure and not is_loopback(host):
        raise InvalidArgument(
            f"the connection to {address} is not encrypted, and a token sent there could be read on the way",
            detail=Detail(hint="reach the master by a tunnel (ssh -L), or give --insecure in a network that you trust"),
        )


class _Details(NamedTuple):
    """The details of a call, with the token in its metadata."""

    method: str
    timeout: float | None
    metadata: Any
    credentials: grpc.CallCredentials | None
    wait_for_ready: bool | None
    compression: grpc.Compression | None


class _Bearer(
    grpc.UnaryUnaryClientInterceptor,  # type: ignore[type-arg]
    grpc.UnaryStreamClientInterceptor,  # type: ignore[type-arg]
):
    """Adds the token to every call."""

    def __init__(self, token: str) -> None:
        self._metadata = metadata_of(token)

    def intercept_unary_unary(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        """See `grpc.UnaryUnaryClientInterceptor`."""
        return continuation(self._with_token(details), request)

    def intercept_unary_stream(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        """See `grpc.UnaryStreamClientInterceptor`."""
        return continuation(self._with_token(details), request)

    def _with_token(self, details: Any) -> _Details:
        return _Details(
            details.method,
            details.timeout,
            (*(details.metadata or ()), *self._metadata),
            details.credentials,
            details.wait_for_ready,
            details.compression,
        )


def with_token(channel: grpc.Channel, token: str) -> grpc.Channel:
    """A channel over the given one that adds the token to every call."""
    return grpc.intercept_channel(channel, _Bearer(token)) if token else channel
