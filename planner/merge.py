"""Partial aggregates and how they are merged.

    aggregate       partials at the source                    merged
    count(x)        n = count(x)                              sum of the counts
    sum(x)          sum(x)                                    sum of the sums
    min, max        min(x), max(x)                            min, max
    avg(x)          sum(x), n                                 sum of the sums / sum of the counts; NULL for none
    variances       n, mean, m2 = sum of (x - mean)^2         m2 / n or m2 / (n - 1); stddev is the root; NULL for / 0
    count(DISTINCT) the set of x                              size of the union of the sets
    sum, avg (...)  the set of x                              sum of the union, sum / size; NULL for the empty set
    approx_count_..  HyperLogLog sketch of the hashes of x    estimate of the united sketch
    percentile_ap..  KLL sketch of x, max(x) for its type     quantile of the merged sketch; NULL for an empty one

Means and m2 are merged by Chan's formula: with the mean of all, mu = sum(n * mean) / sum(n), the m2 of all is
sum(m2 + n * (mean - mu)^2). Sums of squares would lose all digits where the mean is large and the variance small.

A merged column has the type of its partial: a sum of integers is a BIGINT, however often it is merged. Only sums of
decimals need a cast for that, since Spark makes each sum ten digits wider than its input.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

WINDOW_START = "_window_start"
MAX_PRECISION = 38
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)", re.IGNORECASE)
_ARRAY = re.compile(r"ARRAY<(.*)>", re.IGNORECASE)
_SUM_WIDER_BY = 10
_AVG_WIDER_BY = 4


@dataclass(frozen=True, slots=True)
class Partial:
    """A column of partial aggregates."""

    name: str
    function: str
    """How partials are made one: `sum`, `min`, `max`, `mean`, `m2`, `set` or an aggregate of Spark's."""
    of: tuple[str, ...] = ()
    """Partials that this takes: for `mean` its count, for `m2` its count and its mean."""


@dataclass(frozen=True, slots=True)
class Merged:
    """An aggregate of the query after the merge."""

    name: str
    partials: tuple[str, ...]
    function: str = "value"
    """How it is made of its merged partials; `value`: it is the one partial."""
    argument: str = ""
    """For `quantile` the rank or the array of ranks."""


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
    view: str = "input"
    """Where the partials of closed windows are."""
    inline: tuple[str, ...] = ()
    """SQL of further partials, which are computed of other views of the MERGE."""
    joined: Mapping[str, MergeRecipe] = field(default_factory=dict)
    """Aggregates over partials of other views, by the names that the tail calls their rows by."""
    windowed: bool = True
    """False: a batch query, whose groups have keys alone; without keys all partials are one group."""

    def sql(self, types: Mapping[str, str], others: Mapping[str, Mapping[str, str]] | None = None) -> str:
        """The stage's SQL: from the partials of closed windows to result rows.

        Args:
            types: of the partials.
            others: those of other views, by view, for what is joined.
        """
        known = others or {}
        beside = [
            f"{name} AS ({recipe.sql(known.get(recipe.view, {}), known)})" for name, recipe in self.joined.items()
        ]
        merged = [*self._groups(), *(f"{self._aggregate(a, types)} AS {a.name}" for a in self.aggregates)]
        head = f"WITH {', '.join(beside)} {self.head}" if beside else self.head
        return f"{head} FROM ({self._grouped(merged, self._all())}) AS merged{self.tail}"

    def combine_sql(self, types: Mapping[str, str]) -> str:
        """From partials of `input` to fewer partials of the same schema."""
        return self._grouped(
            [*self._groups(), *(f"{self._combined(p.name, types)} AS {p.name}" for p in self.partials)]
        )

    def by_view(self) -> Mapping[str, MergeRecipe]:
        """This one and all that are joined, by the view of their partials."""
        found = {self.view: self}
        for recipe in self.joined.values():
            found |= recipe.by_view()
        return found

    def _all(self) -> str:
        """All partials of closed windows."""
        if not self.inline:
            return self.view
        columns = ", ".join((*self._groups(), *(partial.name for partial in self.partials)))
        return f"({' UNION ALL '.join([f'SELECT {columns} FROM {self.view}', *self.inline])}) AS input"

    def _groups(self) -> tuple[str, ...]:
        return (WINDOW_START, *self.keys) if self.windowed else self.keys

    def _grouped(self, columns: list[str], view: str = "input") -> str:
        groups = f" GROUP BY {', '.join(self._groups())}" if self._groups() else ""
        return f"SELECT {', '.join(columns)} FROM {self._input(view)}{groups}"

    def _input(self, view: str) -> str:
        """The partials, beside each mean the mean of its whole group."""
        over = f"OVER (PARTITION BY {', '.join(self._groups())})" if self._groups() else "OVER ()"
        means = [
            f"try_divide(sum({p.of[0]} * {p.name}) {over}, sum({p.of[0]}) {over}) AS {_mean_of_all(p.name)}"
            for p in self.partials
            if p.function == "mean"
        ]
        return f"(SELECT *, {', '.join(means)} FROM {view}) AS input" if means else view

    def _combined(self, name: str, types: Mapping[str, str]) -> str:
        partial = next(p for p in self.partials if p.name == name)
        if partial.function == "mean":
            return f"max({_mean_of_all(name)})"
        if partial.function == "m2":
            count, mean = partial.of
            away = f"({mean} - {_mean_of_all(mean)})"
            return f"sum({name} + {count} * {away} * {away})"
        if partial.function == "set":
            return f"array_distinct(flatten(collect_list({name})))"
        call = f"{partial.function}({name})"
        decimal = partial.function == "sum" and _DECIMAL.fullmatch(types.get(name, ""))
        return f"CAST({call} AS {types[name]})" if decimal else call

    def _aggregate(self, aggregate: Merged, types: Mapping[str, str]) -> str:
        combined = [self._combined(name, types) for name in aggregate.partials]
        if aggregate.function == "avg":
            return _average(combined[0], combined[1], types.get(aggregate.partials[0], ""))
        if aggregate.function in _VARIANCES:
            return _VARIANCES[aggregate.function].format(m2=combined[-1], n=combined[0])
        if aggregate.function == "sketched_count":
            return f"hll_sketch_estimate({combined[0]})"
        if aggregate.function in ("quantile", "quantiles"):
            return _quantile(aggregate, combined[0], types.get(aggregate.partials[1], "DOUBLE"))
        if aggregate.function in ("count_distinct", "sum_distinct", "avg_distinct"):
            return _of_set(aggregate.function, combined[0], types.get(aggregate.partials[0], ""))
        return combined[0]


@dataclass(frozen=True, slots=True)
class SqlRecipe:
    """The SQL of a REDUCE stage: text, and between it aggregates of partials."""

    pieces: tuple[str | MergeRecipe, ...] = ()

    def sql(self, types: Mapping[str, Mapping[str, str]]) -> str:
        """The whole of it; `types` of the partials by view."""
        return "".join(
            piece if isinstance(piece, str) else piece.sql(types.get(piece.view, {})) for piece in self.pieces
        )


_VARIANCES = {
    "var_pop": "try_divide({m2}, {n})",
    "var_samp": "try_divide({m2}, {n} - 1)",
    "stddev_pop": "sqrt(try_divide({m2}, {n}))",
    "stddev_samp": "sqrt(try_divide({m2}, {n} - 1))",
}


def _mean_of_all(mean: str) -> str:
    return f"{mean}_of_all"


def _quantile(aggregate: Merged, sketch: str, type_: str) -> str:
    """The value at a rank, in the type of the values; an empty sketch has none."""
    kind = f"ARRAY<{type_}>" if aggregate.function == "quantiles" else type_
    found = f"kll_sketch_get_quantile_double({sketch}, {aggregate.argument})"
    return f"CASE WHEN kll_sketch_get_n_double({sketch}) > 0 THEN CAST({found} AS {kind}) END"


def _of_set(function: str, values: str, type_: str) -> str:
    if function == "count_distinct":
        return f"CAST(size({values}) AS BIGINT)"
    array = _ARRAY.fullmatch(type_)
    value = array.group(1) if array else ""
    kind = _sum_type(value)
    if value.upper() == "STRING":
        # '1' and '1.0' are one number.
        values = f"array_distinct(transform({values}, x -> CAST(x AS {kind})))"
    total = f"aggregate({values}, CAST(0 AS {kind}), (x, y) -> CAST(x + y AS {kind}))"
    if function == "avg_distinct":
        return _average(total, f"size({values})", kind)
    return f"CASE WHEN size({values}) > 0 THEN {total} END"


def _sum_type(value: str) -> str:
    """Spark's type of a sum."""
    decimal = _DECIMAL.fullmatch(value)
    if decimal is not None:
        return f"DECIMAL({min(int(decimal.group(1)) + _SUM_WIDER_BY, MAX_PRECISION)},{decimal.group(2)})"
    return "BIGINT" if value.upper() in ("TINYINT", "SMALLINT", "INT", "BIGINT") else "DOUBLE"


def _average(total: str, count: str, total_type: str) -> str:
    average = f"try_divide({total}, {count})"
    decimal = _DECIMAL.fullmatch(total_type)
    return f"CAST({average} AS {_average_type(decimal)})" if decimal else average


def _average_type(total: re.Match[str]) -> str:
    """Spark's type of avg, from its type of sum over the same column."""
    precision, scale = int(total.group(1)), int(total.group(2))
    if precision < MAX_PRECISION:
        precision += _AVG_WIDER_BY - _SUM_WIDER_BY
    return f"DECIMAL({min(precision, MAX_PRECISION)},{min(scale + _AVG_WIDER_BY, MAX_PRECISION)})"
