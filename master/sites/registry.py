"""Which agent speaks for each site, whether it is heard, and what it reports."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from machine.clock import Clock
from master.base.clock import SteadyTime
from master.base.errors import SiteDisplacedError, SiteNotRegisteredError
from master.base.logs import line
from master.base.rates import RateMeter
from master.records.lifecycle import SiteEvent
from master.records.model import LinkUse, SiteRecord, SiteReport, SiteState
from master.sites.status import Sites, SiteStatus
from master.store import SiteStore
from planner.values.topology import Topology

logger = logging.getLogger(__name__)


OnSite = Callable[[SiteStatus, str], None]
"""Is called with a site as it is now, and with what has happened to it in a word or two."""


class SiteRegistry:
    """Takes registrations and reports of agents; a report counts only from the newest agent of a site.

    The registry measures silence by the monotonic clock; instants that people are shown are the wall clock's.
    """

    def __init__(self, store: SiteStore, topology: Topology, *, clock: Clock, heartbeat_timeout: timedelta) -> None:
        self._store = store
        self._clock = clock
        self._steady = SteadyTime(clock)
        self._heartbeat_timeout = heartbeat_timeout
        self._rates = RateMeter()
        self._listeners: list[OnSite] = []
        self._heard: dict[str, datetime] = {}
        self._unsaved: dict[str, datetime] = {}
        self.sites = Sites(topology, store.draining())
        """What is known of each site, to be read by everybody."""
        for record in store.sites():
            if record.name in topology.sites:
                self._take_up(record)

    def _take_up(self, record: SiteRecord) -> None:
        """A restarted master gives each site that had registered one whole heartbeat timeout to be heard again."""
        self.sites.put(replace(self.sites.get(record.name), state=SiteState.ALIVE, record=record))
        self._heard[record.name] = self._steady.now()

    def listen(self, listener: OnSite) -> None:
        """Call the listener for each site that comes, goes, or changes to draining or back."""
        self._listeners.append(listener)

    def set_draining(self, name: str, draining: bool) -> None:
        """Give the site no new work from now on, or give it work again; durable on return.

        Raises:
            UnknownSiteError, StoreError
        """
        status = self.sites.get(name)
        if status.draining == draining:
            return
        since = self._clock.now() if draining else None
        self._store.put_draining(name, since)
        changed = replace(status, draining_since=since)
        self.sites.put(changed)
        said = "site is draining" if draining else "site takes work again"
        logger.info(line(said, site=name))
        self._tell(changed, said)

    def register(self, record: SiteRecord) -> None:
        """Make this agent the one that speaks for its site.

        Raises:
            UnknownSiteError: the topology does not name the site.
            SiteDisplacedError: the agent was displaced by a newer one before.
        """
        status = self.sites.get(record.name)
        current = status.record.incarnation if status.record else None
        if record.incarnation != current and self._store.incarnation_seen(record.name, record.incarnation):
            raise _displaced(record.name, record.incarnation)
        now = self._clock.now()
        self._store.put_site(replace(record, last_report_at=now))
        fresh = status if record.incarnation == current else replace(status, report=None)
        self._set(replace(fresh, record=replace(record, last_report_at=now)), SiteEvent.REGISTERED)
        if current != record.incarnation:
            for source in self.sites.all():
                self._rates.forget((source.name, record.name, current))
        self._heard[record.name] = self._steady.now()
        logger.info(line("site registered", site=record.name, address=record.address, incarnation=record.incarnation))

    def check_incarnation(self, site: str, incarnation: str) -> None:
        """Raises UnknownSiteError, SiteNotRegisteredError or SiteDisplacedError unless this agent speaks for
        the site."""
        record = self.sites.get(site).record
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
        status = self.sites.get(report.site)
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
        self._set(self.sites.get(site), SiteEvent.DEREGISTERED)

    def tick(self) -> tuple[str, ...]:
        """Mark sites whose heartbeat is overdue; returns their names."""
        overdue_before = self._steady.now() - self._heartbeat_timeout
        overdue = tuple(name for name in sorted(self.sites.alive()) if self._heard[name] <= overdue_before)
        for name in overdue:
            self._set(self.sites.get(name), SiteEvent.HEARTBEAT_OVERDUE)
        return overdue

    def flush(self) -> None:
        """Store the times of the last reports."""
        if self._unsaved:
            self._store.put_last_reports(self._unsaved)
            self._unsaved = {}

    def _set(self, status: SiteStatus, event: SiteEvent) -> None:
        now = status.after(event)
        self.sites.put(now)
        if now.state is not status.state:
            logger.info(line("site state", site=status.name, was=status.state.value, now=now.state.value))
            self._tell(now, f"site is {now.state.value}")

    def _tell(self, status: SiteStatus, said: str) -> None:
        for listener in self._listeners:
            listener(status, said)

    def _with_rate(self, link: LinkUse, report: SiteReport, now: datetime) -> LinkUse:
        key = (link.from_site, report.site, report.incarnation)
        self._rates.observe(key, now, link.bytes)
        return replace(link, to_site=report.site, bytes_per_s=self._rates.per_second(key, now))


def _displaced(site: str, incarnation: str) -> SiteDisplacedError:
    return SiteDisplacedError(
        f"a newer agent of site {site} has taken over",
        hint="stop this agent; one site has one agent",
        ids={"site": site, "incarnation": incarnation},
    )
