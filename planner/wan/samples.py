"""Measurements of one directed link."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum


class Method(Enum):
    """How a bandwidth was measured."""

    PASSIVE = "passive"
    """From a router's own transfer that had more to send than the link carried."""
    TRAIN = "train"
    """A short burst of packets; cheap, rough."""
    IPERF3 = "iperf3"
    TCP = "tcp"
    """The agents' own bulk transfer, where iperf3 is not installed."""

    @property
    def thorough(self) -> bool:
        """Long enough that one measurement is believed."""
        return self in (Method.IPERF3, Method.TCP)


@dataclass(frozen=True, slots=True)
class BandwidthSample:
    """What a link carried when it was full."""

    at: datetime
    method: Method
    share_bytes_per_s: float
    """What the measurement itself got, in competition with all else."""
    beside_bytes_per_s: float = 0.0
    """What our own other transfers got on the link meanwhile."""
    link_bound: bool = True
    """False: something else may have limited the transfer, and the link carries so much at least."""

    @property
    def capacity_bytes_per_s(self) -> float:
        """What the link carries for us in all: the share under competition, and what we took from it ourselves."""
        return self.share_bytes_per_s + self.beside_bytes_per_s


@dataclass(frozen=True, slots=True)
class UseSample:
    """What our own transfers put on a link over an interval."""

    at: datetime
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class EchoSample:
    """Some echoes over a link and back."""

    at: datetime
    sent: int
    lost: int
    rtt: timedelta | None
    """The least; None: all were lost."""
