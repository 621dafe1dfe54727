"""Sites: registration, heartbeats, displacement, restart; all on a virtual clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from master.base.errors import SiteDisplacedError, SiteNotRegisteredError
from master.records.model import LinkUse, SiteState
from master.sites.registry import SiteRegistry
from master.store.sqlite import SqliteStore
from planner.values.errors import UnknownSiteError
from tests.fakes import VirtualClock
from tests.unit.master.build import START, TOPOLOGY, report, site_record

TIMEOUT = timedelta(seconds=10)


class World:
    """A registry over a store that outlives it."""

    def __init__(self) -> None:
        self.store = SqliteStore.in_memory()
        self.clock = VirtualClock(START)
        self.restart()

    def restart(self) -> None:
        self.registry = SiteRegistry(self.store, TOPOLOGY, clock=self.clock, heartbeat_timeout=TIMEOUT)
        self.sites = self.registry.sites

    def state(self, site: str) -> SiteState:
        return self.sites.get(site).state


@pytest.fixture
def world() -> World:
    return World()


def test_sites_of_the_topology_are_expected_from_the_start(world: World) -> None:
    assert [(s.name, s.state) for s in world.sites.all()] == [
        ("eu", SiteState.EXPECTED),
        ("hub", SiteState.EXPECTED),
        ("us", SiteState.EXPECTED),
    ]
    assert world.sites.alive() == frozenset()


def test_a_site_that_the_topology_does_not_name_is_refused_with_a_hint(world: World) -> None:
    with pytest.raises(UnknownSiteError) as caught:
        world.registry.register(site_record("hubb"))
    assert caught.value.hint == "did you mean hub?"
    assert world.store.sites() == ()


def test_registration_makes_it_alive_and_gives_its_address(world: World) -> None:
    world.registry.register(site_record("us"))
    assert world.state("us") is SiteState.ALIVE
    assert world.sites.addresses() == {"us": "us.example:1"}


def test_a_site_is_unreachable_exactly_when_the_timeout_is_over_and_comes_back_by_itself(world: World) -> None:
    world.registry.register(site_record("us"))
    world.clock.advance(TIMEOUT - timedelta(microseconds=1))
    assert world.registry.tick() == ()
    world.clock.advance(timedelta(microseconds=1))
    assert world.registry.tick() == ("us",)
    assert world.state("us") is SiteState.UNREACHABLE
    assert world.registry.tick() == ()
    world.registry.report(report("us"))
    assert world.state("us") is SiteState.ALIVE


def test_each_report_puts_the_timeout_off(world: World) -> None:
    world.registry.register(site_record("us"))
    for _ in range(3):
        world.clock.advance(TIMEOUT * 0.9)
        world.registry.report(report("us"))
        assert world.registry.tick() == ()


def test_a_report_before_any_registration_is_refused(world: World) -> None:
    with pytest.raises(SiteNotRegisteredError):
        world.registry.report(report("us"))
    assert world.state("us") is SiteState.EXPECTED


def test_a_newer_agent_displaces_the_older_for_good(world: World) -> None:
    world.registry.register(site_record("us", "a"))
    world.registry.report(report("us", incarnation="a"))
    world.registry.register(site_record("us", "b"))
    assert world.sites.get("us").report is None
    with pytest.raises(SiteDisplacedError):
        world.registry.report(report("us", incarnation="a"))
    with pytest.raises(SiteDisplacedError):
        world.registry.register(site_record("us", "a"))
    world.restart()
    with pytest.raises(SiteDisplacedError):
        world.registry.report(report("us", incarnation="a"))
    world.registry.report(report("us", incarnation="b"))


def test_an_agent_that_never_registered_is_told_to_register(world: World) -> None:
    world.registry.register(site_record("us", "a"))
    with pytest.raises(SiteNotRegisteredError):
        world.registry.report(report("us", incarnation="new"))


def test_registering_again_with_a_new_address_is_taken(world: World) -> None:
    world.registry.register(site_record("us"))
    world.registry.register(replace(site_record("us"), address="elsewhere:2"))
    assert world.sites.addresses() == {"us": "elsewhere:2"}


def test_after_a_restart_a_site_has_one_timeout_to_be_heard_again(world: World) -> None:
    world.registry.register(site_record("us"))
    world.clock.advance(TIMEOUT * 100)
    world.restart()
    assert world.state("us") is SiteState.ALIVE
    assert world.state("eu") is SiteState.EXPECTED
    world.registry.report(report("us"))
    world.restart()
    world.clock.advance(TIMEOUT)
    assert world.registry.tick() == ("us",)


def test_the_last_report_is_stored_by_flush(world: World) -> None:
    world.registry.register(site_record("us"))
    world.clock.advance(timedelta(seconds=3))
    world.registry.report(report("us"))
    assert world.store.sites()[0].last_report_at == START
    world.registry.flush()
    assert world.store.sites()[0].last_report_at == START + timedelta(seconds=3)


def test_incoming_links_get_a_rate(world: World) -> None:
    world.registry.register(site_record("us"))
    world.registry.report(report("us", links=(LinkUse("eu", "", 1000),)))
    world.clock.advance(timedelta(seconds=2))
    world.registry.report(report("us", links=(LinkUse("eu", "", 4000),)))
    assert world.sites.get("us").links == (LinkUse("eu", "us", 4000, bytes_per_s=1500.0),)


@pytest.mark.parametrize("by", [timedelta(hours=1), -timedelta(hours=1)])
def test_setting_the_machines_clock_changes_no_sites_state(world: World, by: timedelta) -> None:
    world.registry.register(site_record("us"))
    world.clock.set_wall(by)
    assert world.registry.tick() == ()
    assert world.state("us") is SiteState.ALIVE
    world.registry.report(report("us"))
    world.clock.advance(TIMEOUT - timedelta(microseconds=1))
    world.clock.set_wall(-2 * by)
    assert world.registry.tick() == ()
    world.clock.advance(timedelta(microseconds=1))
    assert world.registry.tick() == ("us",)


@pytest.mark.parametrize("by", [timedelta(hours=1), -timedelta(hours=1)])
def test_setting_the_clock_leaves_a_links_rate_as_it_is(world: World, by: timedelta) -> None:
    world.registry.register(site_record("us"))
    world.registry.report(report("us", links=(LinkUse("eu", "us", 0, 0),)))
    world.clock.advance(timedelta(seconds=2))
    world.clock.set_wall(by)
    world.registry.report(report("us", links=(LinkUse("eu", "us", 4000, 1),)))
    assert world.sites.get("us").links[0].bytes_per_s == 2000


@pytest.mark.parametrize("by", [timedelta(hours=1), -timedelta(hours=1)])
def test_a_clock_that_was_set_while_the_master_was_away_gives_a_site_its_one_timeout(
    world: World, by: timedelta
) -> None:
    world.registry.register(site_record("us"))
    world.clock.set_wall(by)
    world.restart()
    assert world.state("us") is SiteState.ALIVE
    world.clock.advance(TIMEOUT)
    assert world.registry.tick() == ("us",)


def test_a_draining_site_stays_alive_takes_nothing_and_is_remembered(world: World) -> None:
    for site in ("us", "eu"):
        world.registry.register(site_record(site))
    world.registry.set_draining("us", True)
    since = world.clock.now()
    world.clock.advance(timedelta(seconds=5))
    world.registry.set_draining("us", True)
    for _ in range(2):
        assert world.state("us") is SiteState.ALIVE
        assert world.sites.able() == {"eu"}
        assert world.sites.alive() == {"eu", "us"}
        assert world.sites.topology.draining == {"us"}
        assert world.sites.get("us").draining_since == since
        world.restart()
    world.registry.register(site_record("us", "b"))
    assert world.sites.topology.draining == {"us"}
    world.registry.set_draining("us", False)
    world.restart()
    assert world.sites.able() == {"eu", "us"}
    assert world.sites.topology.draining == frozenset()


def test_a_site_can_be_drained_before_its_agent_is_seen_but_must_be_in_the_topology(world: World) -> None:
    world.registry.set_draining("hub", True)
    world.registry.register(site_record("hub"))
    assert world.sites.able() == frozenset()
    with pytest.raises(UnknownSiteError):
        world.registry.set_draining("hubb", True)
