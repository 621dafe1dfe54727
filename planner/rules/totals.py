"""The SQL of a MERGE whose groups, or ranks, are added up: it makes a row for each change of a cell of time.

The agent hands out, for each cell of a key that comes out, all rows of the key up to then. So groups and ranks are
those of windows; a change follows from the one of the cell before.

Groups that HAVING does not refuse are always told: each has rows in the cell. One that it refuses is a deletion if it
was told before, or may have been; of ranks, those are told that have another row than before.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.bind.binder import Window
from planner.bind.selects import Totals
from planner.bind.windowparts import later, start_within
from planner.graph.operators import Alias, Filter, Named, Operator, Project
from planner.sql.dialect import exp, name_node
from planner.values.names import CHANGED_AT, LIFE_COLUMN, NEW_COLUMN, OPERATION, RANK_COLUMN, SINCE_COLUMN, WINDOW_START

UPSERT, DELETE = "upsert", "delete"
_CELLS = "cells"


def cell_columns(totals: Totals | None) -> tuple[str, ...]:
    """Return the columns of partials, besides the start of the cell, that say what a row is of."""
    return (SINCE_COLUMN,) if totals is not None and totals.ttl is not None else ()


def cell_of(window: Window, totals: Totals | None) -> list[Named]:
    """Return what sources compute of each row besides the start of its cell, as `cell_columns` names it.

    It is written in another way than that start: two columns of one expression would be one to queries that share.
    """
    return [Named(name, start_within(window.time, window.length)) for name in cell_columns(totals)]


def cell_flags(totals: Totals | None) -> tuple[str, ...]:
    """Return the columns that the agent adds to the rows of cells that come out."""
    return () if totals is None else (NEW_COLUMN, LIFE_COLUMN)


def changed_groups(
    totals: Totals, groups: Operator, keys: Sequence[str], outputs: Sequence[Named], having: Sequence[exp.Expr]
) -> Operator:
    """Return the changes of groups.

    Args:
        totals: what is told.
        groups: a row for each key and cell.
        keys: columns of the keys.
        outputs: the results, over the columns of the groups.
        having: conjuncts, likewise.
    """
    if not having:
        return _told(totals, groups, outputs, exp.Literal.string(UPSERT))
    holds: exp.Expr = exp.Paren(this=having[0].copy())
    for part in having[1:]:
        holds = exp.And(this=holds, expression=exp.Paren(this=part.copy()))
    holds = _call("coalesce", exp.Paren(this=holds), exp.false())
    # After a life that nobody remembers, nothing says whether the row was told.
    before = _before(holds, (*keys, LIFE_COLUMN))
    was_told = _call("coalesce", before, exp.Boolean(this=totals.ttl is not None))
    return _told(totals, groups, outputs, _case((holds, UPSERT), (was_told, DELETE)))


def changed_ranks(totals: Totals, first: Operator, keys: Sequence[str], outputs: Sequence[Named]) -> Operator:
    """Return the changes of the first rows of each key; arguments as for groups."""
    row = exp.Anonymous(this="struct", expressions=[output.expression.copy() for output in outputs])
    before = _before(row, (*keys, LIFE_COLUMN, RANK_COLUMN))
    is_other = exp.Not(this=exp.Paren(this=exp.NullSafeEQ(this=before, expression=row.copy())))
    return _told(totals, Alias(first, "first_rows"), outputs, _case((is_other, UPSERT)))


def _told(totals: Totals, rows: Operator, outputs: Sequence[Named], operation: exp.Expr) -> Operator:
    """Return the rows of cells that come out and for which there is an operation."""
    made = [Named(f"_o{number}", output.expression) for number, output in enumerate(outputs)]
    made += [Named(OPERATION, operation), Named(CHANGED_AT, later(_column(WINDOW_START), totals.every))]
    cells = Project(rows, (*made, Named(NEW_COLUMN, _column(NEW_COLUMN))))
    is_told = exp.Not(this=exp.Is(this=_column(OPERATION), expression=exp.Null()))
    items = [Named(output.name, _column(item.name)) for output, item in zip(outputs, made, strict=False)]
    items += [Named(name, _column(name)) for name in (OPERATION, CHANGED_AT)]
    return Project(Filter(Alias(cells, _CELLS), (_column(NEW_COLUMN), is_told)), tuple(items))


def _before(node: exp.Expr, partition: Sequence[str]) -> exp.Expr:
    """Return what an expression was in the cell before."""
    order = exp.Order(expressions=[exp.Ordered(this=_column(WINDOW_START))])
    return exp.Window(
        this=_call("lag", node.copy()), partition_by=list(map(_column, partition)), order=order, over="OVER"
    )


def _case(*branches: tuple[exp.Expr, str]) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=when, true=exp.Literal.string(then)) for when, then in branches])


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _column(name: str) -> exp.Expr:
    return exp.Column(this=name_node(name))
