"""Splitting an aggregating query: what is computed per epoch at the sources, and what is left for the merge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from planner.functions import RANKS
from planner.merge import WINDOW_START, Merged, MergeRecipe, Partial
from planner.plan import BIN_COLUMN, BINS
from planner.query.binder import WINDOW_FIELDS
from planner.query.expressions import arguments_of, enclosed, is_aggregate, is_distinct, with_children
from planner.query.layers import around
from planner.query.logical import LogicalQuery
from planner.query.outputs import RANK_COLUMN
from planner.query.partials import Call, Piece, pieces_of
from planner.query.topk import TopK
from planner.query.windowparts import window_part
from planner.sql.dialect import exp, name_node, quoted, render
from planner.sql.refusals import function_name


@dataclass(slots=True)
class Splitter:
    """Names given so far: columns read by aggregates, partials and aggregates, each computed once."""

    query: LogicalQuery
    columns: dict[exp.Expr, str] = field(default_factory=dict)
    partials: dict[str, Partial] = field(default_factory=dict)
    aggregates: dict[exp.Expr, Merged] = field(default_factory=dict)

    def after_merge(self, node: exp.Expr) -> exp.Expr:
        """The expression over the merged columns."""
        bare = node.unnest()
        if (rebuilt := self._window_part(bare)) is not None:
            return rebuilt
        if bare in self.query.keys:
            return _column(f"_k{self.query.keys.index(bare)}")
        if is_aggregate(node) or (isinstance(node, exp.Filter) and is_aggregate(node.this)):
            return _column(self._aggregate(node).name)
        return with_children(node, self.after_merge)

    def _aggregate(self, node: exp.Expr) -> Merged:
        found = self.aggregates.get(node)
        if found is None:
            pieces = pieces_of(self._call(node))
            names: list[str] = []
            for piece in pieces.partials:
                names.append(self._partial(piece, names).name)
            found = Merged(f"_a{len(self.aggregates)}", tuple(names), pieces.function, pieces.argument)
            self.aggregates[node.copy()] = found
        return found

    def _call(self, node: exp.Expr) -> Call:
        read = self.over_columns(node)
        call = read.this if isinstance(read, exp.Filter) else read
        condition = render(read.expression.this) if isinstance(read, exp.Filter) else ""
        arguments = tuple(render(argument) for argument in arguments_of(call))
        return Call(function_name(call), arguments, condition, is_distinct(call))

    def over_columns(self, node: exp.Expr) -> exp.Expr:
        """An aggregate over the named columns of the kept rows."""
        if (rebuilt := self._window_part(node)) is not None:
            return rebuilt
        return self._read(node) if isinstance(node, exp.Column) else with_children(node, self.over_columns)

    def _window_part(self, node: exp.Expr) -> exp.Expr | None:
        """The window made of its start; None for anything else, and where there are no windows."""
        window = self.query.window
        return window_part(node, window, _column(WINDOW_START)) if window is not None else None

    def _partial(self, piece: Piece, before: list[str]) -> Partial:
        of = tuple(before[place] for place in piece.of)
        return self.partials.setdefault(piece.sql, Partial(f"_p{len(self.partials)}", piece.function, of))

    def _read(self, column: exp.Column) -> exp.Expr:
        name = self.columns.setdefault(column.copy(), f"_c{len(self.columns)}")
        return _column(name)


@dataclass(frozen=True, slots=True)
class Split:
    """The two halves of an aggregating query."""

    read: tuple[exp.Expr, ...]
    """Bound expressions that the SOURCE stage computes of each row: the window, the keys, what is aggregated."""
    names: tuple[str, ...]
    """Their names, but for the window's."""
    partials: str
    """SELECT list over them: the groups and their partials."""
    groups: str
    recipe: MergeRecipe

    def source_sql(self, rows: str, change: Callable[[exp.Expr], exp.Expr]) -> str:
        """The SQL of a SOURCE stage over these rows; `change` says what the expressions are there."""
        keys = self.recipe.keys
        binned = (
            f"{self.partials}, pmod(xxhash64({', '.join(keys)}), {BINS}) AS {BIN_COLUMN}" if keys else self.partials
        )
        return f"SELECT {binned} {self._grouped(rows, change)}"

    def inline_sql(self, rows: str, change: Callable[[exp.Expr], exp.Expr]) -> str:
        """The same in a MERGE, of rows that are only there."""
        return f"SELECT {self.partials} {self._grouped(rows, change)}"

    def _grouped(self, rows: str, change: Callable[[exp.Expr], exp.Expr]) -> str:
        window, *others = self.read
        start = exp.Dot(this=window.copy(), expression=name_node(WINDOW_FIELDS[0]))
        named = [f"{render(change(node))} AS {name}" for node, name in zip(others, self.names, strict=True)]
        inner = ", ".join([f"{render(change(start))} AS {WINDOW_START}", *named])
        return f"FROM (SELECT {inner} {rows}) AS kept GROUP BY {self.groups}"


def split_aggregates(query: LogicalQuery) -> Split:
    """Both halves."""
    splitter, head, tail = halved(query)
    keys = tuple(f"_k{index}" for index in range(len(query.keys)))
    recipe = MergeRecipe(
        keys=keys,
        partials=tuple(splitter.partials.values()),
        aggregates=tuple(splitter.aggregates.values()),
        head=head,
        tail=tail,
    )
    assert query.window is not None
    groups = (WINDOW_START, *keys)
    items = [*groups, *(f"{call} AS {partial.name}" for call, partial in splitter.partials.items())]
    return Split(
        read=(query.window.node, *query.keys, *splitter.columns),
        names=(*keys, *splitter.columns.values()),
        partials=", ".join(items),
        groups=", ".join(groups),
        recipe=recipe,
    )


def halved(query: LogicalQuery) -> tuple[Splitter, str, str]:
    """Names for all that is aggregated, and the SQL before and behind the aggregated rows."""
    splitter = Splitter(query)
    outputs = [(output.name, splitter.after_merge(output.expression)) for output in query.outputs]
    having = " AND ".join(render(enclosed(splitter.after_merge(part))) for part in query.having)
    head, tail = _outer(outputs, having, query.top_k, splitter)
    for layer in query.layers:
        head, tail = around(layer, head, tail)
    return splitter, head, tail


@dataclass(frozen=True, slots=True)
class Whole:
    """An aggregating query over rows that are all there at once: nothing is split, Spark's own aggregates do."""

    head: str
    """From SELECT to FROM."""
    tail: str
    """Behind the aggregated rows."""
    columns: Mapping[exp.Expr, str]
    """Bound columns that the aggregates read, and the names by which they do."""
    aggregates: tuple[str, ...]
    """SQL with names."""


def whole_aggregates(query: LogicalQuery) -> Whole:
    """The query's aggregates as they are."""
    return whole_of(*halved(query))


def whole_of(splitter: Splitter, head: str, tail: str) -> Whole:
    """What `halved` gave, for rows that are all there."""
    calls = tuple(
        f"{render(splitter.over_columns(node))} AS {found.name}" for node, found in splitter.aggregates.items()
    )
    return Whole(head, tail, splitter.columns, calls)


def _outer(outputs: list[tuple[str, exp.Expr]], having: str, top_k: TopK | None, splitter: Splitter) -> tuple[str, str]:
    items = ", ".join(f"{render(expression)} AS {quoted(name)}" for name, expression in outputs)
    where = f" WHERE {having}" if having else ""
    if top_k is None:
        return f"SELECT {items}", where
    names = ", ".join(quoted(name) for name, _ in outputs)
    head = f"SELECT {names} FROM (SELECT {items}, {_rank(top_k, splitter)} AS {RANK_COLUMN}"
    return head, f"{where}) AS ranked WHERE {RANK_COLUMN} <= {top_k.k}"


def _rank(top_k: TopK, splitter: Splitter) -> str:
    """The rank; row_number gets all group keys as tie-breakers, so that equal input gives equal output."""
    window = (WINDOW_START,) if splitter.query.window is not None else ()
    partition = [*window, *(render(splitter.after_merge(part)) for part in top_k.partition)]
    order = [render(splitter.after_merge(ordered)) for ordered in top_k.order]
    if top_k.function == RANKS[0]:
        order += [key for index in range(len(splitter.query.keys)) if (key := f"_k{index}") not in order]
    parts = f"PARTITION BY {', '.join(partition)} " if partition else ""
    return f"{top_k.function}() OVER ({parts}ORDER BY {', '.join(order)})"


def _column(name: str) -> exp.Expr:
    return exp.Column(this=exp.Identifier(this=name, quoted=False))
