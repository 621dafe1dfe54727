"""What the lease manager grants at most: how long, and how many slots to one framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class LeasePolicy:
    """Limits that hold for every framework."""

    longest: timedelta = timedelta(hours=1)
    """A lease, or a renewal, for longer than that is refused."""
    grace: timedelta = timedelta(seconds=20)
    """How long after its expiry a lease can still be renewed; then its task is ended."""
    offer: timedelta = timedelta(seconds=2)
    """How long a slot that became free is kept for the first of its waiters."""
    fair: bool = False
    """Whether the max-min fair share is the most that a framework is granted."""

    def validate(self) -> tuple[str, ...]:
        """What is wrong, one line per setting; empty when all is well."""
        problems = []
        if self.longest <= timedelta(0):
            problems.append(f"longest must be longer than 0 s, not {self.longest.total_seconds():g} s")
        if self.grace < timedelta(0):
            problems.append(f"grace must be at least 0 s, not {self.grace.total_seconds():g} s")
        if self.offer <= timedelta(0):
            problems.append(f"offer must be longer than 0 s, not {self.offer.total_seconds():g} s")
        return tuple(problems)


def fair_cap(framework: str, demands: Mapping[str, int], slots: int) -> int:
    """The framework's max-min fair share of the slots, in whole slots, if it wants as many as it can get.

    Max-min fairness (progressive filling): every framework gets one slot after the other, all in step, and leaves the
    filling when its demand is met. What cannot be divided goes to the first by name.

    Args:
        framework: whose share; its own entry in `demands` does not count, as it wants all.
        demands: how many slots each framework holds or waits for.
        slots: how many there are to share.
    """
    others = sorted((demand, name) for name, demand in demands.items() if name != framework)
    left, sharers = slots, len(others) + 1
    for met, (demand, _) in enumerate(others):
        if demand * sharers > left:
            before = sum(name < framework for _, name in others[met:])
            return left // sharers + (before < left % sharers)
        left -= demand
        sharers -= 1
    return left
