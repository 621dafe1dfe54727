"""Connections to other sites, one for each, whose addresses may change at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import grpc.aio

from site_agent.exchange.options import Connect


@dataclass(slots=True)
class LinkUsage:
    """The traffic of one link since the agent started."""

    bytes: int = 0
    """Serialized messages: payload, schemas, manifests."""
    epochs: int = 0


class Links:
    """gRPC connections by site name."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._addresses: dict[str, str] = {}
        self._connections: dict[str, grpc.aio.Channel] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()

    def set_addresses(self, addresses: Mapping[str, str]) -> frozenset[str]:
        """Set all addresses; returns the sites whose connection is no longer valid."""
        stale = frozenset(site for site, address in self._addresses.items() if addresses.get(site) != address)
        self._addresses = dict(addresses)
        for site in stale:
            self._close_later(self._connections.pop(site, None))
        self._changed.set()
        return stale

    async def connection(self, site: str) -> grpc.aio.Channel:
        """The connection to a site; waits until its address is known."""
        while site not in self._addresses:
            self._changed.clear()
            await self._changed.wait()
        if site not in self._connections:
            self._connections[site] = self._connect(self._addresses[site], site)
        return self._connections[site]

    async def close(self) -> None:
        for connection in self._connections.values():
            await connection.close(None)
        self._connections.clear()
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _close_later(self, connection: grpc.aio.Channel | None) -> None:
        if connection is not None:
            task = asyncio.ensure_future(connection.close(None))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
