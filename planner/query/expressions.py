"""Small questions about bound expressions, and small changes that give a new tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from planner.catalog import SITE_COLUMN
from planner.functions import MERGEABLE
from planner.sql.dialect import exp, name_node
from planner.sql.refusals import function_name

_SELF_CONTAINED = (exp.Column, exp.Literal, exp.Anonymous, exp.Paren, exp.Dot, exp.Cast, exp.Bracket, exp.Null)


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
    return isinstance(node, exp.Anonymous) and function_name(node) in MERGEABLE


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


def replace_columns(node: exp.Expr, change: Callable[[exp.Column], exp.Expr]) -> exp.Expr:
    """A copy in which each column is what `change` makes of it."""
    root = exp.Paren(this=node.copy())
    for column in list(root.find_all(exp.Column)):
        column.replace(change(column))
    result: exp.Expr = root.this
    result.parent = None
    return result


def unqualified(node: exp.Expr) -> exp.Expr:
    """A copy whose columns have no view in front, for a stage that reads one view only."""
    return replace_columns(node, lambda column: exp.Column(this=name_node(column.name)))


def enclosed(node: exp.Expr) -> exp.Expr:
    """The node, in brackets when it could otherwise be torn apart by what it is put into."""
    return node.copy() if isinstance(node, _SELF_CONTAINED) else exp.Paren(this=node.copy())
