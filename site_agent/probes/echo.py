"""Round trips to all other sites, by small echoes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import grpc
import grpc.aio

from selat.v1 import wan_pb2 as pb
from selat.v1.wan_pb2_grpc import ProbeServiceStub
from site_agent.exchange.options import Options, connector
from wire.security import PLAIN, Security

INTERVAL_S = 5.0
ECHOES = 3
SITES_AT_ONCE = 4
"""Most sites that an agent sends echoes to in one interval: the others have their turn in the next ones, so that the
calls of an agent do not grow with the number of sites."""
_OPTIONS: Options = (("grpc.enable_http_proxy", 0),)
_LATE_S = 3.0
"""An echo that takes longer counts as lost."""


@dataclass(frozen=True, slots=True)
class Echoes:
    """The outcome of some echoes to one site."""

    to_site: str
    sent: int
    lost: int
    rtt_s: float | None
    """The shortest; None: all were lost."""


class EchoLoop:
    """Keeps the latest echoes to every site, on connections of its own: those of transfers are busy."""

    def __init__(self, site: str, security: Security = PLAIN) -> None:
        self._site = site
        self._connect = connector(security, _OPTIONS)
        self._addresses: dict[str, str] = {}
        self._turns: deque[str] = deque()
        self._channels: dict[tuple[str, str], grpc.aio.Channel] = {}
        self._fresh: dict[str, Echoes] = {}

    def set_addresses(self, addresses: Mapping[str, str]) -> None:
        """Set host:port of all agents; this site's own is ignored."""
        self._addresses = {site: address for site, address in sorted(addresses.items()) if site != self._site}
        known = [site for site in self._turns if site in self._addresses]
        self._turns = deque([*known, *(site for site in self._addresses if site not in known)])

    def take(self) -> tuple[Echoes, ...]:
        """The echoes since the last call."""
        fresh, self._fresh = tuple(self._fresh.values()), {}
        return fresh

    async def run(self) -> None:
        """Send echoes until cancelled."""
        try:
            while True:
                await asyncio.sleep(INTERVAL_S)
                await self.once()
        finally:
            for channel in self._channels.values():
                await channel.close(None)

    async def once(self) -> None:
        """Send some echoes to the sites whose turn it is, concurrently."""
        sites = list(self._turns)[:SITES_AT_ONCE]
        self._turns.rotate(-len(sites))
        found = await asyncio.gather(*(self._echo(site, self._addresses[site]) for site in sites))
        self._fresh.update({echoes.to_site: echoes for echoes in found})

    async def _echo(self, site: str, address: str) -> Echoes:
        stub = ProbeServiceStub(await self._channel(site, address))
        now_s = asyncio.get_running_loop().time
        times = []
        for _ in range(ECHOES):
            started_s = now_s()
            try:
                await stub.Echo(pb.EchoRequest(), timeout=_LATE_S)
            except grpc.aio.AioRpcError:
                continue
            times.append(now_s() - started_s)
        return Echoes(site, ECHOES, ECHOES - len(times), min(times, default=None))

    async def _channel(self, site: str, address: str) -> grpc.aio.Channel:
        for old in sorted(self._channels.keys() - set(self._addresses.items())):
            await self._channels.pop(old).close(None)
        channel = self._channels.get((site, address))
        if channel is None:
            channel = self._channels[site, address] = self._connect(address, site)
        return channel
