"""Writes the topologies whose figures are generated: `python scripts/make_topologies.py [--check]`.

Their sources name regions, slots and the range of bandwidths, but print no single link. So bandwidths are drawn from
that range with a fixed seed, the same in both directions of a pair up to a fifth, and latencies are the light's way
through fibre between the regions: great circle times 1.5 at 200,000 km/s, plus 1 ms.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

DIRECTORY = Path(__file__).parents[1] / "selat" / "local" / "topologies"
EARTH_RADIUS_KM = 6371.0
FIBRE_KM_PER_MS = 200.0
DETOUR = 1.5
EQUIPMENT_MS = 1.0


@dataclass(frozen=True, slots=True)
class Place:
    name: str
    latitude: float
    longitude: float
    slots: int
    edge: bool = False


REGIONS = (
    Place("virginia", 38.9, -77.4, 8),
    Place("california", 37.4, -121.9, 8),
    Place("canada", 45.5, -73.6, 8),
    Place("london", 51.5, -0.1, 8),
    Place("frankfurt", 50.1, 8.7, 8),
    Place("sydney", -33.9, 151.2, 8),
    Place("tokyo", 35.7, 139.7, 8),
    Place("singapore", 1.3, 103.8, 8),
    Place("ohio", 40.0, -83.0, 2),
    Place("oregon", 45.8, -119.7, 2),
    Place("ireland", 53.3, -6.3, 2),
    Place("seoul", 37.6, 127.0, 2),
    Place("mumbai", 19.1, 72.9, 2),
    Place("saopaulo", -23.5, -46.6, 2),
)
"""Eight regions that compute, six at which data are born."""

EDGES = (
    Place("edge-boston", 42.4, -71.1, 2, edge=True),
    Place("edge-dallas", 32.8, -96.8, 3, edge=True),
    Place("edge-seattle", 47.6, -122.3, 4, edge=True),
    Place("edge-paris", 48.9, 2.4, 2, edge=True),
    Place("edge-madrid", 40.4, -3.7, 3, edge=True),
    Place("edge-osaka", 34.7, 135.5, 4, edge=True),
    Place("edge-jakarta", -6.2, 106.8, 2, edge=True),
    Place("edge-perth", -31.9, 115.9, 4, edge=True),
)


def latency_ms(a: Place, b: Place) -> float:
    """One way."""
    phi, psi = math.radians(a.latitude), math.radians(b.latitude)
    turn = math.radians(b.longitude - a.longitude)
    cosine = math.sin(phi) * math.sin(psi) + math.cos(phi) * math.cos(psi) * math.cos(turn)
    distance_km = EARTH_RADIUS_KM * math.acos(max(-1.0, min(1.0, cosine)))
    return distance_km * DETOUR / FIBRE_KM_PER_MS + EQUIPMENT_MS


def link_lines(places: Iterable[Place], rng: random.Random) -> list[str]:
    """Every ordered pair. Regions 20 to 280 Mbit/s; to or from an edge 7 to 14."""
    listed = tuple(places)
    lines = []
    for index, a in enumerate(listed):
        for b in listed[index + 1 :]:
            low, high = (7, 14) if a.edge or b.edge else (20, 280)
            there = rng.uniform(low, high)
            back = min(high, max(low, there * rng.uniform(0.8, 1.2)))
            delay = f"latency: {latency_ms(a, b):.0f}ms"
            lines.append(f"  - {{from: {a.name}, to: {b.name}, bandwidth: {there:.1f}Mbit/s, {delay}}}")
            lines.append(f"  - {{from: {b.name}, to: {a.name}, bandwidth: {back:.1f}Mbit/s, {delay}}}")
    return lines


def document(title: str, places: tuple[Place, ...], *, seed: int) -> str:
    sites = [f"  {place.name}: {{slots: {place.slots}}}" for place in places]
    head = [
        f"# {title}",
        f"# Bandwidths are drawn from the source's range (seed {seed}), latencies computed from the distance;",
        "# `python scripts/make_topologies.py` wrote this file and says how.",
        f"gateway: {places[0].name}",
        "sites:",
    ]
    return (
        "\n".join(
            [*head, *sites, "links:               # latency is one way", *link_lines(places, random.Random(seed))]
        )
        + "\n"
    )


FILES = {
    "ec2-14.yaml": document("Fourteen EC2 regions, 20 to 280 Mbit/s between them.", REGIONS, seed=14),
    "edge-16.yaml": document(
        "Eight data centres, 20 to 280 Mbit/s between them, and eight edges at 7 to 14 Mbit/s.",
        (*REGIONS[:8], *EDGES),
        seed=16,
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 when a file is not up to date")
    check = parser.parse_args().check
    stale = [name for name, text in FILES.items() if not _is(DIRECTORY / name, text)]
    for name in stale:
        if check:
            print(f"{name} is not up to date: run python scripts/make_topologies.py")
        else:
            (DIRECTORY / name).write_text(FILES[name])
    return 1 if check and stale else 0


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
