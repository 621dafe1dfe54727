from __future__ import annotations

from pathlib import Path

import pytest

from selat.local.errors import DevError
from selat.local.topology import NYC, THREE_REGIONS, read_topology


def test_the_default_has_three_regions_and_six_links_of_different_quality() -> None:
    topology = read_topology(THREE_REGIONS)
    assert set(topology.sites) == {"us", "eu", "asia"}
    assert topology.gateway == "us"
    assert len(topology.links) == 6
    assert len({link.bandwidth_bytes_per_s for link in topology.links.values()}) >= 3


def test_links_may_differ_by_direction() -> None:
    links = read_topology(THREE_REGIONS).links
    assert links["eu", "asia"].bandwidth_bytes_per_s > links["asia", "eu"].bandwidth_bytes_per_s


@pytest.mark.parametrize("packaged", [THREE_REGIONS, NYC])
def test_the_deployed_files_are_the_packaged_ones(packaged: Path) -> None:
    deployed = Path(__file__).parents[4] / "deploy" / "topologies" / packaged.name
    assert deployed.read_text() == packaged.read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read topology .*: No such file or directory"),
        ("sites: [", "it is no YAML"),
        ("sites: {}", "topology .*t.yaml: "),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "t.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(DevError, match=message) as caught:
        read_topology(file)
    assert caught.value.hint
