"""The logical plan: SELECTs with every name bound, nothing yet said about stages.

A SELECT is kept whole, as its clauses, because every rule needs several of them at once: which conditions a join may
take, which partials HAVING needs. `planner.rules` rewrites SELECTs and makes operators of them, stage by stage.

    StreamSelect   over one stream, or several that are joined inside a window, and any number of tables
    Layer          over the rows of windows that a StreamSelect gives
    TableSelect    over tables, or over another TableSelect or a UNION ALL of them
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from planner.bind.binder import Window
from planner.bind.groupingsets import GroupingSets
from planner.bind.intervals import Interval
from planner.bind.outputs import Output
from planner.bind.scope import Member, Scope
from planner.bind.streamjoins import SameWindow
from planner.bind.topk import TopK
from planner.graph.expressions import is_aggregate, is_mergeable, is_site
from planner.sql.dialect import exp
from planner.values.names import INPUT_VIEW


@dataclass(frozen=True, slots=True)
class Join:
    """A table, a query over tables, or a stream inside a window, joined to all that stands to its left."""

    member: Member
    left: bool
    """A LEFT join: rows without a match are kept."""
    on: tuple[exp.Expr, ...]
    """Conjuncts, but for the one that says that windows are equal."""
    same_window: SameWindow | None = None
    """Set when a stream is joined."""
    rows: TableRows | None = None
    """A query that needs rows of all splits, or groups of all sites; computed where it is joined. None: a relation."""
    where: tuple[exp.Expr, ...] = ()
    """Conjuncts that the joined rows are filtered by before they are joined; set by `push_conditions`."""
    only: str = ""
    """SEMI: rows with a match, once; ANTI: rows without one. The joined rows themselves have no columns then."""
    right: bool = False
    """A RIGHT join: rows of this side without a match are kept; with `left`, a FULL join."""
    interval: Interval | None = None
    """Set when a stream is joined within an interval of time, not in a window."""

    @property
    def keeps_unmatched(self) -> bool:
        """Return whether left rows without a match are kept."""
        return self.left or self.only == "ANTI"

    @property
    def window(self) -> Window | None:
        return self.same_window.window if self.same_window is not None else None

    @property
    def same_site(self) -> bool:
        """Whether rows can match only rows of their own site."""
        return any(_links_sites(conjunct, self.member.view) for conjunct in self.on)


def always_there(first: str, joins: Iterable[Join | WindowRows]) -> frozenset[str]:
    """Return the views of which there is a row in each joined row: no outer join fills their columns with NULL."""
    found = {first}
    for join in joins:
        if join.right:
            found.clear()
        if not join.keeps_unmatched:
            found.add(join.member.view)
    return frozenset(found)


def _links_sites(conjunct: exp.Expr, view: str) -> bool:
    bare = conjunct.unnest()
    if not isinstance(bare, exp.EQ):
        return False
    sides = (bare.left.unnest(), bare.right.unnest())
    return any(is_site(a, INPUT_VIEW) and is_site(b, view) for a, b in (sides, sides[::-1]))


@dataclass(frozen=True, slots=True)
class Select:
    """What all SELECTs have."""

    scope: Scope
    where: tuple[exp.Expr, ...]
    """Conjuncts."""
    outputs: tuple[Output, ...]
    keys: tuple[exp.Expr, ...]
    """Group keys; of a StreamSelect those besides the window."""
    having: tuple[exp.Expr, ...]
    """Conjuncts."""
    top_k: TopK | None

    @property
    def results(self) -> tuple[exp.Expr, ...]:
        """The expressions of the select list, of HAVING and of QUALIFY."""
        ranked = self.top_k.parts if self.top_k is not None else ()
        return (*(output.expression for output in self.outputs), *self.having, *ranked)


@dataclass(frozen=True, slots=True)
class Lateral:
    """LATERAL VIEW: the rows that a generator makes of each row."""

    member: Member
    call: exp.Expr
    outer: bool
    joins: int = 0
    """It stands after this many joins."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Groups, or ranks, are of all rows of a key so far; results are what each cell of time has changed."""

    every: timedelta
    """The length of cells."""
    ttl: timedelta | None
    """A key without rows for so long begins anew; None: never."""
    upsert_by: tuple[str, ...]
    """The result columns that say which row a change is of."""
    ends: bool
    """The last key, or part of the partition, is the instant from which on no more rows of a key come."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Says which rows before a row are needed, by event time, in its partition."""

    partition: tuple[exp.Expr, ...]
    rows: int
    """So many rows."""
    within: timedelta | None
    """Those of so long before; None: rows alone are needed."""


@dataclass(frozen=True, slots=True)
class Below:
    """The rows of windows of another query, read as those of a stream."""

    query: StreamSelect
    behind: timedelta
    """The event times of rows may be so much before the watermark."""


@dataclass(frozen=True, slots=True)
class StreamSelect(Select):
    """A SELECT over rows of streams; derived tables that it reads are merged into it."""

    joins: tuple[Join, ...]
    window: Window | None = None
    """By which rows are grouped, or ranked; None: the query does neither."""
    join_window: Window | None = None
    """The window of the first stream in which other streams are joined to it; None: there is one stream."""
    inputs: tuple[UnionInput, ...] = ()
    """Set when it aggregates over a UNION ALL: the stream of the scope is then no relation, but the union."""
    layers: tuple[Layer, ...] = ()
    """What is computed of its rows, innermost first."""
    inner: Window | None = None
    """The query's own window, set when a layer has longer ones. Its start is then the first key, and `window` is the
    longest of the layers: rows wait until it ends."""
    sources: tuple[StreamSelect, ...] = ()
    """The rows of each stream that is joined, in the order of FROM; set by `spread_join`. Then `joins` and `where` are
    what is left for the MERGE."""
    sites: tuple[str, ...] = ()
    """Where the stream is read; set by `prune_sites`."""
    laterals: tuple[Lateral, ...] = ()
    at_start: bool = False
    """Sessions come out with their first row, not when they have ended."""
    ranks: bool = False
    """Rows themselves are ranked within the window, not groups of them."""
    before: tuple[exp.Expr, ...] = ()
    """Conjuncts that rows of the first stream are filtered by before streams are joined to it."""
    below: Below | None = None
    """Set when its rows are those of windows; the MERGE of these sends what a source would. The stream of the scope is
    then no relation."""
    neighbours: Neighbours | None = None
    """Set when the select list has functions of the rows before a row; `window` is then the instant of each row."""
    totals: Totals | None = None
    """Set when it ends in EMIT EVERY; `window` is then that of cells."""
    sets: GroupingSets | None = None
    """These are the sets of ROLLUP, CUBE and GROUPING SETS; None: each group is by all keys."""

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """Return the intervals in which streams are joined, in the order of the joins."""
        return tuple(join.interval for join in self.joins if join.interval is not None)

    @property
    def joins_streams(self) -> bool:
        """Return whether it joins streams, in a window or within intervals."""
        return self.join_window is not None or bool(self.intervals)

    @property
    def streams(self) -> tuple[Member, ...]:
        """The streams in the order of FROM, with those of SEMI and ANTI joins, which the scope does not have."""
        return (self.scope.stream, *(join.member for join in self.joins if join.member.is_stream))

    @property
    def columns(self) -> tuple[Output, ...]:
        """The columns of its rows, as a query over it sees them."""
        return self.layers[-1].outputs if self.layers else self.outputs


@dataclass(frozen=True, slots=True)
class UnionInput:
    """One branch of a UNION ALL below an aggregate."""

    query: StreamSelect
    """The aggregating query as it is over this branch alone."""
    change: Callable[[exp.Expr], exp.Expr]
    """From an expression of the query over the union to what it is in this branch."""


@dataclass(frozen=True, slots=True)
class Layer(Select):
    """A SELECT over the rows of an aggregating one; the MERGE stage computes it when a window closes.

    Its scope has the rows, then those that are joined to them.
    """

    joins: tuple[WindowRows, ...]
    grouped: bool
    ties: tuple[exp.Expr, ...]
    """What orders rows of equal rank, so that equal input gives equal output."""
    windows: Mapping[exp.Expr, str]
    """Expressions over the rows below that are the window (empty text) or its `start` or `end`."""
    rollup: Rollup | None = None
    """Set when it groups the rows by longer windows than theirs."""

    @property
    def view(self) -> str:
        """Name that its expressions call the rows by."""
        return self.scope.stream.view


@dataclass(frozen=True, slots=True)
class WindowRows:
    """The rows of another aggregating query, joined to those of a layer: rows of a window with those of the same."""

    member: Member
    query: StreamSelect
    left: bool
    on: tuple[exp.Expr, ...]
    """Conjuncts, also the one that says that windows are equal."""
    only: str = ""
    right: bool = False
    """These two as in `Join`."""

    @property
    def keeps_unmatched(self) -> bool:
        """Return whether left rows without a match are kept."""
        return self.left or self.only == "ANTI"


@dataclass(frozen=True, slots=True)
class Rollup:
    """Longer windows over the rows of windows."""

    window: Window
    """Its node is the call, over a column of the rows below."""
    start: exp.Expr
    """The start of the row's own window: that column, or its field."""


@dataclass(frozen=True, slots=True)
class TableSelect(Select):
    """A SELECT over tables."""

    joins: tuple[Join, ...]
    grouped: bool
    """It aggregates; without keys all rows are one group."""
    laterals: tuple[Lateral, ...] = ()
    order: tuple[exp.Ordered, ...] = ()
    limit: int | None = None
    offset: int = 0
    below: TableRows | None = None
    """What its first rows come from; None: a table."""
    sites: tuple[str, ...] = ()
    """Where that table is read; set by `prune_sites`."""

    @property
    def gathers(self) -> bool:
        """Whether it needs rows of all splits."""
        sorts = bool(self.order) or self.limit is not None or bool(self.offset)
        return self.grouped or sorts or self.top_k is not None or self.undivided

    @property
    def undivided(self) -> bool:
        """Whether nothing can be computed of the rows of one split: all rows are needed at once."""
        nodes = (part for node in self.read for part in node.walk())
        return any(isinstance(node, exp.Window) or (is_aggregate(node) and not is_mergeable(node)) for node in nodes)

    @property
    def in_reduce(self) -> bool:
        """Whether the REDUCE computes all of it, because it reads or joins rows that only the REDUCE has."""
        joins_queries = any(join.rows is not None for join in self.joins)
        return joins_queries or self.undivided or (self.below is not None and self.below.ends)

    @property
    def ends(self) -> bool:
        """Whether only the REDUCE has its rows."""
        return self.gathers or self.in_reduce

    @property
    def read(self) -> tuple[exp.Expr, ...]:
        """All bound expressions that read its rows, but for conditions on a table before it is joined."""
        return (
            *self.results,
            *self.keys,
            *(ordered.this for ordered in self.order),
            *self.where,
            *(conjunct for join in self.joins for conjunct in join.on),
            *(lateral.call for lateral in self.laterals),
        )

    def selects(self) -> Iterator[TableSelect]:
        """This SELECT, as a UNION ALL of one branch."""
        yield self


@dataclass(frozen=True, slots=True)
class UnionAll:
    """The rows of several SELECTs over tables, under the names that those of the first have."""

    branches: tuple[TableSelect, ...]

    @property
    def ends(self) -> bool:
        """Whether only the REDUCE has the rows of a branch."""
        return any(branch.ends for branch in self.branches)

    @property
    def outputs(self) -> tuple[Output, ...]:
        return self.branches[0].outputs

    def selects(self) -> Iterator[TableSelect]:
        """The branches."""
        yield from self.branches


TableRows = TableSelect | UnionAll
