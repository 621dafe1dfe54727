"""Connections to agents, one for each site and address, opened when first needed."""

from __future__ import annotations

from collections.abc import Mapping

import grpc.aio

from wire import names
from wire.channels import aio_channel
from wire.security import PLAIN, Security

_OPTIONS = (
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    # Without pings, a call over a broken link would wait for ever.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # How long gRPC really waits for the answer to a ping: a minute by default, whatever the option above says.
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Agents are reached directly, never through a proxy of the environment.
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)


class Peers:
    """Hands out connections; closes them all at the end."""

    def __init__(self, security: Security = PLAIN) -> None:
        self._security = security
        self._channels: dict[tuple[str, str], grpc.aio.Channel] = {}

    def channel(self, site: str, address: str) -> grpc.aio.Channel:
        """The connection to the agent of that site, expected at host:port."""
        channel = self._channels.get((site, address))
        if channel is None:
            channel = aio_channel(address, names.site(site), self._security, _OPTIONS)
            self._channels[site, address] = channel
        return channel

    async def keep_only(self, addresses: Mapping[str, str]) -> None:
        """Close the connections to addresses that no site has any more."""
        for key in sorted(self._channels.keys() - set(addresses.items())):
            await self._channels.pop(key).close(None)

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close(None)
        self._channels.clear()
