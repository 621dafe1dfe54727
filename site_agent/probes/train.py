"""A burst of packets over UDP: how far the link pulls it apart says what it carries."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass

from site_agent.probes.rates import train_rate

PACKET_BYTES = 1400
FEWEST_PACKETS = 48
MOST_PACKETS = 4000
_GAP_S = 0.3
"""So long after a packet, no other is awaited."""
_BUFFER_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Arrived:
    """What reached the link's end."""

    bytes: int
    rate_bytes_per_s: float | None
    """None: too little to tell."""


def packets_for(expected_bytes_per_s: float, duration_s: float) -> int:
    """How many fill the link for so long."""
    return max(FEWEST_PACKETS, min(MOST_PACKETS, int(expected_bytes_per_s * duration_s / PACKET_BYTES)))


def open_receiver(host: str) -> socket.socket:
    """A socket for a train."""
    receiver = socket.socket(_family(host), socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    receiver.bind((host, 0))
    return receiver


def receive(receiver: socket.socket, token: bytes, timeout_s: float) -> Arrived:
    """Blocks until the train has passed; packets without the token are not part of it."""
    arrivals: list[float] = []
    receiver.settimeout(timeout_s)
    try:
        while len(arrivals) < MOST_PACKETS:
            packet = receiver.recv(65_536)
            if packet.startswith(token):
                arrivals.append(time.perf_counter())
                receiver.settimeout(_GAP_S)
    except TimeoutError:
        pass
    return Arrived(len(arrivals) * PACKET_BYTES, train_rate(arrivals, PACKET_BYTES))


def send(host: str, port: int, token: bytes, count: int) -> int:
    """Sends a train as fast as the machine lets it go; how many bytes."""
    packet = token + bytes(PACKET_BYTES - len(token))
    with socket.socket(_family(host), socket.SOCK_DGRAM) as sender:
        for _ in range(count):
            try:
                sender.sendto(packet, (host, port))
            except ConnectionRefusedError:
                # The receiver has gone; what it saw is all there is.
                break
    return count * PACKET_BYTES


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
