"""Rows of SELECTs over tables as operators."""

from __future__ import annotations

from collections.abc import Sequence

from planner.bind.outputs import Output
from planner.bind.rows import joined_rows, kept
from planner.bind.selects import TableRows, TableSelect
from planner.bind.unions import member_rows, relation_rows
from planner.graph.operators import Alias, Named, Operator, Project, UnionAll
from planner.sql.dialect import exp, name_node
from planner.values.names import INPUT_VIEW


def items_of(outputs: Sequence[Output]) -> tuple[Named, ...]:
    """The select list."""
    return tuple(Named(output.name, output.expression) for output in outputs)


def names_of(outputs: Sequence[Output]) -> tuple[Named, ...]:
    """The select list of what has these columns already."""
    return tuple(Named(output.name, exp.Column(this=name_node(output.name))) for output in outputs)


def standalone(rows: TableRows) -> Operator:
    """What only filters, projects and joins tables, over views of the relations' names."""
    branches = tuple(map(_select, rows.selects()))
    return branches[0] if len(branches) == 1 else UnionAll(branches)


def _select(select: TableSelect) -> Operator:
    first = relation_rows(select.scope.stream.relation)
    if select.below is not None:
        first = Alias(standalone(select.below), INPUT_VIEW)
    sources = {INPUT_VIEW: first, **{join.member.view: member_rows(join.member) for join in select.joins}}
    rows = joined_rows(select.joins, sources, select.laterals)
    return Project(kept(rows, select.where), items_of(select.outputs))
