"""The logical plan of a batch query as indented lines, result first."""

from __future__ import annotations

from collections.abc import Iterator

from planner.query.calls import without_versions
from planner.query.expressions import replace_columns
from planner.query.pruning import decides_site, kept_sites
from planner.query.tablequery import Block
from planner.sql.dialect import exp, name_node, render

_WIDTH = 200


def block_lines(block: Block) -> tuple[str, ...]:
    """One line per operator, each input two blanks further in.

    Raises:
        InvalidDefinitionError: no site of the first table is left to read from.
    """
    lines = [line for one in block.chain() for line in _operators(one)]
    return tuple(f"{'  ' * depth}{line}" for depth, line in enumerate(lines))


def _operators(block: Block) -> Iterator[str]:
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
    for join in reversed(query.joins):
        kind = "LeftJoin" if join.left else "Join"
        yield f"{kind}[{join.member.relation.name}: {' AND '.join(map(_text, join.on))}]"
    if block.below is None:
        yield f"Scan[{query.scope.stream.relation.name} at {', '.join(kept_sites(query))}]"


def _text(node: exp.Expr) -> str:
    plain = replace_columns(node, lambda column: exp.Column(this=name_node(column.name)))
    text = without_versions(render(plain))
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."
