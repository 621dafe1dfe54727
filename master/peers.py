"""Connections to agents, one per address, made when first needed."""

from __future__ import annotations

from collections.abc import Collection

import grpc.aio

_OPTIONS = (
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    # A link that was cut tells nobody: without pings a call would wait for ever.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # How long gRPC really waits for the answer to a ping: a minute by default, whatever the one above says.
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # A proxy of the environment is none of ours: agents are reached as they say.
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)


class Peers:
    """Hands out channels; closes them all at the end."""

    def __init__(self) -> None:
        self._channels: dict[str, grpc.aio.Channel] = {}

    def channel(self, address: str) -> grpc.aio.Channel:
        """The connection to that host:port."""
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = grpc.aio.insecure_channel(address, options=_OPTIONS)
        return channel

    async def keep_only(self, addresses: Collection[str]) -> None:
        """Close the connections to addresses that no agent has any more."""
        for address in self._channels.keys() - set(addresses):
            await self._channels.pop(address).close(None)

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close(None)
        self._channels.clear()
