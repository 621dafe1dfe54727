"""Where the tasks of one operator run: the sites of least latency that have slots and whose links have room.

    min  sum_s p[s] * (sum over upstream u and downstream d of l[u->s] + l[s->d])
    s.t. p[s]/p * bytes from u < share * B[u->s],  p[s]/p * bytes to d < share * B[s->d]
         p[s] <= slots[s],  sum p[s] = p

Each constraint bounds a single p[s]. So the sites in ascending order of cost, each filled up to what it can take, are
an optimum, and none exists when all together cannot take p. A link that is on the way to some tasks and on the way from
others is bounded twice, and not in all: `overload` tells, and the integer program of `program` is the answer then.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from planner.adapt.model import Links
from planner.values.links import Pair


@dataclass(frozen=True, slots=True)
class Demand:
    """What an operator takes and gives, in bytes per second of all its tasks together."""

    inputs: Mapping[str, float] = field(default_factory=dict)
    """By the site where they come from."""
    outputs: Mapping[str, float] = field(default_factory=dict)
    """By the site where they go to."""


Sites = Mapping[str, int]
"""How many tasks, by site."""


def assign(demand: Demand, tasks: int, slots: Sites, links: Links, *, share: float) -> Sites | None:
    """The sites of an operator's tasks; None: there is no placement.

    Args:
        demand: what it takes and gives.
        tasks: how many it is.
        slots: free ones, with those that its tasks hold now.
        links: what is left of them for this operator, what it uses now included.
        share: of a link; what would use it as much or more is no placement.
    """
    left, chosen = tasks, {}
    for site in sorted(slots, key=lambda s: (cost_s(demand, s, links), s)):
        most = min(left, slots[site], capacity(demand, site, tasks, links, share=share))
        if most > 0:
            chosen[site] = most
            left -= most
        if not left:
            return chosen
    return None


def cost_s(demand: Demand, site: str, links: Links) -> float:
    """The latency of one task there, over all pairs of an upstream and a downstream site."""
    ins = _sum_s(links, ((source, site) for source in demand.inputs if source != site))
    outs = _sum_s(links, ((site, target) for target in demand.outputs if target != site))
    return max(1, len(demand.outputs)) * ins + max(1, len(demand.inputs)) * outs


def _sum_s(links: Links, pairs: Iterable[Pair]) -> float:
    """The latencies of links together; endless if one of them is missing. A thousand sites have a million of them."""
    try:
        return sum(map(links.latency_s.__getitem__, pairs))
    except KeyError:
        return math.inf


def capacity(demand: Demand, site: str, tasks: int, links: Links, *, share: float) -> int:
    """How many of so many tasks the links of the site can take."""
    most = tasks
    for link, rate in _flows(demand, site):
        if rate <= 0:
            if link not in links.capacity:
                return 0
            continue
        room = share * links.capacity.get(link, 0.0) * tasks / rate
        # Strictly below: a link that would be exactly at its share is not used.
        most = min(most, math.ceil(room - 1e-9) - 1)
    return max(0, most)


def overload(demand: Demand, sites: Sites, links: Links) -> float:
    """The greatest use of a link over its capacity; infinite where a link is missing."""
    uses = [0.0]
    for link, rate in flows_of(demand, sites).items():
        room = links.capacity.get(link, 0.0)
        uses.append(rate / room if room > 0 else math.inf if rate > 0 else 0.0)
    return max(uses)


def excess(demand: Demand, sites: Sites, links: Links) -> float:
    """Bytes per second that the busiest link would have to carry beyond what it has."""
    return max(0.0, *(rate - links.capacity.get(link, 0.0) for link, rate in flows_of(demand, sites).items()), 0.0)


def flows_of(demand: Demand, sites: Sites) -> Mapping[Pair, float]:
    """Bytes per second on each link, with so many tasks at each site."""
    tasks = sum(sites.values())
    found: dict[Pair, float] = {}
    for site, number in sites.items():
        for link, rate in _flows(demand, site):
            found[link] = found.get(link, 0.0) + rate * number / tasks
    return found


def _flows(demand: Demand, site: str) -> list[tuple[Pair, float]]:
    """What crosses which link when all tasks are at one site."""
    ins = [((source, site), rate) for source, rate in demand.inputs.items() if source != site]
    return ins + [((site, target), rate) for target, rate in demand.outputs.items() if target != site]
