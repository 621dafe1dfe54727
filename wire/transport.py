"""What plain connections are made of: TCP, or a network in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import grpc.aio

Options = Sequence[tuple[str, Any]]


class Transport(Protocol):
    """Makes the two ends of connections. They behave as those of `grpc.aio`."""

    def channel(self, address: str, options: Options) -> grpc.aio.Channel:
        """A channel to host:port."""
        ...

    def server(self, options: Options, interceptors: Sequence[Any]) -> grpc.aio.Server:
        """A server without a port."""
        ...


class Tcp:
    """Connections over the machine's network."""

    def channel(self, address: str, options: Options) -> grpc.aio.Channel:
        """See Transport."""
        return grpc.aio.insecure_channel(address, options=tuple(options))

    def server(self, options: Options, interceptors: Sequence[Any]) -> grpc.aio.Server:
        """See Transport."""
        return grpc.aio.server(options=tuple(options), interceptors=tuple(interceptors))


TCP = Tcp()
