"""The logical plan as indented lines, result first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.bind.calls import without_versions
from planner.bind.joins import Join
from planner.bind.logical import Layer, LogicalQuery
from planner.bind.scope import Member
from planner.bind.streamjoins import window_words
from planner.bind.topk import TopK
from planner.rules.pruning import decides_site, kept_sites
from planner.rules.spread import Spread
from planner.sql.dialect import exp, render

_WIDTH = 200


Rows = Callable[[LogicalQuery], Sequence[str]]
"""The lines of what is done before anything is computed."""


def logical_lines(query: LogicalQuery, rows: Rows) -> tuple[str, ...]:
    """One line per operator, each input two blanks further in; of a branch of a statement.

    Raises:
        InvalidDefinitionError: no site of a stream is left to read from.
    """
    operators = _result_operators(query)
    keys = "".join(f", {_words(query, key)}" for key in _own_keys(query))
    partial = []
    window = query.inner or query.window
    if window is not None and query.join_window is not None:
        operators.append(f"Aggregate[window{keys}]")
    elif window is not None:
        operators.append(f"MergeAggregate[window{keys}]")
        partial = [f"PartialAggregate[window of {window_words(window)}{keys}]"]
    if not query.inputs:
        lines = [*_indented([*operators, *partial]), *_deeper(rows(query), len(operators) + len(partial))]
        return (*lines, *_window_rows(query, rows))
    lines = list(_indented([*operators, "UnionAll"]))
    for branch in query.inputs:
        lines += _deeper([*partial, *_deeper(rows(branch.query), len(partial))], len(operators) + 1)
    return (*lines, *_window_rows(query, rows))


def _own_keys(query: LogicalQuery) -> tuple[exp.Expr, ...]:
    """Group keys besides the query's own window, which is one of them where rows wait for a longer one."""
    return query.keys if query.inner is None else query.keys[1:]


def _window_rows(query: LogicalQuery, rows: Rows) -> list[str]:
    """What is joined to the rows of a query, each behind all that stands to its left."""
    found: list[str] = []
    depth = 0
    for layer in reversed(query.layers):
        depth += len(_layer(layer)) - len(layer.joins)
        for join in reversed(layer.joins):
            depth += 1
            found = [*_deeper(logical_lines(join.query, rows), depth), *found]
    return found


def join_lines(query: LogicalQuery, inputs: Sequence[Sequence[str]], spread: Spread) -> tuple[str, ...]:
    """The joined rows of a query that joins streams; `inputs` are the lines of each stream, in the order of FROM."""
    operators = [f"Filter[{_all(query, spread.late)}]"] if spread.late else []
    return (*operators, *_deeper(_joined(query, inputs, spread), len(operators)))


def rows_lines(query: LogicalQuery) -> tuple[str, ...]:
    """What is done before anything is computed: the stream at its sites, its tables and its conditions.

    Raises:
        InvalidDefinitionError: no site is left to read from.
    """
    return _indented(_rows(query, kept_sites(query)))


def _joined(query: LogicalQuery, inputs: Sequence[Sequence[str]], spread: Spread) -> list[str]:
    left, *others = (list(lines) for lines in inputs)
    for join in spread.late_joins(query.joins):
        right = others.pop(0) if join.member.is_stream else []
        left = [_join(query, join), *_deeper(left, 1), *_deeper(right, 1)]
    return left


def _indented(operators: Sequence[str]) -> tuple[str, ...]:
    return tuple("  " * depth + operator for depth, operator in enumerate(operators))


def _deeper(lines: Sequence[str], depth: int) -> list[str]:
    return ["  " * depth + line for line in lines]


def _result_operators(query: LogicalQuery) -> list[str]:
    operators = [line for layer in reversed(query.layers) for line in _layer(layer)]
    operators.append(f"Output[{', '.join(output.name for output in query.outputs)}]")
    if query.top_k is not None:
        operators.append(_top_k(query.top_k, lambda node: _words(query, node)))
    if query.having:
        operators.append(f"Having[{_all(query, query.having)}]")
    return operators


def _rows(query: LogicalQuery, sites: Sequence[str]) -> list[str]:
    operators = []
    filters = [c for c in query.where if not decides_site(c, query.scope.stream.view)]
    if filters:
        operators.append(f"Filter[{_all(query, filters)}]")
    operators += [_join(query, join) for join in reversed(query.joins)]
    return [*operators, _source(query, sites)]


def _layer(layer: Layer) -> list[str]:
    operators = [f"Output[{', '.join(output.name for output in layer.outputs)}]"]
    if layer.top_k is not None:
        operators.append(_top_k(layer.top_k, lambda node: _of_layer(layer, node)))
    if layer.having:
        operators.append(f"Having[{_all_of_layer(layer, layer.having)}]")
    if layer.grouped:
        operators.append(f"AggregateOfWindow[{', '.join(_of_layer(layer, key) for key in layer.keys)}]")
    if layer.where:
        operators.append(f"Filter[{_all_of_layer(layer, layer.where)}]")
    for join in reversed(layer.joins):
        kind = "LEFT" if join.left else "INNER"
        operators.append(f"JoinOfWindows[{kind} {join.member.alias} ON {_all_of_layer(layer, join.on)}]")
    return operators


def _all_of_layer(layer: Layer, parts: Sequence[exp.Expr]) -> str:
    return " AND ".join(_of_layer(layer, part) for part in parts)


def _of_layer(layer: Layer, node: exp.Expr) -> str:
    """An expression over rows of windows, with the columns' own names."""
    return _short(render(_named(node, layer.scope.members if layer.joins else ())))


def _top_k(top_k: TopK, words: Callable[[exp.Expr], str]) -> str:
    keys = "".join(f", {words(part)}" for part in top_k.partition)
    order = ", ".join(words(o.this) + (" DESC" if o.args.get("desc") else "") for o in top_k.order)
    return f"TopK[{top_k.k} per window{keys} by {top_k.function} over {order}]"


def _source(query: LogicalQuery, sites: Sequence[str]) -> str:
    relation = query.scope.stream.relation
    pruned = sorted(set(relation.sites) - set(sites))
    left_out = f"; not {', '.join(pruned)}" if pruned else ""
    return f"Source[{relation.name} at {', '.join(sites)}{left_out}]"


def _join(query: LogicalQuery, join: Join) -> str:
    where = " at the same site" if join.same_site else ""
    kind = "LEFT" if join.left else "INNER"
    if join.window is not None:
        window = window_words(join.window)
        return f"WindowJoin[{kind} {join.member.alias} in each window of {window} ON {_all(query, join.on)}]"
    return f"Join[{kind} {join.member.relation.name}{where} ON {_all(query, join.on)}]"


def _all(query: LogicalQuery, parts: Sequence[exp.Expr]) -> str:
    return " AND ".join(_words(query, part) for part in parts)


def _words(query: LogicalQuery, node: exp.Expr) -> str:
    """An expression with the columns' own names."""
    return _short(render(_named(node, query.scope.members if query.joins else ())))


def _named(node: exp.Expr, members: Sequence[Member]) -> exp.Expr:
    """A copy whose columns have the names of these relations in front, or none."""
    names = {member.view: member.alias for member in members}
    root = exp.Paren(this=node.copy())
    for column in root.find_all(exp.Column):
        alias = names.get(column.table)
        column.set("table", exp.to_identifier(alias) if alias else None)
    named: exp.Expr = root.this
    return named


def _short(text: str) -> str:
    text = without_versions(text)
    return text if len(text) <= _WIDTH else text[:_WIDTH] + "..."
