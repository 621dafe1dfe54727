"""EMIT EVERY: groups, or ranks, over all rows of a key so far, of which each cell of time tells what it has changed.

    SELECT user_id, count(*) AS n FROM clicks GROUP BY user_id HAVING count(*) > 3 EMIT EVERY INTERVAL '10 seconds'
    SELECT * FROM bid QUALIFY row_number() OVER (PARTITION BY auction ORDER BY price DESC) = 1 EMIT EVERY ...

Cells are windows of that length. Sources send what they would send of such windows; the merge adds it up by key. A
window that the query itself groups by, and a key that is the same for all rows of a day, are keys like any other; they
say besides when no more rows of a key can come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner.bind.binder import Window
from planner.bind.calendar import calendar_window
from planner.bind.clauses import check_group_parts, is_window
from planner.bind.outputs import Output
from planner.bind.paired import instants
from planner.bind.selects import StreamSelect, Totals
from planner.bind.windowparts import end_of, start_within, with_window
from planner.functions.aggregates import GROWING
from planner.functions.traits import RANKS, WINDOW
from planner.graph.aggregates import call_of, split_call
from planner.graph.expressions import first_aggregate, is_aggregate, whole_call
from planner.sql.dialect import exp
from planner.sql.emit import RANK_HINT, Emit, emit_of, is_rank
from planner.sql.intervals import format_interval
from planner.sql.refusals import refuse
from planner.values.errors import InvalidDefinitionError
from planner.values.names import CHANGED_AT, OPERATION

WINDOW_HINT = "GROUP BY window(ts, '1 hour'), key ... EMIT EVERY INTERVAL '1 minute' is possible."


def is_total(tree: exp.Select, outputs: Sequence[Output]) -> bool:
    """Return whether a SELECT with EMIT EVERY aggregates all rows, without keys."""
    aggregates = any(first_aggregate(output.expression) is not None for output in outputs)
    return aggregates and emit_of(tree) is not None and tree.args.get("group") is None


def totalled(query: StreamSelect, tree: exp.Select, keys: Sequence[exp.Expr]) -> StreamSelect:
    """Return a query that ends in EMIT EVERY as one over cells of time, whose groups are added up.

    Args:
        query: it as it would be without the clause; its window, if any, is one that the text says.
        tree: the SELECT.
        keys: what it groups by, with the window.

    Raises:
        UnsupportedSqlError, InvalidDefinitionError: with the place.
    """
    return _Totalled(query, tree).over_cells(keys)


@dataclass(frozen=True, slots=True)
class _Totalled:
    query: StreamSelect
    tree: exp.Select

    @property
    def _emit(self) -> Emit:
        found = emit_of(self.tree)
        assert found is not None
        return found

    def over_cells(self, keys: Sequence[exp.Expr]) -> StreamSelect:
        query, emit, source = self.query, self._emit, self.query.scope.source
        self._check()
        window = query.window
        if query.top_k is not None:
            keys = (*([window.node] if window is not None else []), *query.top_k.partition)
        times = instants(query.intervals, query.scope)
        closes = window or calendar_window(keys, times)
        time = closes.time if closes is not None else next(iter(times), None)
        if time is None:
            raise emit.refused(source, "EMIT EVERY needs rows with an event time")
        self._check_grid(closes)
        self._check_values(closes)
        upsert_by = self._names(keys, window)
        start = start_within(time, closes.length, closes.offset) if window is not None and closes is not None else None
        own = tuple(dict.fromkeys(self._of_start(key, window, start, bare=True) for key in keys))
        if closes is not None:
            # The end follows from keys: it makes no more groups.
            own = (*own, end_of(closes))
        length = format_interval(emit.every)
        cell = exp.Anonymous(this=WINDOW, expressions=[time.copy(), exp.Literal.string(length)])
        top_k = query.top_k
        return replace(
            query,
            window=Window(cell, emit.every, emit.every),
            keys=() if query.ranks else own,
            outputs=tuple(replace(o, expression=self._of_start(o.expression, window, start)) for o in query.outputs),
            having=tuple(self._of_start(part, window, start) for part in query.having),
            top_k=None if top_k is None else replace(top_k, partition=own),
            totals=Totals(emit.every, emit.ttl, upsert_by, ends=closes is not None),
        )

    def _of_start(
        self, node: exp.Expr, window: Window | None, start: exp.Expr | None, *, bare: bool = False
    ) -> exp.Expr:
        """Return the expression with the window made of its start; as a `bare` key, the window is its start alone."""
        if window is None or start is None:
            return node
        return start.copy() if bare and is_window(node, window) else with_window(node, window, start)

    def _check(self) -> None:
        query, emit, source = self.query, self._emit, self.query.scope.source
        if query.join_window is not None:
            message = "EMIT EVERY over streams that are joined in windows is not possible yet"
            raise emit.refused(source, message, "Join them within an interval of time.")
        if query.sets is not None:
            message = "EMIT EVERY with grouping sets is not possible yet"
            raise emit.refused(source, message, "Submit a query for each set.")
        window, top_k = query.window, query.top_k
        if window is not None and (window.is_session or window.overlaps):
            message = "EMIT EVERY goes with windows that follow one another: rows of others change the keys of groups"
            raise emit.refused(source, message, WINDOW_HINT)
        if top_k is None and not (query.keys or query.window or is_total(self.tree, query.outputs)):
            message = "EMIT EVERY goes with GROUP BY, or with QUALIFY row_number()"
            raise emit.refused(source, message)
        for node in query.results if top_k is None else ():
            check_group_parts(node, query.keys, window, source)
        if top_k is not None and not query.ranks:
            message = "a rank over groups that change is not possible yet"
            raise refuse(self.tree.args["qualify"], source, message, "Rank the table of the results where it is read.")
        if top_k is not None and top_k.function != RANKS[0]:
            message = f"with EMIT EVERY, {top_k.function}() is not possible: several rows would have one rank"
            raise refuse(self.tree.args["qualify"], source, message, RANK_HINT)
        for output in query.outputs:
            if output.name.lower() in (OPERATION, CHANGED_AT):
                raise InvalidDefinitionError(
                    f"with EMIT EVERY, no result column can be called {output.name}",
                    position=source.position(emit.start),
                    found=output.name,
                    hint=f"The results have columns {OPERATION} and {CHANGED_AT} besides. Rename it with AS.",
                )

    def _check_grid(self, closes: Window | None) -> None:
        every = self._emit.every
        if closes is None or self.query.window is None:
            return
        if closes.length % every or closes.offset % every:
            message = f"windows of {closes.words} do not begin and end with cells of {format_interval(every)}"
            raise self._emit.refused(self.query.scope.source, message, "EMIT EVERY a length that divides them.")

    def _check_values(self, closes: Window | None) -> None:
        """Refuses aggregates that keep all values of a key, where nothing ends a key."""
        if closes is not None or self._emit.ttl is not None:
            return
        for node in (part for result in self.query.results for part in result.walk()):
            if is_aggregate(node) and any(p.merge in GROWING for p in split_call(call_of(whole_call(node))).parts):
                message = "it would keep all values of a key for ever"
                hint = "Add STATE TTL INTERVAL '7 days', group by window(ts, '1 day') too, or use an approximation."
                raise refuse(node, self.query.scope.source, message, hint)

    def _names(self, keys: Sequence[exp.Expr], window: Window | None) -> tuple[str, ...]:
        """Return the result columns that are the keys, of which each must be one; with ranks, also that of the rank."""
        query, source = self.query, self.query.scope.source
        found: dict[str, None] = {}
        for key in keys:
            name = next((o.name for o in query.outputs if _is_key(o.expression, key, window)), None)
            if name is None:
                message = "with EMIT EVERY, the select list must have all keys: they say which row a change is of"
                raise refuse(key, source, message, "Add the key to the select list.")
            found[name] = None
        if query.top_k is not None and query.top_k.k > 1:
            rank = next((o.name for o in query.outputs if is_rank(o.expression.unnest())), None)
            if rank is None:
                message = "the select list must have the rank: it says which of the rows of a key a change is of"
                raise refuse(self.tree.args["qualify"], source, message, RANK_HINT)
            found[rank] = None
        return tuple(found)


def _is_key(node: exp.Expr, key: exp.Expr, window: Window | None) -> bool:
    return node.unnest() == key or (is_window(key, window) and is_window(node, window))
