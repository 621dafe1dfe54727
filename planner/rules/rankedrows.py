"""The first k rows of each window: what sources send of an epoch, and what the MERGE makes of that.

A row that is among the first k of its window is among the first k of the rows of one site and epoch as well, by each of
the ranks. So sources rank too, and send no more than k rows, and rows of equal rank, of each partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from planner.bind import topk as bound
from planner.bind.binder import Window
from planner.bind.selects import StreamSelect
from planner.bind.windowparts import pane_start, start_of, window_part
from planner.functions.traits import RANKS
from planner.graph.bins import bin_of
from planner.graph.expressions import ordered_by, ties, with_children
from planner.graph.operators import Alias, Named, Operator, Project, TopK
from planner.rules.split import column, with_layers
from planner.rules.totals import cell_columns, cell_of, changed_ranks
from planner.sql.dialect import exp
from planner.sql.emit import is_rank
from planner.values.names import BIN_COLUMN, RANK_COLUMN, WINDOW_START

RANKED = "ranked"


@dataclass(frozen=True, slots=True)
class RankedRows:
    """Both halves of a query that ranks rows; columns that are needed of them have names."""

    query: StreamSelect
    window: Window
    top_k: bound.TopK
    names: Mapping[exp.Expr, str]
    """The columns that select list, order and partition read have these names, but for those of the window."""

    @property
    def read(self) -> tuple[exp.Expr, ...]:
        """Bound expressions that sources compute of each row."""
        return (self.window.node, *self.names)

    def at_source(self, rows: Operator, change: Callable[[exp.Expr], exp.Expr], *, sent: bool) -> Operator:
        """The first k of these rows; those that are `sent` have bins. `change` is from the query to these rows."""
        made = self.named_rows(rows, change, sent=sent)
        items = [Named(item.name, column(item.name)) for item in made.items]
        keys = [column(self.names[part]) for part in self.top_k.partition if part in self.names]
        if sent and keys:
            items.append(Named(BIN_COLUMN, bin_of(keys)))
        return Project(self._first(Alias(made, RANKED)), tuple(items))

    def named_rows(self, rows: Operator, change: Callable[[exp.Expr], exp.Expr], *, sent: bool = False) -> Project:
        """Return these rows with the columns' names, none of them left out; as `at_source`."""
        start = pane_start(self.window) if sent else start_of(self.window)
        made = [Named(WINDOW_START, change(start))]
        made += [Named(item.name, change(item.expression)) for item in cell_of(self.window, self.query.totals)]
        made += [Named(name, change(node)) for node, name in self.names.items()]
        return Project(rows, tuple(made))

    def columns(self) -> tuple[str, ...]:
        """Names of the columns that sources send."""
        return (WINDOW_START, *cell_columns(self.query.totals), *self.names.values())

    def combine(self, rows: Operator) -> Operator | None:
        """Rows are not made fewer before their window closes; those of cells are, once they are one cell."""
        if self.query.totals is None:
            return None
        return Project(self._first(rows), tuple(Named(name, column(name)) for name in self.columns()))

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the columns of the partition of rows that are added up; others are not grouped by keys."""
        return tuple(self.names[part] for part in self.top_k.partition) if self.query.totals is not None else ()

    def merge(self, rows: Operator, joined: Mapping[str, Operator]) -> Operator:
        """The results, of the rows of closed windows; `joined` has the rows of other queries by view."""
        items = tuple(Named(output.name, self._named(output.expression)) for output in self.query.outputs)
        if self.query.totals is not None:
            return changed_ranks(self.query.totals, self._first(rows), self.keys, items)
        return with_layers(self.query, Project(self._first(rows), items), joined)

    def _first(self, rows: Operator) -> TopK:
        """The first k, of rows with the columns' names; rows that are alike in all else are ordered by all columns."""
        top_k = self.top_k
        order = [ordered_by(ordered, self._named(ordered.this)) for ordered in top_k.order]
        if top_k.function == RANKS[0]:
            order += ties(order, map(column, self.names.values()))
        partition = (column(WINDOW_START), *map(self._named, top_k.partition))
        return TopK(rows, top_k.function, partition, tuple(order), top_k.k)

    def _named(self, node: exp.Expr) -> exp.Expr:
        part = window_part(node, self.window, column(WINDOW_START))
        if part is not None:
            return part
        if is_rank(node):
            return column(RANK_COLUMN)
        return column(self.names[node]) if node in self.names else with_children(node, self._named)


def ranked_rows(query: StreamSelect) -> RankedRows:
    """Both halves."""
    assert query.window is not None
    assert query.top_k is not None
    names: dict[exp.Expr, str] = {}
    if query.totals is not None:
        names = {part.copy(): f"_k{number}" for number, part in enumerate(query.top_k.partition)}
    for node in query.results:
        note_columns(node, query.window, names)
    return RankedRows(query, query.window, query.top_k, names)


def note_columns(node: exp.Expr, window: Window, names: dict[exp.Expr, str]) -> None:
    """Give names to the columns that an expression reads, but for those of the window and what has one."""
    if window_part(node, window, column(WINDOW_START)) is not None:
        return
    if node in names:
        return
    if isinstance(node, exp.Column):
        names.setdefault(node.copy(), f"_c{len(names)}")
        return
    for part in node.iter_expressions():
        note_columns(part, window, names)
