"""Our own bulk transfer over TCP, for sites without iperf3: the receiver counts bytes by the tenth of a second."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from site_agent.probes.rates import steady_rate
from site_agent.probes.train import Arrived

INTERVAL_S = 0.1
_CHUNK = bytes(128 * 1024)
_CONNECT_S = 10.0


def open_listener(host: str) -> socket.socket:
    """A listening socket for one transfer."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, 0))
    listener.listen(1)
    return listener


def receive(
    listener: socket.socket, token: bytes, timeout_s: float, meanwhile: Callable[[], None] = lambda: None
) -> Arrived:
    """Receive until the sender closes; a connection that does not begin with the token is refused. Blocks.

    Args:
        meanwhile: called whenever something came.
    """
    deadline_s = time.monotonic() + timeout_s
    while (left_s := deadline_s - time.monotonic()) > 0:
        listener.settimeout(left_s)
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            break
        with connection:
            connection.settimeout(min(_CONNECT_S, left_s))
            if _begins_with(connection, token):
                return _count(connection, deadline_s, meanwhile)
    return Arrived(0, None)


def send(address: tuple[str, int], token: bytes, duration_s: float) -> int:
    """Send for this time; returns the number of bytes sent."""
    sent = 0
    with socket.create_connection(address, timeout=_CONNECT_S) as connection:
        connection.sendall(token)
        deadline_s = time.monotonic() + duration_s
        while time.monotonic() < deadline_s:
            sent += connection.send(_CHUNK)
    return sent


def _begins_with(connection: socket.socket, token: bytes) -> bool:
    head = b""
    try:
        while len(head) < len(token):
            part = connection.recv(len(token) - len(head))
            if not part:
                return False
            head += part
    except OSError:
        return False
    return head == token


def _count(connection: socket.socket, deadline_s: float, meanwhile: Callable[[], None]) -> Arrived:
    intervals: list[tuple[float, int]] = []
    begun_s, count, total = time.monotonic(), 0, 0
    started_s = time.time()
    buffer = bytearray(len(_CHUNK))
    while (now_s := time.monotonic()) < deadline_s:
        if now_s - begun_s >= INTERVAL_S:
            intervals.append((now_s - begun_s, count))
            begun_s, count = now_s, 0
        connection.settimeout(max(INTERVAL_S, deadline_s - now_s))
        try:
            received = connection.recv_into(buffer)
        except OSError:
            break
        if not received:
            break
        count += received
        total += received
        meanwhile()
    intervals.append((time.monotonic() - begun_s, count))
    ended_s = time.time()
    return Arrived(total, steady_rate(intervals), ((started_s + ended_s) / 2, ended_s))
