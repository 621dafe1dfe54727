"""What a master and agents, the real ones but for Spark, find a link of known bandwidth to carry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile

import pytest
from click.testing import CliRunner

from benchmarks.monitor_scene import WITHIN, Pair, Scene, Setting, off, payload_bytes_per_s, scene
from planner.wan.probing import DEFAULT_SETTINGS
from selat.cli import cli
from selat.client.links import LinkPoint, LinkView, ProbeMethod
from tests.e2e.cluster import wait_until
from tests.wan.lab import ATTEMPTS, MARKS, leavings

pytestmark = MARKS

FILLED: Pair = ("us", "eu")
IDLE: Pair = ("eu", "us")
MBIT = 8.0
"""No more than is little work for a busy machine, also twice of it."""
SETTING = Setting("monitor", {FILLED: (MBIT, 20), IDLE: (MBIT, 20)}, without_iperf3=("eu",))
UNPROBED = DEFAULT_SETTINGS.check_every + timedelta(seconds=1)
"""In so long, a link that nobody fills is probed."""


@pytest.fixture(scope="module")
def place() -> Iterator[Scene]:
    with scene(None, SETTING) as (made, _):
        made.until_known()
        yield made
    assert leavings(SETTING.name) == []


def selat(place: Scene, *arguments: str) -> str:
    """What the command prints, its notes too; it must work."""
    command = ["wan", *arguments, "--master", place.address]
    done = CliRunner(env={"COLUMNS": "200"}).invoke(cli, command, prog_name="selat")
    assert done.exit_code == 0, done.output
    return done.output


def view(place: Scene, pair: Pair = FILLED) -> LinkView:
    return next(link for link in place.client.links() if (link.from_site, link.to_site) == pair)


def samples(place: Scene, pair: Pair, since: datetime) -> list[LinkPoint]:
    """What measured the link's bandwidth, oldest first."""
    found = place.client.link_history(*pair, last=timedelta(minutes=10))
    return [point for point in found if point.method is not None and point.at > since]


def is_passive(point: LinkPoint) -> bool:
    return point.method is ProbeMethod.PASSIVE


def is_near(capacity_bytes_per_s: float, mbit_per_s: float) -> bool:
    return abs(off(capacity_bytes_per_s, payload_bytes_per_s(mbit_per_s))) <= WITHIN


def test_a_link_that_our_transfers_fill_is_measured_by_them_and_not_probed(place: Scene) -> None:
    began_at = datetime.now(UTC)

    def unprobed() -> list[LinkPoint]:
        """The samples since the last one of a probe: that one had been due, or the machine was too slow for a while."""
        return [*takewhile(is_passive, reversed(samples(place, FILLED, began_at)))][::-1]

    def long_unprobed() -> bool:
        """Long enough for the other link, which nobody fills, to be probed meanwhile."""
        found = unprobed()
        if not found or found[-1].at - found[0].at < UNPROBED:
            return False
        return any(not is_passive(point) for point in samples(place, IDLE, found[0].at))

    with place.own_load([FILLED], None):
        wait_until(long_unprobed)
        wait_until(lambda: view(place).method is ProbeMethod.PASSIVE)
        assert is_near(view(place).capacity_bytes_per_s, MBIT)
        wait_until(lambda: row(place, FILLED[0]).endswith(" !"))
        assert not row(place, IDLE[0]).endswith(" !")
        assert any(methods_until_doubled(place) == {ProbeMethod.PASSIVE} for _ in range(ATTEMPTS))


def row(place: Scene, site: str) -> str:
    """What the matrix says of links from a site."""
    lines = selat(place, "show", "-o", "table").splitlines()
    return next(line.rstrip() for line in lines if line.startswith(f"{site} "))


def methods_until_doubled(place: Scene) -> set[ProbeMethod | None]:
    """What measured the link from when it got faster until that was known."""
    place.set_rate({FILLED: MBIT})
    wait_until(lambda: is_near(view(place).capacity_bytes_per_s, MBIT))
    changed_at = datetime.now(UTC)
    place.set_rate({FILLED: 2 * MBIT})
    wait_until(lambda: is_near(view(place).capacity_bytes_per_s, 2 * MBIT))
    return {point.method for point in samples(place, FILLED, changed_at)}


def test_where_iperf3_is_missing_our_own_transfer_measures_and_that_is_said(place: Scene) -> None:
    said = selat(place, "probe", "->".join(IDLE), "-o", "json")
    assert "iperf3 is not installed at eu: measured by our own transfer over TCP" in said
    result = json.loads(said.splitlines()[-1])
    assert result["method"] == "tcp"
    # How near it comes is the business of its own tests.
    assert result["bytes_per_s"] == pytest.approx(payload_bytes_per_s(MBIT), rel=0.3)


def test_history_is_plotted(place: Scene) -> None:
    said = selat(place, "history", "->".join(IDLE), "--last", "10min", "-o", "table")
    assert "eu to us, the last 10 min" in said
    assert "capacity (top: " in said
    assert "█" in said
