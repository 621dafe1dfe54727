"""Plays one round of decisions in a world, and finds what would have been best of all there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import product

from planner.adapt.assign import flows_of
from planner.adapt.costs import Slots, cost_of
from planner.adapt.decide import decide
from planner.adapt.memory import Memory
from planner.adapt.model import Settings
from planner.adapt.options import Action, Change, Option
from planner.adapt.rates import expected_in, rates
from planner.adapt.situation import Situation, Verdict
from planner.adapt.traffic import Look, demand_of, link_uses
from planner.values.links import Pair
from simulator.nako.world import CUT, HUB, SITES, World


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a round, or of the best choice."""

    healed: bool
    """The link has room for what is left on it."""
    moves: int
    cost: float
    """The sum over the actions."""


def played(world: World, settings: Settings) -> Outcome | None:
    """Return what becomes of the queries by the planner's decisions; None: all keep up without."""
    situation = world.situation
    found = decide(situation, Memory(), settings).decisions
    if all(one.finding is None for one in found):
        return None
    chosen = [one.chosen for one in found if one.verdict is Verdict.ACT and one.chosen is not None]
    looks = _looks(situation, settings)
    uses = Counter(link_uses(looks, but=[change.group for option in chosen for change in option.changes]))
    for option in chosen:
        uses.update(option.flows)
    healed = uses[CUT] < settings.link_share * world.links.capacity[CUT]
    return Outcome(healed, len(chosen), sum(one.cost.total for one in found if one.chosen is not None and one.cost))


def best(world: World, settings: Settings) -> Outcome | None:
    """Return the fewest moves that leave room on all links, and of these the cheapest; None: no moves do.

    Every placement of the merges is looked at. One that moves is to catch up, as the planner has it.
    """
    looks = _looks(world.situation, settings)
    queries = list(zip(world.loads, looks, strict=True))
    factor = 1 + settings.most_catch_up
    staying = [flows_of(demand_of(look, load.merge[:2]), {HUB: 1}) for load, look in queries]
    moving = [
        {site: flows_of(demand_of(look, load.merge[:2], factor=factor), {site: 1}) for site in SITES}
        for load, look in queries
    ]
    costs = [{site: _cost(world, load.query, look, site, settings) for site in SITES} for load, look in queries]
    found: Outcome | None = None
    for sites in product(SITES, repeat=len(queries)):
        moved = [number for number, site in enumerate(sites) if site != HUB]
        taken = Counter(sites[number] for number in moved)
        cost = sum(costs[number][sites[number]] for number in moved)
        flows = [moving[n][site] if site != HUB else staying[n] for n, site in enumerate(sites)]
        fits = all(taken[site] <= world.slots.get(site, 0) for site in taken)
        if not fits or cost == float("inf") or not _have_room(world, flows, settings):
            continue
        one = Outcome(True, len(moved), cost)
        if found is None or (one.moves, one.cost) < (found.moves, found.cost):
            found = one
    return found


def _looks(situation: Situation, settings: Settings) -> list[Look]:
    looks = []
    for graph in situation.graphs:
        found = rates(graph, situation.before, situation.after, settings)
        looks.append(Look(graph, found, expected_in(graph, found)))
    return looks


def _have_room(world: World, flows: Collection[Mapping[Pair, float]], settings: Settings) -> bool:
    uses: Counter[Pair] = Counter()
    for one in flows:
        uses.update(one)
    return all(rate < settings.link_share * world.links.capacity.get(pair, 0.0) for pair, rate in uses.items())


def _cost(world: World, query: str, look: Look, site: str, settings: Settings) -> float:
    """Return what it costs to move a query's merge; infinite where its state cannot be sent in time."""
    (state_bytes,) = (load.state_bytes for load in world.loads if load.query == query)
    room = world.links.capacity.get((HUB, site), 0.0) * settings.seed_share
    sent_s = 0.0 if not state_bytes else state_bytes / room if room else float("inf")
    adapt_s, group = settings.prepare_s + sent_s, (query, "m1")
    if adapt_s > settings.longest_adapt_s:
        return float("inf")
    option = Option(Action.REASSIGN, (Change(group, {HUB: 1}, {site: 1}),), adapt_s, 0.0)
    slots = {name: Slots(number, number) for name, number in world.slots.items()}
    demands = {group: demand_of(look, group)}
    return cost_of(option, demands, slots, world.links, every_s=settings.horizon_s, alpha=settings.alpha).total
