"""Max-min fair rates by progressive filling."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

FlowT = TypeVar("FlowT", bound=Hashable)
LinkT = TypeVar("LinkT", bound=Hashable)


def max_min_rates(paths: Mapping[FlowT, Sequence[LinkT]], capacities: Mapping[LinkT, float]) -> dict[FlowT, float]:
    """The rate of every flow: all grow together; when a link is full, its flows keep what they have.

    No flow can get more without taking from one that has no more than it (Bertsekas, Gallager: Data Networks, 6.5.2).
    A flow over no link is not limited: infinity.
    """
    rates = {flow: float("inf") for flow, path in paths.items() if not path}
    growing = {flow: path for flow, path in paths.items() if path}
    left = {link: capacities[link] for path in growing.values() for link in path}
    crossing: dict[LinkT, set[FlowT]] = {link: set() for link in left}
    for flow, path in growing.items():
        for link in path:
            crossing[link].add(flow)
    while growing:
        full = min((link for link in left if crossing[link]), key=lambda link: left[link] / len(crossing[link]))
        rate = left[full] / len(crossing[full])
        for flow in tuple(crossing[full]):
            rates[flow] = rate
            for link in set(growing.pop(flow)):
                crossing[link].discard(flow)
                left[link] = max(0.0, left[link] - rate)
    return rates
