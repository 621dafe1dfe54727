"""Splitting an aggregating query: what is computed per epoch at the sources, and what is left for the merge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from planner.bind import topk as bound
from planner.bind.binder import Window
from planner.bind.groupingsets import GroupingSets
from planner.bind.layers import over_rows
from planner.bind.selects import Select, StreamSelect, Totals
from planner.bind.windowparts import pane_start, start_of, window_part
from planner.functions.aggregates import MERGEABLE
from planner.functions.traits import RANKS, SESSION
from planner.graph.aggregates import call_of, split_call
from planner.graph.expressions import is_aggregate, ordered_by, ties, with_children
from planner.graph.operators import (
    Aggregate,
    Alias,
    CombinePartials,
    Filter,
    MergeAggregate,
    Merged,
    Named,
    Operator,
    Partial,
    PartialAggregate,
    Project,
    TopK,
)
from planner.rules.groupingsets import SET_COLUMN, expanded, grouping
from planner.rules.totals import cell_columns, cell_flags, cell_of, changed_groups
from planner.sql.dialect import exp
from planner.sql.refusals import GROUPING_FUNCTIONS, function_name
from planner.values.names import WINDOW_END, WINDOW_START

KEPT = "kept"
AT = "_at"
"""The column of a row's event time, if groups are sessions."""
GAP = "_gap"
"""The column of a row's gap, where it is an expression."""
MERGED = "merged"


@dataclass(slots=True)
class Splitter:
    """Gives names to the columns that aggregates read, to partials and to aggregates; each is computed once."""

    select: Select
    window: Window | None = None
    """By which rows are grouped besides the keys."""
    sets: GroupingSets | None = None
    """None: each group is by all keys."""
    columns: dict[exp.Expr, str] = field(default_factory=dict)
    partials: dict[exp.Expr, Partial] = field(default_factory=dict)
    """By the call that makes them."""
    aggregates: dict[exp.Expr, Merged] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the group keys besides the window's start."""
        return tuple(f"_k{index}" for index in range(len(self.select.keys)))

    def after_merge(self, node: exp.Expr) -> exp.Expr:
        """The expression over the merged columns."""
        bare = node.unnest()
        if (rebuilt := self._window_part(bare)) is not None:
            return rebuilt
        if self.sets is not None and function_name(bare) in GROUPING_FUNCTIONS:
            return grouping(self.sets.ids(bare, self.select.keys))
        if bare in self.select.keys:
            return column(f"_k{self.select.keys.index(bare)}")
        if is_aggregate(node) or (isinstance(node, exp.Filter) and is_aggregate(node.this)):
            return column(self._aggregate(node).name)
        return with_children(node, self.after_merge)

    def result(self, rows: Operator) -> Operator:
        """HAVING, top-k and the select list, over the rows of groups; notes which aggregates they need."""
        having, items = tuple(self.after_merge(part) for part in self.select.having), self.items()
        rows = Filter(rows, having) if having else rows
        if self.select.top_k is not None:
            rows = self._top_k(rows, self.select.top_k)
        return Project(rows, items)

    def items(self) -> tuple[Named, ...]:
        """Return the select list, over the merged columns."""
        return tuple(Named(output.name, self.after_merge(output.expression)) for output in self.select.outputs)

    def whole(self) -> tuple[Named, ...]:
        """The aggregates as they are, over rows that are all there."""
        return tuple(Named(found.name, self.over_columns(node)) for node, found in self.aggregates.items())

    def _top_k(self, rows: Operator, top_k: bound.TopK) -> TopK:
        """The rank; row_number gets all group keys as tie-breakers, so that equal input gives equal output."""
        window = (column(WINDOW_START),) if self.window is not None else ()
        order = [ordered_by(ordered, self.after_merge(ordered.this)) for ordered in top_k.order]
        if top_k.function == RANKS[0]:
            order += ties(order, map(column, (*self.keys, *([SET_COLUMN] if self.sets is not None else []))))
        partition = (*window, *(self.after_merge(part) for part in top_k.partition))
        return TopK(rows, top_k.function, partition, tuple(order), top_k.k)

    def _aggregate(self, node: exp.Expr) -> Merged:
        found = self.aggregates.get(node)
        if found is None:
            found = merged_of(f"_a{len(self.aggregates)}", self.over_columns(node), self.partials)
            self.aggregates[node.copy()] = found
        return found

    def over_columns(self, node: exp.Expr) -> exp.Expr:
        """An aggregate over the named columns of the kept rows."""
        if (rebuilt := self._window_part(node)) is not None:
            return rebuilt
        return self._read(node) if isinstance(node, exp.Column) else with_children(node, self.over_columns)

    def _window_part(self, node: exp.Expr) -> exp.Expr | None:
        """The window made of its start; None for anything else, and where there are no windows."""
        return window_part(node, self.window, column(WINDOW_START)) if self.window is not None else None

    def _read(self, read: exp.Column) -> exp.Expr:
        name = self.columns.setdefault(read.copy(), f"_c{len(self.columns)}")
        return column(name)


def merged_of(name: str, node: exp.Expr, partials: dict[exp.Expr, Partial]) -> Merged:
    """An aggregate over columns as what is made of partials; `partials`, by the call that makes them, gets new ones."""
    call = call_of(node)
    if call.name not in MERGEABLE:
        # A query over tables has it: Spark computes it of rows that are all there.
        return Merged(name, call.name, ())
    split = split_call(call)
    names: list[str] = []
    for part, made in zip(split.parts, split.calls, strict=True):
        of = tuple(names[place] for place in part.of)
        partial = partials.setdefault(made, Partial(f"_p{len(partials)}", part.merge, of))
        names.append(partial.name)
    return Merged(name, split.function, tuple(names), split.argument)


class Halves(Protocol):
    """A query in two halves: what sources send of an epoch, and what the merge makes of that."""

    @property
    def read(self) -> tuple[exp.Expr, ...]:
        """Bound expressions that sources compute of each row, the window first."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns of the keys that rows are grouped by, besides the window."""

    def at_source(self, rows: Operator, change: Callable[[exp.Expr], exp.Expr], *, sent: bool) -> Operator:
        """Return the operators that rows pass before they are merged."""

    def columns(self) -> tuple[str, ...]:
        """Names of the columns of that."""

    def combine(self, rows: Operator) -> Operator | None:
        """Fewer rows of the same columns; None: they cannot be made fewer."""

    def merge(self, partials: Operator, joined: Mapping[str, Operator]) -> Operator:
        """The results."""


@dataclass(frozen=True, slots=True)
class Split:
    """The two halves of an aggregating query."""

    query: StreamSelect
    splitter: Splitter
    read: tuple[exp.Expr, ...]
    """Bound expressions that the SOURCE stage computes of each row: the window, the keys, what is aggregated."""
    names: tuple[str, ...]
    """Their names, but for the window's."""

    @property
    def groups(self) -> tuple[str, ...]:
        """Columns of the groups: the start of the window and the keys."""
        session = self.query.window is not None and self.query.window.is_session
        more = (WINDOW_END,) if session else cell_columns(self.query.totals)
        return (WINDOW_START, *more, *self.splitter.keys)

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns of the keys, besides the window."""
        return self.splitter.keys

    @property
    def partials(self) -> tuple[Partial, ...]:
        """The columns of partials."""
        return tuple(self.splitter.partials.values())

    def at_source(self, rows: Operator, change: Callable[[exp.Expr], exp.Expr], *, sent: bool) -> PartialAggregate:
        """Partials of these rows.

        Args:
            rows: what the source has.
            change: what the expressions of the query are over these rows.
            sent: True: a SOURCE sends them. They are of panes, and have bins, by which the rows of an epoch are
                ordered. False: they are made where they are merged, of the rows of closed windows.
        """
        window, *others = self.read
        named = [Named(name, change(node)) for node, name in zip(others, self.names, strict=True)]
        if self.query.window is not None and self.query.window.is_session:
            return self._sessions(rows, change(window), named)
        assert self.query.window is not None
        start = pane_start(self.query.window) if sent else start_of(self.query.window)
        cell = (Named(item.name, change(item.expression)) for item in cell_of(self.query.window, self.query.totals))
        return PartialAggregate(
            Alias(Project(rows, (Named(WINDOW_START, change(start)), *cell, *named)), KEPT),
            self.groups,
            self.partials,
            tuple(self.splitter.partials),
            self.splitter.keys if sent else (),
        )

    def _sessions(self, rows: Operator, window: exp.Expr, named: Sequence[Named]) -> PartialAggregate:
        """Partials of the sessions that these rows have among themselves."""
        time, gap = window.expressions
        items = [Named(AT, time)]
        if not isinstance(gap, exp.Literal):
            items.append(Named(GAP, gap))
            gap = column(GAP)
        return PartialAggregate(
            Alias(Project(rows, (*items, *named)), KEPT),
            self.groups,
            self.partials,
            tuple(self.splitter.partials),
            self.splitter.keys,
            session=exp.Anonymous(this=SESSION, expressions=[column(AT), gap.copy()]),
        )

    def columns(self) -> tuple[str, ...]:
        """Names of the columns that partials of this query have."""
        return (*self.groups, *(partial.name for partial in self.partials))

    def combine(self, rows: Operator) -> CombinePartials:
        """Fewer partials of the same columns."""
        return CombinePartials(rows, self.groups, self.partials)

    def merge(self, partials: Operator, joined: Mapping[str, Operator]) -> Operator:
        """The results: of the partials of closed windows, and of the rows of other queries by view."""
        aggregates = tuple(self.splitter.aggregates.values())
        groups, sets = self.groups, self.splitter.sets
        if sets is not None:
            partials = expanded(partials, self.columns(), self.splitter.keys, sets)
            groups = (*groups, SET_COLUMN)
        if self.query.totals is not None:
            return self._changes(self.query.totals, partials)
        merged = MergeAggregate(partials, groups, self.partials, aggregates)
        return with_layers(self.query, self.splitter.result(Alias(merged, MERGED)), joined)

    def _changes(self, totals: Totals, partials: Operator) -> Operator:
        """Return the changes, of the rows of cells that come out."""
        splitter, keys = self.splitter, self.splitter.keys
        groups = (WINDOW_START, *cell_flags(totals), *keys)
        merged = MergeAggregate(partials, groups, self.partials, tuple(splitter.aggregates.values()))
        return changed_groups(
            totals,
            Alias(merged, MERGED),
            keys,
            splitter.items(),
            tuple(splitter.after_merge(part) for part in self.query.having),
        )


def split_aggregates(query: StreamSelect) -> Split:
    """Both halves."""
    assert query.window is not None
    splitter = Splitter(query, query.window, query.sets)
    note_aggregates(splitter)
    return Split(
        query,
        splitter,
        read=(query.window.node, *query.keys, *splitter.columns),
        names=(*splitter.keys, *splitter.columns.values()),
    )


def with_layers(query: StreamSelect, rows: Operator, joined: Mapping[str, Operator]) -> Operator:
    """The rows of an aggregating query, behind all its layers; `joined` is what layers join to them, by view."""
    for layer in query.layers:
        rows = over_rows(layer, rows, joined)
    return rows


def note_aggregates(splitter: Splitter) -> None:
    """Gives names to all aggregates of the SELECT."""
    for node in splitter.select.results:
        splitter.after_merge(node)


def group_columns(select: Select, splitter: Splitter, rows: Operator) -> Project:
    """Return the keys of a SELECT that groups, and the columns that its aggregates read."""
    items = [Named(name, key) for key, name in zip(select.keys, splitter.keys, strict=True)]
    items += [Named(name, node) for node, name in splitter.columns.items()]
    return Project(rows, tuple(items) or (Named("_one", exp.Literal.number(1)),))


def whole_groups(splitter: Splitter, rows: Operator, groups: Iterable[str]) -> Alias:
    """The groups of rows that are all there: Spark's own aggregates compute them, nothing is split."""
    named = tuple(Named(name, column(name)) for name in groups)
    keys = tuple(item.expression for item in named)
    return Alias(Aggregate(Alias(rows, KEPT), keys, (*named, *splitter.whole())), MERGED)


def column(name: str) -> exp.Expr:
    """A column of the one input."""
    return exp.Column(this=exp.Identifier(this=name, quoted=False))
