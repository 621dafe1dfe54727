"""The connection to a master: address, channel options, and gRPC failures as errors of this package."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
from google.protobuf.message import DecodeError

from selat.errors import (
    Detail,
    InvalidArgument,
    NotFound,
    ResultsGone,
    SelatError,
    ServerFault,
    StatementError,
    TimedOut,
    Unavailable,
)
from selat.v1 import common_pb2
from wire.channels import channel
from wire.errors import WireError
from wire.names import MASTER, MemberName
from wire.security import PLAIN, Security

DEFAULT_PORT = 7410
DEFAULT_ADDRESS = f"127.0.0.1:{DEFAULT_PORT}"
ADDRESS_VARIABLE = "SELAT_MASTER"
TLS_VARIABLE = "SELAT_TLS_DIR"
ERROR_TRAILER = "selat-error-bin"

_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5}))?")
_LOOPBACK = ("127.", "localhost", "[::1]")
_REFUSALS = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
    }
)


def resolve_address(address: str | None) -> str:
    """`host:port` from an argument, else from SELAT_MASTER, else the default; the port may be left out.

    Raises InvalidArgument when it is no address.
    """
    text = address or os.environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS
    match = _ADDRESS.fullmatch(text.strip())
    port = int(match["port"] or DEFAULT_PORT) if match else 0
    if match is None or not 0 < port < 65536:
        raise InvalidArgument(f"{text!r} is not an address", detail=Detail(hint="write HOST or HOST:PORT"))
    return f"{match['host']}:{port}"


def resolve_security(directory: Path | str | None) -> Security:
    """TLS with the certificate in a directory, else in that of SELAT_TLS_DIR; without either, or with "", none.

    Raises InvalidArgument when the certificate cannot be used.
    """
    found = os.environ.get(TLS_VARIABLE) if directory is None else directory
    if not found:
        return PLAIN
    try:
        return Security.of(Path(found))
    except WireError as error:
        raise InvalidArgument(error.message, detail=Detail(hint=error.hint)) from None


def open_channel(address: str, peer: MemberName = MASTER, security: Security = PLAIN) -> grpc.Channel:
    """A channel that notices a dead peer, reconnects quickly and takes result batches of any size."""
    options: list[tuple[str, int]] = [
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        # How long gRPC really waits for the answer to a ping: a minute by default, whatever the one above says.
        ("grpc.http2.ping_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        ("grpc.initial_reconnect_backoff_ms", 100),
        # How long one attempt to connect may take at least: two round trips of a long way, or a busy machine.
        ("grpc.min_reconnect_backoff_ms", 5_000),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        # Connections inside this machine must not go through a proxy that the environment names.
        ("grpc.enable_http_proxy", 0 if address.startswith(_LOOPBACK) else 1),
    ]
    return channel(address, peer, security, options)


@contextmanager
def translated(address: str) -> Iterator[None]:
    """Turns every gRPC failure inside the block into an error of this package."""
    try:
        yield
    except ValueError as failure:
        # gRPC says so where the channel was closed, perhaps by another thread.
        if isinstance(failure, SelatError) or "channel" not in str(failure).lower():
            raise
        raise InvalidArgument("the client is closed", detail=Detail(hint="connect again")) from None
    except grpc.RpcError as failure:
        raise to_error(failure, address) from None


def to_error(failure: grpc.RpcError, address: str) -> SelatError:
    """The error of this package for a failed call."""
    status = failure.code() if isinstance(failure, grpc.Call) else grpc.StatusCode.UNKNOWN
    text = (failure.details() if isinstance(failure, grpc.Call) else None) or str(status)
    described = _described(failure)
    if described is not None:
        return _from_detail(status, described)
    if status is grpc.StatusCode.UNAVAILABLE:
        hint = f"start one with `selat dev`, or say where it is with --master or {ADDRESS_VARIABLE}"
        # gRPC's message lists every layer down to the socket; the reason comes last.
        reason = text.rpartition(": ")[2].rstrip("])")
        return Unavailable(f"no master answers at {address} ({reason})", detail=Detail(hint=hint))
    if status is grpc.StatusCode.CANCELLED:
        return Unavailable(f"the master at {address} ended the call")
    if status is grpc.StatusCode.DEADLINE_EXCEEDED:
        return TimedOut(f"the master at {address} did not answer in time")
    if status is grpc.StatusCode.NOT_FOUND:
        return NotFound(text)
    if status is grpc.StatusCode.UNIMPLEMENTED:
        return ServerFault(f"what answers at {address} is not a Selat master, or an older one ({text})")
    return StatementError(text) if status in _REFUSALS else ServerFault(f"the master failed: {text}")


def _described(failure: grpc.RpcError) -> common_pb2.ErrorDetail | None:
    trailers: Iterable[tuple[str, bytes]] = (isinstance(failure, grpc.Call) and failure.trailing_metadata()) or ()
    for key, value in trailers:
        if key == ERROR_TRAILER:
            try:
                return common_pb2.ErrorDetail.FromString(value)
            except DecodeError:
                return None
    return None


def _from_detail(status: grpc.StatusCode, said: common_pb2.ErrorDetail) -> SelatError:
    detail = Detail(said.line, said.column, said.found, said.hint, dict(said.ids))
    return _kind(status, said)(said.message, code=said.code, detail=detail)


def _kind(status: grpc.StatusCode, said: common_pb2.ErrorDetail) -> type[SelatError]:
    if status in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        return Unavailable
    if status is grpc.StatusCode.DEADLINE_EXCEEDED:
        return TimedOut
    if status is grpc.StatusCode.NOT_FOUND and not said.line:
        return NotFound
    if said.code == ResultsGone.default_code:
        return ResultsGone
    # An unknown name in a statement is an error of the statement, with a place in its text.
    return StatementError if status in _REFUSALS | {grpc.StatusCode.NOT_FOUND} else ServerFault
