"""Several operators placed in one step: an integer program, on HiGHS.

`assign` is exact for one operator whose links nobody else's tasks use. Here links are shared by all operators of the
step, and operators that feed each other are both yet to be placed: what crosses from s to t is a product of two numbers
of tasks. It is made linear by a switch for each number of tasks, `z[s,t] >= k * y[t] - k * most * (1 - b[s,k])`; only
bounds from above and the objective hold z, so that suffices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import highspy

from planner.adapt.assign import Demand, Sites, assign, flows_of
from planner.adapt.model import Group, Links
from planner.values.links import Pair

_BELOW = 1e-6
"""A link has to be so far, relatively, below its share."""

Terms = dict[int, float]


@dataclass(frozen=True, slots=True)
class Placeable:
    """An operator that needs sites."""

    name: Group
    tasks: int
    demand: Demand
    """What it takes from, and gives to, tasks that stay where they are."""
    feeds: Mapping[Group, float] = field(default_factory=dict)
    """Bytes per second to others that are placed with it."""
    barred: frozenset[str] = frozenset()
    """Sites where it cannot go, whatever they have free."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where the operators go."""

    sites: Mapping[Group, Sites]
    cost_s: float
    """Latency, summed over the pairs of a task and an end of its flows."""
    proven: bool
    """No placement costs less; False: the time was over."""


def place_together(
    operators: Sequence[Placeable], slots: Sites, links: Links, *, share: float, time_s: float
) -> Placed | None:
    """Return the sites of operators of least latency, so that no link gets `share` of what it carries.

    None: none was found. In the time, the program may find less than placing one by one does in a moment: then that
    counts.

    Args:
        operators: each before those that it feeds.
        slots: free ones, with those that the operators hold now.
        links: what is left of them for these operators.
        share: of a link.
        time_s: after which the best that was found counts.
    """
    if not operators:
        return Placed({}, 0.0, proven=True)
    found = _Program(operators, slots, links, share).solved(time_s)
    if found is not None and found.proven:
        return found
    simple = one_by_one(operators, slots, links, share=share)
    return min(filter(None, (found, simple)), key=lambda placed: placed.cost_s, default=None)


def one_by_one(operators: Sequence[Placeable], slots: Sites, links: Links, *, share: float) -> Placed | None:
    """The same by `assign`, each operator for itself in the order given; None: one of them found no place."""
    left, free, chosen = dict(links.capacity), dict(slots), dict[Group, Sites]()
    for one in operators:
        inputs = dict(one.demand.inputs)
        for other in operators:
            rate = other.feeds.get(one.name, 0.0)
            for site, number in chosen.get(other.name, {}).items():
                inputs[site] = inputs.get(site, 0.0) + rate * number / other.tasks
        demand = Demand(inputs, one.demand.outputs)
        open_to_it = {site: number for site, number in free.items() if site not in one.barred}
        sites = assign(demand, one.tasks, open_to_it, Links(left, links.latency_s), share=share)
        if sites is None:
            return None
        chosen[one.name] = sites
        for pair, rate in flows_of(demand, sites).items():
            left[pair] = left.get(pair, 0.0) - rate / share
        if any(left[pair] <= 0 for pair, rate in flows_of(demand, sites).items() if rate > 0):
            return None
        free = {site: free[site] - sites.get(site, 0) for site in free}
    return Placed(chosen, placement_cost_s(operators, chosen, links), proven=False)


def placement_cost_s(operators: Iterable[Placeable], sites: Mapping[Group, Sites], links: Links) -> float:
    """Latency over all pairs of a task and an end of its flows, each operator's feeds counted once."""
    total = 0.0
    for one in operators:
        for site, number in sites[one.name].items():
            total += number * _ends_s(one.demand, site, links)
            for other in one.feeds:
                total += sum(number * n * latency_s(links, site, to) for to, n in sites[other].items())
    return total


def latency_s(links: Links, source: str, target: str) -> float:
    """One way; a link that is missing is endless."""
    return 0.0 if source == target else links.latency_s.get((source, target), float("inf"))


def _ends_s(demand: Demand, site: str, links: Links) -> float:
    ins = sum(latency_s(links, source, site) for source in demand.inputs)
    return ins + sum(latency_s(links, site, target) for target in demand.outputs)


class _Program:
    """The program; variables are numbered as they are made."""

    def __init__(self, operators: Sequence[Placeable], slots: Sites, links: Links, share: float) -> None:
        self._operators, self._slots, self._links, self._share = operators, slots, links, share
        self._solver = highspy.Highs()
        self._solver.setOptionValue("output_flag", False)
        self._solver.setOptionValue("log_to_console", False)
        self._solver.setOptionValue("threads", 1)
        self._solver.setOptionValue("mip_rel_gap", 0.0)
        self._sites = sorted(site for site, free in slots.items() if free > 0)
        self._cost: Terms = {}
        self._flows: dict[Pair, Terms] = defaultdict(dict)
        self._numbers: dict[tuple[Group, str], int] = {}

    def solved(self, time_s: float) -> Placed | None:
        for one in self._operators:
            self._add_operator(one)
        by_name = {one.name: one for one in self._operators}
        for one in self._operators:
            for name, rate in one.feeds.items():
                self._add_feed(one, by_name[name], rate)
        for site in self._sites:
            self._at_most({self._numbers[one.name, site]: 1.0 for one in self._operators}, self._slots[site])
        for pair, terms in self._flows.items():
            room = self._share * self._links.capacity.get(pair, 0.0)
            if room > 0:
                self._at_most({name: rate / room for name, rate in terms.items()}, 1 - _BELOW)
            else:
                self._at_most({name: 1.0 for name, rate in terms.items() if rate > 0}, 0.0)
        for number, cost in self._cost.items():
            self._solver.changeColCost(number, cost)
        self._solver.setOptionValue("time_limit", time_s)
        self._solver.run()
        return self._answer()

    def _answer(self) -> Placed | None:
        status = self._solver.getModelStatus()
        values = self._solver.getSolution().col_value
        feasible = self._solver.getInfo().primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        if not feasible or not values:
            return None
        sites: dict[Group, dict[str, int]] = {one.name: {} for one in self._operators}
        for (name, site), number in self._numbers.items():
            if count := round(values[number]):
                sites[name][site] = count
        proven = status == highspy.HighsModelStatus.kOptimal
        return Placed(sites, placement_cost_s(self._operators, sites, self._links), proven)

    def _add_operator(self, one: Placeable) -> None:
        for site in self._sites:
            ends_s = _ends_s(one.demand, site, self._links)
            # A site without a link to an end of the operator's flows takes nothing.
            most = min(one.tasks, self._slots[site]) if ends_s < float("inf") and site not in one.barred else 0
            number = self._numbers[one.name, site] = self._variable(most, whole=True)
            self._cost[number] = ends_s if most else 0.0
            for pair, rate in flows_of(one.demand, {site: 1}).items():
                self._flows[pair][number] = self._flows[pair].get(number, 0.0) + rate / one.tasks
        self._exactly({self._numbers[one.name, site]: 1.0 for site in self._sites}, one.tasks)

    def _add_feed(self, one: Placeable, other: Placeable, rate: float) -> None:
        for source in self._sites:
            mine = self._numbers[one.name, source]
            switches = [self._variable(1, whole=True) for _ in range(one.tasks + 1)]
            self._exactly(dict.fromkeys(switches, 1.0), 1)
            self._exactly({mine: -1.0} | {b: float(k) for k, b in enumerate(switches) if k}, 0)
            for target in self._sites:
                if source == target:
                    continue
                theirs = self._numbers[other.name, target]
                product = self._variable(one.tasks * other.tasks, whole=False)
                for k, switch in enumerate(switches):
                    if k:
                        most = float(k * other.tasks)
                        self._at_most({theirs: float(k), product: -1.0, switch: most}, most)
                far_s = latency_s(self._links, source, target)
                if far_s == float("inf"):
                    self._at_most({product: 1.0}, 0.0)
                    continue
                self._cost[product] = far_s
                self._flows[source, target][product] = rate / (one.tasks * other.tasks)

    def _variable(self, most: float, *, whole: bool) -> int:
        number = int(self._solver.getNumCol())
        self._solver.addVar(0.0, float(most))
        if whole:
            self._solver.changeColIntegrality(number, highspy.HighsVarType.kInteger)
        return number

    def _at_most(self, terms: Terms, most: float) -> None:
        self._row(terms, -highspy.kHighsInf, most)

    def _exactly(self, terms: Terms, value: float) -> None:
        self._row(terms, value, value)

    def _row(self, terms: Terms, low: float, high: float) -> None:
        self._solver.addRow(low, high, len(terms), list(terms), list(terms.values()))
