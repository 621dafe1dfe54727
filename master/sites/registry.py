"""Sites: which are expected, who speaks for each, and whether it is heard."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from machine.clock import Clock
from master.base.clock import SteadyTime
from master.base.errors import SiteDisplacedError, SiteNotRegisteredError
from master.base.logs import line
from master.base.rates import RateMeter
from master.records.ids import did_you_mean
from master.records.lifecycle import SiteEvent, next_site_state
from master.records.model import LinkUse, SiteRecord, SiteReport, SiteState
from master.store import SiteStore
from planner.values.errors import UnknownSiteError
from planner.values.topology import Site, Topology

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SiteStatus:
    """All that is known of a site now."""

    expected: Site
    """As the topology names it."""
    state: SiteState
    record: SiteRecord | None = None
    """Its agent's last registration."""
    report: SiteReport | None = None
    """The last one since the master's start."""
    links: tuple[LinkUse, ...] = ()
    """Its incoming links, with rates."""
    draining_since: datetime | None = None
    """None: it is not draining."""

    @property
    def draining(self) -> bool:
        return self.draining_since is not None

    @property
    def name(self) -> str:
        return self.expected.name

    @property
    def address(self) -> str:
        return self.record.address if self.record else ""


OnSite = Callable[[SiteStatus, str], None]
"""Told of a site as it is now, and in a word or two of what has happened to it."""


class SiteRegistry:
    """Every site of the topology, always; a report counts only from the newest agent of a site.

    The registry measures silence by the monotonic clock; instants that people are shown are the wall clock's.
    """

    def __init__(self, store: SiteStore, topology: Topology, *, clock: Clock, heartbeat_timeout: timedelta) -> None:
        self._store = store
        self._topology = topology
        self._clock = clock
        self._steady = SteadyTime(clock)
        self._heartbeat_timeout = heartbeat_timeout
        self._rates = RateMeter()
        self._listeners: list[OnSite] = []
        self._heard: dict[str, datetime] = {}
        self._unsaved: dict[str, datetime] = {}
        draining = store.draining()
        self._sites = {
            name: SiteStatus(site, SiteState.EXPECTED, draining_since=draining.get(name))
            for name, site in sorted(topology.sites.items())
        }
        for record in store.sites():
            self._take_up(record)

    def _take_up(self, record: SiteRecord) -> None:
        """A restarted master gives each site that had registered one whole heartbeat timeout to be heard again."""
        if record.name in self._sites:
            self._sites[record.name] = replace(self._sites[record.name], state=SiteState.ALIVE, record=record)
            self._heard[record.name] = self._steady.now()

    def listen(self, listener: OnSite) -> None:
        """Have it told of sites that come, go, or are taken out of work."""
        self._listeners.append(listener)

    def all(self) -> tuple[SiteStatus, ...]:
        """Ordered by name."""
        return tuple(self._sites.values())

    def get(self, name: str) -> SiteStatus:
        """Raises UnknownSiteError."""
        status = self._sites.get(name)
        if status is None:
            raise unknown_site(name, self._topology)
        return status

    @property
    def topology(self) -> Topology:
        """The cluster's, with the sites that are draining now."""
        return self._topology.with_draining([name for name, status in self._sites.items() if status.draining])

    @property
    def currency(self) -> str:
        """The currency of the prices of links; empty: they have none."""
        return self._topology.currency

    def cost(self, links: Iterable[LinkUse]) -> float | None:
        """The price of what crossed these links; None when links have no prices."""
        return self._topology.cost((link.from_site, link.to_site, link.bytes) for link in links)

    def set_draining(self, name: str, draining: bool) -> None:
        """Give the site no new work from now on, or give it work again; durable on return.

        Raises:
            UnknownSiteError, StoreError
        """
        status = self.get(name)
        if status.draining == draining:
            return
        since = self._clock.now() if draining else None
        self._store.put_draining(name, since)
        self._sites[name] = replace(status, draining_since=since)
        said = "site is draining" if draining else "site takes work again"
        logger.info(line(said, site=name))
        self._tell(self._sites[name], said)

    def able(self) -> frozenset[str]:
        """Sites that can take new tasks now."""
        return frozenset(name for name in self.alive() if not self._sites[name].draining)

    def alive(self) -> frozenset[str]:
        return frozenset(name for name, status in self._sites.items() if status.state is SiteState.ALIVE)

    def incarnations(self) -> frozenset[tuple[str, str]] | None:
        """Which agents are alive, by site and incarnation; None: there is none."""
        alive = self.alive()
        records = (status.record for name, status in self._sites.items() if name in alive)
        return frozenset((record.name, record.incarnation) for record in records if record) or None

    def addresses(self) -> Mapping[str, str]:
        """host:port of every agent that ever registered, by site."""
        return {name: status.address for name, status in self._sites.items() if status.address}

    def register(self, record: SiteRecord) -> None:
        """Make this agent the one that speaks for its site.

        Raises:
            UnknownSiteError: the topology does not name the site.
            SiteDisplacedError: the agent was displaced by a newer one before.
        """
        status = self.get(record.name)
        current = status.record.incarnation if status.record else None
        if record.incarnation != current and self._store.incarnation_seen(record.name, record.incarnation):
            raise _displaced(record.name, record.incarnation)
        now = self._clock.now()
        self._store.put_site(replace(record, last_report_at=now))
        fresh = status if record.incarnation == current else replace(status, report=None)
        self._set(replace(fresh, record=replace(record, last_report_at=now)), SiteEvent.REGISTERED)
        if current != record.incarnation:
            for source in self._sites:
                self._rates.forget((source, record.name, current))
        self._heard[record.name] = self._steady.now()
        logger.info(line("site registered", site=record.name, address=record.address, incarnation=record.incarnation))

    def check_incarnation(self, site: str, incarnation: str) -> None:
        """Raises UnknownSiteError, SiteNotRegisteredError or SiteDisplacedError unless it speaks for the site."""
        record = self.get(site).record
        if record is None:
            raise SiteNotRegisteredError(
                f"no agent of site {site} is registered", hint="register first", ids={"site": site}
            )
        if record.incarnation == incarnation:
            return
        if self._store.incarnation_seen(site, incarnation):
            raise _displaced(site, incarnation)
        raise SiteNotRegisteredError(
            f"agent {incarnation!r} of site {site} is not registered", hint="register first", ids={"site": site}
        )

    def report(self, report: SiteReport) -> None:
        """Take a heartbeat.

        Raises:
            UnknownSiteError, SiteNotRegisteredError, SiteDisplacedError
        """
        self.check_incarnation(report.site, report.incarnation)
        now, heard_at = self._clock.now(), self._steady.now()
        status = self._sites[report.site]
        record = replace(status.record, last_report_at=now) if status.record else None
        links = tuple(self._with_rate(link, report, heard_at) for link in report.links)
        self._set(replace(status, record=record, report=report, links=links), SiteEvent.REPORTED)
        self._heard[report.site], self._unsaved[report.site] = heard_at, now

    def deregister(self, site: str, incarnation: str) -> None:
        """The agent that speaks for the site is about to end.

        Raises:
            UnknownSiteError, SiteNotRegisteredError, SiteDisplacedError
        """
        self.check_incarnation(site, incarnation)
        self._set(self._sites[site], SiteEvent.DEREGISTERED)

    @property
    def settled(self) -> bool:
        """Every site that registered before has reported since the master's start, or had the time for it."""
        return all(status.report for status in self._sites.values() if status.state is SiteState.ALIVE)

    def tick(self) -> tuple[str, ...]:
        """Mark sites whose heartbeat is overdue; answers which."""
        overdue_before = self._steady.now() - self._heartbeat_timeout
        overdue = tuple(name for name in sorted(self.alive()) if self._heard[name] <= overdue_before)
        for name in overdue:
            self._set(self._sites[name], SiteEvent.HEARTBEAT_OVERDUE)
        return overdue

    def flush(self) -> None:
        """Store the times of the last reports."""
        if self._unsaved:
            self._store.put_last_reports(self._unsaved)
            self._unsaved = {}

    def _set(self, status: SiteStatus, event: SiteEvent) -> None:
        state = next_site_state(status.name, status.state, event)
        was, self._sites[status.name] = status.state, replace(status, state=state)
        if state is not was:
            logger.info(line("site state", site=status.name, was=was.value, now=state.value))
            self._tell(self._sites[status.name], f"site is {state.value}")

    def _tell(self, status: SiteStatus, said: str) -> None:
        for listener in self._listeners:
            listener(status, said)

    def _with_rate(self, link: LinkUse, report: SiteReport, now: datetime) -> LinkUse:
        key = (link.from_site, report.site, report.incarnation)
        self._rates.observe(key, now, link.bytes)
        return replace(link, to_site=report.site, bytes_per_s=self._rates.per_second(key, now))


def unknown_site(name: str, topology: Topology) -> UnknownSiteError:
    known = sorted(topology.sites)
    hint = did_you_mean(name, known) or "sites of the topology: " + ", ".join(known)
    return UnknownSiteError(f"there is no site {name!r} in the topology", found=name, hint=hint, ids={"site": name})


def _displaced(site: str, incarnation: str) -> SiteDisplacedError:
    return SiteDisplacedError(
        f"a newer agent of site {site} has taken over",
        hint="stop this agent; one site has one agent",
        ids={"site": site, "incarnation": incarnation},
    )
