"""SELECTs over tables as SQL."""

from __future__ import annotations

from collections.abc import Sequence

from planner.plan import INPUT_VIEW
from planner.query.outputs import Output
from planner.query.sqltext import rows_sql, where_sql
from planner.query.tableblocks import Block, Rows
from planner.query.unions import table_sql
from planner.sql.dialect import quoted, render


def items_sql(outputs: Sequence[Output]) -> str:
    """The select list."""
    return ", ".join(f"{render(o.expression)} AS {quoted(o.name)}" for o in outputs)


def names_sql(outputs: Sequence[Output]) -> str:
    """The select list of what has these columns already."""
    return ", ".join(quoted(output.name) for output in outputs)


def laterals_sql(block: Block) -> str:
    """With a blank in front; empty when there are none."""
    text = ""
    for lateral in block.laterals:
        outer = "OUTER " if lateral.outer else ""
        names = ", ".join(quoted(column.name) for column in lateral.member.relation.columns)
        text += f" LATERAL VIEW {outer}{render(lateral.call)} {lateral.member.view} AS {names}"
    return text


def standalone_sql(rows: Rows) -> str:
    """What only filters, projects and joins tables, over views of the relations' names."""
    return " UNION ALL ".join(map(_select_sql, rows.selects()))


def _select_sql(block: Block) -> str:
    query = block.query
    first = quoted(query.scope.stream.relation.name) if block.below is None else f"({standalone_sql(block.below)})"
    sources = {INPUT_VIEW: first, **{join.member.view: table_sql(join.member) for join in query.joins}}
    rows = rows_sql(query.joins, [join.on for join in query.joins], (), sources)
    return f"SELECT {items_sql(query.outputs)} {rows}{laterals_sql(block)}{where_sql(query.where)}"
