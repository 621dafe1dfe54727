"""Every backend that this machine has does what the topology says, and what it is told later."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from datetime import timedelta

import psutil
import pytest

from selat.wan.links import LinkChange, Pair
from selat.wan.probe import PREFERENCE
from selat.wan.shaping import PAYLOAD_RATIO
from tests.e2e.cluster import wait_until
from tests.needs import skip
from tests.wan.lab import MARKS, Lab, is_near, lab, lack_of, machine_reaches, topology, wrong_ones

pytestmark = MARKS

LINKS = {
    ("us", "eu"): (16.0, 40.0),
    ("eu", "us"): (6.0, 30.0),
    ("us", "asia"): (8.0, 75.0),
    ("asia", "us"): (4.0, 75.0),
    ("us", "sa"): (5.0, 55.0),
    ("sa", "us"): (3.0, 55.0),
    ("eu", "asia"): (4.0, 70.0),
    ("asia", "eu"): (10.0, 60.0),
    ("eu", "sa"): (6.0, 10.0),
    ("sa", "eu"): (6.0, 10.0),
    ("asia", "sa"): (3.0, 65.0),
    ("sa", "asia"): (5.0, 65.0),
}
"""Mbit/s and milliseconds; no more in all than the slowest backend carries."""
ASYMMETRIC: Pair = ("us", "eu")
ALONE, TOGETHER = 0.05, 0.10
"""How far off a rate may be, as a share."""
CHANGE_S = 2.0
"""In which a changed rate has come about."""
CHANGES, SLOW_CHANGES = 60, 6
"""To and fro; the User-Mode Linux takes a quarter of a second for each."""
DELAYS = ("netem", "tun", "uml-router")


@pytest.fixture(scope="module", params=PREFERENCE)
def sites(request: pytest.FixtureRequest) -> Iterator[Lab]:
    if lacking := lack_of(request.param):
        skip(lacking)
    with lab(topology(LINKS), request.param) as made:
        yield made


def test_round_trips(sites: Lab) -> None:
    def is_right(pair: Pair, measured_ms: float | None) -> bool:
        a, b = pair
        declared_ms = LINKS[a, b][1] + LINKS[b, a][1] if sites.record.backend in DELAYS else 0.0
        return measured_ms is not None and abs(measured_ms - declared_ms) <= max(2.0, declared_ms * 0.1)

    assert not wrong_ones(lambda: sites.round_trips_ms([(a, b) for a, b in LINKS if a < b]), is_right)


@pytest.mark.parametrize("pair", [ASYMMETRIC, ASYMMETRIC[::-1]])
def test_rates_alone(sites: Lab, pair: Pair) -> None:
    check_rates(sites, [pair], ALONE, seconds=3)


@pytest.mark.long
@pytest.mark.parametrize("pair", LINKS)
def test_each_rate_alone(sites: Lab, pair: Pair) -> None:
    check_rates(sites, [pair], ALONE, seconds=6)


def test_rates_of_all_pairs_at_once(sites: Lab) -> None:
    check_rates(sites, list(LINKS), TOGETHER, seconds=5)


def check_rates(sites: Lab, pairs: list[Pair], tolerance: float, *, seconds: int) -> None:
    wrong = wrong_ones(
        lambda: sites.goodput_mbit_per_s(pairs, seconds),
        lambda pair, rate: is_near(rate, LINKS[pair][0] * PAYLOAD_RATIO, tolerance),
    )
    assert not wrong


def test_a_link_changes_while_it_is_busy(sites: Lab) -> None:
    def change(factor: float) -> dict[Pair, float]:
        """What the link carries right after."""
        sites.emulations.change(sites.name, {ASYMMETRIC: LinkChange(bandwidth_factor=factor)})
        time.sleep(CHANGE_S / 2)
        return {ASYMMETRIC: sites.carried_mbit_per_s(ASYMMETRIC[1], CHANGE_S / 2)}

    original = LINKS[ASYMMETRIC][0]
    try:
        with sites.busy(ASYMMETRIC):
            assert not wrong_ones(lambda: change(0.5), lambda _, rate: is_near(rate, original / 2, ALONE))
            assert not wrong_ones(lambda: change(1), lambda _, rate: is_near(rate, original, ALONE))
    finally:
        sites.emulations.change(sites.name, {ASYMMETRIC: LinkChange(bandwidth_factor=1)})


@pytest.mark.parametrize("sites", DELAYS, indirect=True)
def test_latency_and_loss_change(sites: Lab) -> None:
    a, b = ASYMMETRIC
    _, there_ms = LINKS[a, b]
    _, back_ms = LINKS[b, a]
    try:
        sites.emulations.change(sites.name, {(a, b): LinkChange(latency=timedelta(milliseconds=10))})
        wanted_ms = 10 + back_ms
        assert not wrong_ones(
            lambda: sites.round_trips_ms([(a, b)]),
            lambda _, ms: ms is not None and abs(ms - wanted_ms) <= wanted_ms * 0.1,
        )
        sites.emulations.change(sites.name, {(a, b): LinkChange(loss=0.2)})
        assert 0.1 < sites.lost_share(a, b, 300) < 0.3
    finally:
        sites.emulations.change(sites.name, {(a, b): LinkChange(latency=timedelta(milliseconds=there_ms), loss=0.0)})


def test_a_severed_link_loses_everything_and_heals(sites: Lab) -> None:
    sites.emulations.change(sites.name, {("us", "asia"): LinkChange(severed=True)})
    try:
        passed = sites.round_trips_ms([("us", "asia"), ("asia", "us"), ("us", "eu")], count=2)
        assert {pair: ms is not None for pair, ms in passed.items()} == {
            ("us", "asia"): False,
            ("asia", "us"): False,
            ("us", "eu"): True,
        }
    finally:
        sites.emulations.change(sites.name, {("us", "asia"): LinkChange(severed=False)})
    assert sites.reaches("us", "asia")


def test_a_severed_link_stays_so_while_others_of_its_sender_change(sites: Lab) -> None:
    sites.emulations.change(sites.name, {("us", "asia"): LinkChange(severed=True)})
    before = sites.datagrams_at("asia")
    try:
        with sites.sending("us", "asia"):
            for factor in (0.5, 1.0) * (SLOW_CHANGES if sites.record.backend == "uml-router" else CHANGES):
                sites.emulations.change(sites.name, {ASYMMETRIC: LinkChange(bandwidth_factor=factor)})
            assert sites.datagrams_at("asia") == before
            sites.emulations.change(sites.name, {("us", "asia"): LinkChange(severed=False)})
            wait_until(lambda: sites.datagrams_at("asia") > before)
    finally:
        sites.emulations.change(sites.name, {("us", "asia"): LinkChange(severed=False)})


def test_the_machine_reaches_the_gateway(sites: Lab) -> None:
    assert machine_reaches(sites.record.layout.uplink_address)


def test_processes_are_in_their_sites(sites: Lab) -> None:
    sleeper = subprocess.Popen([*sites.emulations.entrance(sites.record, "asia"), "sleep", "60"])
    try:
        deadline_s = time.monotonic() + 10
        while psutil.Process(sleeper.pid).name() != "sleep":
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        assert sites.emulations.processes(sites.record, "asia") == (sleeper.pid,)
        assert sites.emulations.kill(sites.record, "asia") == 1
        assert sleeper.wait(10) == -9
    finally:
        sleeper.kill()
        sleeper.wait()
        sites.emulations.revive(sites.record, "asia")
