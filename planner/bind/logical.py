"""The logical query: what a SELECT means, every name bound, nothing yet said about stages or sites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.bind.aggregates import check_aggregate
from planner.bind.binder import Binder, Window, event_time_of, window_of
from planner.bind.joins import Join, bind_joins
from planner.bind.outputs import Output, bind_outputs
from planner.bind.scope import Member, Scope
from planner.bind.streamjoins import check_join_window
from planner.bind.topk import TopK, bind_top_k
from planner.functions.traits import WINDOW
from planner.graph.expressions import conjuncts, first_aggregate, is_aggregate
from planner.relations.catalog import SITE_COLUMN
from planner.sql.blocks import block_nodes
from planner.sql.dialect import exp, offset_of, render, snippet
from planner.sql.refusals import DISTINCT_HINT, function_name, refuse
from planner.sql.source import Source
from planner.values.errors import InvalidExpressionError, UnknownColumnError

WINDOW_HINT = (
    "An aggregate over a stream needs a window: GROUP BY window(ts, '10 seconds'), key, ... "
    "gives one row per window and key."
)


@dataclass(frozen=True, slots=True)
class UnionInput:
    """One branch of a UNION ALL below an aggregate."""

    query: LogicalQuery
    """The aggregating query as it is over this branch alone."""
    change: Callable[[exp.Expr], exp.Expr]
    """From an expression of the query over the union to what it is in this branch."""


@dataclass(frozen=True, slots=True)
class WindowRows:
    """The rows of another aggregating query, joined to those of a layer: rows of a window with those of the same."""

    member: Member
    query: LogicalQuery
    left: bool
    on: tuple[exp.Expr, ...]
    """Conjuncts, also the one that says that windows are equal."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A SELECT over the rows of an aggregating one; the MERGE stage computes it when a window closes."""

    scope: Scope
    """The rows, then those that are joined to them."""
    joins: tuple[WindowRows, ...]
    where: tuple[exp.Expr, ...]
    outputs: tuple[Output, ...]
    grouped: bool
    keys: tuple[exp.Expr, ...]
    having: tuple[exp.Expr, ...]
    top_k: TopK | None
    ties: tuple[exp.Expr, ...]
    """What orders rows of equal rank, so that equal input gives equal output."""
    windows: Mapping[exp.Expr, str]
    """What of the rows below is the window: its start or end by the field's name, the whole by an empty one."""
    rollup: Rollup | None = None
    """Set when it groups the rows by longer windows than theirs."""

    @property
    def view(self) -> str:
        """Name that its expressions call the rows by."""
        return self.scope.stream.view


@dataclass(frozen=True, slots=True)
class Rollup:
    """Longer windows over the rows of windows."""

    window: Window
    """Its node is the call, over a column of the rows below."""
    start: exp.Expr
    """The start of the row's own window: that column, or its field."""


@dataclass(frozen=True, slots=True)
class LogicalQuery:
    """A query over one stream, or several that are joined inside a window, and any number of tables.

    Derived tables are merged into it.
    """

    scope: Scope
    joins: tuple[Join, ...]
    where: tuple[exp.Expr, ...]
    """Conjuncts."""
    outputs: tuple[Output, ...]
    window: Window | None
    """None: the query does not aggregate."""
    join_window: Window | None
    """The window of the first stream in which other streams are joined to it; None: there is one stream."""
    keys: tuple[exp.Expr, ...]
    """Group keys besides the window."""
    having: tuple[exp.Expr, ...]
    top_k: TopK | None
    inputs: tuple[UnionInput, ...] = ()
    """Set when it aggregates over a UNION ALL: the stream of the scope is then no relation, but the union."""
    layers: tuple[Layer, ...] = ()
    """What is computed of its rows, innermost first."""
    inner: Window | None = None
    """Set when a layer has longer windows: those of the query itself. Their start is then the first key, and `window`
    the longest of a layer, in which rows wait."""

    @property
    def results(self) -> tuple[Output, ...]:
        """The columns as whoever reads the query sees them."""
        return self.layers[-1].outputs if self.layers else self.outputs


def bind_block(tree: exp.Select, scope: Scope, *, renamed: bool = False, below: Window | None = None) -> LogicalQuery:
    """The meaning of one SELECT over the relations of its scope.

    Args:
        tree: the SELECT.
        scope: what its names can mean.
        renamed: its columns get other names.
        below: the window in which streams are joined that its first relation, a derived table, is made of.

    Raises:
        UnknownColumnError, UnsupportedSqlError, InvalidExpressionError: with their place.
    """
    joins = bind_joins(tree, scope)
    joined = below or _join_window(joins, scope)
    if below is not None:
        _check_window_below(tree, joins, below, scope)
    window = _group_window(tree, scope, joined, given=below is not None)
    outputs = bind_outputs(tree, Binder(scope, window), renamed=renamed)
    aliases = {output.name.lower(): output.expression for output in outputs}
    keys = group_keys(tree, outputs, Binder(scope, window, aliases))
    grouped = tuple(key for key in keys if not is_window(key, window))
    later = Binder(scope, window, aliases, keys)
    having = tree.args.get("having")
    query = LogicalQuery(
        scope=scope,
        joins=joins,
        where=bind_where(tree, Binder(scope)),
        outputs=outputs,
        window=window if is_grouped(tree) else None,
        join_window=joined,
        keys=grouped,
        having=conjuncts(later.bind(having.this)) if having is not None else (),
        top_k=bind_top_k(tree, later),
    )
    _check_grouping(tree, query, len(grouped) < len(keys))
    return query


def site_named(tree: exp.Select, scope: Scope) -> frozenset[str]:
    """Relations whose `site` is named; Spark could not tell a bare `site` from that of a table named beside it."""
    mentions = [c for c in block_nodes(tree) if isinstance(c, exp.Column) and c.name.lower() == SITE_COLUMN]
    named = {column.table.lower() for column in mentions}
    if SITE_COLUMN in scope.using:
        return _bases(scope, None)
    others = {member.alias.lower() for member in scope.members[1:]}
    if "" in named and (named & others or len(scope.streams) > 1):
        bare = next(column for column in mentions if not column.table)
        raise UnknownColumnError(
            "site is ambiguous: " + _other_sites(scope),
            position=scope.source.position(offset_of(bare) or 0),
            found=bare.name,
            hint=f"For the stream's, write {scope.stream.alias}.site.",
        )
    if "" in named:
        named.add(scope.stream.alias.lower())
    return _bases(scope, named)


def _bases(scope: Scope, aliases: set[str] | None) -> frozenset[str]:
    return frozenset(
        m.relation.name for m in scope.members if not m.derived and (aliases is None or m.alias.lower() in aliases)
    )


def _other_sites(scope: Scope) -> str:
    return "the query joins streams" if len(scope.streams) > 1 else "the query names the site of a table too"


def _join_window(joins: Sequence[Join], scope: Scope) -> Window | None:
    """The window of the first stream that the joined streams' windows equal."""
    windows = [join.window for join in joins if join.window is not None]
    if not windows:
        return None
    node = windows[0].node.copy()
    node.expressions[0].replace(event_time_of(scope.stream))
    return replace(windows[0], node=node)


def _check_window_below(tree: exp.Select, joins: Sequence[Join], below: Window, scope: Scope) -> None:
    """Rows of streams that were joined in a window have that window alone."""
    call = next((node for node in block_nodes(tree) if function_name(node) == WINDOW), None)
    if call is not None and below.slide != below.length:
        hint = "Select the window in the sub-query, and use its column here."
        raise refuse(call, scope.source, f"the rows of {scope.stream.alias} have windows already", hint)
    for join, item in zip(joins, tree.args.get("joins") or [], strict=True):
        if join.window is not None and not join.window.like(below):
            message = f"the streams of {scope.stream.alias} are joined in windows of another length"
            raise refuse(item.this, scope.source, message, "Join all streams in the same windows.")


def _group_window(tree: exp.Select, scope: Scope, joined: Window | None, *, given: bool) -> Window | None:
    """The one window of the query, wherever it is written but in ON; `given`: rows have it without its being written"""
    conditions = [join.args["on"] for join in tree.args.get("joins") or [] if join.args.get("on") is not None]
    within = {id(node) for condition in conditions for node in condition.walk()}
    calls = [node for node in block_nodes(tree) if function_name(node) == WINDOW and id(node) not in within]
    windows = [(call, window_of(call, scope)) for call in calls]
    if joined is not None:
        check_join_window(windows, joined, scope)
        return joined if (windows or given) and is_grouped(tree) else None
    for call, window in windows:
        if window.node != windows[0][1].node:
            raise refuse(call, scope.source, "a query has one window", "Submit one query for each window.")
    if windows and not is_grouped(tree):
        raise refuse(calls[0], scope.source, "window(...) is possible only with GROUP BY", WINDOW_HINT)
    return windows[0][1] if windows else None


def is_window(key: exp.Expr, window: Window | None) -> bool:
    """Whether a key is the window itself or one of its ends, which says the same."""
    bare = key.unnest()
    if isinstance(bare, exp.Dot):
        bare = bare.this.unnest()
    return window is not None and bare == window.node


def is_grouped(tree: exp.Select) -> bool:
    return tree.args.get("group") is not None or tree.args.get("distinct") is not None


def group_keys(tree: exp.Select, outputs: tuple[Output, ...], binder: Binder) -> tuple[exp.Expr, ...]:
    """The keys of GROUP BY; SELECT DISTINCT groups by all its columns."""
    if tree.args.get("distinct") is None:
        group = tree.args.get("group")
        return _listed_keys(group.expressions, outputs, binder) if group is not None else ()
    for output in outputs:
        if (aggregate := first_aggregate(output.expression)) is not None:
            raise refuse(aggregate, binder.scope.source, "an aggregate needs GROUP BY beside a window", WINDOW_HINT)
    return tuple(dict.fromkeys(output.expression.unnest() for output in outputs))


def _listed_keys(items: Iterable[exp.Expr], outputs: tuple[Output, ...], binder: Binder) -> tuple[exp.Expr, ...]:
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


def bind_where(tree: exp.Select, binder: Binder) -> tuple[exp.Expr, ...]:
    where = tree.args.get("where")
    if where is None:
        return ()
    aggregate = first_aggregate(where)
    if aggregate is not None:
        raise refuse(aggregate, binder.scope.source, "an aggregate is not possible in WHERE", "Use HAVING.")
    return conjuncts(binder.bind(where.this))


def _check_grouping(tree: exp.Select, query: LogicalQuery, window_is_key: bool) -> None:
    source = query.scope.source
    if not is_grouped(tree):
        _refuse_ungrouped(tree, query)
        return
    if not window_is_key:
        if tree.args.get("group") is None:
            raise refuse(tree.expressions[0], source, "SELECT DISTINCT needs the window as a column", DISTINCT_HINT)
        raise refuse(tree.args["group"], source, "GROUP BY over a stream needs a window", WINDOW_HINT)
    ordered = query.top_k.parts if query.top_k is not None else ()
    for node in (*(output.expression for output in query.outputs), *query.having, *ordered):
        check_group_parts(node, query.keys, query.window, source)


def _refuse_ungrouped(tree: exp.Select, query: LogicalQuery) -> None:
    source = query.scope.source
    for item in tree.expressions:
        aggregate = first_aggregate(item)
        if aggregate is not None:
            raise refuse(aggregate, source, "an aggregate over a stream needs a window", WINDOW_HINT)
    for clause in ("having", "qualify"):
        if tree.args.get(clause) is not None:
            raise refuse(tree.args[clause], source, f"{clause.upper()} is possible only with GROUP BY", WINDOW_HINT)


def check_group_parts(node: exp.Expr, keys: Sequence[exp.Expr], window: Window | None, source: Source) -> None:
    """Aggregates must be possible, and every column outside of them part of a key."""
    for aggregate in (part for part in node.walk() if is_aggregate(part)):
        check_aggregate(aggregate, source)
    stack = [node]
    while stack:
        part = stack.pop()
        bare = part.unnest()
        if is_window(bare, window) or bare in keys or is_aggregate(part) or _is_filtered(part):
            continue
        if isinstance(part, exp.Column):
            raise InvalidExpressionError(
                f"{part.name} is neither a group key nor in an aggregate",
                position=source.position(offset_of(part) or 0),
                found=snippet(part, source.text),
                hint=f"Add it to GROUP BY, or aggregate it, as in max({render(part.this)}).",
            )
        stack.extend(part.iter_expressions())


def _is_filtered(node: exp.Expr) -> bool:
    return isinstance(node, exp.Filter) and is_aggregate(node.this)
