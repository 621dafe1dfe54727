"""Servers for callers that are no members: they have no certificates, and a token says who they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

MESSAGE_BYTES = 4 * 1024 * 1024
"""The longest request."""
_OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
)

Methods = Mapping[str, tuple[Callable[..., Any], Any]]
"""The function that answers a method and the message that it takes, by the method's name."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A server's certificate, as the programs of others check it: by the name of the host."""

    chain: Path
    key: Path


def guest_server(interceptors: Sequence[Any]) -> grpc.aio.Server:
    """A server without a port."""
    return grpc.aio.server(options=_OPTIONS, interceptors=tuple(interceptors))


def add_service(
    server: grpc.aio.Server, service: str, *, unary: Methods, streams: Methods, both: Methods | None = None
) -> None:
    """Add a service whose stubs are not ours to a server that does not run yet.

    Args:
        server: the server.
        service: its full name.
        unary: methods with one request and one response.
        streams: methods with one request and a stream of responses.
        both: methods with a stream of either.
    """
    kinds = (
        (grpc.unary_unary_rpc_method_handler, unary),
        (grpc.unary_stream_rpc_method_handler, streams),
        (grpc.stream_stream_rpc_method_handler, both or {}),
    )
    handlers = {
        name: handle(answer, message.FromString, _serialized)
        for handle, methods in kinds
        for name, (answer, message) in methods.items()
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))


def _serialized(message: Any) -> bytes:
    return bytes(message.SerializeToString())


def listen_for_guests(server: grpc.aio.Server, address: str, certificate: Certificate | None) -> int:
    """Have the server listen at host:port, with TLS if there is a certificate; the port, which was free for 0.

    Raises:
        RuntimeError: it cannot listen there.
        OSError: the certificate cannot be read.
    """
    if certificate is None:
        return server.add_insecure_port(address)
    pair = (certificate.key.read_bytes(), certificate.chain.read_bytes())
    return server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
