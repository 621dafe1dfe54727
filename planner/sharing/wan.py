"""What links have to spare when a query is planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.values.links import Pair
from planner.values.topology import Topology
from planner.wan.snapshot import WanSnapshot


@dataclass(frozen=True, slots=True)
class Wan:
    """An immutable view of the links: what is spare, and how far it is."""

    topology: Topology
    spare_bytes_per_s: Mapping[Pair, float] = field(default_factory=dict)
    """Of links that carry something already, or were measured; of all others it is the topology's bandwidth."""

    def spare(self, source: str, target: str) -> float:
        """Bytes per second that the link has left; 0 when there is none."""
        link = self.topology.link(source, target)
        if link is None:
            return 0.0
        return max(0.0, self.spare_bytes_per_s.get((source, target), link.bandwidth_bytes_per_s))

    def latency_s(self, source: str, target: str) -> float:
        """One way; 0 within a site, infinite when there is no link."""
        if source == target:
            return 0.0
        link = self.topology.link(source, target)
        return float("inf") if link is None else link.latency.total_seconds()

    def egress(self, site: str) -> float:
        """Bytes per second that a site can still send: the sum over its links; infinite where it is the only site."""
        spare = [self.spare(site, other) for other in self.topology.sites if other != site]
        return sum(spare) if spare else float("inf")

    def ingress(self, site: str) -> float:
        """Bytes per second that a site can still receive, likewise."""
        spare = [self.spare(other, site) for other in self.topology.sites if other != site]
        return sum(spare) if spare else float("inf")

    def cost(self, source: str, target: str, bytes_per_s: float) -> float:
        """Network usage of a flow, after Hourglass: rate * latency^2 / spare bandwidth in s^2; infinite without any."""
        if source == target or not bytes_per_s:
            return 0.0
        spare = self.spare(source, target)
        return bytes_per_s * self.latency_s(source, target) ** 2 / spare if spare else float("inf")


def wan_of(topology: Topology, snapshot: WanSnapshot) -> Wan:
    """The links as they were measured; those that were not, as the topology has them."""
    return Wan(topology, {pair: view.figures.available_bytes_per_s for pair, view in snapshot.links.items()})
