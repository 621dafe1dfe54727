"""Makes a plan that fails smaller: faults, queries, rows and troubles that it does not need go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from tests.simulation.plan import Plan

T = TypeVar("T")

_CALM = Plan(0)
_FEW_ROWS = (20, 60, 120)


def shrunk(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    """A smaller plan that fails still, by leaving out whatever can be left out alone."""
    plan = replace(plan, faults=fewest(plan.faults, lambda faults: fails(replace(plan, faults=faults))))
    plan = replace(plan, queries=fewest(plan.queries, lambda queries: fails(replace(plan, queries=queries))))
    for simpler in _simpler(plan):
        candidate = replace(plan, **simpler)  # type: ignore[arg-type]  # a field of the plan with a value of its type
        if candidate != plan and fails(candidate):
            plan = candidate
    return plan


def _simpler(plan: Plan) -> Iterator[dict[str, object]]:
    for name in ("rest_s", "slow_s", "skews_s", "sharing", "together", "there", "tree", "tight", "parts"):
        yield {name: getattr(_CALM, name)}
    yield {"combine": False, "tree": ""}
    yield {"budget_bytes": _CALM.budget_bytes}
    for rows in reversed([rows for rows in _FEW_ROWS if rows < plan.rows]):
        yield {"rows": rows}


def fewest(items: Sequence[T], fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """A subsequence that fails, of which no item can be left out (delta debugging)."""
    left, parts = tuple(items), 2
    while left:
        size = -(-len(left) // parts)
        for first in range(0, len(left), size):
            without = left[:first] + left[first + size :]
            if fails(without):
                left, parts = without, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(left), parts * 2)
    return left
