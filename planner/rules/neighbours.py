"""Rows with functions of the rows before them: sources send the rows, and the MERGE has those of each key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from planner.bind.binder import Window
from planner.bind.over import LAG
from planner.bind.selects import StreamSelect
from planner.bind.windowparts import pane_start, window_part
from planner.graph.bins import bin_of
from planner.graph.expressions import ties, with_children
from planner.graph.operators import Alias, Filter, Named, Operator, Project
from planner.rules.rankedrows import note_columns
from planner.rules.split import column, with_layers
from planner.sql.dialect import exp
from planner.sql.refusals import function_name
from planner.values.names import BIN_COLUMN, NEW_COLUMN, WINDOW_START


@dataclass(frozen=True, slots=True)
class RowsInOrder:
    """Both halves of such a query; columns that are needed of its rows have names."""

    query: StreamSelect
    window: Window
    names: Mapping[exp.Expr, str]
    """It names the partition, and the columns that the select list reads, but for the event time."""

    @property
    def read(self) -> tuple[exp.Expr, ...]:
        """Return the bound expressions that sources compute of each row."""
        return (self.window.node, *self.names)

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the columns of the partition."""
        assert self.query.neighbours is not None
        return tuple(self.names[part] for part in self.query.neighbours.partition)

    def at_source(self, rows: Operator, change: Callable[[exp.Expr], exp.Expr], *, sent: bool) -> Operator:
        """Return the rows with their event times; those that are `sent` have bins. `change` is from the query to
        them."""
        items = [Named(WINDOW_START, change(pane_start(self.window)))]
        items += [Named(name, change(node)) for node, name in self.names.items()]
        rows = Project(rows, tuple(items))
        if not (sent and self.keys):
            return rows
        made = [Named(item.name, column(item.name)) for item in items]
        return Project(Alias(rows, "rows"), (*made, Named(BIN_COLUMN, bin_of([column(key) for key in self.keys]))))

    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns that sources send."""
        return (WINDOW_START, *self.names.values())

    def combine(self, rows: Operator) -> Operator | None:
        """Rows are not made fewer."""
        return None

    def merge(self, rows: Operator, joined: Mapping[str, Operator]) -> Operator:
        """Return the results, of the rows that come out and those before them."""
        made = [Named(f"_o{number}", self._named(o.expression)) for number, o in enumerate(self.query.outputs)]
        all_rows = Alias(Project(rows, (*made, Named(NEW_COLUMN, column(NEW_COLUMN)))), "in_order")
        items = (Named(o.name, column(item.name)) for o, item in zip(self.query.outputs, made, strict=True))
        return with_layers(self.query, Project(Filter(all_rows, (column(NEW_COLUMN),)), tuple(items)), joined)

    def _named(self, node: exp.Expr) -> exp.Expr:
        part = window_part(node, self.window, column(WINDOW_START))
        if part is not None:
            return part
        if node in self.names:
            return column(self.names[node])
        found = with_children(node, self._named)
        return self._in_order(found) if isinstance(found, exp.Window) else found

    def _in_order(self, over: exp.Window) -> exp.Window:
        """Return the call with its rows in one order, also those of one instant: by all columns. A frame of time has
        all of them, whatever their order."""
        spec = over.args.get("spec")
        if spec is not None and spec.args["kind"].upper() != "ROWS":
            return over
        assert spec is not None or function_name(over.this) == LAG
        order = over.args["order"].expressions
        more = ties(order, map(column, self.names.values()))
        over.set("order", exp.Order(expressions=[*(ordered.copy() for ordered in order), *more]))
        return over


def rows_in_order(query: StreamSelect) -> RowsInOrder:
    """Return both halves."""
    assert query.window is not None
    assert query.neighbours is not None
    names: dict[exp.Expr, str] = {}
    for number, part in enumerate(query.neighbours.partition):
        if window_part(part, query.window, column(WINDOW_START)) is None:
            names.setdefault(part.copy(), f"_k{number}")
    for node in query.results:
        note_columns(node, query.window, names)
    return RowsInOrder(query, query.window, names)
