"""Computes a link's rate from arrival times."""

from __future__ import annotations

from collections.abc import Sequence

WIRE_OVERHEAD_UDP = 42
"""Ethernet, IP and UDP headers of a packet."""
MOST_AT_ONCE = 24
"""The most packets of a short train that may pass a link before the link slows the rest down."""
TCP_PAYLOAD_RATIO = 1448 / 1514
"""The share of payload in the bytes of a full-sized TCP packet on the wire."""


def train_rate(arrivals_s: Sequence[float], packet_bytes: int) -> float | None:
    """The rate at which TCP would carry payload, in bytes per second, from the gaps between packets of a burst.

    Args:
        arrivals_s: when each packet came, in order; lost ones are absent.
        packet_bytes: payload of each.

    Returns:
        None: too few came.
    """
    rest = slowed(arrivals_s)
    if len(rest) < 4 or rest[-1] <= rest[0]:
        return None
    wire_bytes_per_s = (len(rest) - 1) * (packet_bytes + WIRE_OVERHEAD_UDP) / (rest[-1] - rest[0])
    return wire_bytes_per_s * TCP_PAYLOAD_RATIO


def slowed(arrivals_s: Sequence[float]) -> Sequence[float]:
    """The packets after those that a link lets through at once: a few, or a quarter of a long burst."""
    count = len(arrivals_s)
    return arrivals_s[max(count // 4, min(count // 2, MOST_AT_ONCE)) :]


def steady_rate(intervals: Sequence[tuple[float, int]]) -> float | None:
    """The mean rate over the second half of a transfer, in bytes per second, without the last, shortened interval.

    In the first half the sender still finds out how fast it may go.

    Args:
        intervals: (length in seconds, bytes) in order.

    Returns:
        None: there are too few.
    """
    whole = intervals[:-1]
    half = whole[len(whole) // 2 :]
    seconds = sum(length for length, _ in half)
    return sum(count for _, count in half) / seconds if half and seconds > 0 else None
