"""Refusals of what cannot be done with sessions: they close each at an instant of its own."""

from __future__ import annotations

from collections.abc import Sequence

from planner.bind.binder import Window
from planner.bind.clauses import is_grouped
from planner.bind.groupingsets import has_sets
from planner.bind.scope import Scope
from planner.bind.selects import StreamSelect
from planner.functions.traits import SESSION
from planner.graph.expressions import first_aggregate
from planner.sql.blocks import block_nodes, from_items
from planner.sql.dialect import exp
from planner.sql.refusals import function_name, refuse

HINT = "Sessions can be filtered by HAVING, and their rows projected and filtered by a query over them."


def check_joined(tree: exp.Select, scope: Scope) -> None:
    """Raises UnsupportedSqlError at a session in a SELECT that joins streams."""
    call = next((node for node in block_nodes(tree) if function_name(node) == SESSION), None)
    if call is not None:
        message = "sessions over joined streams are not possible yet"
        raise refuse(call, scope.source, message, "Group by window(...), or group one stream by its sessions.")


def check_sessions(tree: exp.Select, window: Window | None, scope: Scope) -> None:
    """Raises UnsupportedSqlError at what a SELECT that groups by sessions cannot have."""
    if window is None or not window.is_session:
        return
    if tree.args.get("qualify") is not None and is_grouped(tree):
        message = "QUALIFY over sessions is not possible: they do not close together"
        raise refuse(tree.args["qualify"], scope.source, message, HINT)
    if has_sets(tree):
        message = "grouping sets of sessions are not possible yet: fewer keys have other sessions"
        raise refuse(tree.args["group"], scope.source, message, "Submit one query for each set of keys.")


def check_over_sessions(select: exp.Select, scope: Scope, queries: Sequence[StreamSelect]) -> None:
    """Raises UnsupportedSqlError at what a SELECT over the rows of sessions cannot have."""
    if not any(query.window is not None and query.window.is_session for query in queries):
        return
    source = scope.source
    if len(queries) > 1:
        raise refuse(from_items(select)[1], source, "joins of sessions are not possible yet", HINT)
    aggregate = next((found for item in select.expressions if (found := first_aggregate(item))), None)
    clauses = (select.args.get(name) for name in ("group", "having", "qualify", "distinct"))
    at = next((clause for clause in clauses if clause is not None), None) or aggregate
    if at is not None or is_grouped(select):
        message = "rows of sessions are not grouped or ranked again yet: they do not close together"
        raise refuse(at or select, source, message, HINT)
