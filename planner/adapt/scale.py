"""How many parallel tasks an operator needs (DS2), all operators in one pass from the sources.

target of an operator   sum over upstream of their ideal outputs
tasks                   ceil(target / (true rate of all its tasks / their number))
ideal output            output over input, times the target; of a source, what arrives outside
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)

_NOISE = 1e-9
"""Of floats: 5.000000001 tasks are five."""


@dataclass(frozen=True, slots=True)
class TrueRates:
    """Of an operator: what its tasks that did something can do in a second of work."""

    rows_in_per_s: float
    rows_out_per_s: float
    tasks: int

    @classmethod
    def of(cls, instances: Collection[tuple[float, float, float]]) -> TrueRates | None:
        """From (rows in, rows out, useful seconds) of each task; None: none did anything."""
        live = [(taken, given, useful_s) for taken, given, useful_s in instances if useful_s > 0]
        if not live:
            return None
        return cls(sum(i / s for i, _, s in live), sum(o / s for _, o, s in live), len(live))


@dataclass(frozen=True, slots=True)
class Scaled(Generic[Name]):
    """What every operator needs."""

    tasks: Mapping[Name, int]
    wanted: Mapping[Name, float]
    """The same before it was made whole."""
    targets: Mapping[Name, float]
    """Rows per second that each has to take."""


def scaled(
    operators: Mapping[Name, TrueRates],
    edges: Sequence[tuple[Name, Name]],
    sources: Mapping[Name, float],
    *,
    load: float = 1.0,
) -> Scaled[Name]:
    """The least number of tasks with which each operator keeps up with the sources.

    Args:
        operators: their true rates; the sources are not among them.
        edges: from upstream to downstream.
        sources: rows per second that come from outside.
        load: the share of its time that a task is to work at most.
    """
    above: dict[Name, list[Name]] = {name: [] for name in (*sources, *operators)}
    for up, down in edges:
        above[down].append(up)
    out: dict[Name, float] = {}
    wanted: dict[Name, float] = {}
    targets: dict[Name, float] = {}
    for name in TopologicalSorter(above).static_order():
        if name in sources:
            out[name] = sources[name]
            continue
        found, target = operators[name], sum(out[up] for up in above[name])
        targets[name] = target
        wanted[name] = target / (found.rows_in_per_s / found.tasks)
        out[name] = found.rows_out_per_s / found.rows_in_per_s * target
    return Scaled({name: tasks_for(value, load=load) for name, value in wanted.items()}, wanted, targets)


def tasks_for(wanted: float, *, load: float = 1.0) -> int:
    """So many tasks as a whole number, one at least."""
    return max(1, math.ceil(wanted / load - _NOISE))
