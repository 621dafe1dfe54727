from __future__ import annotations

import pytest

from selat.wan.errors import WanError
from selat.wan.layout import Layout, belongs_to, emulation_of
from tests.unit.selat.wan.build import LAYOUT


def test_everything_carries_name_or_number() -> None:
    assert LAYOUT.namespaces == ("selat-lab", "selat-lab.us", "selat-lab.eu", "selat-lab.asia")
    assert LAYOUT.address("asia") == "10.77.3.3"
    assert (LAYOUT.host_address, LAYOUT.uplink_address) == ("10.78.3.1", "10.78.3.2")
    assert LAYOUT.port_device("eu") == "sw3p2"


def test_device_names_fit_the_kernel() -> None:
    layout = Layout("lab", 255, tuple(f"s{n}" for n in range(250)), "s0")
    assert max(len(layout.port_device(site)) for site in layout.sites) <= 15
    assert len({layout.address(site) for site in layout.sites}) == 250


@pytest.mark.parametrize("name", ["", "Lab", "a-b", "a.b", "1a", "toolonganame", "../x"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(WanError, match="no name"):
        Layout(name, 0, ("a",), "a")


def test_too_many_sites() -> None:
    with pytest.raises(WanError, match="251 sites"):
        Layout("lab", 0, tuple(f"s{n}" for n in range(251)), "s0")


def test_namespaces_are_told_apart() -> None:
    assert belongs_to("selat-lab", "lab")
    assert belongs_to("selat-lab.eu", "lab")
    assert not belongs_to("selat-lab2.eu", "lab")
    assert not belongs_to("other", "lab")
    assert emulation_of("selat-lab2.eu") == "lab2"
    assert emulation_of("docker-x") is None
