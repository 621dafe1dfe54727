from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from master.base.errors import ProbeFailedError
from master.wan.history import LinkHistory, LinkPoint
from master.wan.monitor import Echoes, Measured, MonitorSettings, Transfer, WanMonitor
from planner.values.links import Pair
from planner.wan.probing import Probe, ProbeKind
from planner.wan.samples import Method
from tests.fakes import VirtualClock
from tests.unit.planner.build import topology_of

SITES = ("us", "eu", "asia")
LINK = ("us", "eu")


@dataclass(slots=True)
class KeptPoints:
    """A history store in memory."""

    points: list[LinkPoint] = field(default_factory=list)

    def put_link_points(self, points: Iterable[LinkPoint]) -> None:
        self.points += points

    def link_points(self, pair: Pair, since: datetime) -> tuple[LinkPoint, ...]:
        return tuple(p for p in self.points if p.pair == pair and p.at >= since)

    def drop_link_points(self, before: datetime) -> None:
        self.points = [p for p in self.points if p.at >= before]


@dataclass(slots=True)
class ScriptedProber:
    """Measures what `truth` says; holds probes back while `gate` is closed."""

    truth: dict[Pair, float]
    beside: float | None = None
    """What our own transfers got meanwhile; probes get the rest."""
    bytes_sent: int = 1000
    asked: list[Probe] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def measure(self, probe: Probe, expected_bytes_per_s: float) -> Measured:
        self.asked.append(probe)
        await self.gate.wait()
        if probe.pair not in self.truth:
            raise ProbeFailedError("nothing came through")
        full = probe.kind is ProbeKind.FULL
        method = Method.IPERF3 if full else Method.TRAIN
        share = self.truth[probe.pair] - (self.beside or 0.0)
        return Measured(method, share, self.bytes_sent, probe.duration, beside_bytes_per_s=self.beside)


@dataclass(slots=True)
class Scene:
    monitor: WanMonitor
    clock: VirtualClock
    prober: ScriptedProber
    store: KeptPoints

    async def tick(self, seconds: float = 1.0, alive: Iterable[str] = SITES) -> None:
        """Time passes, the monitor looks, probes that may end do."""
        self.clock.advance(timedelta(seconds=seconds))
        self.monitor.tick(frozenset(alive))
        for _ in range(5):
            await asyncio.sleep(0)


def scene(settings: MonitorSettings | None = None) -> Scene:
    clock, store = VirtualClock(), KeptPoints()
    prober = ScriptedProber({(a, b): 5e5 for a in SITES for b in SITES if a != b})
    prober.gate.set()
    monitor = WanMonitor(
        topology_of(*SITES),
        clock=clock,
        prober=prober,
        history=LinkHistory(store, retention=timedelta(hours=1)),
        settings=settings or MonitorSettings(),
    )
    return Scene(monitor, clock, prober, store)


async def test_every_link_gets_measured_one_probe_per_site_at_a_time() -> None:
    s = scene()
    for _ in range(6):
        await s.tick()
    links = s.monitor.snapshot().links
    assert all(link.figures.capacity_bytes_per_s == 5e5 and link.method is Method.IPERF3 for link in links.values())
    assert [probe.kind for probe in s.prober.asked[:6]] == [ProbeKind.FULL] * 6


async def test_no_probe_begins_at_a_site_that_takes_part_in_one() -> None:
    s = scene()
    s.prober.gate.clear()
    for _ in range(4):
        await s.tick()
    assert len(s.prober.asked) == 1
    s.prober.gate.set()
    await s.tick()
    await s.tick()
    assert len(s.prober.asked) > 1


async def test_a_probe_that_ends_makes_way_for_the_next_at_once() -> None:
    """Without a tick in between: a round of many sites would take as many ticks."""
    s = scene()
    await s.tick()
    for _ in range(100):
        await asyncio.sleep(0)
    assert len({probe.pair for probe in s.prober.asked}) == len(SITES) * (len(SITES) - 1)
    await s.monitor.close()


async def test_what_came_beside_a_probe_is_capacity_whatever_the_use_was_before() -> None:
    s = scene(MonitorSettings(enabled=False))
    s.monitor.observe_use(LINK, 4e5)
    s.prober.beside = 2e5
    await s.monitor.probe_now(LINK)
    link = s.monitor.snapshot().link(*LINK)
    assert link is not None
    assert link.figures.capacity_bytes_per_s == pytest.approx(5e5)


async def test_an_end_that_cannot_tell_what_came_beside_leaves_it_to_the_use() -> None:
    s = scene(MonitorSettings(enabled=False))
    s.monitor.observe_use(LINK, 4e5)
    await s.monitor.probe_now(LINK)
    link = s.monitor.snapshot().link(*LINK)
    assert link is not None
    assert link.figures.capacity_bytes_per_s == pytest.approx(9e5)


async def test_a_link_is_probed_the_less_the_longer_probes_fill_it() -> None:
    """60 kB at 100 kB/s are 600 ms of the link: once in 30 s."""
    s = scene()
    for _ in range(100):
        await s.tick(alive=("us", "eu"))
    s.prober.truth = dict.fromkeys(s.prober.truth, 1e5)
    s.prober.bytes_sent = 60_000
    for _ in range(60):
        await s.tick(alive=("us", "eu"))
    begun = len(s.prober.asked)
    for _ in range(300):
        await s.tick(alive=("us", "eu"))
    per_link = (len(s.prober.asked) - begun) / 2
    assert per_link == pytest.approx(10, abs=1)


async def test_sites_that_are_away_are_not_probed() -> None:
    s = scene()
    for _ in range(4):
        await s.tick(alive=("us", "eu"))
    assert {frozenset(probe.pair) for probe in s.prober.asked} == {frozenset(LINK)}


async def test_a_failed_probe_is_not_repeated_at_once() -> None:
    s = scene(MonitorSettings(failed_pause=timedelta(seconds=30)))
    s.prober.truth.clear()
    for _ in range(10):
        await s.tick(alive=("us", "eu"))
    assert len(s.prober.asked) == 2
    await s.tick(31, alive=("us", "eu"))
    assert len(s.prober.asked) == 4


@pytest.mark.parametrize("by", [timedelta(hours=1), -timedelta(hours=1)])
async def test_setting_the_clock_neither_hastens_nor_stops_probes(by: timedelta) -> None:
    s = scene(MonitorSettings(failed_pause=timedelta(seconds=30)))
    s.prober.truth.clear()
    await s.tick(alive=("us", "eu"))
    await s.tick(alive=("us", "eu"))
    s.clock.set_wall(by)
    await s.tick(alive=("us", "eu"))
    assert len(s.prober.asked) == 2
    await s.tick(31, alive=("us", "eu"))
    assert len(s.prober.asked) == 4


async def test_the_history_goes_by_the_clock_that_people_see() -> None:
    s = scene(MonitorSettings(enabled=False))
    s.clock.set_wall(timedelta(hours=1))
    await s.monitor.probe_now(LINK)
    (point,) = s.monitor.history(LINK, timedelta(minutes=1))
    assert point.at == s.clock.now()
    assert s.monitor.snapshot().links[LINK].figures.age == timedelta(0)


async def test_a_halved_link_is_noticed_within_15_s() -> None:
    s = scene()
    for _ in range(120):
        await s.tick(alive=("us", "eu"))
    s.prober.truth[LINK] = 2.5e5
    for _ in range(15):
        await s.tick(alive=("us", "eu"))
    link = s.monitor.snapshot().link(*LINK)
    assert link is not None
    assert link.figures.capacity_bytes_per_s == pytest.approx(2.5e5)


async def test_a_probe_that_is_asked_for_waits_for_its_sites() -> None:
    s = scene(MonitorSettings())
    s.prober.gate.clear()
    await s.tick()
    (running,) = s.prober.asked
    asked = asyncio.create_task(s.monitor.probe_now(running.pair))
    await s.tick()
    assert len(s.prober.asked) == 1
    s.prober.gate.set()
    assert (await asked).bytes_per_s == 5e5
    assert len(s.prober.asked) >= 2
    await s.monitor.close()


async def test_switched_off_it_probes_only_on_request() -> None:
    s = scene(MonitorSettings(enabled=False))
    for _ in range(5):
        await s.tick()
    assert s.prober.asked == []
    await s.monitor.probe_now(LINK)
    assert len(s.prober.asked) == 1


async def test_a_link_that_became_slower_is_known_once_it_was_asked_for() -> None:
    """Also where no trains come by themselves."""
    s = scene(MonitorSettings(enabled=False))
    await s.monitor.probe_now(LINK)
    s.prober.truth[LINK] = 2.5e5
    s.clock.advance(timedelta(seconds=60))
    measured = await s.monitor.probe_now(LINK)
    assert measured.method is Method.IPERF3
    link = s.monitor.snapshot().link(*LINK)
    assert link is not None
    assert link.figures.capacity_bytes_per_s == pytest.approx(2.5e5)


async def test_long_round_trips_are_probed_for_longer() -> None:
    s = scene()
    s.monitor.observe_echoes(LINK, Echoes(3, 0, timedelta(milliseconds=220)))
    await s.monitor.probe_now(LINK)
    assert s.prober.asked[-1].duration == timedelta(seconds=2)


async def test_history_has_measurements_and_use() -> None:
    s = scene(MonitorSettings(enabled=False))
    await s.monitor.probe_now(LINK)
    for _ in range(30):
        s.clock.advance(timedelta(seconds=1))
        s.monitor.observe_use(LINK, 1e5)
    points = s.monitor.history(LINK, timedelta(minutes=5))
    assert [p.method for p in points] == [Method.IPERF3, None, None, None]
    assert s.store.points == []
    s.monitor.tick(SITES)
    assert s.store.points
    assert s.monitor.history(LINK, timedelta(minutes=5)) == points
    assert len(s.monitor.history(LINK, timedelta(seconds=5))) == 1
    s.clock.advance(timedelta(seconds=7200))
    s.monitor.observe_use(LINK, 1e5)
    s.monitor.flush()
    assert len(s.store.points) == 1


def carried(rate: float, *, seconds: float = 1.0, age_s: float = 1.0, link_bound: bool = True) -> Transfer:
    duration, age = timedelta(seconds=seconds), timedelta(seconds=age_s)
    return Transfer(round(rate * seconds), duration, age, link_bound)


async def test_own_traffic_measures_and_is_subtracted() -> None:
    s = scene(MonitorSettings(enabled=False))
    s.monitor.observe_transfer(LINK, carried(4e5))
    s.monitor.observe_use(LINK, 3e5)
    s.monitor.observe_transfer(("us", "nowhere"), carried(4e5))
    link = s.monitor.snapshot().link(*LINK)
    assert link is not None
    assert (link.figures.capacity_bytes_per_s, link.figures.available_bytes_per_s) == (4e5, 1e5)
    assert (link.method, link.figures.age) == (Method.PASSIVE, timedelta(seconds=1))


async def test_while_own_traffic_measures_a_link_no_probe_is_made() -> None:
    s = scene()
    for _ in range(60):
        await s.tick(alive=("us", "eu"))
    made = len(s.prober.asked)
    for _ in range(700):
        s.clock.advance(timedelta(seconds=1))
        for pair in (LINK, LINK[::-1]):
            s.monitor.observe_transfer(pair, carried(5e5))
        await s.tick(0, alive=("us", "eu"))
    assert len(s.prober.asked) == made
    for _ in range(12):
        await s.tick(alive=("us", "eu"))
    assert len(s.prober.asked) > made


async def test_a_slow_transfer_has_the_link_probed_and_the_probe_decides() -> None:
    s = scene()
    for _ in range(120):
        await s.tick(alive=("us", "eu"))
    s.prober.truth[LINK] = 2.5e5
    made = len(s.prober.asked)
    s.monitor.observe_transfer(LINK, carried(2.4e5))
    link = s.monitor.snapshot().link(*LINK)
    assert link is not None
    assert link.figures.capacity_bytes_per_s == pytest.approx(5e5)
    await s.tick(alive=("us", "eu"))
    assert [p.kind for p in s.prober.asked[made:] if p.pair == LINK] == [ProbeKind.TRAIN]
    link = s.monitor.snapshot().link(*LINK)
    assert link is not None
    assert link.figures.capacity_bytes_per_s == pytest.approx(2.5e5, rel=0.05)


async def test_a_transfer_beside_a_probe_is_not_counted() -> None:
    s = scene(MonitorSettings(enabled=False))
    await s.monitor.probe_now(LINK)
    known = s.monitor.snapshot().links[LINK]
    s.clock.advance(timedelta(seconds=1))
    s.monitor.observe_transfer(LINK, carried(9e5, seconds=0.5, age_s=0.5))
    assert s.monitor.snapshot().links[LINK].method is Method.IPERF3
    s.prober.gate.clear()
    asked = asyncio.create_task(s.monitor.probe_now(LINK))
    for _ in range(5):
        await asyncio.sleep(0)
    s.clock.advance(timedelta(seconds=5))
    s.monitor.observe_transfer(LINK, carried(9e5))
    assert s.monitor.snapshot().links[LINK].figures.capacity_bytes_per_s == known.figures.capacity_bytes_per_s
    s.prober.gate.set()
    await asked
    s.clock.advance(timedelta(seconds=3))
    s.monitor.observe_transfer(LINK, carried(9e5))
    assert s.monitor.snapshot().links[LINK].method is Method.PASSIVE


async def test_what_says_nothing_new_is_no_point_of_the_history() -> None:
    s = scene(MonitorSettings(enabled=False))
    s.monitor.observe_transfer(LINK, carried(4e5, link_bound=False))
    assert s.monitor.history(LINK, timedelta(minutes=1)) == ()
