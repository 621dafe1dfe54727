"""Rows of SELECTs over tables as operators."""

from __future__ import annotations

from collections.abc import Sequence

from planner.bind.outputs import Output
from planner.bind.rows import joined_rows, kept
from planner.bind.tableblocks import Block, Rows
from planner.bind.unions import member_rows, relation_rows
from planner.graph.operators import Alias, Generate, Named, Operator, Project, UnionAll
from planner.sql.dialect import exp, name_node
from planner.values.names import INPUT_VIEW


def items_of(outputs: Sequence[Output]) -> tuple[Named, ...]:
    """The select list."""
    return tuple(Named(output.name, output.expression) for output in outputs)


def names_of(outputs: Sequence[Output]) -> tuple[Named, ...]:
    """The select list of what has these columns already."""
    return tuple(Named(output.name, exp.Column(this=name_node(output.name))) for output in outputs)


def with_laterals(rows: Operator, block: Block) -> Operator:
    """The rows with those that the block's lateral views make of them."""
    for lateral in block.laterals:
        columns = tuple(column.name for column in lateral.member.relation.columns)
        rows = Generate(rows, lateral.call, lateral.member.view, columns, lateral.outer)
    return rows


def standalone(rows: Rows) -> Operator:
    """What only filters, projects and joins tables, over views of the relations' names."""
    branches = tuple(map(_select, rows.selects()))
    return branches[0] if len(branches) == 1 else UnionAll(branches)


def _select(block: Block) -> Operator:
    query = block.query
    first = relation_rows(query.scope.stream.relation)
    if block.below is not None:
        first = Alias(standalone(block.below), INPUT_VIEW)
    sources = {INPUT_VIEW: first, **{join.member.view: member_rows(join.member) for join in query.joins}}
    rows = with_laterals(joined_rows(query.joins, [join.on for join in query.joins], sources), block)
    return Project(kept(rows, query.where), items_of(query.outputs))
