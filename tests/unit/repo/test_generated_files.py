from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from selat.local.topology import packaged, read_topology, topology_file

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("script", ["make_topologies.py", "make_scenarios.py", "make_places.py", "make_dashboards.py"])
def test_generated_files_are_up_to_date(script: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", packaged())
def test_packaged_topologies(name: str) -> None:
    topology = read_topology(topology_file(name))
    assert len(topology.links) == len(topology.sites) * (len(topology.sites) - 1)
    assert (ROOT / "deploy" / "topologies" / f"{name}.yaml").resolve() == topology_file(name).resolve()


def test_figures_of_the_generated_ones() -> None:
    regions = read_topology(topology_file("ec2-14"))
    rates = [link.bandwidth_bytes_per_s * 8 / 1e6 for link in regions.links.values()]
    assert len(regions.sites) == 14
    assert 20 <= min(rates) <= max(rates) <= 280
    edges = read_topology(topology_file("edge-16"))
    slow = [link.bandwidth_bytes_per_s * 8 / 1e6 for (a, b), link in edges.links.items() if "edge" in a + b]
    assert len(edges.sites) == 16
    assert 7 <= min(slow) <= max(slow) <= 14
    assert {site.slots for name, site in edges.sites.items() if name.startswith("edge")} == {2, 3, 4}
