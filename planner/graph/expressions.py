"""Functions over bound expressions: what they read, and copies with parts replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from planner.functions.aggregates import MERGEABLE, aggregate_of
from planner.functions.traits import AGGREGATES, GENERATORS
from planner.relations.catalog import SITE_COLUMN
from planner.sql.dialect import MAX_CHAIN, exp, name_node
from planner.sql.refusals import function_name

MAX_MERGED_NODES = 20_000
"""Largest sum of a query's expressions once derived tables are merged into it."""

WRITTEN = "written"
"""Key of the metadata of an expression that stands for a call of the query: the call's text."""

_SELF_CONTAINED = (exp.Column, exp.Literal, exp.Anonymous, exp.Paren, exp.Dot, exp.Cast, exp.Bracket, exp.Null)
_AROUND = (exp.WithinGroup, exp.Filter, exp.IgnoreNulls, exp.RespectNulls)


def conjuncts(condition: exp.Expr | None) -> tuple[exp.Expr, ...]:
    """The parts of a condition that must all hold, in the order they were written."""
    parts: list[exp.Expr] = []
    stack = [condition] if condition is not None else []
    while stack:
        node = stack.pop()
        bare = node.unnest()
        if isinstance(bare, exp.And):
            stack += [bare.right, bare.left]
        else:
            parts.append(node)
    return tuple(parts)


def views_of(node: exp.Expr) -> frozenset[str]:
    """The views whose columns a bound expression reads."""
    return frozenset(column.table for column in node.find_all(exp.Column))


def columns_of(nodes: Iterable[exp.Expr], view: str) -> tuple[str, ...]:
    """Names of the view's columns in bound expressions, each once, sorted."""
    return tuple(sorted({c.name for node in nodes for c in node.find_all(exp.Column) if c.table == view}))


def is_site(node: exp.Expr, view: str) -> bool:
    return isinstance(node, exp.Column) and node.name == SITE_COLUMN and node.table == view


def is_aggregate(node: exp.Expr) -> bool:
    """Whether it makes one value of a group of rows; with OVER it does not."""
    return isinstance(node, exp.Anonymous) and function_name(node) in AGGREGATES and not _has_over(node)


def is_mergeable(node: exp.Expr) -> bool:
    """Return whether an aggregate over tables is split into partials and a merge."""
    name = function_name(node)
    return name in MERGEABLE and not aggregate_of(name).whole_over_tables


def _has_over(call: exp.Expr) -> bool:
    """As in `sum(x) FILTER (WHERE ...) OVER (...)`."""
    node = whole_call(call)
    return isinstance(node.parent, exp.Window) and node.arg_key == "this"


def around_call(call: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes that wrap an aggregate as part of its call, the innermost first, such as FILTER."""
    node = call
    while isinstance(node.parent, _AROUND) and node.arg_key == "this":
        node = node.parent
        yield node


def whole_call(call: exp.Expr) -> exp.Expr:
    """Return an aggregate with the nodes that wrap it."""
    return [call, *around_call(call)][-1]


def is_distinct(call: exp.Expr) -> bool:
    return any(isinstance(argument, exp.Distinct) for argument in call.expressions)


def arguments_of(call: exp.Expr) -> tuple[exp.Expr, ...]:
    """The arguments of an aggregate, without DISTINCT."""
    return tuple(
        part
        for argument in call.expressions
        for part in (argument.expressions if isinstance(argument, exp.Distinct) else (argument,))
    )


def first_aggregate(node: exp.Expr) -> exp.Expr | None:
    return next((part for part in node.walk() if is_aggregate(part)), None)


def generates(nodes: Iterable[exp.Expr]) -> bool:
    """Return whether one of the expressions makes several rows out of one."""
    return any(function_name(part) in GENERATORS for node in nodes for part in node.walk())


def replace_columns(node: exp.Expr, change: Callable[[exp.Column], exp.Expr]) -> exp.Expr:
    """A copy in which each column is what `change` makes of it."""
    root = exp.Paren(this=node.copy())
    replace_each([(column, change(column)) for column in root.find_all(exp.Column)])
    result: exp.Expr = root.this
    result.parent = None
    return result


def replace_each(pairs: Iterable[tuple[exp.Expr, exp.Expr]]) -> None:
    """Put the second of each pair in the place of the first, none of which is the root or holds another.

    sqlglot's `replace` numbers all arguments of a list anew each time: thousands of them take it minutes.
    """
    lists: dict[tuple[int, str], tuple[exp.Expr, dict[int, exp.Expr]]] = {}
    for old, new in pairs:
        parent, key = old.parent, old.arg_key
        assert parent is not None
        assert key is not None
        if isinstance(parent.args[key], list):
            lists.setdefault((id(parent), key), (parent, {}))[1][id(old)] = new
        else:
            parent.set(key, new)
    for (_, key), (parent, changed) in lists.items():
        parent.set(key, [changed.get(id(part), part) for part in parent.args[key]])


def with_children(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A copy whose direct parts are what `change` makes of them."""
    changed = node.copy()
    for name, value in node.args.items():
        if isinstance(value, exp.Expr):
            changed.set(name, change(value))
        elif isinstance(value, list):
            changed.set(name, [change(part) if isinstance(part, exp.Expr) else part for part in value])
    return changed


def placed(node: exp.Expr, start: int | None, end: int | None = None) -> exp.Expr:
    """A copy that stands at one place of the text; the places of its parts, maybe of another text, are forgotten."""
    copy = node.copy()
    for part in copy.walk():
        for key in ("start", "end", "line", "col"):
            part.meta.pop(key, None)
    if start is not None:
        target = copy.this if isinstance(copy, exp.Column) else copy
        target.meta.update(start=start, end=start if end is None else end)
    return copy


def is_small(nodes: Iterable[exp.Expr]) -> bool:
    """Whether expressions, taken together, can be planned and analysed safely."""
    level, total = list(nodes), 0
    for _ in range(MAX_CHAIN):
        total += len(level)
        if not level or total > MAX_MERGED_NODES:
            return not level
        level = [child for node in level for child in node.iter_expressions()]
    return not level


def unqualified(node: exp.Expr) -> exp.Expr:
    """A copy whose columns have no view in front, for a stage that reads one view only."""
    return replace_columns(node, lambda column: exp.Column(this=name_node(column.name)))


def enclosed(node: exp.Expr) -> exp.Expr:
    """The node, in brackets when it could otherwise be torn apart by what it is put into."""
    return node.copy() if isinstance(node, _SELF_CONTAINED) else exp.Paren(this=node.copy())


def ordered_by(ordered: exp.Ordered, node: exp.Expr) -> exp.Ordered:
    """The same order by another expression."""
    copy = ordered.copy()
    copy.set("this", node.copy())
    assert isinstance(copy, exp.Ordered)
    return copy


def ties(order: Iterable[exp.Ordered], candidates: Iterable[exp.Expr]) -> list[exp.Ordered]:
    """What decides between rows of equal rank: candidates by which the order does not sort as it is."""
    known = {ordered.this for ordered in order if not ordered.args.get("desc")}
    return [exp.Ordered(this=node.copy(), nulls_first=True) for node in dict.fromkeys(candidates) if node not in known]


def first_of(nodes: Sequence[exp.Expr]) -> exp.Expr:
    """Return the first value that is not NULL."""
    return exp.Anonymous(this="coalesce", expressions=[node.copy() for node in nodes])


def cast(node: exp.Expr, type_: str) -> exp.Expr:
    """The expression in another type."""
    return exp.Cast(this=node, to=exp.Var(this=type_))
