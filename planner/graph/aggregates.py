"""Aggregates of a query as partials, merged partials and last steps: the templates of the table as expressions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from planner.functions.aggregates import AS_CALLED, MERGES, SET, Aggregate, Last, Part, aggregate_of
from planner.functions.traits import AGGREGATES
from planner.graph.expressions import arguments_of, cast, is_distinct
from planner.graph.operators import Expression, Merged, Partial
from planner.sql.dialect import exp, name_node, parse_template, render
from planner.sql.refusals import function_name

MAX_PRECISION = 38
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)", re.IGNORECASE)
_ARRAY = re.compile(r"ARRAY<(.*)>", re.IGNORECASE)
_SUM_WIDER_BY = 10
_AVG_WIDER_BY = 4
_ARGUMENTS = ("x", "y", "z")
_PARTS = ("a", "b", "c", "d", "e", "f")
_WHOLE_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")

Types = Mapping[str, str]
"""Spark types by column; of columns that it lacks they are not known yet."""


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate of a query, over columns of the rows."""

    name: str
    arguments: tuple[Expression, ...]
    condition: Expression | None = None
    """Of FILTER."""
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Split:
    """How one aggregate is computed: a call for each part, and what becomes of them."""

    parts: tuple[Part, ...]
    calls: tuple[Expression, ...]
    function: str
    """Of `Merged`: the name in the table, with `DISTINCT` behind it where values count once."""
    argument: Expression | None


def call_of(node: Expression) -> Call:
    """Return the call of an aggregate, with its FILTER if it has one."""
    call = node.this if isinstance(node, exp.Filter) else node
    condition = node.expression.this if isinstance(node, exp.Filter) else None
    return Call(function_name(call), arguments_of(call), condition, is_distinct(call))


def split_call(call: Call) -> Split:
    """The parts of an aggregate.

    Raises:
        KeyError: it cannot be split.
    """
    entry = aggregate_of(call.name)
    if call.distinct and entry.distinct is not None:
        return Split((SET,), (_set_of_values(call),), f"{entry.name} DISTINCT", None)
    return Split(entry.parts, tuple(_call(part, entry, call) for part in entry.parts), entry.name, _rank(entry, call))


def _rank(entry: Aggregate, call: Call) -> Expression | None:
    if entry.rank is None:
        return None
    said = entry.rank < len(call.arguments)
    return call.arguments[entry.rank] if said else exp.Literal.number(entry.default_rank)


def combined(partial: Partial, types: Types) -> Expression:
    """Partials of several groups as one, in the type that they have."""
    merge = MERGES[partial.part]
    names = {"p": partial.name, "all_p": mean_of_all(partial.name)}
    for letter, name in zip(_PARTS, partial.of, strict=False):
        names |= {letter: name, f"all_{letter}": mean_of_all(name)}
    made = filled(merge.template, {name: _column(column) for name, column in names.items()})
    decimal = merge.keeps_type and _DECIMAL.fullmatch(types.get(partial.name, ""))
    return cast(made, types[partial.name]) if decimal else made


def merged(aggregate: Merged, partials: Mapping[str, Partial], types: Types) -> Expression:
    """The aggregate, made of its partials as they are combined."""
    parts = [combined(partials[name], types) for name in aggregate.partials]
    type_ = types.get(aggregate.partials[0], "")
    name, _, distinct = aggregate.function.partition(" ")
    entry = aggregate_of(name)
    last = entry.distinct if distinct else entry.last
    if isinstance(last, str):
        values = dict(zip(_PARTS, parts, strict=False))
        return filled(last, values if aggregate.argument is None else {**values, "r": aggregate.argument})
    if last is Last.VALUE or last is None:
        return parts[0]
    if last is Last.AVERAGE:
        return _average(parts[0], parts[1], type_)
    if last is Last.QUANTILE:
        assert aggregate.argument is not None
        return _quantile(aggregate.argument, parts[0], types.get(aggregate.partials[1], "DOUBLE"))
    if last in (Last.SUM_OR_NULL, Last.AVERAGE_OR_NULL):
        return _or_null(parts, types.get(aggregate.partials[2], ""))
    return _of_set(last, parts[0], type_)


def means(partials: Sequence[Partial]) -> tuple[Partial, ...]:
    """The partials whose mean over all rows others take."""
    return tuple(partial for partial in partials if MERGES[partial.part].weighted)


def mean_over_group(partial: Partial, keys: Sequence[str]) -> Expression:
    """The mean over all rows of a group, beside each of its partials."""
    count, mean = _column(partial.of[0]), _column(partial.name)
    weighted = exp.Mul(this=count.copy(), expression=mean.copy())
    found = {
        "w": _over_group("sum", weighted, keys),
        "n": _over_group("sum", count, keys),
        "low": _over_group("min", mean, keys),
        "high": _over_group("max", mean, keys),
    }
    # Between the means that it is made of: of equal ones the same.
    return filled("least(greatest(try_divide(w, n), low), high)", found)


def _over_group(function: str, node: Expression, keys: Sequence[str]) -> Expression:
    total = exp.Anonymous(this=function, expressions=[node.copy()])
    return exp.Window(this=total, partition_by=[_column(key) for key in keys], over="OVER")


def mean_of_all(name: str) -> str:
    """Column of the mean over all rows of a group, beside the partial means of that name."""
    return f"{name}_of_all"


def _call(part: Part, entry: Aggregate, call: Call) -> Expression:
    arguments: dict[str, Expression] = dict(zip(_ARGUMENTS, call.arguments, strict=False))
    if entry.size is not None:
        place, size = entry.size
        said = render(call.arguments[place]) if place < len(call.arguments) else ""
        arguments["k"] = exp.Literal.number(size(said))
    if entry.arguments[1] > len(_ARGUMENTS) or AS_CALLED in part.call:
        made: Expression = exp.Anonymous(this=entry.name, expressions=[node.copy() for node in call.arguments])
    else:
        made = filled(part.call, arguments)
    return made if call.condition is None else filtered(made, call.condition)


def filtered(node: Expression, condition: Expression) -> Expression:
    """The expression with FILTER behind each aggregate in it."""
    calls = _aggregate_calls(node)
    if not calls:
        return node
    root = exp.Paren(this=node)
    for found in calls:
        where = exp.Where(this=condition.copy())
        wrapper = exp.Filter(this=exp.Null(), expression=where)
        found.replace(wrapper)
        wrapper.set("this", found)
    result: Expression = root.this
    result.parent = None
    return result


def _aggregate_calls(node: Expression) -> list[Expression]:
    return [part for part in node.find_all(exp.Anonymous) if function_name(part) in AGGREGATES]


def _set_of_values(call: Call) -> Expression:
    """The set of the arguments, together; rows in which one of them is NULL do not count."""
    value = call.arguments[0].copy()
    conditions = [] if call.condition is None else [call.condition]
    if len(call.arguments) > 1:
        conditions += [_not_null(argument) for argument in call.arguments]
        value = exp.Anonymous(this="struct", expressions=[argument.copy() for argument in call.arguments])
    if conditions:
        every = _bracketed(conditions[0])
        for condition in conditions[1:]:
            every = exp.And(this=every, expression=_bracketed(condition))
        value = exp.Case(ifs=[exp.If(this=every, true=value)])
    return filled(SET.call, {"x": value})


def _not_null(node: Expression) -> Expression:
    return exp.Not(this=exp.Is(this=_bracketed(node), expression=exp.Null()))


def _bracketed(node: Expression) -> Expression:
    return exp.Paren(this=node.copy())


def _quantile(rank: Expression, sketch: Expression, type_: str) -> Expression:
    """The value at a rank, in the type of the values; an empty sketch has none."""
    kind = f"ARRAY<{type_}>" if function_name(rank) == "array" else type_
    found = cast(exp.Anonymous(this="kll_sketch_get_quantile_double", expressions=[sketch, rank.copy()]), kind)
    filled = exp.GT(
        this=exp.Anonymous(this="kll_sketch_get_n_double", expressions=[sketch.copy()]),
        expression=exp.Literal.number(0),
    )
    return exp.Case(ifs=[exp.If(this=filled, true=found)])


def _or_null(parts: Sequence[Expression], value: str) -> Expression:
    """A sum that is NULL where it is too large, or where a partial was; with a count, the average."""
    kind = _sum_type(value)
    total: Expression = exp.TryCast(this=parts[0].copy(), to=exp.Var(this=kind), safe=True)
    if len(parts) > 3:
        decimal = _DECIMAL.fullmatch(kind)
        total = _average(total, parts[-1], kind) if decimal else _divided(cast(parts[0].copy(), "DOUBLE"), parts[-1])
    return exp.Case(ifs=[exp.If(this=exp.Not(this=_bracketed(parts[1])), true=total)])


def _divided(total: Expression, count: Expression) -> Expression:
    return exp.Anonymous(this="try_divide", expressions=[total, count.copy()])


def _of_set(last: Last, values: Expression, type_: str) -> Expression:
    size = exp.Anonymous(this="size", expressions=[values])
    if last is Last.COUNT_OF_SET:
        return cast(size, "BIGINT")
    array = _ARRAY.fullmatch(type_)
    value = array.group(1) if array else ""
    kind = _sum_type(value)
    if value.upper() == "STRING":
        # '1' and '1.0' are one number.
        values = _typed("array_distinct(transform(v, x -> CAST(x AS STRING)))", values, kind)
    total = _typed("aggregate(v, CAST(0 AS STRING), (x, y) -> CAST(x + y AS STRING))", values, kind)
    if last is Last.AVERAGE_OF_SET:
        return _average(total, exp.Anonymous(this="size", expressions=[values.copy()]), kind)
    filled = exp.GT(this=exp.Anonymous(this="size", expressions=[values.copy()]), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=filled, true=total)])


def _typed(template: str, values: Expression, kind: str) -> Expression:
    made = filled(template, {"v": values})
    for node in list(made.find_all(exp.Cast)):
        node.set("to", exp.Var(this=kind))
    return made


def _sum_type(value: str) -> str:
    """Spark's type of a sum."""
    decimal = _DECIMAL.fullmatch(value)
    if decimal is not None:
        return f"DECIMAL({min(int(decimal.group(1)) + _SUM_WIDER_BY, MAX_PRECISION)},{decimal.group(2)})"
    return "BIGINT" if value.upper() in _WHOLE_NUMBERS else "DOUBLE"


def _average(total: Expression, count: Expression, total_type: str) -> Expression:
    average = _divided(total, count)
    decimal = _DECIMAL.fullmatch(total_type)
    return cast(average, _average_type(decimal)) if decimal else average


def _average_type(total: re.Match[str]) -> str:
    """Spark's type of avg, from its type of sum over the same column."""
    precision, scale = int(total.group(1)), int(total.group(2))
    if precision < MAX_PRECISION:
        precision += _AVG_WIDER_BY - _SUM_WIDER_BY
    return f"DECIMAL({min(precision, MAX_PRECISION)},{min(scale + _AVG_WIDER_BY, MAX_PRECISION)})"


def _column(name: str) -> Expression:
    return exp.Column(this=name_node(name))


@cache
def _template(text: str) -> Expression:
    tree = parse_template(f"SELECT {text}")
    assert tree is not None, text
    found: Expression = tree.expressions[0]
    return found


def filled(template: str, values: Mapping[str, Expression]) -> Expression:
    """A template with expressions in the place of its names."""
    root = exp.Paren(this=_template(template).copy())
    for column in list(root.find_all(exp.Column)):
        value = values.get(column.name)
        if value is not None and not column.table:
            column.replace(_operand(value) if isinstance(column.parent, exp.Binary | exp.Is) else value.copy())
    result: Expression = root.this
    result.parent = None
    return result


def _operand(value: Expression) -> Expression:
    """The value, in brackets where an operator beside it could tear it apart."""
    safe = isinstance(value, exp.Column | exp.Literal | exp.Anonymous | exp.Paren | exp.Cast)
    return value.copy() if safe else _bracketed(value)
