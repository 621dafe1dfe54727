"""The logical plan as indented lines, result first."""

from __future__ import annotations

from collections.abc import Sequence

from planner.query.binder import Window
from planner.query.joins import describe_join
from planner.query.logical import LogicalQuery
from planner.query.pruning import decides_site
from planner.sql.dialect import exp, render
from planner.sql.intervals import format_interval

_WIDTH = 200


def logical_lines(query: LogicalQuery, sites: Sequence[str]) -> tuple[str, ...]:
    """One line per operator, each input two blanks further in."""
    operators = [f"Output[{', '.join(output.name for output in query.outputs)}]"]
    if query.top_k is not None:
        operators.append(_top_k(query))
    if query.having:
        operators.append(f"Having[{_all(query, query.having)}]")
    if query.window is not None:
        keys = "".join(f", {_words(query, key)}" for key in query.keys)
        operators += [f"MergeAggregate[window{keys}]"]
        operators += [f"PartialAggregate[window of {_window_words(query.window)}{keys}]"]
    filters = [c for c in query.where if not decides_site(c, query.scope.stream.view)]
    if filters:
        operators.append(f"Filter[{_all(query, filters)}]")
    operators += [describe_join(join, query.scope.source.text) for join in reversed(query.joins)]
    operators.append(_source(query, sites))
    return tuple("  " * depth + operator for depth, operator in enumerate(operators))


def _window_words(window: Window) -> str:
    every = f" every {format_interval(window.slide)}" if window.slide != window.length else ""
    return f"{format_interval(window.length)}{every}"


def _top_k(query: LogicalQuery) -> str:
    top_k = query.top_k
    assert top_k is not None
    keys = "".join(f", {_words(query, part)}" for part in top_k.partition)
    order = ", ".join(_words(query, o.this) + (" DESC" if o.args.get("desc") else "") for o in top_k.order)
    return f"TopK[{top_k.k} per window{keys} by {top_k.function} over {order}]"


def _source(query: LogicalQuery, sites: Sequence[str]) -> str:
    relation = query.scope.stream.relation
    pruned = sorted(set(relation.sites) - set(sites))
    left_out = f"; not {', '.join(pruned)}" if pruned else ""
    return f"Source[{relation.name} at {', '.join(sites)}{left_out}]"


def _all(query: LogicalQuery, parts: Sequence[exp.Expr]) -> str:
    return " AND ".join(_words(query, part) for part in parts)


def _words(query: LogicalQuery, node: exp.Expr) -> str:
    """An expression with the columns' own names."""
    names = {member.view: member.alias for member in query.scope.members}
    root = exp.Paren(this=node.copy())
    for column in root.find_all(exp.Column):
        alias = names.get(column.table)
        column.set("table", exp.to_identifier(alias) if alias and len(query.joins) else None)
    text = render(root.this)
    return text if len(text) <= _WIDTH else text[:_WIDTH] + "..."
