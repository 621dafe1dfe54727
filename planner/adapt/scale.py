"""How many parallel tasks an operator needs (DS2), all operators in one pass from the sources.

target of an operator   sum over upstream of their ideal outputs
tasks                   ceil(target / (true rate of all its tasks / their number))
ideal output            output over input, times the target; of a source, what arrives outside

DS2 takes rows to be divided evenly. Parallel tasks are ranges of bins here, and no bin is divided: where it is known
how many rows the busiest bin has, the task that has it is to keep up, too. Where that bin alone is too much for a task,
no number is enough.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Generic, TypeVar

from planner.values.names import BINS

Name = TypeVar("Name", bound=Hashable)

_NOISE = 1e-9
"""Of floats: 5.000000001 tasks are five."""


@dataclass(frozen=True, slots=True)
class TrueRates:
    """Of an operator: what its tasks that did something can do in a second of work."""

    rows_in_per_s: float
    rows_out_per_s: float
    tasks: int
    busiest_bin: float = 0.0
    """The share of the rows that are in one bin; 0: not known."""

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
    undivided: frozenset[Name] = frozenset()
    """Those whose busiest bin is too much for a task of its own; `tasks` is what would do if rows were even."""


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
    busiest = {name: operators[name].busiest_bin for name in wanted}
    return Scaled(
        {name: tasks_for(value, load=load, busiest_bin=busiest[name]) for name, value in wanted.items()},
        wanted,
        targets,
        frozenset(name for name, value in wanted.items() if is_undivided(value, busiest[name], load=load)),
    )


def tasks_for(wanted: float, *, load: float = 1.0, busiest_bin: float = 0.0) -> int:
    """Return so many tasks as a whole number, one at least; more where rows are uneven, if more are enough."""
    even = max(1, math.ceil(wanted / load - _NOISE))
    if not busiest_bin or is_undivided(wanted, busiest_bin, load=load):
        return even
    return next(n for n in range(min(even, BINS), BINS + 1) if _keeps_up(largest_part(n, busiest_bin) * wanted, load))


def is_undivided(wanted: float, busiest_bin: float, *, load: float = 1.0) -> bool:
    """Return whether the busiest bin is too much for a task that has no other."""
    return not _keeps_up(busiest_bin * wanted, load)


def largest_part(tasks: int, busiest_bin: float) -> float:
    """Return the share of the rows that the task with the busiest bin has, if all other bins are alike.

    Raises ValueError for more tasks than bins.
    """
    if not 1 <= tasks <= BINS:
        raise ValueError(f"{tasks} tasks for {BINS} bins")
    others = math.ceil(BINS / tasks) - 1
    return busiest_bin + others * (1 - busiest_bin) / (BINS - 1)


def _keeps_up(tasks: float, load: float) -> bool:
    return tasks <= load * (1 + _NOISE)
