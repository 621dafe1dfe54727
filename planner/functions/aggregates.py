"""The table of aggregates that can be split: what sources compute, how that is merged, and the last step.

To add an aggregate, add its entry here. Binding, both halves of a plan, sharing and the messages follow from it.

Expressions are templates in Spark SQL over these names:

    call     `x`, `y`, `z`: the arguments, `k`: the size of a sketch; the planner adds FILTER
    merge    `p`: the partial itself; `a`, `b`, `c`: the earlier partials that the part names;
             `all_b`: the mean of `b` over all rows of the group
    final    `a`, `b`, `c`, ...: the merged parts, in the order of the entry; `r`: the argument that it names

Means and m2 are merged by Chan's formula: with the mean of all, mu = sum(n * mean) / sum(n), the m2 of all is
sum(m2 + n * (mean - mu)^2); products of two deviations likewise. Sums of squares would lose all digits where the mean
is large and the variance small.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from planner.functions.sketches import hll_lg_k, kll_k


class Exact(Enum):
    """Whether partials of several groups make the same value as one partial of all their rows, bit by bit."""

    ALWAYS = "always"
    EXACT_NUMBERS = "exact numbers"
    """For integers and decimals; sums of floats depend on the order."""
    NEVER = "never"


class Total(Enum):
    """Over which arguments a partial has a value, for certain, and does not fail."""

    ALWAYS = "always"
    SMALL_NUMBERS = "small numbers"
    """Over all numbers but BIGINT and DECIMAL, whose sums may overflow."""
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Merge:
    """How partials of one kind become one."""

    template: str
    exact: Exact = Exact.NEVER
    keeps_type: bool = False
    """A DECIMAL stays as wide as it is: Spark makes each sum ten digits wider than its input."""
    weighted: bool = False
    """It is a mean over the count that it names first: the mean over all rows is there as `all_...`."""


MERGES: Mapping[str, Merge] = {
    "sum": Merge("sum(p)", Exact.EXACT_NUMBERS, keeps_type=True),
    "min": Merge("min(p)", Exact.ALWAYS),
    "max": Merge("max(p)", Exact.ALWAYS),
    "mean": Merge("max(all_p)", weighted=True),
    "m2": Merge("sum(p + a * (b - all_b) * (b - all_b))"),
    "co_moment": Merge("sum(p + a * (b - all_b) * (c - all_c))"),
    "bool_and": Merge("bool_and(p)", Exact.ALWAYS),
    "bool_or": Merge("bool_or(p)", Exact.ALWAYS),
    "set": Merge("array_distinct(flatten(collect_list(p)))", Exact.ALWAYS),
    "hll_union_agg": Merge("hll_union_agg(p)", Exact.ALWAYS),
    "kll_merge_agg_double": Merge("kll_merge_agg_double(p)"),
}


class Last(Enum):
    """Last steps that depend on the type of the partials."""

    VALUE = "value"
    """The one partial as it is."""
    AVERAGE = "avg"
    """a / b, as wide as Spark's avg."""
    QUANTILE = "quantile"
    """The value at the rank `r`, in the type of `b`."""
    COUNT_OF_SET = "count of a set"
    SUM_OF_SET = "sum of a set"
    AVERAGE_OF_SET = "average of a set"


@dataclass(frozen=True, slots=True)
class Part:
    """A partial column."""

    call: str
    """What a source computes; see the module's docstring."""
    merge: str
    """Name in `MERGES`."""
    of: tuple[int, ...] = ()
    """Earlier parts of the entry that the merge takes."""
    total: Total = Total.NEVER


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate function that is split in partials and a merge."""

    name: str
    parts: tuple[Part, ...]
    last: Last | str = Last.VALUE
    """A template, or a step that depends on types."""
    arguments: tuple[int, int] = (1, 1)
    """The fewest and the most that it takes."""
    distinct: Last | None = None
    """The last step over the set of distinct values, where DISTINCT is possible and is not the same as without."""
    ignores_distinct: bool = False
    """DISTINCT is possible, and changes nothing."""
    form: str = ""
    """How it is called, for messages; empty: `name(x)`."""
    rank: int | None = None
    """Place of the argument that the last step takes."""
    size: tuple[int, Callable[[str], int]] | None = None
    """The place of an optional argument, and what it says of the size `k` of a sketch."""

    def usage(self, name: str) -> str:
        """How it is called by that name."""
        form = self.form or f"{self.name}({', '.join('xyz'[: self.arguments[0]])})"
        return form.replace(self.name, name)


SET = Part("collect_set(x)", "set", total=Total.ALWAYS)
"""What DISTINCT makes of an aggregate's partials."""

_COUNT = Part("count(x)", "sum", total=Total.ALWAYS)
_MOMENTS = (
    _COUNT,
    Part("avg(CAST(x AS DOUBLE))", "mean", of=(0,), total=Total.SMALL_NUMBERS),
    Part("var_pop(CAST(x AS DOUBLE)) * count(x)", "m2", of=(0, 1), total=Total.SMALL_NUMBERS),
)
_X, _Y = "CASE WHEN y IS NOT NULL THEN CAST(x AS DOUBLE) END", "CASE WHEN x IS NOT NULL THEN CAST(y AS DOUBLE) END"
_PAIRS = "count(x, y)"
_CO_MOMENTS = (
    Part(_PAIRS, "sum"),
    Part(f"avg({_X})", "mean", of=(0,)),
    Part(f"avg({_Y})", "mean", of=(0,)),
    Part(f"var_pop({_X}) * {_PAIRS}", "m2", of=(0, 1)),
    Part(f"var_pop({_Y}) * {_PAIRS}", "m2", of=(0, 2)),
    Part(f"covar_pop(CAST(x AS DOUBLE), CAST(y AS DOUBLE)) * {_PAIRS}", "co_moment", of=(0, 1, 2)),
)
_PAIR = "CASE WHEN y IS NOT NULL THEN named_struct('y', y, 'x', x) END"
_SUM = Part("sum(x)", "sum", total=Total.SMALL_NUMBERS)
_AVERAGE = Aggregate("avg", (_SUM, _COUNT), Last.AVERAGE, distinct=Last.AVERAGE_OF_SET)
_HASHES = "CASE WHEN x IS NOT NULL THEN xxhash64(x) END"
"""The sketch takes few types, so it gets hashes of 64 bits, whose collisions are far below its error."""
_MAX = Part("max(x)", "max", total=Total.ALWAYS)
_PERCENTILE = Aggregate(
    "percentile_approx",
    (Part("kll_sketch_agg_double(CAST(x AS DOUBLE), k)", "kll_merge_agg_double"), _MAX),
    Last.QUANTILE,
    arguments=(2, 3),
    form="percentile_approx(x, 0.95), percentile_approx(x, array(0.5, 0.95)) or percentile_approx(x, 0.95, 1000)",
    rank=1,
    size=(2, kll_k),
)
_DISTINCT_COUNT = Aggregate(
    "approx_count_distinct",
    (Part(f"hll_sketch_agg({_HASHES}, k)", "hll_union_agg", total=Total.ALWAYS),),
    "hll_sketch_estimate(a)",
    arguments=(1, 2),
    form="approx_count_distinct(x) or approx_count_distinct(x, 0.01)",
    size=(1, hll_lg_k),
)

_ENTRIES = (
    Aggregate("count", (_COUNT,), arguments=(1, 64), distinct=Last.COUNT_OF_SET, form="count(*) or count(x)"),
    Aggregate("sum", (_SUM,), distinct=Last.SUM_OF_SET),
    Aggregate("min", (Part("min(x)", "min", total=Total.ALWAYS),), ignores_distinct=True),
    Aggregate("max", (_MAX,), ignores_distinct=True),
    _AVERAGE,
    Aggregate("var_pop", _MOMENTS, "try_divide(c, a)"),
    Aggregate("var_samp", _MOMENTS, "try_divide(c, a - 1)"),
    Aggregate("stddev_pop", _MOMENTS, "sqrt(try_divide(c, a))"),
    Aggregate("stddev_samp", _MOMENTS, "sqrt(try_divide(c, a - 1))"),
    _DISTINCT_COUNT,
    _PERCENTILE,
    Aggregate("count_if", (Part("count_if(x)", "sum", total=Total.ALWAYS),)),
    Aggregate("bool_and", (Part("bool_and(x)", "bool_and", total=Total.ALWAYS),)),
    Aggregate("bool_or", (Part("bool_or(x)", "bool_or", total=Total.ALWAYS),)),
    # Of equal y the largest x, or the smallest: the same rows have to give the same value again.
    Aggregate("max_by", (Part(f"max({_PAIR})", "max"),), "(a).x", arguments=(2, 2)),
    Aggregate("min_by", (Part(f"min({_PAIR})", "min"),), "(a).x", arguments=(2, 2)),
    Aggregate("corr", _CO_MOMENTS, "try_divide(f, sqrt(d * e))", arguments=(2, 2)),
)
SAME_FUNCTIONS = {
    "mean": "avg",
    "std": "stddev_samp",
    "stddev": "stddev_samp",
    "variance": "var_samp",
    "approx_percentile": "percentile_approx",
}
"""Other names of aggregates."""

_BY_NAME = {entry.name: entry for entry in _ENTRIES}
_CALL = re.compile(r"(\w+)\(")
MERGE_OF: Mapping[str, str] = {
    call.group(1): part.merge
    for part in (SET, *(part for entry in _ENTRIES for part in entry.parts if not part.of))
    if (call := _CALL.match(part.call))
}
"""By aggregate function that sources compute, how its values are merged."""

TOTAL_OF: Mapping[str, Total] = {
    call.group(1): part.total
    for part in (SET, *(part for entry in _ENTRIES for part in entry.parts))
    if part.total is not Total.NEVER and (call := _CALL.match(part.call))
}
"""By aggregate function that sources compute, over which arguments it cannot fail."""

MERGEABLE = tuple(sorted((*_BY_NAME, *SAME_FUNCTIONS)))
"""Names of all aggregates that can be split."""

DISTINCT_AGGREGATES = tuple(
    name
    for name in MERGEABLE
    if (entry := _BY_NAME[SAME_FUNCTIONS.get(name, name)]).distinct is not None or entry.ignores_distinct
)
"""Those that can be over DISTINCT values."""


def aggregate_of(name: str) -> Aggregate:
    """The entry of a function, by any of its names.

    Raises:
        KeyError: it cannot be split.
    """
    return _BY_NAME[SAME_FUNCTIONS.get(name, name)]
