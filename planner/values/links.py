"""What is known of a link at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

Pair = tuple[str, str]
"""The sites where a link begins and ends."""


@dataclass(frozen=True, slots=True)
class LinkFigures:
    """One directed link: as measured, or as the topology file declares it."""

    source: str
    target: str
    capacity_bytes_per_s: float
    """What the link carries for us in all."""
    available_bytes_per_s: float
    """Of that, what running queries leave."""
    latency: timedelta
    """One way."""
    age: timedelta | None = None
    """Since the capacity was measured; None: never, it is the topology file's bandwidth."""
    confidence: float = 0.0
    """In the measurement, 0 to 1."""

    @property
    def pair(self) -> Pair:
        return self.source, self.target
