"""LATERAL VIEW, and generators of rows in the select list of a derived table.

Where a derived table is merged into the SELECT over it, a column that a generator makes has to be a column of a
lateral view: a condition on it, or a join by it, cannot contain the generator itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from planner.bind.binder import Binder
from planner.bind.scope import Member, Scope
from planner.bind.selects import Lateral, StreamSelect
from planner.bind.subqueries import OF_WHERE
from planner.functions.traits import GENERATORS, ONE_COLUMN_GENERATORS
from planner.relations.catalog import Column, Relation, RelationKind
from planner.sql.dialect import exp, name_node, offset_of
from planner.sql.refusals import function_name, refuse
from planner.sql.source import Source

HINT = "LATERAL VIEW explode(x) t AS y is possible."
_MADE = "col"


def bind_laterals(select: exp.Select, scope: Scope, next_view: Callable[[], str]) -> tuple[Lateral, ...]:
    """The lateral views of a SELECT, each over the relations and the views before it.

    Raises:
        UnsupportedSqlError, UnknownColumnError: with their place.
    """
    found: list[Lateral] = []
    joins = sum(OF_WHERE not in join.meta for join in select.args.get("joins") or [])
    for node in select.args.get("laterals") or []:
        alias = node.args.get("alias")
        names = [name.name for name in alias.columns] if alias is not None else []
        if not node.args.get("view") or not names or not alias.name:
            raise refuse(node, scope.source, "LATERAL of this form is not possible", HINT)
        known = replace(scope, members=(*scope.members, *(lateral.member for lateral in found)))
        call = Binder(known).bind(node.this)
        found.append(Lateral(member_of(alias.name, next_view(), names), call, bool(node.args.get("outer")), joins))
    return tuple(found)


def member_of(alias: str, view: str, names: Sequence[str]) -> Member:
    """Rows of these columns, as what stands in FROM."""
    columns = tuple(Column(name, "") for name in names)
    return Member(alias, view, Relation(alias, RelationKind.TABLE, columns, ()), derived=True)


def lifted(branch: StreamSelect, next_view: Callable[[], str], item: exp.Expr, source: Source) -> StreamSelect:
    """The rows of a derived table, with lateral views for the generators in its select list.

    Args:
        branch: the rows.
        next_view: names of views.
        item: the derived table in FROM.
        source: the text that it is in.

    Raises:
        UnsupportedSqlError: a generator makes several columns.
    """
    outputs, laterals = list(branch.outputs), list(branch.laterals)
    for place, output in enumerate(branch.outputs):
        call = output.expression.unnest()
        name = function_name(call)
        if name not in GENERATORS:
            continue
        if name not in ONE_COLUMN_GENERATORS:
            at = item if offset_of(item) is not None else output.item
            raise refuse(at, source, f"{name} in the select list of a derived table is not possible", HINT)
        view = next_view()
        plain = exp.Anonymous(this=ONE_COLUMN_GENERATORS[name], expressions=[part.copy() for part in call.expressions])
        outer = name != ONE_COLUMN_GENERATORS[name]
        laterals.append(Lateral(member_of(view, view, [_MADE]), plain, outer, len(branch.joins)))
        column = exp.Column(this=name_node(_MADE), table=name_node(view))
        outputs[place] = replace(output, expression=column)
    if len(laterals) == len(branch.laterals):
        return branch
    members = (*branch.scope.members, *(lateral.member for lateral in laterals[len(branch.laterals) :]))
    scope = replace(branch.scope, members=members)
    return replace(branch, scope=scope, outputs=tuple(outputs), laterals=tuple(laterals))
