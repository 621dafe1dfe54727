"""The logical plan of a batch query as indented lines, result first."""

from __future__ import annotations

from collections.abc import Iterator

from planner.bind.calls import without_versions
from planner.bind.joins import Join
from planner.bind.tableblocks import Block, Rows, UnionAll
from planner.graph.expressions import replace_columns
from planner.rules.pruning import decides_site, kept_sites
from planner.sql.dialect import exp, name_node, render

_WIDTH = 200


def table_lines(rows: Rows) -> tuple[str, ...]:
    """One line per operator, each input two blanks further in.

    Raises:
        InvalidDefinitionError: no site of a table that is read by its splits is left to read from.
    """
    if isinstance(rows, UnionAll):
        return ("UnionAll", *_indented(line for branch in rows.branches for line in table_lines(branch)))
    lines = _first_lines(rows)
    for join in rows.query.joins:
        right = table_lines(rows.joined[join.member.view]) if join.member.view in rows.joined else ()
        lines = (_join_line(join), *_indented(lines), *_indented(right))
    for operator in reversed(list(_operators(rows))):
        lines = (operator, *_indented(lines))
    return lines


def _indented(lines: Iterator[str] | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"  {line}" for line in lines)


def _first_lines(block: Block) -> tuple[str, ...]:
    if block.below is not None:
        return table_lines(block.below)
    return (f"Scan[{block.query.scope.stream.relation.name} at {', '.join(kept_sites(block.query))}]",)


def _join_line(join: Join) -> str:
    kind = "LeftJoin" if join.left else "Join"
    return f"{kind}[{join.member.relation.name}: {' AND '.join(map(_text, join.on))}]"


def _operators(block: Block) -> Iterator[str]:
    """Those of one SELECT above its joins, result first."""
    query = block.query
    if block.limit is not None or block.offset:
        skipped = f", offset {block.offset}" if block.offset else ""
        yield f"Limit[{'all' if block.limit is None else block.limit}{skipped}]"
    if block.order:
        yield f"Sort[{', '.join(_text(ordered) for ordered in block.order)}]"
    if query.top_k is not None:
        yield f"TopK[{query.top_k.function} <= {query.top_k.k}]"
    if query.having:
        yield f"Having[{' AND '.join(map(_text, query.having))}]"
    yield f"Project[{', '.join(_text(o.expression) for o in query.outputs)}]"
    if block.grouped:
        yield f"Aggregate[{', '.join(map(_text, query.keys)) or 'all rows'}]"
    where = [part for part in query.where if block.below is not None or not decides_site(part, query.scope.stream.view)]
    if where:
        yield f"Filter[{' AND '.join(map(_text, where))}]"
    for lateral in reversed(block.laterals):
        yield f"LateralView[{_text(lateral.call)}]"


def _text(node: exp.Expr) -> str:
    plain = replace_columns(node, lambda column: exp.Column(this=name_node(column.name)))
    text = without_versions(render(plain))
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."
