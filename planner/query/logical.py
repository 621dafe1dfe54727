"""The logical query: what a SELECT means, every name bound, nothing yet said about stages or sites."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planner.catalog import SITE_COLUMN, Catalog
from planner.errors import InvalidExpressionError, UnknownColumnError
from planner.functions import WINDOW
from planner.query.aggregates import check_aggregate
from planner.query.binder import Binder, Window, window_of
from planner.query.expressions import conjuncts, first_aggregate, is_aggregate
from planner.query.joins import Join, bind_joins
from planner.query.outputs import Output, bind_outputs
from planner.query.scope import Scope, build_scope
from planner.query.topk import TopK, bind_top_k
from planner.sql.dialect import exp, offset_of, render, snippet
from planner.sql.refusals import DISTINCT_HINT, function_name, refuse
from planner.sql.statements import SelectQuery

WINDOW_HINT = (
    "An aggregate over a stream needs a window: GROUP BY window(ts, '10 seconds'), key, ... "
    "gives one row per window and key."
)


@dataclass(frozen=True, slots=True)
class LogicalQuery:
    """A query over one stream and any number of tables."""

    scope: Scope
    joins: tuple[Join, ...]
    where: tuple[exp.Expr, ...]
    """Conjuncts."""
    outputs: tuple[Output, ...]
    window: Window | None
    """None: the query does not aggregate."""
    keys: tuple[exp.Expr, ...]
    """Group keys besides the window."""
    having: tuple[exp.Expr, ...]
    top_k: TopK | None
    site_named: frozenset[str]
    """Relations whose `site` the query names."""


def build_logical(select: SelectQuery, catalog: Catalog) -> LogicalQuery:
    """The meaning of a query.

    Raises:
        UnknownRelationError, UnknownColumnError, UnsupportedSqlError, InvalidExpressionError: with their place.
    """
    tree, source = select.tree, select.source
    scope = build_scope(tree, catalog, source)
    window = _group_window(tree, scope)
    outputs = bind_outputs(tree, Binder(scope, window))
    aliases = {output.name.lower(): output.expression for output in outputs}
    keys = _keys(tree, outputs, Binder(scope, window, aliases))
    grouped = tuple(key for key in keys if not _is_window(key, window))
    later = Binder(scope, window, aliases, keys)
    having = tree.args.get("having")
    query = LogicalQuery(
        scope=scope,
        joins=bind_joins(tree, scope),
        where=_bind_where(tree, Binder(scope)),
        outputs=outputs,
        window=window if _is_grouped(tree) else None,
        keys=grouped,
        having=conjuncts(later.bind(having.this)) if having is not None else (),
        top_k=bind_top_k(tree, later),
        site_named=_site_named(tree, scope),
    )
    _check_grouping(tree, query, len(grouped) < len(keys))
    return query


def _site_named(tree: exp.Select, scope: Scope) -> frozenset[str]:
    """Relations whose `site` is named; Spark could not tell a bare `site` from that of a table named beside it."""
    mentions = [c for c in tree.find_all(exp.Column, bfs=False) if c.name.lower() == SITE_COLUMN]
    named = {column.table.lower() for column in mentions}
    if SITE_COLUMN in scope.using:
        return frozenset(member.relation.name for member in scope.members)
    tables = {member.alias.lower() for member in scope.members[1:]}
    if "" in named and named & tables:
        bare = next(column for column in mentions if not column.table)
        raise UnknownColumnError(
            "site is ambiguous: the query names the site of a table too",
            position=scope.source.position(offset_of(bare) or 0),
            found=bare.name,
            hint=f"For the stream's, write {scope.stream.alias}.site.",
        )
    if "" in named:
        named.add(scope.stream.alias.lower())
    return frozenset(m.relation.name for m in scope.members if m.alias.lower() in named)


def _group_window(tree: exp.Select, scope: Scope) -> Window | None:
    """The one window of the query, wherever it is written."""
    calls = [node for node in tree.find_all(exp.Anonymous, bfs=False) if function_name(node) == WINDOW]
    windows = [(call, window_of(call, scope)) for call in calls]
    for call, window in windows:
        if window.node != windows[0][1].node:
            raise refuse(call, scope.source, "a query has one window", "Submit one query for each window.")
    if windows and not _is_grouped(tree):
        raise refuse(calls[0], scope.source, "window(...) is possible only with GROUP BY", WINDOW_HINT)
    return windows[0][1] if windows else None


def _is_window(key: exp.Expr, window: Window | None) -> bool:
    """Whether a key is the window itself or one of its ends, which says the same."""
    bare = key.unnest()
    if isinstance(bare, exp.Dot):
        bare = bare.this.unnest()
    return window is not None and bare == window.node


def _is_grouped(tree: exp.Select) -> bool:
    return tree.args.get("group") is not None or tree.args.get("distinct") is not None


def _keys(tree: exp.Select, outputs: tuple[Output, ...], binder: Binder) -> tuple[exp.Expr, ...]:
    """The keys of GROUP BY; SELECT DISTINCT groups by all its columns."""
    if tree.args.get("distinct") is None:
        group = tree.args.get("group")
        return _group_keys(group.expressions, outputs, binder) if group is not None else ()
    for output in outputs:
        if (aggregate := first_aggregate(output.expression)) is not None:
            raise refuse(aggregate, binder.scope.source, "an aggregate needs GROUP BY beside a window", WINDOW_HINT)
    return tuple(dict.fromkeys(output.expression.unnest() for output in outputs))


def _group_keys(items: Iterable[exp.Expr], outputs: tuple[Output, ...], binder: Binder) -> tuple[exp.Expr, ...]:
    keys: dict[exp.Expr, None] = {}
    for item in items:
        key = _ordinal(item, outputs, binder) if isinstance(item, exp.Literal) and not item.is_string else None
        key = (binder.bind(item) if key is None else key).unnest()
        if first_aggregate(key) is not None:
            raise refuse(item, binder.scope.source, "an aggregate cannot be a group key", "Group by columns.")
        keys[key] = None
    return tuple(keys)


def _ordinal(item: exp.Literal, outputs: tuple[Output, ...], binder: Binder) -> exp.Expr:
    number = int(item.name) if item.name.isdecimal() else 0
    if not 1 <= number <= len(outputs):
        raise refuse(
            item,
            binder.scope.source,
            f"there is no select item {item.name}",
            f"GROUP BY 1 means the first select item; there are {len(outputs)}.",
        )
    return outputs[number - 1].expression


def _bind_where(tree: exp.Select, binder: Binder) -> tuple[exp.Expr, ...]:
    where = tree.args.get("where")
    if where is None:
        return ()
    aggregate = first_aggregate(where)
    if aggregate is not None:
        raise refuse(aggregate, binder.scope.source, "an aggregate is not possible in WHERE", "Use HAVING.")
    return conjuncts(binder.bind(where.this))


def _check_grouping(tree: exp.Select, query: LogicalQuery, window_is_key: bool) -> None:
    source = query.scope.source
    if not _is_grouped(tree):
        _refuse_ungrouped(tree, query)
        return
    if not window_is_key:
        if tree.args.get("group") is None:
            raise refuse(tree.expressions[0], source, "SELECT DISTINCT needs the window as a column", DISTINCT_HINT)
        raise refuse(tree.args["group"], source, "GROUP BY over a stream needs a window", WINDOW_HINT)
    ordered = query.top_k.parts if query.top_k is not None else ()
    for node in (*(output.expression for output in query.outputs), *query.having, *ordered):
        for aggregate in (part for part in node.walk() if is_aggregate(part)):
            check_aggregate(aggregate, query.scope.source)
        _check_grouped(node, query)


def _refuse_ungrouped(tree: exp.Select, query: LogicalQuery) -> None:
    source = query.scope.source
    for item in tree.expressions:
        aggregate = first_aggregate(item)
        if aggregate is not None:
            raise refuse(aggregate, source, "an aggregate over a stream needs a window", WINDOW_HINT)
    for clause in ("having", "qualify"):
        if tree.args.get(clause) is not None:
            raise refuse(tree.args[clause], source, f"{clause.upper()} is possible only with GROUP BY", WINDOW_HINT)


def _check_grouped(node: exp.Expr, query: LogicalQuery) -> None:
    """Every column outside an aggregate must be part of a key."""
    stack = [node]
    while stack:
        part = stack.pop()
        bare = part.unnest()
        if _is_window(bare, query.window) or bare in query.keys or is_aggregate(part) or _is_filtered(part):
            continue
        if isinstance(part, exp.Column):
            raise InvalidExpressionError(
                f"{part.name} is neither a group key nor in an aggregate",
                position=query.scope.source.position(offset_of(part) or 0),
                found=snippet(part, query.scope.source.text),
                hint=f"Add it to GROUP BY, or aggregate it, as in max({render(part.this)}).",
            )
        stack.extend(part.iter_expressions())


def _is_filtered(node: exp.Expr) -> bool:
    return isinstance(node, exp.Filter) and is_aggregate(node.this)
