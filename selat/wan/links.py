"""The links of an emulated WAN as they are now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

Pair = tuple[str, str]
"""The sites where a link begins and ends."""


@dataclass(frozen=True, slots=True)
class LinkState:
    """One directed link."""

    bandwidth_bytes_per_s: float
    latency: timedelta
    """One-way latency."""
    jitter: timedelta = timedelta(0)
    loss: float = 0.0
    """Share of packets lost, 0 to 1."""
    severed: bool = False
    """Whether nothing passes the link."""

    @property
    def bits_per_s(self) -> int:
        return max(8, round(self.bandwidth_bytes_per_s * 8))

    def to_json(self) -> dict[str, Any]:
        return {
            "bandwidth_bytes_per_s": self.bandwidth_bytes_per_s,
            "latency_s": self.latency.total_seconds(),
            "jitter_s": self.jitter.total_seconds(),
            "loss": self.loss,
            "severed": self.severed,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> LinkState:
        return cls(
            data["bandwidth_bytes_per_s"],
            timedelta(seconds=data["latency_s"]),
            timedelta(seconds=data["jitter_s"]),
            data["loss"],
            data["severed"],
        )


@dataclass(frozen=True, slots=True)
class LinkChange:
    """New figures for a link; None leaves one as it is."""

    bandwidth_bytes_per_s: float | None = None
    bandwidth_factor: float | None = None
    """The new bandwidth, as a multiple of the topology file's."""
    latency: timedelta | None = None
    jitter: timedelta | None = None
    loss: float | None = None
    severed: bool | None = None

    def applied(self, now: LinkState, *, original: LinkState) -> LinkState:
        """The link after the change; `original` is the link of the topology file."""
        bandwidth = now.bandwidth_bytes_per_s
        if self.bandwidth_bytes_per_s is not None:
            bandwidth = self.bandwidth_bytes_per_s
        if self.bandwidth_factor is not None:
            bandwidth = original.bandwidth_bytes_per_s * self.bandwidth_factor
        return replace(
            now,
            bandwidth_bytes_per_s=bandwidth,
            latency=now.latency if self.latency is None else self.latency,
            jitter=now.jitter if self.jitter is None else self.jitter,
            loss=now.loss if self.loss is None else self.loss,
            severed=now.severed if self.severed is None else self.severed,
        )
