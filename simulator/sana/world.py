"""Fourteen regions, their links, and how many records are born where: drawn from a seed.

The source measured 20 to 280 Mbit/s between its regions and prints no single link. In every round the bandwidths of
`ec2-14` are dealt to the pairs of regions anew; latencies stay, since regions do not move. Records are born at 6000 to
8000 a second, spread over six regions "based on their geographic information".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random

from planner.values.topology import Topology
from planner.values.topology_text import read_topology_text
from simulator.sana.queries import BIRTHPLACES, STREAMS, Births, Stream

TOPOLOGY = Path(__file__).parents[2] / "selat" / "local" / "topologies" / "ec2-14.yaml"


@dataclass(frozen=True, slots=True)
class WorldSettings:
    rows_per_s: tuple[float, float] = (6000.0, 8000.0)
    """Of a stream over all regions; drawn anew every `weather_s`."""
    record_bytes: float = 10_000.0
    """Of a whole record. The source does not print it; see docs/results/sana.md."""
    shares: tuple[float, ...] = (0.22, 0.18, 0.18, 0.12, 0.14, 0.16)
    """Of the records, by birthplace."""
    wobble: float = 0.1
    """Of each birthplace around its share, drawn anew every `weather_s` (uniform, either way)."""
    weather_s: float = 10.0
    bandwidth: float = 1.0
    """Times the source's."""


class World:
    """Everything that does not depend on what is shared. The same seed, the same world."""

    def __init__(self, settings: WorldSettings, seed: int, streams: tuple[Stream, ...] = STREAMS) -> None:
        self.settings = settings
        self.seed = seed
        self.streams = streams
        self.topology = _dealt(seed, settings.bandwidth)
        self.compute = frozenset(self.topology.sites) - frozenset(BIRTHPLACES)

    def rows_per_s(self, stream: str, site: str, at_s: float) -> float:
        """Records that are born at a moment."""
        settings = self.settings
        period = int(at_s // settings.weather_s)
        total = Random(f"rate {self.seed} {stream} {period}").uniform(*settings.rows_per_s)
        wobble = Random(f"site {self.seed} {stream} {site} {period}").uniform(-settings.wobble, settings.wobble)
        return total * settings.shares[BIRTHPLACES.index(site)] * (1 + wobble)

    def births_at(self, at_s: float) -> Births:
        """What the planner is told: the rates of the moment."""
        places = [(stream.name, site) for stream in self.streams for site in BIRTHPLACES]
        rates = {place: self.rows_per_s(*place, at_s) for place in places}
        return Births(rates, self.settings.record_bytes)


@cache
def _regions() -> Topology:
    return read_topology_text(TOPOLOGY.read_bytes())


def _dealt(seed: int, times: float) -> Topology:
    """Round 0 has the bandwidths of the file; both directions of a pair stay together."""
    regions = _regions()
    pairs = sorted((a, b) for a, b in regions.links if a < b)
    dealt = list(pairs)
    if seed:
        Random(f"links {seed}").shuffle(dealt)
    links = dict(regions.links)
    for (a, b), (c, d) in zip(pairs, dealt, strict=True):
        for pair, other in (((a, b), (c, d)), ((b, a), (d, c))):
            bandwidth = regions.links[other].bandwidth_bytes_per_s * times
            links[pair] = replace(regions.links[pair], bandwidth_bytes_per_s=bandwidth)
    return replace(regions, links=links)
