"""Where a task goes whose site is to be left. Pure."""

from __future__ import annotations

from collections.abc import Collection

from planner.adapt.assign import Demand, assign, overload
from planner.adapt.model import Links


def new_site(demand: Demand, sites: Collection[str], links: Links, *, share: float) -> str | None:
    """The site of least latency whose links have room; else that whose busiest link is used least. None: there is no
    site.

    Args:
        demand: what the task takes and gives.
        sites: that take new tasks.
        links: what they carry.
        share: of a link; what would use it as much or more has no room.
    """
    found = assign(demand, 1, dict.fromkeys(sites, 1), links, share=share)
    if found:
        return next(iter(found))
    return min(sorted(sites), key=lambda site: overload(demand, {site: 1}, links), default=None)
