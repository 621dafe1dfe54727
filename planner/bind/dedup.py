"""One row of each chain of rows that follow one another: `row_number() = 1` within a session, by event time.

    QUALIFY row_number() OVER (PARTITION BY session_window(ts, '1 hour'), id ORDER BY ts) = 1        the first
    ... ORDER BY ts DESC) = 1                                                                         the last
    QUALIFY row_number() OVER (PARTITION BY id ORDER BY ts) = 1 WITHIN INTERVAL '1 hour'              the same
    SELECT DISTINCT id, page FROM s WITHIN INTERVAL '1 hour'                                          the first of each

The row is the least, or greatest, structure of what the rank is ordered by and all columns that are read: an aggregate
of the session. So sites send one row of each chain that an epoch has, and chains are put together as sessions are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.bind.binder import Window, event_time_of, lost_event_time
from planner.bind.intervals import length_of_interval
from planner.bind.outputs import Output
from planner.bind.scope import Scope
from planner.bind.selects import StreamSelect
from planner.bind.topk import TopK
from planner.bind.windowkeys import WINDOW_FIELDS
from planner.functions.traits import RANKS, SESSION, WINDOWS
from planner.graph.expressions import with_children
from planner.sql.blocks import block_nodes
from planner.sql.dialect import exp, name_node
from planner.sql.intervals import format_interval
from planner.sql.refusals import function_name, refuse
from planner.sql.within import WITHIN


def chain_window(tree: exp.Select, scope: Scope, joined: Window | None) -> Window | None:
    """The sessions of a SELECT that ends in WITHIN; None where it does not.

    Args:
        tree: the SELECT.
        scope: the relations.
        joined: the window in which streams are joined.

    Raises:
        UnsupportedSqlError: it says the window already, or does not say of which rows one is wanted.
    """
    interval = tree.args.get(WITHIN)
    if interval is None:
        return None
    source, stream = scope.source, scope.stream
    # The interval itself has no place.
    at = tree.args.get("qualify") or tree.expressions[0]
    wanted = [clause for clause in ("qualify", "distinct") if tree.args.get(clause) is not None]
    call = next((node for node in block_nodes(tree) if function_name(node) in WINDOWS), None)
    if len(wanted) != 1 or tree.args.get("group") is not None or call is not None or joined is not None:
        message = "WITHIN goes with SELECT DISTINCT, or with QUALIFY row_number() = 1, over rows without windows"
        raise refuse(at, source, message, WITHIN_HINT)
    if stream.relation.event_time is None or stream.view in scope.nullable:
        message = "WITHIN needs rows with an event time"
        raise refuse(at, source, message, lost_event_time(stream) or WITHIN_HINT)
    length = length_of_interval(interval)
    if not length:
        message = "the interval must be of fixed length, and longer than nothing"
        raise refuse(at, source, message, WITHIN_HINT)
    node = exp.Anonymous(this=SESSION, expressions=[event_time_of(stream), exp.Literal.string(format_interval(length))])
    return Window(node, length, length)


def first_of_chains(chains: Window | None, outputs: Sequence[Output]) -> TopK | None:
    """The rank that SELECT DISTINCT ... WITHIN stands for; None where `chains` is None."""
    if chains is None:
        return None
    keys = tuple(dict.fromkeys(output.expression.unnest() for output in outputs))
    first = exp.Ordered(this=chains.time.copy(), desc=False, nulls_first=True)
    return TopK(RANKS[0], keys, (first,), 1)


WITHIN_HINT = (
    "SELECT DISTINCT x, y FROM s WITHIN INTERVAL '1 hour', or QUALIFY row_number() OVER (PARTITION BY x ORDER BY ts) "
    "= 1 WITHIN INTERVAL '1 hour'."
)
HINT = "QUALIFY row_number() OVER (PARTITION BY session_window(ts, '1 hour'), key ORDER BY ts) = 1 is possible."


def deduplicated(query: StreamSelect, *, at: exp.Expr) -> StreamSelect:
    """A query that ranks rows within sessions as one that groups by sessions.

    Raises:
        UnsupportedSqlError: at `at`, when not one row of each is wanted, or not the first or last by event time.
    """
    source, window, top_k = query.scope.source, query.window, query.top_k
    assert window is not None
    assert top_k is not None
    if top_k.function != RANKS[0] or top_k.k != 1 or top_k.order[0].this.unnest() != window.time:
        message = "of the rows of a session only the first or the last by event time can be kept"
        raise refuse(at, source, message, HINT)
    descends = {bool(ordered.args.get("desc")) for ordered in top_k.order}
    usual = all(bool(o.args.get("nulls_first")) != bool(o.args.get("desc")) for o in top_k.order)
    if len(descends) > 1 or not usual:
        message = "within a session, rows are ordered in one direction, with NULLs where Spark has them"
        raise refuse(at, source, message, HINT)
    last = descends.pop()
    if not last and any(_is_end(part, window) for output in query.outputs for part in output.expression.walk()):
        message = "the first row of a session comes out before its end is known"
        raise refuse(at, source, message, "Select the start, or keep the last row: ORDER BY ts DESC.")
    row = _Row(window, top_k, last=last)
    outputs = tuple(replace(output, expression=row.over(output.expression)) for output in query.outputs)
    made = row.structure()
    outputs = tuple(replace(output, expression=_filled(output.expression, made)) for output in outputs)
    return replace(query, outputs=outputs, keys=top_k.partition, top_k=None, ranks=False, at_start=not last)


def _is_end(node: exp.Expr, window: Window) -> bool:
    """Return whether an expression reads more of the session than its start."""
    if node.unnest() != window.node:
        return False
    parent = node.parent
    return not (isinstance(parent, exp.Dot) and parent.name.lower() == WINDOW_FIELDS[0])


_ROW = "row of a session"


class _Row:
    """The structure of the chosen row: what orders it, then the columns that are read."""

    def __init__(self, window: Window, top_k: TopK, *, last: bool) -> None:
        self._window, self._keys, self._last = window, top_k.partition, last
        self._fields: dict[exp.Expr, str] = {}
        for ordered in top_k.order:
            self._field(ordered.this.unnest())

    def over(self, node: exp.Expr) -> exp.Expr:
        """An expression of the row, with a placeholder in the place of the structure."""
        bare = node.unnest()
        if bare == self._window.node or (isinstance(bare, exp.Dot) and bare.this.unnest() == self._window.node):
            return node.copy()
        if bare in self._keys:
            # It is a key of the group, and need not be in the structure.
            return node.copy()
        if isinstance(bare, exp.Column):
            return exp.Dot(this=exp.Var(this=_ROW), expression=name_node(self._field(bare)))
        return with_children(node, self.over)

    def structure(self) -> exp.Expr:
        """The aggregate that is the structure."""
        parts: list[exp.Expr] = []
        for value, name in self._fields.items():
            parts += [exp.Literal.string(name), value.copy()]
        whole = exp.Anonymous(this="named_struct", expressions=parts)
        return exp.Anonymous(this="max" if self._last else "min", expressions=[whole])

    def _field(self, value: exp.Expr) -> str:
        return self._fields.setdefault(value.copy(), f"f{len(self._fields)}")


def _filled(node: exp.Expr, structure: exp.Expr) -> exp.Expr:
    """An expression with the structure in the place of the placeholder."""
    if isinstance(node, exp.Var) and node.name == _ROW:
        return structure.copy()
    return with_children(node, lambda part: _filled(part, structure))
