"""The other traffic of a link while it was probed: bytes of this host's TCP connections, as the kernel counts them.

A router counts whole messages, of up to a mebibyte: far too coarse for the second of a probe. Linux alone tells more,
by sock_diag(7); elsewhere nothing is known.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST_ALL = 0x1 | 0x300
_DONE = 3
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI2s2s32xI8x")
"""Family, protocol, wanted attributes, states, ports, addresses, interface, cookie."""
_MESSAGE = struct.Struct("=BBBB2s2s16s16sIQ20x")
_ATTRIBUTE = struct.Struct("=HH")
_ESTABLISHED = 1
_INFO = 2
_BYTES_RECEIVED = 128
"""The offset in `struct tcp_info` of the bytes that arrived in order."""
_ANSWER_BYTES = 64 * 1024
_ANSWER_S = 1.0
_NO_INTERFACE = 0
_MAPPED = bytes(10) + b"\xff\xff"
"""The prefix of an IPv4 address that is written as an IPv6 address."""

Counts = Mapping[int, int]
"""Bytes received, by a number that identifies the connection."""


@dataclass(slots=True)
class Meter:
    """Records the bytes that arrive over a changing set of connections."""

    count: Callable[[], Counts | None]
    every_s: float = 0.01
    _seen: dict[int, int] = field(default_factory=dict)
    _notes: list[tuple[float, int]] = field(default_factory=list)
    """(time, bytes since the first note)."""
    _blind: bool = False

    def note(self, now_s: float | None = None) -> None:
        """Read the counters, unless they were read a moment ago. Times are those of `time.time`."""
        now_s = time.time() if now_s is None else now_s
        if self._blind or (self._notes and now_s < self._notes[-1][0] + self.every_s):
            return
        counts = self.count()
        if counts is None:
            self._blind = True
            return
        if self._notes:
            # All bytes of a new connection have come since the last reading.
            more = sum(max(0, total - self._seen.get(number, 0)) for number, total in counts.items())
            self._notes.append((now_s, self._notes[-1][1] + more))
        else:
            self._notes.append((now_s, 0))
        self._seen.update(counts)

    def bytes_per_s(self, start_s: float, end_s: float) -> float | None:
        """The rate between two moments; None: the counters were not read then."""
        if self._blind or len(self._notes) < 2 or end_s <= start_s:
            return None
        return (_at(self._notes, end_s) - _at(self._notes, start_s)) / (end_s - start_s)

    def steady(self) -> tuple[float, float] | None:
        """The second half of the time in which bytes came; None: none came."""
        growing = [(a[0], b[0]) for a, b in zip(self._notes, self._notes[1:], strict=False) if b[1] > a[1]]
        if len(growing) < 2:
            return None
        first_s, last_s = growing[0][0], growing[-1][1]
        return (first_s + last_s) / 2, last_s


def from_peer(address: str) -> Callable[[], Counts | None]:
    """Counts connections that were made from here to host:port."""
    host, _, port = address.rpartition(":")
    return lambda: received_bytes(remote=(host.strip("[]"), int(port))) if port.isdecimal() else None


def to_port(port: int) -> Callable[[], Counts | None]:
    """Counts connections that were made to a port here."""
    return lambda: received_bytes(local_port=port)


def received_bytes(*, remote: tuple[str, int] | None = None, local_port: int = 0) -> Counts | None:
    """Bytes received so far over each connection to a remote address (an IP) or at a local port.

    Returns:
        None: this system does not tell.
    """
    if sys.platform != "linux":
        return None
    ports = local_port, remote[1] if remote is not None else 0
    try:
        wanted = _forms(remote[0]) if remote is not None else None
        found = _asked(socket.AF_INET, ports)
    except OSError:
        return None
    with suppress(OSError):
        # gRPC uses IPv6 sockets for IPv4 addresses, too; a system without IPv6 has no counters to read.
        found += _asked(socket.AF_INET6, ports)
    return {number: count for number, target, count in found if wanted is None or target in wanted}


def _forms(host: str) -> tuple[bytes, ...]:
    """The address as sockets of either family write it. Raises OSError when it is a name."""
    if ":" in host:
        return (socket.inet_pton(socket.AF_INET6, host),)
    packed = socket.inet_pton(socket.AF_INET, host)
    return packed.ljust(16, b"\0"), _MAPPED + packed


def _asked(family: socket.AddressFamily, ports: tuple[int, int]) -> list[tuple[int, bytes, int]]:
    """Connections with these local and remote ports (0: any): number, remote address, bytes received.

    Raises:
        OSError: the kernel does not tell.
    """
    here, there = (port.to_bytes(2, "big") for port in ports)
    request = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 1 << _ESTABLISHED, here, there, _NO_INTERFACE)
    header = _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _REQUEST_ALL, 0, 0)
    found: list[tuple[int, bytes, int]] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_ANSWER_S)
        kernel.send(header + request)
        while True:
            for kind, body in _messages(kernel.recv(_ANSWER_BYTES)):
                if kind == _DONE:
                    return found
                if kind != _SOCK_DIAG_BY_FAMILY:
                    raise OSError("sock_diag refused")
                number, target, count = _read(body)
                if count is not None:
                    found.append((number, target, count))


def _messages(data: bytes) -> Sequence[tuple[int, bytes]]:
    found, position = [], 0
    while position + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, position)
        if length < _HEADER.size:
            break
        found.append((kind, data[position + _HEADER.size : position + length]))
        position += (length + 3) & ~3
    return found


def _read(body: bytes) -> tuple[int, bytes, int | None]:
    """A connection's number, its remote address, and the bytes it received (None: not counted)."""
    *_, target, _, cookie = _MESSAGE.unpack_from(body)
    position = _MESSAGE.size
    while position + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, position)
        value = body[position + _ATTRIBUTE.size : position + length]
        if kind == _INFO and len(value) >= _BYTES_RECEIVED + 8:
            return cookie, target, int.from_bytes(value[_BYTES_RECEIVED : _BYTES_RECEIVED + 8], sys.byteorder)
        position += max(_ATTRIBUTE.size, (length + 3) & ~3)
    return cookie, target, None


def _at(notes: Sequence[tuple[float, int]], moment_s: float) -> float:
    """The count at a moment, interpolated between the two readings next to it."""
    before = notes[0]
    for after in notes:
        if after[0] >= moment_s:
            if after[0] == before[0]:
                return float(after[1])
            part = (moment_s - before[0]) / (after[0] - before[0])
            return before[1] + max(0.0, part) * (after[1] - before[1])
        before = after
    return float(before[1])
