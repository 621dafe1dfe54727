"""Links between simulated machines, and the connections over them."""

from __future__ import annotations

import zlib
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, cast

import grpc
import grpc.aio

from tests.simulation.loop import PROCESS, Process, SimulatedLoop

if TYPE_CHECKING:
    from tests.simulation.net.call import Call
    from tests.simulation.net.channel import Channel
    from tests.simulation.net.server import Server

KEEPALIVE_S = 20.0
"""A connection whose other end does not answer is given up after this time, as by the product's options."""
JITTER = 0.1
FIRST_PORT = 7001

Tell = Callable[[str], None]
"""Takes a line for the trace."""


@dataclass(slots=True)
class Link:
    """One direction between two machines. What is sent while it is down arrives once it is up again."""

    latency_s: float
    bytes_per_s: float
    down_until_s: float = 0.0
    free_at_s: float = 0.0

    def arrival_s(self, now_s: float, size_bytes: int, draw: float) -> float:
        """When a message arrives that is sent now."""
        self.free_at_s = max(self.free_at_s, now_s, self.down_until_s) + size_bytes / self.bytes_per_s
        return self.free_at_s + self.latency_s * (1 + JITTER * draw)


class Network:
    """All servers, links and connections of a world. A `wire.transport.Transport`.

    Args:
        loop: The world's.
        random: Draws latencies.
        tell: Takes a line for each message.
    """

    def __init__(self, loop: SimulatedLoop, random: Random, tell: Tell = lambda line: None) -> None:
        self.loop = loop
        self.random = random
        self.tell = tell
        self.servers: dict[str, Server] = {}
        self.connections: list[Connection] = []
        self._links: dict[tuple[str, str], Link] = {}
        self._next_port = FIRST_PORT
        self._sent: Counter[tuple[str, str]] = Counter()
        self.breaks: frozenset[tuple[str, str, int]] = frozenset()
        """By source, target and number: the messages with which connections are lost."""
        self.broken = 0

    def channel(self, address: str, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:
        """See Transport."""
        from tests.simulation.net.channel import Channel

        return cast("grpc.aio.Channel", Channel(self, PROCESS.get(), address, dict(options)))

    def server(self, options: Sequence[tuple[str, Any]], interceptors: Sequence[Any]) -> grpc.aio.Server:
        """See Transport."""
        from tests.simulation.net.server import Server

        return cast("grpc.aio.Server", Server(self, PROCESS.get(), interceptors))

    def link(self, source: str, target: str) -> Link:
        """The direction from one machine to another, or within one."""
        found = self._links.get((source, target))
        if found is None:
            found = Link(5e-5, 1e9) if source == target else Link(0.02, 2.5e6)
            self._links[source, target] = found
        return found

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def between(self, one: str, other: str) -> list[Connection]:
        """The connections between two machines, whoever opened them."""
        return [c for c in self.connections if {c.client.name, c.server.name} == {one, other}]

    def cut(self, one: str, other: str) -> None:
        """Reset the connections between two machines: both ends notice at once."""
        for connection in self.between(one, other):
            connection.lost("Connection reset by peer")

    def breaks_with(self, source: str, target: str) -> bool:
        """Count a message; whether its connection is lost with it."""
        self._sent[source, target] += 1
        return (source, target, self._sent[source, target]) in self.breaks

    def silence(self, source: str, target: str, seconds: float) -> None:
        """Nothing sent from one machine arrives at the other for so long. Both ends notice by keepalive, at best."""
        link = self.link(source, target)
        link.down_until_s = max(link.down_until_s, self.loop.time() + seconds)
        for connection in self.between(source, target):
            connection.watch(link)

    def broke(self, connection: Connection, source: str, target: str) -> None:
        """A connection is lost with what is under way: its ends notice in their next turns."""
        self.tell(f"{self.loop.time():.6f} world break source={source} target={target}")
        self.broken += 1
        self.loop.call_soon(connection.lost, "Connection reset by peer", context=self.loop.world.context())

    def reaches(self, one: str, other: str) -> bool:
        """Whether messages pass now, there and back."""
        now_s = self.loop.time()
        return all(self.link(*pair).down_until_s <= now_s for pair in ((one, other), (other, one)))

    def died(self, process: Process, *, power: bool = False) -> None:
        """The process is gone. Its machine's kernel closes its connections, unless the machine lost its power."""
        self.servers = {at: server for at, server in self.servers.items() if server.process is not process}
        for connection in [c for c in self.connections if process in (c.client, c.server)]:
            if power:
                connection.vanish()
            else:
                connection.lost("Socket closed")


class Connection:
    """One TCP connection between a channel and a server: in each direction messages arrive in order."""

    def __init__(self, network: Network, channel: Channel, server: Server) -> None:
        self.client, self.server = channel.process, server.process
        self.open = True
        self.calls: dict[Call, None] = {}
        self._network = network
        self._channel = channel
        self._vanished = False
        self._contexts = {True: self.server.context(), False: self.client.context()}
        self._queues: dict[bool, deque[tuple[Callable[..., None], tuple[Any, ...]]]] = {True: deque(), False: deque()}
        self._last_s = {True: 0.0, False: 0.0}
        network.connections.append(self)

    def send(self, up: bool, size_bytes: int, arrive: Callable[..., None], *content: Any) -> None:
        """Have `arrive(*content)` called at the other end: at the server's if `up`, else at the client's."""
        network, now_s = self._network, self._network.loop.time()
        if not self.open:
            return
        source, target = (self.client, self.server) if up else (self.server, self.client)
        source.check()
        if network.breaks and network.breaks_with(source.name, target.name):
            network.broke(self, source.name, target.name)
            return
        link = network.link(source.name, target.name)
        at_s = self._last_s[up] = max(self._last_s[up], link.arrival_s(now_s, size_bytes, network.random.random()))
        if not self._vanished:
            self._queues[up].append((arrive, content))
        said = zlib.crc32(content[0]) if content and isinstance(content[0], bytes) else 0
        network.tell(
            f"{now_s:.6f} {source} {'call' if up else 'answer'}={target} {arrive.__name__} {size_bytes} {said:08x}"
        )
        if self._vanished:
            if up:
                network.loop.call_at(at_s, self._knock, context=network.loop.world.context())
            return
        network.loop.call_at(at_s, self._deliver, up, context=self._contexts[up])
        if at_s - now_s > KEEPALIVE_S:
            self.watch(link)

    def watch(self, link: Link) -> None:
        """Give the connection up if the link is still down when a ping's answer is overdue."""

        def look() -> None:
            if link.down_until_s > self._network.loop.time():
                self.lost("keepalive watchdog timeout")

        self._network.loop.call_later(KEEPALIVE_S, look, context=self._network.loop.world.context())

    def vanish(self) -> None:
        """The other machine has no power, so nothing says that the connection is gone."""
        self._vanished = True
        world = self._network.loop.world.context()
        self._network.loop.call_later(KEEPALIVE_S, self.lost, "keepalive watchdog timeout", context=world)

    def lost(self, reason: str) -> None:
        """Both ends notice."""
        if not self.open:
            return
        self.open = False
        self._network.connections.remove(self)
        self._channel.forget(self)
        for call in list(self.calls):
            if self.server.alive:
                self._contexts[True].run(call.client_gone)
            if self.client.alive:
                self._contexts[False].run(call.finish, grpc.StatusCode.UNAVAILABLE, reason)

    def _deliver(self, up: bool) -> None:
        # Timers of one instant have no order: the queue has.
        arrive, content = self._queues[up].popleft()
        if self.open and not self._vanished:
            arrive(*content)

    def _knock(self) -> None:
        """A machine that is back knows nothing of the connection."""
        if self._channel.address in self._network.servers:
            self.lost("Connection reset by peer")
