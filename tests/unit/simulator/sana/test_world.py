from __future__ import annotations

import pytest

from simulator.sana.queries import BIRTHPLACES
from simulator.sana.world import World, WorldSettings


def bandwidths(world: World) -> list[float]:
    return sorted(link.bandwidth_bytes_per_s for link in world.topology.links.values())


def test_bandwidths_are_dealt_anew_and_latencies_stay() -> None:
    first, second = World(WorldSettings(), 0), World(WorldSettings(), 1)
    assert bandwidths(first) == bandwidths(second)
    assert first.topology.links != second.topology.links
    for pair, link in first.topology.links.items():
        assert second.topology.links[pair].latency == link.latency
        assert 20e6 / 8 <= link.bandwidth_bytes_per_s <= 280e6 / 8


def test_eight_regions_compute_and_six_give_birth() -> None:
    world = World(WorldSettings(), 0)
    assert (len(world.compute), len(BIRTHPLACES), len(world.topology.sites)) == (8, 6, 14)


@pytest.mark.parametrize("seed", range(3))
def test_rates_are_those_of_the_source_and_change(seed: int) -> None:
    settings = WorldSettings()
    world = World(settings, seed)
    totals = [sum(world.rows_per_s("posts", site, at_s) for site in BIRTHPLACES) for at_s in range(0, 200, 10)]
    assert all(6000 * (1 - settings.wobble) <= total <= 8000 * (1 + settings.wobble) for total in totals)
    assert len(set(totals)) > 10
    assert world.rows_per_s("posts", "ohio", 11.0) == world.rows_per_s("posts", "ohio", 19.0)


def test_more_bandwidth() -> None:
    wide = World(WorldSettings(bandwidth=3.0), 0)
    assert bandwidths(wide) == pytest.approx([3.0 * b for b in bandwidths(World(WorldSettings(), 0))])
