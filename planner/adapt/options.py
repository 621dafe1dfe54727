"""What would help one operator: its tasks elsewhere, or more of them, or one less. Each with what it costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from planner.adapt.assign import Demand, Sites, assign, excess, flows_of, overload
from planner.adapt.mapping import Held, Mapped, map_state
from planner.adapt.model import Group, Links, Node, Settings
from planner.adapt.program import Placeable, place_together
from planner.adapt.traffic import Look, sites_of
from planner.values.links import Pair
from planner.values.trees import Tree


class Action(Enum):
    """What is done to an operator."""

    REASSIGN = "re-assign"
    """As many tasks, at other sites."""
    SCALE_UP = "scale up"
    """More tasks, at sites that have some."""
    SCALE_OUT = "scale out"
    """More tasks, also at other sites."""
    SCALE_IN = "scale in"
    """A task less."""
    REPLAN = "re-plan"
    """Other operators, or all operators of the query at other sites."""
    SPLIT = "split off"
    """A task of the query's own in the place of one that it shares."""


@dataclass(frozen=True, slots=True)
class Change:
    """Where one operator's tasks are, and would be."""

    group: Group
    before: Sites
    after: Sites


@dataclass(frozen=True, slots=True)
class Option:
    """Something that could be done."""

    action: Action
    changes: tuple[Change, ...]
    adapt_s: float
    """Until it is done: the longest transfer of state, or until the windows are out of which new tasks lack rows."""
    link_use: float
    """The greatest use of a link over what is left of it, afterwards; infinite where a link is missing."""
    flows: Mapping[Pair, float] = field(default_factory=dict)
    """Bytes per second that the tasks would put on links."""
    note: str = ""
    """What people have to know of it."""
    without_state: bool = False
    """New tasks begin in the middle of their inputs: that is sooner than sending them what they lack."""
    tree: Tree | None = None
    """Over which sites partials are to go, where other tasks are to combine; None: those that run go on."""
    shared: Group | None = None
    """The operator of another query, from which the query is split off; None: it is not."""

    @property
    def text(self) -> str:
        return "; ".join(f"{c.group[1]} {_places(c.before)} -> {_places(c.after)}" for c in self.changes)


@dataclass(frozen=True, slots=True)
class Room:
    """What there is for one operator, its own put back."""

    slots: Sites
    links: Links
    """What is left of them by the rest; of that, a share may be used."""
    seeds: Links
    """What state is sent over."""
    settings: Settings


@dataclass(frozen=True, slots=True)
class Subject:
    """The operator that something is looked for."""

    look: Look
    group: Group
    demand: Demand

    @property
    def tasks(self) -> tuple[Node, ...]:
        return self.look.graph.tasks(self.group)

    @property
    def sites(self) -> Sites:
        """Where its tasks are."""
        return sites_of(self.tasks)


def link_options(subject: Subject, room: Room) -> Iterator[Option]:
    """Placements of as many tasks, then of the least number of more that fit; nothing that is over a link's share."""
    number, settings, room = len(subject.tasks), room.settings, in_reach(subject, room)
    if (sites := placed(subject, number, room)) is not None and sites != subject.sites:
        yield option(subject, sites, room)
    for more in range(number + 1, min(number + settings.most_extra, most_of(subject.tasks)) + 1):
        if (sites := placed(subject, more, room)) is not None:
            yield option(subject, sites, room)
            return


def in_reach(subject: Subject, room: Room) -> Room:
    """Return the room without slots at sites to which no task's state can be sent in time.

    State that need not be sent is no reason to leave a site out.
    """
    if all(node.late_s is not None for node in subject.tasks):
        return room
    far = out_of_reach(subject.look, subject.group, room)
    return replace(room, slots={site: number for site, number in room.slots.items() if site not in far})


def out_of_reach(look: Look, group: Group, room: Room) -> frozenset[str]:
    """Return the sites to which no task of an operator can send its state in time."""
    tasks, settings = look.graph.tasks(group), room.settings
    each_bytes = sum(look.found.tasks[node.id].state_bytes for node in tasks) / len(tasks)
    most_s = settings.longest_adapt_s - settings.prepare_s

    def reaches(site: str) -> bool:
        links = (room.seeds.capacity.get((node.site, site), 0.0) for node in tasks)
        return not each_bytes or site in sites_of(tasks) or any(each_bytes <= most_s * rate for rate in links)

    return frozenset(site for site in room.slots if not reaches(site))


def least_overloaded(subject: Subject, room: Room) -> Option | None:
    """The one site at which the busiest link is least over what it has; None: no site has the slots, and links to all
    that the tasks read or feed."""
    number, room = len(subject.tasks), in_reach(subject, room)
    sites = (site for site in sorted(room.slots) if room.slots[site] >= number)
    there = (site for site in sites if _is_linked(subject.demand, site, room))
    found = [option(subject, {site: number}, room) for site in there]
    return min(found, key=lambda o: excess(subject.demand, o.changes[0].after, room.links), default=None)


def _is_linked(demand: Demand, site: str, room: Room) -> bool:
    """Return whether there is a link for whatever would cross one; it may be full."""
    return all(room.seeds.capacity.get(pair, 0.0) > 0 for pair in flows_of(demand, {site: 1}))


def more_tasks(subject: Subject, number: int, room: Room) -> Option | None:
    """So many tasks: those that are there stay, more come at their sites, the rest elsewhere; None: there is no
    place."""
    before = subject.sites
    left, after, up = number - sum(before.values()), dict(before), dict(before)
    for site in sorted(before):
        extra = min(left, room.slots.get(site, 0) - before[site])
        if extra > 0:
            up[site], left = up[site] + extra, left - extra
    # In the site, if its links bear what more tasks there would take.
    if not left and overload(subject.demand, up, room.links) < room.settings.link_share:
        return option(subject, up, room)
    for _ in range(number - sum(before.values())):
        best = _best_site(subject.demand, after, room)
        if best is None:
            return None
        after[best] = after.get(best, 0) + 1
    return option(subject, after, room)


def one_less(subject: Subject, room: Room) -> Option | None:
    """The sites that it has, with a task less at one of them; None: their links would be too full."""
    before, demand = subject.sites, subject.demand
    ends = {*demand.inputs, *demand.outputs}
    # First a task that lies beside none of those that it reads or feeds.
    for site in sorted(before, key=lambda s: (s in ends, s)):
        after = {s: n - (s == site) for s, n in before.items() if n - (s == site)}
        if after and overload(demand, after, room.links) < room.settings.scale_in_share:
            return option(subject, after, room)
    return None


def placed(subject: Subject, number: int, room: Room) -> Sites | None:
    """So many tasks of an operator; None: there is no placement, or none was found in the time."""
    share, demand, settings = room.settings.link_share, subject.demand, room.settings
    sites = assign(demand, number, room.slots, room.links, share=share)
    if sites is None or overload(demand, sites, room.links) < share:
        return sites
    # A link that some tasks read over and others write over is one that `assign` counts twice.
    found = place_together(
        [Placeable(subject.group, number, demand)], room.slots, room.links, share=share, time_s=settings.program_s
    )
    sites = found.sites[subject.group] if found is not None else None
    return sites if sites is not None and overload(demand, sites, room.links) < share else None


def option(subject: Subject, after: Sites, room: Room) -> Option:
    """An operator's tasks at these sites."""
    before, number = subject.sites, sum(after.values())
    action = Action.REASSIGN
    if number > len(subject.tasks):
        action = Action.SCALE_UP if set(after) <= set(before) else Action.SCALE_OUT
    elif number < len(subject.tasks):
        action = Action.SCALE_IN
    moved_s = mapped(subject.look, subject.group, after, room.seeds).longest_s
    late_s = max(node.late_s if node.late_s is not None else math.inf for node in subject.tasks)
    late = action is Action.REASSIGN and late_s < moved_s
    return Option(
        action,
        (Change(subject.group, before, after),),
        room.settings.prepare_s + (late_s if late else moved_s),
        overload(subject.demand, after, room.links),
        flows_of(subject.demand, after),
        "without its state: the windows that are open close where they are" if late else "",
        late,
    )


def mapped(look: Look, group: Group, after: Sites, seeds: Links) -> Mapped:
    """Where an operator's state goes; that of a task that is split goes in equal parts."""
    tasks, number = look.graph.tasks(group), sum(after.values())
    state = sum(look.found.tasks[node.id].state_bytes for node in tasks)
    held = [Held(f"{n:04}", tasks[n * len(tasks) // number].site, state / number) for n in range(number)]
    return map_state(held, after, seeds)


def most_of(tasks: tuple[Node, ...]) -> int:
    """How many parallel tasks an operator may have."""
    return max(node.most for node in tasks)


def _best_site(demand: Demand, after: Mapping[str, int], room: Room) -> str | None:
    """Where one task more makes the busiest link least busy."""
    found = []
    for site, free in sorted(room.slots.items()):
        if free > after.get(site, 0):
            use = overload(demand, {**after, site: after.get(site, 0) + 1}, room.links)
            if use < room.settings.link_share:
                found.append((use, site))
    return min(found)[1] if found else None


def _places(sites: Sites) -> str:
    return ", ".join(f"{site} x{number}" if number > 1 else site for site, number in sorted(sites.items()))
