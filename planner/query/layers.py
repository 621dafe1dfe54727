"""A SELECT over the rows of an aggregating one.

All rows of a window come out of the MERGE stage together, so whatever needs no more than the rows of one window can be
computed there as well: projections, filters, a top k, and an aggregate that has the window among its keys.
"""

from __future__ import annotations

from dataclasses import replace

from planner.catalog import Column, Relation, RelationKind
from planner.functions import RANKS, WINDOW
from planner.query.binder import WINDOW_FIELDS, Binder
from planner.query.expressions import conjuncts, enclosed, first_aggregate
from planner.query.logical import Layer, LogicalQuery, bind_where, check_group_parts, group_keys, is_grouped, is_window
from planner.query.outputs import RANK_COLUMN, bind_outputs
from planner.query.scope import Member, Scope
from planner.query.topk import bind_top_k
from planner.sql.blocks import block_nodes
from planner.sql.dialect import exp, quoted, render
from planner.sql.refusals import function_name, refuse
from planner.sql.source import Source

MAX_LAYERS = 20
"""They are nested in one statement of the merge."""

GROUP_HINT = "Select the window in the sub-query, and group by it here as well: GROUP BY w, key, ..."


def window_columns(query: LogicalQuery) -> frozenset[str]:
    """Names of the result columns that are the window, its start or its end."""
    if not query.layers:
        return frozenset(o.name for o in query.outputs if is_window(o.expression, query.window))
    layer = query.layers[-1]
    return frozenset(o.name for o in layer.outputs if _without_field(o.expression) in layer.windows)


def with_layer(
    query: LogicalQuery, select: exp.Select, alias: str, source: Source, *, renamed: bool = False
) -> LogicalQuery:
    """The query with a SELECT over its rows; `renamed`: its columns get other names.

    Raises:
        UnsupportedSqlError, UnknownColumnError, InvalidExpressionError: with their place.
    """
    columns = tuple(Column(output.name, "") for output in query.results)
    member = Member(alias, f"r{len(query.layers) + 1}", Relation(alias, RelationKind.STREAM, columns, ()), derived=True)
    scope = Scope((member,), source, functions=query.scope.functions)
    for call in block_nodes(select):
        if function_name(call) == WINDOW:
            message = "another window over the rows of windows is not possible yet"
            raise refuse(call, source, message, GROUP_HINT)
    windows = tuple(member.bound(column.name) for column in columns if column.name in window_columns(query))
    if len(query.layers) == MAX_LAYERS:
        raise refuse(
            select, source, f"more than {MAX_LAYERS} queries over one another are not possible", "Write fewer."
        )
    layer = _bind(select, Binder(scope, window_columns=windows), columns, renamed=renamed)
    return replace(query, layers=(*query.layers, layer))


def _bind(select: exp.Select, binder: Binder, columns: tuple[Column, ...], *, renamed: bool) -> Layer:
    scope = binder.scope
    outputs = bind_outputs(select, binder, renamed=renamed)
    aliases = {output.name.lower(): output.expression for output in outputs}
    keys = group_keys(select, outputs, replace(binder, aliases=aliases))
    later = replace(binder, aliases=aliases, keys=keys if is_grouped(select) else None)
    having = select.args.get("having")
    windows = binder.windows or ()
    if is_grouped(select):
        windows = tuple(key for key in keys if _without_field(key) in windows)
    layer = Layer(
        source=scope.source,
        view=scope.stream.view,
        where=bind_where(select, Binder(scope)),
        outputs=outputs,
        grouped=is_grouped(select),
        keys=keys,
        having=conjuncts(later.bind(having.this)) if having is not None else (),
        top_k=bind_top_k(select, later),
        ties=keys if is_grouped(select) else tuple(scope.stream.bound(column.name) for column in columns),
        windows=windows,
    )
    _check(select, layer)
    return layer


def _check(select: exp.Select, layer: Layer) -> None:
    if not layer.grouped:
        for item in select.expressions:
            if (aggregate := first_aggregate(item)) is not None:
                raise refuse(
                    aggregate, layer.source, "an aggregate over all windows would never be complete", GROUP_HINT
                )
        if layer.having:
            raise refuse(select.args["having"], layer.source, "HAVING is possible only with GROUP BY", GROUP_HINT)
        return
    if not layer.windows:
        at = select.args.get("group") or select.expressions[0]
        raise refuse(at, layer.source, "groups over the rows of windows need the window as a key", GROUP_HINT)
    ordered = layer.top_k.parts if layer.top_k is not None else ()
    for node in (*(output.expression for output in layer.outputs), *layer.having, *ordered):
        check_group_parts(node, layer.keys, None, layer.source)


def _without_field(node: exp.Expr) -> exp.Expr:
    bare = node.unnest()
    return bare.this.unnest() if isinstance(bare, exp.Dot) and bare.name.lower() in WINDOW_FIELDS else bare


def around(layer: Layer, head: str, tail: str) -> tuple[str, str]:
    """The SQL before and behind the rows, with the layer around it."""
    items = [f"{render(output.expression)} AS {quoted(output.name)}" for output in layer.outputs]
    behind = f"{tail}) AS {layer.view}{_clause('WHERE', layer.where)}"
    # A key without a column would be taken for the number of a select item, and groups nothing.
    keys = [render(key) for key in layer.keys if key.find(exp.Column)]
    behind += f" GROUP BY {', '.join(keys)}" if layer.grouped else ""
    behind += _clause("HAVING", layer.having)
    if layer.top_k is None:
        return f"SELECT {', '.join(items)} FROM ({head}", behind
    names = ", ".join(quoted(output.name) for output in layer.outputs)
    items.append(f"{_rank(layer)} AS {RANK_COLUMN}")
    ranked = f"SELECT {names} FROM (SELECT {', '.join(items)} FROM ({head}"
    return ranked, f"{behind}) AS ranked WHERE {RANK_COLUMN} <= {layer.top_k.k}"


def _clause(word: str, parts: tuple[exp.Expr, ...]) -> str:
    return f" {word} {' AND '.join(render(enclosed(part)) for part in parts)}" if parts else ""


def _rank(layer: Layer) -> str:
    top_k = layer.top_k
    assert top_k is not None
    partition = [render(layer.windows[0]), *map(render, top_k.partition)]
    order = [render(ordered) for ordered in top_k.order]
    if top_k.function == RANKS[0]:
        order += [tie for part in layer.ties if (tie := render(part)) not in order]
    return f"{top_k.function}() OVER (PARTITION BY {', '.join(partition)} ORDER BY {', '.join(order)})"
