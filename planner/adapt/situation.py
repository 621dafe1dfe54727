"""What a round of decisions is made on, and what comes out of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from planner.adapt.assign import Sites
from planner.adapt.costs import Cost
from planner.adapt.diagnose import Cause, Finding
from planner.adapt.model import Graph, Group, Links, Seen, Settings
from planner.adapt.options import Option, Room
from planner.adapt.traffic import Look, link_uses, sites_of
from planner.values.links import Pair


@dataclass(frozen=True, slots=True)
class Situation:
    """All queries between two instants."""

    graphs: tuple[Graph, ...]
    before: Seen
    after: Seen
    links: Links
    """Their figures as they are known now."""
    slots: Sites
    """That are free, by site where a task may begin."""
    moving: frozenset[Group] = frozenset()
    """Operators in a handover."""
    all_slots: Sites = field(default_factory=dict)
    """By site, free or not; of one that is not named, the free ones are all there are."""

    @property
    def now(self) -> datetime:
        return self.after.at


class Verdict(Enum):
    """What came out for a query."""

    ACT = "act"
    HEALTHY = "healthy"
    """It keeps up."""
    UNJUDGED = "not judged"
    """Something is not measured."""
    NONE = "no action"
    """Something is wrong, and nothing is done about it."""


@dataclass(frozen=True, slots=True)
class Considered:
    """An option, and why it was not taken; empty: it was."""

    option: Option
    against: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about one cause, or that there is none."""

    query: str
    at: datetime
    verdict: Verdict
    reason: str
    finding: Finding | None = None
    considered: tuple[Considered, ...] = ()
    expected: str = ""
    """What the action is to bring."""
    cost: Cost | None = None
    """The cost of the action that was, or would have been, taken; None: there is none."""

    @property
    def chosen(self) -> Option | None:
        return next((one.option for one in self.considered if not one.against), None)

    @property
    def cause(self) -> Cause | None:
        return self.finding.cause if self.finding is not None else None


@dataclass(frozen=True, slots=True)
class Reserved:
    """What is taken of slots and links by actions that are under way."""

    slots: Sites = field(default_factory=dict)
    flows: Mapping[Pair, float] = field(default_factory=dict)

    def plus(self, option: Option) -> Reserved:
        slots, flows = dict(self.slots), dict(self.flows)
        for change in option.changes:
            for site, number in change.after.items():
                slots[site] = slots.get(site, 0) + max(0, number - change.before.get(site, 0))
        for pair, rate in option.flows.items():
            flows[pair] = flows.get(pair, 0.0) + rate
        return Reserved(slots, flows)


@dataclass(frozen=True, slots=True)
class View:
    """Everything a cure is looked for in; it changes with each action of the round."""

    looks: tuple[Look, ...]
    links: Links
    """What is planned with."""
    slots: Sites
    reserved: Reserved
    settings: Settings

    def room(self, look: Look, groups: Collection[Group]) -> Room:
        """What there is for some operators of a query, their own put back."""
        own: dict[str, int] = {}
        for group in groups:
            for site, number in sites_of(look.graph.tasks(group)).items():
                own[site] = own.get(site, 0) + number
        sites = {*self.slots, *own}
        free = {s: self.slots.get(s, 0) + own.get(s, 0) - self.reserved.slots.get(s, 0) for s in sites}
        uses = dict(link_uses(self.looks, but=groups))
        for pair, rate in self.reserved.flows.items():
            uses[pair] = uses.get(pair, 0.0) + rate
        share = self.settings.link_share
        left = {pair: max(0.0, whole - uses.get(pair, 0.0) / share) for pair, whole in self.links.capacity.items()}
        seeds = {pair: whole * self.settings.seed_share for pair, whole in self.links.capacity.items()}
        latency_s = self.links.latency_s
        slots = {site: max(0, number) for site, number in free.items()}
        return Room(slots, Links(left, latency_s), Links(seeds, latency_s), self.settings)
