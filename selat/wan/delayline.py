"""Delay, jitter and loss in user space, for kernels without netem: one process for a whole WAN.

For kernels without netem. Each site's WAN device is a TUN device that this process holds; a packet read from one site's
is kept until its time has come and written to the other's. Packets of a pair stay in order, also with jitter.

The configuration: `{"devices": [{"device", "address"}], "socket": path, "ready": path, "links": [{"from", "to",
"delay_us", "jitter_us", "loss"}]}`, where `from` and `to` are addresses. Changed links come as one JSON object per
datagram to the socket, which answers with an empty object. The devices are made in the process's own network namespace;
they may be moved to others, and go when it ends.
"""

from __future__ import annotations

import fcntl
import heapq
import json
import os
import random
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

_TUNSETIFF = 0x400454CA
_IFF_TUN = 0x0001
_IFF_NO_PI = 0x1000
_LONGEST_PACKET = 65_600
_READS_PER_TURN = 64
_IDLE_S = 1.0
_PRIORITY = -10
"""Packets must be forwarded at their time, before the machine's other work."""
_IPV4 = 4
_DESTINATION = slice(16, 20)

_now_s = time.monotonic


@dataclass(slots=True)
class PairDelay:
    """The delay, jitter and loss for packets of a pair."""

    delay_s: float
    jitter_s: float = 0.0
    loss: float = 0.0
    last_due_s: float = 0.0

    def due_s(self, now_s: float, rng: random.Random) -> float | None:
        """When a packet that arrives now is forwarded; None: it is lost. Never before the packet ahead of it."""
        if self.loss and rng.random() < self.loss:
            return None
        wait_s = self.delay_s + (rng.uniform(-self.jitter_s, self.jitter_s) if self.jitter_s else 0.0)
        self.last_due_s = max(self.last_due_s, now_s + max(0.0, wait_s))
        return self.last_due_s


@dataclass(slots=True)
class DelayLine:
    """Packets under way."""

    pairs: dict[tuple[bytes, bytes], PairDelay]
    """By addresses, packed."""
    rng: random.Random = field(default_factory=random.Random)
    _waiting: list[tuple[float, int, bytes, bytes]] = field(default_factory=list)
    _count: int = 0

    def put(self, source: bytes, packet: bytes, now_s: float) -> None:
        """Take a packet that a site sends; one without a known pair is dropped."""
        if packet[0] >> 4 != _IPV4:
            return
        target = packet[_DESTINATION]
        pair = self.pairs.get((source, target))
        due_s = pair.due_s(now_s, self.rng) if pair is not None else None
        if due_s is not None:
            self._count += 1
            heapq.heappush(self._waiting, (due_s, self._count, target, packet))

    def take(self, now_s: float) -> list[tuple[bytes, bytes]]:
        """(address, packet) of all packets that are due, in order."""
        due = []
        while self._waiting and self._waiting[0][0] <= now_s:
            _, _, target, packet = heapq.heappop(self._waiting)
            due.append((target, packet))
        return due

    @property
    def next_due_s(self) -> float | None:
        return self._waiting[0][0] if self._waiting else None

    def change(self, link: Mapping[str, Any]) -> None:
        """Change a link's figures; packets under way keep their time."""
        pair = (socket.inet_aton(link["from"]), socket.inet_aton(link["to"]))
        before = self.pairs.get(pair)
        delay = PairDelay(link["delay_us"] / 1e6, link["jitter_us"] / 1e6, link["loss"])
        delay.last_due_s = before.last_due_s if before is not None else 0.0
        self.pairs[pair] = delay


def main(arguments: Sequence[str]) -> NoReturn:
    """Run until SIGTERM."""
    config = json.loads(Path(arguments[0]).read_text())
    # Not every root may do this: without it, packets wait a little longer on a busy machine.
    with suppress(OSError):
        os.nice(_PRIORITY)
    line = DelayLine({})
    for link in config["links"]:
        line.change(link)
    tuns = {_open_tun(device["device"]): socket.inet_aton(device["address"]) for device in config["devices"]}
    control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    control.setblocking(False)
    control.bind(config["socket"])
    ready = Path(config["ready"])
    ready.with_suffix(".new").write_text(json.dumps({"pid": os.getpid()}))
    ready.with_suffix(".new").replace(ready)
    # Ctrl-C is for the process that made the WAN; there is nothing to clean up, so SIGTERM simply ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ends = _Ends(tuns, {address: tun for tun, address in tuns.items()}, control)
    while True:
        _turn(line, ends)


@dataclass(frozen=True, slots=True)
class _Ends:
    """The devices of the sites, and the socket for changes."""

    by_tun: Mapping[int, bytes]
    by_address: Mapping[bytes, int]
    control: socket.socket


def _turn(line: DelayLine, ends: _Ends) -> None:
    for target, packet in line.take(_now_s()):
        try:
            os.write(ends.by_address[target], packet)
        except (OSError, KeyError):
            # The receiver's queue is full, or its device is down: lost, as on any network.
            continue
    due_s = line.next_due_s
    wait_s = _IDLE_S if due_s is None else max(0.0, due_s - _now_s())
    # select has a finer clock than epoll, which rounds up to milliseconds.
    control = ends.control.fileno()
    readable, _, _ = select.select([*ends.by_tun, control], [], [], wait_s)
    for descriptor in readable:
        if descriptor == control:
            _obey(line, ends.control)
        else:
            _read(line, descriptor, ends.by_tun[descriptor])


def _read(line: DelayLine, tun: int, source: bytes) -> None:
    for _ in range(_READS_PER_TURN):
        try:
            packet = os.read(tun, _LONGEST_PACKET)
        except OSError:
            return
        line.put(source, packet, _now_s())


def _obey(line: DelayLine, control: socket.socket) -> None:
    data, sender = control.recvfrom(65_536)
    line.change(json.loads(data))
    # The process that asked may be gone.
    with suppress(OSError):
        if sender:
            control.sendto(b"{}", sender)


def _open_tun(name: str) -> int:
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return tun


if __name__ == "__main__":
    main(sys.argv[1:])
