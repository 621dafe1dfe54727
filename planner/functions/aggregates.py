"""The table of aggregates that can be split: what sources compute, how that is merged, and the last step.

To add an aggregate, add its entry here. Binding, both halves of a plan, sharing and the messages follow from it.

Expressions are templates in Spark SQL over these names:

    call     `x`, `y`, `z`: the arguments, `k`: the size of a sketch; the planner adds FILTER
    merge    `p`: the partial itself; `a`, `b`, `c`: the earlier partials that the part names;
             `all_b`: the mean of `b` over all rows of the group
    final    `a`, `b`, `c`, ...: the merged parts, in the order of the entry; `r`: the argument that it names

Means and m2 are merged by Chan's formula: with the mean of all, mu = sum(n * mean) / sum(n), the m2 of all is
sum(m2 + n * (mean - mu)^2); products of two deviations, third and fourth powers likewise (Pebay, Formulas for Robust,
One-Pass Parallel Computation of Covariances and Arbitrary-Order Statistical Moments, section 2.1). Sums of squares
would lose all digits where the mean is large and the variance small.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from planner.functions.settled import SETTLED
from planner.functions.sketches import hll_lg_k, kll_k, top_k_items


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


SKETCH_MERGES = (
    *("kll_merge_agg_bigint", "kll_merge_agg_double", "kll_merge_agg_float", "theta_union_agg"),
    *("tuple_union_agg_double", "tuple_union_agg_integer", "approx_top_k_combine"),
)
"""Aggregates that make one sketch of several, whose bytes may depend on the order."""

MERGES: Mapping[str, Merge] = {
    "sum": Merge("sum(p)", Exact.EXACT_NUMBERS, keeps_type=True),
    "min": Merge("min(p)", Exact.ALWAYS),
    "max": Merge("max(p)", Exact.ALWAYS),
    "mean": Merge("max(all_p)", weighted=True),
    "m2": Merge("sum(p + a * (b - all_b) * (b - all_b))"),
    "co_moment": Merge("sum(p + a * (b - all_b) * (c - all_c))"),
    "m3": Merge("sum(p + 3 * (b - all_b) * c + a * power(b - all_b, 3))"),
    "m4": Merge("sum(p + 4 * (b - all_b) * d + 6 * power(b - all_b, 2) * c + a * power(b - all_b, 4))"),
    "bool_and": Merge("bool_and(p)", Exact.ALWAYS),
    "bool_or": Merge("bool_or(p)", Exact.ALWAYS),
    "set": Merge("array_distinct(flatten(collect_list(p)))", Exact.ALWAYS),
    # Their order is that of arrival; whatever reads them sorts them.
    "values": Merge("flatten(collect_list(p))", Exact.ALWAYS),
    "try_sum": Merge("try_sum(p)", Exact.EXACT_NUMBERS, keeps_type=True),
    "bit_and": Merge("bit_and(p)", Exact.ALWAYS),
    "bit_or": Merge("bit_or(p)", Exact.ALWAYS),
    "bit_xor": Merge("bit_xor(p)", Exact.ALWAYS),
    "bitmap_and_agg": Merge("bitmap_and_agg(p)", Exact.ALWAYS),
    "bitmap_or_agg": Merge("bitmap_or_agg(p)", Exact.ALWAYS),
    "hll_union_agg": Merge("hll_union_agg(p)", Exact.ALWAYS),
    **{name: Merge(f"{name}(p)") for name in SKETCH_MERGES},
}


GROWING = ("set", "values")
"""Merges whose partials grow with the rows of a group."""


class Last(Enum):
    """Last steps that depend on the type of the partials."""

    VALUE = "value"
    """The one partial as it is."""
    AVERAGE = "avg"
    """a / b, as wide as Spark's avg."""
    SUM_OR_NULL = "try_sum"
    """The sum `a` in the type of a sum of `c`; NULL where it does not fit, or `b`."""
    AVERAGE_OR_NULL = "try_avg"
    """Such a sum over the count `d`."""
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
    default_rank: str = ""
    """It stands for that argument where a call leaves it out."""
    whole_over_tables: bool = False
    """Its partials are all values: over tables, where rows are sent anyway, it is not split."""
    size: tuple[int, Callable[[str], int]] | None = None
    """The place of an optional argument, and what it says of the size `k` of a sketch."""

    def usage(self, name: str) -> str:
        """How it is called by that name."""
        form = self.form or f"{self.name}({', '.join('xyz'[: self.arguments[0]])})"
        return form.replace(self.name, name)


AS_CALLED = "..."
"""Stands in a part's call for the arguments as the query has them."""

SET = Part("collect_set(x)", "set", total=Total.ALWAYS)
"""What DISTINCT makes of an aggregate's partials."""

_COUNT = Part("count(x)", "sum", total=Total.ALWAYS)
_DOUBLE = "CAST(x AS DOUBLE)"


def _mean(value: str) -> str:
    """A mean that is exact where all values are the same, though their sum is rounded: deviations from it are 0."""
    return f"least(greatest(avg({value}), min({value})), max({value}))"


_MOMENTS = (
    _COUNT,
    Part(_mean(_DOUBLE), "mean", of=(0,), total=Total.SMALL_NUMBERS),
    Part(f"var_pop({_DOUBLE}) * count(x)", "m2", of=(0, 1), total=Total.SMALL_NUMBERS),
)
_M2 = f"(var_pop({_DOUBLE}) * count(x))"
_SKEWED = (
    *_MOMENTS,
    Part(f"coalesce(try_divide(skewness({_DOUBLE}) * power({_M2}, 1.5), sqrt(count(x))), 0)", "m3", of=(0, 1, 2)),
)
_PEAKED = (
    *_SKEWED,
    Part(f"coalesce(try_divide((kurtosis({_DOUBLE}) + 3) * {_M2} * {_M2}, count(x)), 0)", "m4", of=(0, 1, 2, 3)),
)
_X, _Y = "CASE WHEN y IS NOT NULL THEN CAST(x AS DOUBLE) END", "CASE WHEN x IS NOT NULL THEN CAST(y AS DOUBLE) END"
_PAIRS = "count(x, y)"
_MEANS = (Part(_PAIRS, "sum"), Part(_mean(_X), "mean", of=(0,)), Part(_mean(_Y), "mean", of=(0,)))
_CO_MOMENT = Part(f"covar_pop({_DOUBLE}, CAST(y AS DOUBLE)) * {_PAIRS}", "co_moment", of=(0, 1, 2))
_CO_MOMENTS = (
    *_MEANS,
    Part(f"var_pop({_X}) * {_PAIRS}", "m2", of=(0, 1)),
    Part(f"var_pop({_Y}) * {_PAIRS}", "m2", of=(0, 2)),
    _CO_MOMENT,
)
_PAIR = "CASE WHEN y IS NOT NULL THEN named_struct('y', y, 'x', x) END"
_SUM = Part("sum(x)", "sum", total=Total.SMALL_NUMBERS)
_AVERAGE = Aggregate("avg", (_SUM, _COUNT), Last.AVERAGE, distinct=Last.AVERAGE_OF_SET)
_WIDE = "x + CAST(0 AS DECIMAL(1,0))"
"""Whole numbers as decimals, whose sums do not overflow: whether the sum fits is decided once, of all rows."""
_SUM_OR_NULL = (
    Part(f"try_sum({_WIDE})", "try_sum"),
    Part(f"(try_sum({_WIDE}) IS NULL AND count(x) > 0)", "bool_or"),
    Part("max(x)", "max", total=Total.ALWAYS),
)
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
_TOP = Aggregate(
    "approx_top_k",
    (Part("approx_top_k_accumulate(x, k)", "approx_top_k_combine"),),
    "transform(sort_array(transform(approx_top_k_estimate(a, r), e -> named_struct('n', -e.count, 'item', e.item))), "
    "e -> named_struct('item', e.item, 'count', -e.n))",
    arguments=(1, 3),
    form="approx_top_k(x), approx_top_k(x, 10) or approx_top_k(x, 10, 1000)",
    rank=1,
    default_rank="5",
    size=(2, top_k_items),
)


def _same(name: str, merge: str = "", most: int = 1, least: int = 1, *, ignores_distinct: bool = False) -> Aggregate:
    """An aggregate of which sources compute values, which are merged by itself or another."""
    part = Part(f"{name}({AS_CALLED})", merge or name)
    return Aggregate(name, (part,), arguments=(least, most), ignores_distinct=ignores_distinct)


_REGRESSIONS = {
    "regr_avgx": "c",
    "regr_avgy": "b",
    "regr_sxx": "e",
    "regr_syy": "d",
    "regr_sxy": "f",
    "regr_slope": "try_divide(f, e)",
    "regr_intercept": "b - try_divide(f, e) * c",
    "regr_r2": "CASE WHEN e > 0 THEN CASE WHEN d > 0 THEN f * f / (d * e) ELSE CAST(1 AS DOUBLE) END END",
}
"""They are computed of the dependent value, the first argument, and the independent one."""

_ENTRIES = (
    Aggregate("count", (_COUNT,), arguments=(1, 64), distinct=Last.COUNT_OF_SET, form="count(*) or count(x)"),
    Aggregate("sum", (_SUM,), distinct=Last.SUM_OF_SET),
    Aggregate("try_sum", _SUM_OR_NULL, Last.SUM_OR_NULL),
    Aggregate("try_avg", (*_SUM_OR_NULL, _COUNT), Last.AVERAGE_OR_NULL),
    Aggregate("min", (Part("min(x)", "min", total=Total.ALWAYS),), ignores_distinct=True),
    Aggregate("max", (_MAX,), ignores_distinct=True),
    _AVERAGE,
    Aggregate("var_pop", _MOMENTS, "try_divide(c, a)"),
    Aggregate("var_samp", _MOMENTS, "try_divide(c, a - 1)"),
    Aggregate("stddev_pop", _MOMENTS, "sqrt(try_divide(c, a))"),
    Aggregate("stddev_samp", _MOMENTS, "sqrt(try_divide(c, a - 1))"),
    Aggregate("skewness", _SKEWED, "try_divide(sqrt(a) * d, power(c, 1.5))"),
    Aggregate("kurtosis", _PEAKED, "try_divide(a * e, c * c) - 3"),
    _DISTINCT_COUNT,
    _PERCENTILE,
    _TOP,
    Aggregate("count_if", (Part("count_if(x)", "sum", total=Total.ALWAYS),)),
    Aggregate("bool_and", (Part("bool_and(x)", "bool_and", total=Total.ALWAYS),), ignores_distinct=True),
    Aggregate("bool_or", (Part("bool_or(x)", "bool_or", total=Total.ALWAYS),), ignores_distinct=True),
    _same("bit_and", ignores_distinct=True),
    _same("bit_or", ignores_distinct=True),
    _same("bit_xor"),
    # Of equal y the largest x, or the smallest: the same rows have to give the same value again.
    Aggregate("max_by", (Part(f"max({_PAIR})", "max"),), "(a).x", arguments=(2, 2)),
    Aggregate("min_by", (Part(f"min({_PAIR})", "min"),), "(a).x", arguments=(2, 2)),
    Aggregate("covar_pop", (*_MEANS, _CO_MOMENT), "try_divide(d, a)", arguments=(2, 2)),
    Aggregate("covar_samp", (*_MEANS, _CO_MOMENT), "try_divide(d, a - 1)", arguments=(2, 2)),
    Aggregate("corr", _CO_MOMENTS, "try_divide(f, sqrt(d * e))", arguments=(2, 2)),
    Aggregate("regr_count", (Part(_PAIRS, "sum"),), arguments=(2, 2)),
    *(Aggregate(name, _CO_MOMENTS, last, arguments=(2, 2)) for name, last in _REGRESSIONS.items()),
    Aggregate("collect_set", (SET,), ignores_distinct=True),
    Aggregate("collect_list", (Part("collect_list(x)", "values", total=Total.ALWAYS),), whole_over_tables=True),
    _same("bitmap_construct_agg", "bitmap_or_agg"),
    *(_same(name) for name in ("bitmap_or_agg", "bitmap_and_agg", "theta_union_agg", "hll_union_agg")),
    *(_same(f"kll_merge_agg_{type_}") for type_ in ("bigint", "double", "float")),
    *(_same(f"kll_sketch_agg_{type_}", f"kll_merge_agg_{type_}", 2) for type_ in ("bigint", "double", "float")),
    *(_same(f"tuple_sketch_agg_{type_}", f"tuple_union_agg_{type_}", 3, 2) for type_ in ("double", "integer")),
    *(_same(f"tuple_union_agg_{type_}") for type_ in ("double", "integer")),
    _same("hll_sketch_agg", "hll_union_agg", 2),
    _same("theta_sketch_agg", "theta_union_agg", 2),
    _same("approx_top_k_accumulate", "approx_top_k_combine", 2),
    _same("approx_top_k_combine"),
)
SAME_FUNCTIONS = {
    "mean": "avg",
    "std": "stddev_samp",
    "stddev": "stddev_samp",
    "variance": "var_samp",
    "approx_percentile": "percentile_approx",
    "any": "bool_or",
    "some": "bool_or",
    "every": "bool_and",
}
"""Other names of aggregates."""

_BY_NAME = {entry.name: entry for entry in _ENTRIES}
_CALL = re.compile(r"(?:least\(greatest\()?(\w+)\(")
"""The aggregate that a part begins with."""
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

ZERO_OF_NO_ROWS = ("count", "count_if", "regr_count", "approx_count_distinct")
"""Aggregates that are 0 of no rows."""

NULL_OF_NO_ROWS = (
    *("any", "any_value", "approx_percentile", "avg", "bit_and", "bit_or", "bit_xor", "bool_and", "bool_or", "corr"),
    *("covar_pop", "covar_samp", "every", "first", "first_value", "kurtosis", "last", "last_value", "listagg", "max"),
    *("max_by", "mean", "median", "min", "min_by", "mode", "percentile", "percentile_approx", "percentile_cont"),
    *("percentile_disc", "regr_avgx", "regr_avgy", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy"),
    *("regr_syy", "skewness", "some", "std", "stddev", "stddev_pop", "stddev_samp", "string_agg", "sum", "try_avg"),
    *("try_sum", "var_pop", "var_samp", "variance"),
)
"""Aggregates that are NULL of no rows; all others make an empty list or sketch of them."""

MERGEABLE = tuple(sorted((*_BY_NAME, *SAME_FUNCTIONS)))
"""Names of all aggregates that can be split."""

OVER_STREAMS = tuple(sorted({*MERGEABLE, *SETTLED} - {"percentiles"}))
"""Names of all aggregates that are possible over streams."""

DISTINCT_AGGREGATES = tuple(
    name
    for name in OVER_STREAMS
    if (name in SETTLED and SETTLED[name].distinct)
    or (name in MERGEABLE and (entry := _BY_NAME[SAME_FUNCTIONS.get(name, name)]).distinct is not None)
    or (name in MERGEABLE and entry.ignores_distinct)
)
"""Those that can be over DISTINCT values."""


def aggregate_of(name: str) -> Aggregate:
    """The entry of a function, by any of its names.

    Raises:
        KeyError: it cannot be split.
    """
    return _BY_NAME[SAME_FUNCTIONS.get(name, name)]
