"""Every backend that this machine has does what the topology says, and what it is told later."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import timedelta

import pytest

from selat.wan.emulation import Emulations, Wish
from selat.wan.errors import WanError
from selat.wan.layout import emulation_of
from selat.wan.links import LinkChange
from selat.wan.probe import PREFERENCE, capabilities
from selat.wan.shaping import PAYLOAD_RATIO
from tests.wan.lab import Lab, delay_processes, lab, machine_reaches, namespaces, topology, what_is_missing

MISSING = what_is_missing()
pytestmark = [pytest.mark.wan, pytest.mark.skipif(bool(MISSING), reason=f"network namespaces: {MISSING}")]

LINKS = {
    ("us", "eu"): (20.0, 40.0),
    ("eu", "us"): (8.0, 40.0),
    ("us", "asia"): (10.0, 75.0),
    ("asia", "us"): (10.0, 75.0),
    ("eu", "asia"): (5.0, 110.0),
    ("asia", "eu"): (12.0, 110.0),
}
ALONE, TOGETHER = 0.05, 0.10
"""How far off a rate may be, as a share."""
DELAYS = ("netem", "tun", "uml-router")
WORKING = {} if MISSING else {c.backend: c.reason for c in capabilities() if c.works}


@pytest.fixture(scope="module", params=PREFERENCE)
def three_sites(request: pytest.FixtureRequest) -> Iterator[Lab]:
    backend = str(request.param)
    if backend not in WORKING:
        reasons = {c.backend: c.reason for c in capabilities()}
        pytest.skip(f"this machine has no {backend}: {reasons[backend]}")
    with lab(topology(LINKS), backend) as made:
        yield made


def is_near(measured: float, mbit: float, tolerance: float) -> bool:
    return abs(measured / (mbit * PAYLOAD_RATIO) - 1) <= tolerance


def test_rates_alone_and_asymmetric(three_sites: Lab) -> None:
    for pair in (("us", "eu"), ("eu", "us")):
        measured = three_sites.goodput_mbit_per_s([pair])[pair]
        assert is_near(measured, LINKS[pair][0], ALONE), f"{pair}: {measured:.2f} Mbit/s of {LINKS[pair][0]}"


def test_rates_of_all_pairs_at_once(three_sites: Lab) -> None:
    measured = three_sites.goodput_mbit_per_s(list(LINKS), seconds=6)
    wrong = {pair: rate for pair, rate in measured.items() if not is_near(rate, LINKS[pair][0], TOGETHER)}
    assert not wrong


def test_round_trips(three_sites: Lab) -> None:
    for a, b in (("us", "eu"), ("eu", "asia")):
        declared_ms = LINKS[a, b][1] + LINKS[b, a][1] if three_sites.record.backend in DELAYS else 0.0
        measured_ms = three_sites.rtt_ms(a, b)
        assert measured_ms is not None
        assert abs(measured_ms - declared_ms) <= max(2.0, declared_ms * 0.1)


def test_a_link_changes_while_it_is_up(three_sites: Lab) -> None:
    emulations, name = three_sites.emulations, three_sites.name
    emulations.change(name, {("us", "eu"): LinkChange(4e6 / 8, latency=timedelta(milliseconds=10))})
    try:
        measured = three_sites.goodput_mbit_per_s([("us", "eu")])["us", "eu"]
        assert is_near(measured, 4.0, ALONE)
        if three_sites.record.backend in DELAYS:
            rtt_ms = three_sites.rtt_ms("us", "eu")
            assert rtt_ms == pytest.approx(50.0, abs=5)
    finally:
        emulations.change(name, {("us", "eu"): LinkChange(20e6 / 8, latency=timedelta(milliseconds=40))})


def test_a_severed_link_loses_everything_and_heals(three_sites: Lab) -> None:
    emulations, name = three_sites.emulations, three_sites.name
    emulations.change(name, {("us", "asia"): LinkChange(severed=True)})
    assert three_sites.rtt_ms("us", "asia", count=2) is None
    assert three_sites.rtt_ms("us", "eu", count=2) is not None
    emulations.change(name, {("us", "asia"): LinkChange(severed=False)})
    assert three_sites.rtt_ms("us", "asia", count=2) is not None


def test_loss(three_sites: Lab) -> None:
    if three_sites.record.backend not in DELAYS:
        pytest.skip(f"{three_sites.record.backend} emulates no loss")
    emulations, name = three_sites.emulations, three_sites.name
    emulations.change(name, {("us", "eu"): LinkChange(loss=0.2)})
    try:
        assert 0.1 < three_sites.lost_share("us", "eu", 300) < 0.3
    finally:
        emulations.change(name, {("us", "eu"): LinkChange(loss=0.0)})


def test_the_machine_reaches_the_gateway(three_sites: Lab) -> None:
    assert machine_reaches(three_sites.record.layout.uplink_address)


def test_nothing_is_left_behind_by_a_crash() -> None:
    if "tun" not in WORKING:
        pytest.skip("this machine has no tun")
    emulations = Emulations()
    with lab(topology(LINKS), "tun", name="gone") as made:
        (process,) = delay_processes("gone")
        process.send(signal.SIGKILL)
        assert "has died" in emulations.complaint(made.record)
    with pytest.raises(WanError, match="no WAN named gone"):
        emulations.find("gone")
    assert not any(emulation_of(name) == "gone" for name in namespaces())


def test_a_second_wan_of_the_name_is_refused_while_the_first_ones_owner_lives() -> None:
    with lab(topology(LINKS), "rate-only", name="twice"), pytest.raises(WanError, match="is up"):
        Emulations().up(topology(LINKS), "test", Wish("twice", "rate-only"))
