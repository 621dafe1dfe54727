"""A burst of packets over UDP: how far the link pulls the packets apart shows its capacity."""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from site_agent.probes.rates import slowed, train_rate

PACKET_BYTES = 1400
FEWEST_PACKETS = 32
"""Of these, 16 pass after the few that links let through at once."""
MOST_PACKETS = 4000
GAP_S = 0.3
"""After this time without a packet, no other is expected."""
_BUFFER_BYTES = 4 * 1024 * 1024
_PLACE = struct.Struct("!II")
"""What follows the token: a packet's number from 0, and the number of packets."""
_SO_TIMESTAMPNS = 35
"""Linux's option; Python has no name for it."""
_TIMESPEC = struct.Struct("@ll")


@dataclass(frozen=True, slots=True)
class Arrived:
    """What arrived at the link's end."""

    bytes: int
    rate_bytes_per_s: float | None
    """None: too few packets arrived to tell."""
    steady: tuple[float, float] | None = None
    """Begin and end of the time in which the rate was measured, in seconds of `time.time`; None: not known."""


def packets_for(expected_bytes_per_s: float, duration_s: float) -> int:
    """The number of packets that fill the link for this time."""
    return max(FEWEST_PACKETS, min(MOST_PACKETS, int(expected_bytes_per_s * duration_s / PACKET_BYTES)))


def open_receiver(host: str) -> socket.socket:
    """A socket that receives a train."""
    receiver = socket.socket(_family(host), socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    if sys.platform == "linux":
        # The kernel's time stamps: a busy machine wakes this process late, and then all waiting packets seem to come at
        # once.
        receiver.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    receiver.bind((host, 0))
    return receiver


def receive(
    receiver: socket.socket, token: bytes, timeout_s: float, meanwhile: Callable[[], None] = lambda: None
) -> Arrived:
    """Receive until the train has passed; packets without the token are not part of it. Blocks.

    Args:
        meanwhile: called after each packet.
    """
    arrivals: list[float] = []
    receiver.settimeout(timeout_s)
    with suppress(TimeoutError):
        while len(arrivals) < MOST_PACKETS:
            packet, ancillary, _, _ = receiver.recvmsg(PACKET_BYTES, socket.CMSG_SPACE(_TIMESPEC.size))
            if len(packet) < len(token) + _PLACE.size or not packet.startswith(token):
                continue
            arrivals.append(_arrival_s(ancillary))
            receiver.settimeout(GAP_S)
            meanwhile()
            number, count = _PLACE.unpack_from(packet, len(token))
            if number + 1 >= count:
                break
    rest = slowed(arrivals)
    steady = (rest[0], rest[-1]) if rest else None
    return Arrived(len(arrivals) * PACKET_BYTES, train_rate(arrivals, PACKET_BYTES), steady)


def _arrival_s(ancillary: list[tuple[int, int, bytes]]) -> float:
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS) and len(data) >= _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack_from(data)
            return float(seconds + nanoseconds / 1e9)
    return time.time()


def send(host: str, port: int, token: bytes, count: int) -> int:
    """Send a train as fast as the machine allows; returns the number of bytes sent."""
    filling = bytes(PACKET_BYTES - len(token) - _PLACE.size)
    with socket.socket(_family(host), socket.SOCK_DGRAM) as sender:
        # The socket buffer holds much of the train: a busy machine that delays this process must not tear it apart.
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        for number in range(count):
            try:
                sender.sendto(token + _PLACE.pack(number, count) + filling, (host, port))
            except ConnectionRefusedError:
                # The receiver is gone; it has seen the packets so far.
                break
    return count * PACKET_BYTES


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
