"""Sites as the master knows them now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from master.records.ids import did_you_mean
from master.records.lifecycle import SiteEvent, next_site_state
from master.records.model import LinkUse, SiteRecord, SiteReport, SiteState
from planner.values.errors import UnknownSiteError
from planner.values.topology import Site, Topology


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
        """Whether it gets no new work."""
        return self.draining_since is not None

    @property
    def slots(self) -> int:
        """Return how many slots its agent offers; until one has said, as many as the topology says."""
        return self.record.slots if self.record is not None and self.record.slots else self.expected.slots

    @property
    def name(self) -> str:
        return self.expected.name

    @property
    def address(self) -> str:
        """host:port of its agent; empty: none has registered."""
        return self.record.address if self.record else ""

    def after(self, event: SiteEvent) -> SiteStatus:
        """The site in the state that it has after the event."""
        return replace(self, state=next_site_state(self.name, self.state, event))


class Sites:
    """Every site of the topology, always. Only `SiteRegistry` changes what is known of one."""

    def __init__(self, topology: Topology, draining: Mapping[str, datetime]) -> None:
        """No agent has registered; `draining` says since when sites have been draining."""
        self._topology = topology
        self._statuses = {
            name: SiteStatus(site, SiteState.EXPECTED, draining_since=draining.get(name))
            for name, site in sorted(topology.sites.items())
        }
        self.version = 0
        """It counts changes of a site's state, or of the slots that it offers: reports change neither."""

    def put(self, status: SiteStatus) -> None:
        """Replace what is known of a site."""
        if _offer(status) != _offer(self._statuses[status.name]):
            self.version += 1
        self._statuses[status.name] = status

    def all(self) -> tuple[SiteStatus, ...]:
        """All sites, by name."""
        return tuple(self._statuses.values())

    def get(self, name: str) -> SiteStatus:
        """The site of that name. Raises UnknownSiteError."""
        status = self._statuses.get(name)
        if status is None:
            raise unknown_site(name, self._topology)
        return status

    @property
    def topology(self) -> Topology:
        """The cluster's topology, with the sites that are draining now."""
        return self._topology.with_draining([name for name, status in self._statuses.items() if status.draining])

    @property
    def currency(self) -> str:
        """The currency of the prices of links; empty: they have none."""
        return self._topology.currency

    def cost(self, links: Iterable[LinkUse]) -> float | None:
        """The price of what crossed these links; None when links have no prices."""
        return self._topology.cost((link.from_site, link.to_site, link.bytes) for link in links)

    def able(self) -> frozenset[str]:
        """Sites that can take new tasks now."""
        return frozenset(name for name in self.alive() if not self._statuses[name].draining)

    def alive(self) -> frozenset[str]:
        """Sites whose agent is heard."""
        return frozenset(name for name, status in self._statuses.items() if status.state is SiteState.ALIVE)

    def incarnations(self) -> frozenset[tuple[str, str]] | None:
        """The agents that are alive, by site and incarnation; None: there is none."""
        alive = self.alive()
        records = (status.record for name, status in self._statuses.items() if name in alive)
        return frozenset((record.name, record.incarnation) for record in records if record) or None

    def addresses(self) -> Mapping[str, str]:
        """host:port of every agent that ever registered, by site."""
        return {name: status.address for name, status in self._statuses.items() if status.address}

    @property
    def settled(self) -> bool:
        """Whether every site that registered before has reported since the master's start, or had the time for it."""
        return all(status.report for status in self._statuses.values() if status.state is SiteState.ALIVE)


def unknown_site(name: str, topology: Topology) -> UnknownSiteError:
    """The refusal of a site that the topology does not name."""
    known = sorted(topology.sites)
    hint = did_you_mean(name, known) or "sites of the topology: " + ", ".join(known)
    return UnknownSiteError(f"there is no site {name!r} in the topology", found=name, hint=hint, ids={"site": name})


def _offer(status: SiteStatus) -> tuple[SiteState, int, bool]:
    return status.state, status.slots, status.draining
