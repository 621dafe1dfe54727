"""Partial aggregates and how they are merged.

    aggregate   partials at the source          merged
    count(x)    count(x)                        sum of the counts
    sum(x)      sum(x)                          sum of the sums
    min, max    min(x), max(x)                  min, max
    avg(x)      sum(x), count(x)                sum of the sums / sum of the counts; NULL when nothing was counted

A merged column has the type of its partial: a sum of integers is a BIGINT, however often it is merged. Only sums of
decimals need a cast for that, since Spark makes each sum ten digits wider than its input.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

MERGE_FUNCTIONS = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}
WINDOW_START = "_window_start"
MAX_PRECISION = 38
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)", re.IGNORECASE)
_SUM_WIDER_BY = 10
_AVG_WIDER_BY = 4


@dataclass(frozen=True, slots=True)
class Partial:
    """A column of partial aggregates."""

    name: str
    function: str
    """How partials are made one: `sum`, `min` or `max`."""


@dataclass(frozen=True, slots=True)
class Merged:
    """An aggregate of the query after the merge."""

    name: str
    partials: tuple[str, ...]
    """One partial; for an average its sum and its count."""


@dataclass(frozen=True, slots=True)
class MergeRecipe:
    """What the SQL of a MERGE stage is made of; the types of the partials are known only after Spark's analysis."""

    keys: tuple[str, ...]
    partials: tuple[Partial, ...]
    aggregates: tuple[Merged, ...]
    head: str
    """From SELECT to FROM."""
    tail: str
    """After the merged rows: HAVING and top-k."""

    def sql(self, types: Mapping[str, str]) -> str:
        """The stage's SQL: from the partials of closed windows to result rows."""
        merged = [*self._groups(), *(f"{self._aggregate(a, types)} AS {a.name}" for a in self.aggregates)]
        return f"{self.head} FROM ({self._grouped(merged)}) AS merged{self.tail}"

    def combine_sql(self, types: Mapping[str, str]) -> str:
        """From partials to fewer partials of the same schema."""
        return self._grouped(
            [*self._groups(), *(f"{self._combined(p.name, types)} AS {p.name}" for p in self.partials)]
        )

    def _groups(self) -> tuple[str, ...]:
        return (WINDOW_START, *self.keys)

    def _grouped(self, columns: list[str]) -> str:
        return f"SELECT {', '.join(columns)} FROM input GROUP BY {', '.join(self._groups())}"

    def _combined(self, name: str, types: Mapping[str, str]) -> str:
        function = next(p.function for p in self.partials if p.name == name)
        call = f"{function}({name})"
        decimal = function == "sum" and _DECIMAL.fullmatch(types.get(name, ""))
        return f"CAST({call} AS {types[name]})" if decimal else call

    def _aggregate(self, aggregate: Merged, types: Mapping[str, str]) -> str:
        combined = [self._combined(name, types) for name in aggregate.partials]
        if len(combined) == 1:
            return combined[0]
        average = f"try_divide({combined[0]}, {combined[1]})"
        decimal = _DECIMAL.fullmatch(types.get(aggregate.partials[0], ""))
        return f"CAST({average} AS {_average_type(decimal)})" if decimal else average


def _average_type(total: re.Match[str]) -> str:
    """Spark's type of avg, from its type of sum over the same column."""
    precision, scale = int(total.group(1)), int(total.group(2))
    if precision < MAX_PRECISION:
        precision += _AVG_WIDER_BY - _SUM_WIDER_BY
    return f"DECIMAL({min(precision, MAX_PRECISION)},{min(scale + _AVG_WIDER_BY, MAX_PRECISION)})"
