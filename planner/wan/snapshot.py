"""All links at one moment: what the planner sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from planner.values.links import LinkFigures, Pair
from planner.values.topology import Topology
from planner.wan.estimate import LinkRecord, available_bytes_per_s, confidence, use_ratio
from planner.wan.samples import Method

CONGESTED = 0.9
"""From this share of use on, a link counts as congested."""


@dataclass(frozen=True, slots=True)
class LinkView:
    """One directed link as the monitor knows it now."""

    figures: LinkFigures
    used_bytes_per_s: float
    rtt: timedelta | None
    loss: float
    method: Method | None
    congested: bool


@dataclass(frozen=True, slots=True)
class WanSnapshot:
    """An immutable view of all links."""

    at: datetime
    links: Mapping[Pair, LinkView]

    def link(self, source: str, target: str) -> LinkView | None:
        """None when it is the same site or not known."""
        return self.links.get((source, target))


def snapshot(topology: Topology, records: Mapping[Pair, LinkRecord], now: datetime) -> WanSnapshot:
    """Measured figures where there are any, those of the topology file elsewhere."""
    links = {}
    for pair, declared in topology.links.items():
        record = records.get(pair, LinkRecord())
        measured = record.capacity_bytes_per_s
        capacity = declared.bandwidth_bytes_per_s if measured is None else measured
        available = available_bytes_per_s(record)
        ratio = use_ratio(record)
        figures = LinkFigures(
            *pair,
            capacity_bytes_per_s=capacity,
            available_bytes_per_s=max(0.0, capacity - record.used_bytes_per_s) if available is None else available,
            latency=declared.latency,
            age=None if record.measured_at is None else max(timedelta(0), now - record.measured_at),
            confidence=confidence(record, now),
        )
        links[pair] = LinkView(
            figures=figures,
            used_bytes_per_s=record.used_bytes_per_s,
            rtt=record.rtt,
            loss=record.loss,
            method=record.method,
            congested=(record.used_bytes_per_s / capacity if ratio is None else ratio) >= CONGESTED,
        )
    return WanSnapshot(now, links)
