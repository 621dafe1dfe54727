"""Servers for callers that are no members: they have no certificates, and a token says who they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from wire.transport import Options


@dataclass(frozen=True, slots=True)
class Certificate:
    """A server's certificate, as the programs of others check it: by the name of the host."""

    chain: Path
    key: Path


def guest_server(options: Options, interceptors: Sequence[Any]) -> grpc.aio.Server:
    """A server without a port."""
    return grpc.aio.server(options=tuple(options), interceptors=tuple(interceptors))


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
