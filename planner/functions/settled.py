"""Aggregates over streams that are written in other aggregates, so that the order of arrival does not matter.

Spark's `first`, `max_by` or `collect_list` take rows in the order in which they come, and `median` or `mode` need all
values at once. Over streams each is written by a template in Spark SQL, over the aggregates of
`planner.functions.aggregates`. The names in a template are

    x, y, z    the arguments
    o          the order of WITHIN GROUP; the argument of a percentile
    t          the event time of the row

What is equal in all that orders is equal in all that is returned, so every order of arrival gives the same value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settled:
    """Describes how one aggregate is written."""

    template: str
    arguments: tuple[int, int] = (1, 1)
    """The fewest and the most that it takes."""
    default: str = ""
    """The last argument, where a call leaves it out."""
    with_all: str = ""
    """The template where the last argument is given, if it is another."""
    constants: tuple[int, ...] = ()
    """Places of arguments that are literals, or an array of them."""
    without_nulls: str = ""
    """The template of IGNORE NULLS; empty: it ignores NULL anyway."""
    distinct: str = ""
    """The template over DISTINCT values; empty: DISTINCT is not possible."""
    without_time: str = ""
    """The template where rows have no event time: over the rows of windows; empty: it is not possible there."""
    within: Callable[[str, bool], str] | None = None
    """The template of WITHIN GROUP, from the function that sorts, and whether rows have an event time."""
    only_within: bool = False
    """It needs WITHIN GROUP."""
    form: str = "{name}(x)"
    """Messages show a call in this form."""

    def usage(self, name: str) -> str:
        """Return how the aggregate is called by that name."""
        return self.form.format(name=name)


def _sorted(value: str, then: str) -> str:
    """Return what `then` makes of all values of a group, sorted, as `l`."""
    return f"element_at(transform(array(sort_array(collect_list({value}))), l -> {then}), 1)"


def _set(value: str, then: str) -> str:
    return f"element_at(transform(array(sort_array(collect_set({value}))), l -> {then}), 1)"


ASCENDING, DESCENDING = "sort_array({})", "reverse(sort_array({}))"
"""WITHIN GROUP sorts with these templates."""


def _percentile(then: str) -> Settled:
    """A percentile of what WITHIN GROUP orders by; `then` makes it of the sorted values, as `l`, and the rank `x`."""

    def within(sort: str, timed: bool) -> str:
        del timed
        return f"element_at(transform(array({sort.format('collect_list(CAST(o AS DOUBLE))')}), l -> {then}), 1)"

    form = "{name}(0.95) WITHIN GROUP (ORDER BY x)"
    return Settled("", arguments=(1, 1), constants=(0,), within=within, only_within=True, form=form)


def _text_within(sort: str, timed: bool) -> str:
    """The texts in an order, then of event time, then of their own."""
    fields = "'o', o, 't', t, 'x', x" if timed else "'o', o, 'x', x"
    values = f"collect_list(CASE WHEN x IS NOT NULL THEN named_struct({fields}) END)"
    return f"element_at(transform(array(transform({sort.format(values)}, e -> e.x)), l -> {_JOINED}), 1)"


_AT_TIME = "CASE WHEN x IS NOT NULL THEN named_struct('t', t, 'x', x) END"
_PAIR = "CASE WHEN y IS NOT NULL THEN named_struct('y', y, 'x', x) END"
_VALUES = f"transform(sort_array(collect_list({_AT_TIME})), e -> e.x)"
_JOINED = "CASE WHEN size(l) > 0 THEN array_join(l, y) END"
_LOW, _HIGH = "get(l, CAST(floor(e) AS INT))", "get(l, CAST(ceil(e) AS INT))"
_AT_RANKS = (
    "CASE WHEN size(l) > 0 THEN transform(transform({ranks}, e -> CAST(e AS DOUBLE) * (size(l) - 1)), e -> "
    f"CASE WHEN {_LOW} = {_HIGH} THEN {_LOW} ELSE (ceil(e) - e) * {_LOW} + (e - floor(e)) * {_HIGH} END) END"
)
"""Values at ranks; between two of them Spark interpolates."""
_NONE = "named_struct('x', get(l, 0), 'n', 0, 'best', get(l, 0), 'most', 0)"
_NEXT = (
    "transform(array(CASE WHEN s.n > 0 AND s.x = e THEN s.n + 1 ELSE 1 END), n -> named_struct('x', e, 'n', n, "
    "'best', CASE WHEN n > s.most THEN e ELSE s.best END, 'most', greatest(n, s.most)))"
)


def _best(call: str, sorted_: str) -> Settled:
    """`max_by` or `min_by`: of equal y the largest, or the smallest x; with a number, as many of them."""
    first = f"CASE WHEN size(l) > 0 THEN transform(slice({sorted_}, 1, z), e -> e.x) END"
    return Settled(
        f"({call}({_PAIR})).x",
        arguments=(2, 3),
        with_all=_sorted(_PAIR, first),
        constants=(2,),
        form="{name}(x, y) or {name}(x, y, 3)",
    )


def _edge(call: str) -> Settled:
    """The first or the last value by event time; of equal ones the smallest, or the largest."""
    return Settled(
        f"({call}(named_struct('t', t, 'x', x))).x",
        arguments=(1, 2),
        default="FALSE",
        constants=(1,),
        without_nulls=f"({call}({_AT_TIME})).x",
        form="{name}(x) or {name}(x) IGNORE NULLS",
    )


_LIST = Settled(_VALUES, distinct=_set("x", "l"), without_time=_sorted("x", "l"))
_TEXT = Settled(
    f"element_at(transform(array({_VALUES}), l -> {_JOINED}), 1)",
    arguments=(1, 2),
    default="''",
    constants=(1,),
    distinct=_set("x", _JOINED),
    without_time=_sorted("x", _JOINED),
    within=_text_within,
    form="{name}(x, ', ')",
)
_DOUBLE = "CAST(x AS DOUBLE)"

SETTLED: Mapping[str, Settled] = {
    "max_by": _best("max", "reverse(l)"),
    "min_by": _best("min", "l"),
    "first": _edge("min"),
    "first_value": _edge("min"),
    "any_value": _edge("min"),
    "last": _edge("max"),
    "last_value": _edge("max"),
    "collect_set": Settled("sort_array(collect_set(x))", distinct="sort_array(collect_set(x))"),
    "collect_list": _LIST,
    "array_agg": _LIST,
    "listagg": _TEXT,
    "string_agg": _TEXT,
    "mode": Settled(
        _sorted("x", f"aggregate(l, {_NONE}, (s, e) -> element_at({_NEXT}, 1), s -> s.best)"),
        arguments=(1, 2),
        default="TRUE",
        constants=(1,),
    ),
    "median": Settled(_sorted(_DOUBLE, f"element_at({_AT_RANKS.format(ranks='array(0.5)')}, 1)")),
    "percentile": Settled(
        _sorted(_DOUBLE, f"element_at({_AT_RANKS.format(ranks='array(y)')}, 1)"),
        arguments=(2, 2),
        constants=(1,),
        form="{name}(x, 0.95) or {name}(x, array(0.5, 0.95))",
    ),
    "percentile_cont": _percentile(f"element_at({_AT_RANKS.format(ranks='array(x)')}, 1)"),
    "percentile_disc": _percentile("get(l, greatest(CAST(ceil(CAST(x AS DOUBLE) * size(l)) AS INT) - 1, 0))"),
    "percentiles": Settled(_sorted(_DOUBLE, _AT_RANKS.format(ranks="y")), arguments=(2, 2), constants=(1,)),
}
"""They are listed by name; `percentiles` is `percentile` at an array of ranks."""
