"""The cost of an action, by Nako's measure.

    C = alpha * C_R + (1 - alpha) * C_O
    C_R = sum_s dp[s] * N[s] / A[s]  +  d_in / in  +  d_out / out
    C_O = t_adapt / t_freq

Section 5.3 of the source: dp[s] is the change of tasks at a site of N[s] slots, A[s] of which are free; d_in / in is
how much more of what the operator takes crosses links, d_out / out of what it gives; t_adapt is how long the action
takes, t_freq the time between two adaptations of the query. What the source leaves open: a site without a free slot
counts as one with one; where nothing crossed a link before, the new share of the links counts in the place of a ratio;
a query that was adapted once or never is taken to be adapted once in the horizon.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from planner.adapt.assign import Demand, Sites, flows_of
from planner.adapt.model import Group, Links
from planner.adapt.options import Change, Option
from planner.values.links import Pair


@dataclass(frozen=True, slots=True)
class Cost:
    """The parts of C."""

    slots: float
    inputs: float
    outputs: float
    overhead: float
    alpha: float = 0.5

    @property
    def resources(self) -> float:
        """C_R."""
        return self.slots + self.inputs + self.outputs

    @property
    def total(self) -> float:
        return self.alpha * self.resources + (1 - self.alpha) * self.overhead

    @property
    def text(self) -> str:
        """The cost with its parts, for people."""
        parts = (("slots", self.slots), ("in", self.inputs), ("out", self.outputs), ("overhead", self.overhead))
        return f"{self.total:.3f} ({', '.join(f'{name} {value:.3f}' for name, value in parts)})"


@dataclass(frozen=True, slots=True)
class Slots:
    """Those of a site."""

    all: int
    free: int


def cost_of(  # noqa: PLR0913 - all that the formula has
    option: Option,
    demands: Mapping[Group, Demand],
    slots: Mapping[str, Slots],
    links: Links,
    *,
    every_s: float,
    others_every_s: Sequence[float] = (),
    alpha: float = 0.5,
) -> Cost:
    """Return what an action costs.

    Args:
        option: the action.
        demands: by operator that it changes, what it takes and gives; one that does not run yet may be missing.
        slots: of the tasks' sites.
        links: what they have in all.
        every_s: the time between two adaptations of the query.
        others_every_s: those of other queries that share what is changed; the overhead is that of all.
        alpha: the weight of resources, beside the overhead's.
    """
    scarce = inputs = outputs = 0.0
    for change in option.changes:
        scarce += _slots(change, slots)
        demand = demands.get(change.group, Demand())
        inputs += _more(Demand(inputs=demand.inputs), change, links)
        outputs += _more(Demand(outputs=demand.outputs), change, links)
    overhead = sum(option.adapt_s / one_s for one_s in (every_s, *others_every_s))
    return Cost(scarce, inputs, outputs, overhead, alpha)


def every_s(adapted: Sequence[datetime], *, horizon_s: float) -> float:
    """Return the mean time between two adaptations of a query, by when it was adapted; oldest first."""
    if len(adapted) < 2:
        return horizon_s
    return max(1.0, (adapted[-1] - adapted[0]).total_seconds() / (len(adapted) - 1))


def _slots(change: Change, slots: Mapping[str, Slots]) -> float:
    return sum(
        (change.after.get(name, 0) - change.before.get(name, 0)) * _scarcity(slots.get(name))
        for name in change.before.keys() | change.after.keys()
    )


def _scarcity(slots: Slots | None) -> float:
    return 1.0 if slots is None else slots.all / max(1, slots.free)


def _more(demand: Demand, change: Change, links: Links) -> float:
    """Return how much more crosses links, over what crossed them before."""
    before, after = _crossing(demand, change.before), _crossing(demand, change.after)
    if before > 0:
        return (after - before) / before
    if after <= 0:
        return 0.0
    return sum(
        rate / room if (room := links.capacity.get(pair, 0.0)) > 0 else math.inf
        for pair, rate in _flows(demand, change.after).items()
    )


def _crossing(demand: Demand, sites: Sites) -> float:
    return sum(_flows(demand, sites).values())


def _flows(demand: Demand, sites: Sites) -> Mapping[Pair, float]:
    return flows_of(demand, sites) if any(sites.values()) else {}
