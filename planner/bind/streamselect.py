"""A SELECT over rows of streams, bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.bind.binder import Binder, Window, any_event_time_of, event_time_of, window_of
from planner.bind.calendar import calendar_window
from planner.bind.clauses import (
    WINDOW_HINT,
    bind_where,
    bound_key,
    check_group_parts,
    group_keys,
    is_grouped,
    is_window,
)
from planner.bind.dedup import chain_window, deduplicated, first_of_chains
from planner.bind.groupingsets import check_grouping_calls, grouping_sets
from planner.bind.joins import bind_joins
from planner.bind.outputs import bind_outputs
from planner.bind.over import has_over, over_rows
from planner.bind.paired import check_paired, instants
from planner.bind.ranks import check_ranks
from planner.bind.scope import Scope
from planner.bind.selects import Join, StreamSelect, always_there
from planner.bind.sessions import check_joined, check_sessions
from planner.bind.streamjoins import check_join_window
from planner.bind.topk import bind_top_k, partition_of
from planner.bind.totals import is_total, totalled
from planner.bind.windowkeys import part_of_window
from planner.functions.traits import WINDOWS
from planner.graph.expressions import conjuncts, first_aggregate
from planner.sql.blocks import block_nodes, from_items
from planner.sql.dialect import exp
from planner.sql.emit import emit_of
from planner.sql.refusals import DISTINCT_HINT, function_name, refuse


def bind_stream_select(
    tree: exp.Select, scope: Scope, *, renamed: bool = False, below: Window | None = None
) -> StreamSelect:
    """The meaning of one SELECT over the relations of its scope.

    Args:
        tree: the SELECT.
        scope: what its names can mean.
        renamed: its columns get other names.
        below: set when the first relation is a derived table that joins streams: the window of that join.

    Raises:
        UnknownColumnError, UnsupportedSqlError, InvalidExpressionError: with their place.
    """
    joins = bind_joins(tree, scope)
    scope = replace(
        scope,
        members=tuple(member for member in scope.members if not member.hidden),
        nullable=frozenset(m.view for m in scope.streams) - always_there(scope.stream.view, joins),
    )
    joined = below or _join_window(joins, scope)
    if below is not None:
        _check_window_below(tree, joins, below, scope)
    chains = chain_window(tree, scope, joined)
    window = chains or _group_window(tree, scope, joined, given=below is not None)
    check_sessions(tree, window, scope)
    outputs = bind_outputs(tree, Binder(scope, window), renamed=renamed)
    aliases = {output.name.lower(): output.expression for output in outputs}
    emits = emit_of(tree) is not None
    grouped_by = (is_grouped(tree) or is_total(tree, outputs)) and chains is None
    keys = group_keys(tree, outputs, Binder(scope, window, aliases)) if grouped_by else ()
    ranks = chains is not None or (tree.args.get("qualify") is not None and not grouped_by)
    if window is None and joined is None and not emits and (grouped_by or ranks):
        intervals = [join.interval for join in joins if join.interval is not None]
        parts = keys if grouped_by else partition_of(tree, Binder(scope, None, aliases))
        window = calendar_window(parts, instants(intervals, scope))
    grouped = tuple(key for key in keys if not is_window(key, window))
    later = Binder(scope, window, aliases, None if ranks else keys)
    having = tree.args.get("having")
    query = StreamSelect(
        scope=scope,
        joins=joins,
        where=bind_where(tree, Binder(scope)),
        outputs=outputs,
        window=window if grouped_by or ranks else None,
        ranks=ranks,
        join_window=joined,
        keys=grouped,
        having=conjuncts(later.bind(having.this)) if having is not None else (),
        top_k=bind_top_k(tree, later, windowed=chains is not None) or first_of_chains(chains, outputs),
        sets=grouping_sets(
            tree,
            keys,
            lambda item: bound_key(item, outputs, Binder(scope, window, aliases)),
            lambda key: is_window(key, window),
            scope.source,
        ),
    )
    if emits:
        query = totalled(query, tree, keys)
    else:
        _check_grouping(tree, query, [key for key in keys if is_window(key, window)], grouped=grouped_by)
    if has_over(tree):
        query = over_rows(query)
    check_paired(query, scope.source, at=_place_of(tree))
    if ranks and window is not None and window.is_session and not emits:
        return deduplicated(query, at=tree.args.get("qualify") or tree.expressions[0])
    return query


def _place_of(tree: exp.Select) -> exp.Expr:
    """Return the node that an error about the joins of streams points to."""
    call = next((node for node in block_nodes(tree) if function_name(node) in WINDOWS), None)
    return call if call is not None else from_items(tree)[-1]


def _join_window(joins: Sequence[Join], scope: Scope) -> Window | None:
    """The window of the first stream that the joined streams' windows equal; of one that each row has, if any is so."""
    windows = [join.window for join in joins if join.window is not None]
    if not windows:
        return None
    there = next((stream for stream in scope.streams if stream.view not in scope.nullable), None)
    node = windows[0].node.copy()
    node.expressions[0].replace(any_event_time_of(scope) if there is None else event_time_of(there))
    return replace(windows[0], node=node)


def _check_window_below(tree: exp.Select, joins: Sequence[Join], below: Window, scope: Scope) -> None:
    """Refuses other windows over rows of streams that were joined in a window."""
    call = next((node for node in block_nodes(tree) if function_name(node) in WINDOWS), None)
    if call is not None and below.slide != below.length:
        hint = "Select the window in the sub-query, and use its column here."
        raise refuse(call, scope.source, f"the rows of {scope.stream.alias} have windows already", hint)
    for join, item in zip(joins, tree.args.get("joins") or [], strict=True):
        if join.window is not None and not join.window.like(below):
            message = f"the streams of {scope.stream.alias} are joined in windows of another length"
            raise refuse(item.this, scope.source, message, "Join all streams in the same windows.")


def _group_window(tree: exp.Select, scope: Scope, joined: Window | None, *, given: bool) -> Window | None:
    """The window of the query, None: it has none. `given`: its rows are in windows already."""
    conditions = [join.args["on"] for join in tree.args.get("joins") or [] if join.args.get("on") is not None]
    within = {id(node) for condition in conditions for node in condition.walk()}
    calls = [node for node in block_nodes(tree) if function_name(node) in WINDOWS and id(node) not in within]
    windows = [(call, window_of(call, scope)) for call in calls]
    if joined is not None:
        check_joined(tree, scope)
        check_join_window(windows, joined, scope)
        ranks = tree.args.get("qualify") is not None
        return joined if (windows or given) and (ranks or is_grouped(tree)) else None
    for call, window in windows:
        if window.node != windows[0][1].node:
            raise refuse(call, scope.source, "a query has one window", "Submit one query for each window.")
    if windows and not is_grouped(tree) and tree.args.get("qualify") is None:
        message = f"{function_name(calls[0])}(...) is possible only with GROUP BY, or in the partition of a rank"
        raise refuse(calls[0], scope.source, message, WINDOW_HINT)
    return windows[0][1] if windows else None


def _check_grouping(tree: exp.Select, query: StreamSelect, window_keys: Sequence[exp.Expr], *, grouped: bool) -> None:
    source = query.scope.source
    if not grouped:
        _refuse_ungrouped(tree, query)
        return
    if not window_keys:
        if tree.args.get("group") is None:
            raise refuse(tree.expressions[0], source, "SELECT DISTINCT needs the window as a column", DISTINCT_HINT)
        raise refuse(tree.args["group"], source, "GROUP BY over a stream needs a window", WINDOW_HINT)
    _check_cumulative(window_keys, query)
    check_grouping_calls(query.results, query.keys, query.sets, source)
    for node in query.results:
        check_group_parts(node, query.keys, query.window, source)


def _refuse_ungrouped(tree: exp.Select, query: StreamSelect) -> None:
    source = query.scope.source
    for item in tree.expressions:
        aggregate = first_aggregate(item)
        if aggregate is not None:
            raise refuse(aggregate, source, "an aggregate over a stream needs a window", WINDOW_HINT)
    if tree.args.get("having") is not None:
        raise refuse(tree.args["having"], source, "HAVING is possible only with GROUP BY", WINDOW_HINT)
    if query.ranks:
        check_ranks(query, at=tree.args.get("qualify") or tree.expressions[0])


def _check_cumulative(window_keys: Sequence[exp.Expr], query: StreamSelect) -> None:
    """Several cumulative windows begin together, so the start alone does not say which one a group is of."""
    windows = {} if query.window is None else {query.window.node: query.window.part}
    if all(part_of_window(key, windows) is None for key in window_keys):
        message = "several cumulative windows begin together: their start alone is no key"
        raise refuse(window_keys[0], query.scope.source, message, "GROUP BY the window, or its end.")
