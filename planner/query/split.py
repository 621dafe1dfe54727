"""Splitting an aggregating query: what is computed per epoch at the sources, and what is left for the merge."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from planner.functions import RANKS
from planner.merge import WINDOW_START, Merged, MergeRecipe, Partial
from planner.plan import BIN_COLUMN, BINS
from planner.query.binder import Window
from planner.query.expressions import arguments_of, enclosed, is_aggregate, is_distinct, replace_columns
from planner.query.logical import LogicalQuery
from planner.query.outputs import RANK_COLUMN
from planner.query.partials import Call, Piece, pieces_of
from planner.query.topk import TopK
from planner.sql.dialect import exp, quoted, render
from planner.sql.refusals import function_name


@dataclass(slots=True)
class _Splitter:
    """Names given so far: columns read by aggregates, partials and aggregates, each computed once."""

    query: LogicalQuery
    columns: dict[exp.Expr, str] = field(default_factory=dict)
    partials: dict[str, Partial] = field(default_factory=dict)
    aggregates: dict[exp.Expr, Merged] = field(default_factory=dict)

    def after_merge(self, node: exp.Expr) -> exp.Expr:
        """The expression over the merged columns."""
        bare = node.unnest()
        window = self.query.window
        assert window is not None
        if bare == window.node:
            return _window_struct(window)
        if isinstance(bare, exp.Dot) and bare.this.unnest() == window.node:
            return _column(WINDOW_START) if bare.name == "start" else _window_end(window)
        if bare in self.query.keys:
            return _column(f"_k{self.query.keys.index(bare)}")
        if is_aggregate(node) or (isinstance(node, exp.Filter) and is_aggregate(node.this)):
            return _column(self._aggregate(node).name)
        return self._rebuilt(node)

    def _rebuilt(self, node: exp.Expr) -> exp.Expr:
        changed = node.copy()
        for name, value in node.args.items():
            if isinstance(value, exp.Expr):
                changed.set(name, self.after_merge(value))
            elif isinstance(value, list):
                changed.set(name, [self.after_merge(v) if isinstance(v, exp.Expr) else v for v in value])
        return changed

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
        read = replace_columns(node, self._read)
        call = read.this if isinstance(read, exp.Filter) else read
        condition = render(read.expression.this) if isinstance(read, exp.Filter) else ""
        arguments = tuple(render(argument) for argument in arguments_of(call))
        return Call(function_name(call), arguments, condition, is_distinct(call))

    def _partial(self, piece: Piece, before: list[str]) -> Partial:
        of = tuple(before[place] for place in piece.of)
        return self.partials.setdefault(piece.sql, Partial(f"_p{len(self.partials)}", piece.function, of))

    def _read(self, column: exp.Column) -> exp.Expr:
        name = self.columns.setdefault(column.copy(), f"_c{len(self.columns)}")
        return _column(name)


@dataclass(frozen=True, slots=True)
class Split:
    """The two halves of an aggregating query."""

    source_head: str
    """The SOURCE stage's SQL before its FROM and WHERE."""
    source_tail: str
    """And behind them."""
    read: tuple[exp.Expr, ...]
    """Bound expressions that the SOURCE stage computes."""
    recipe: MergeRecipe


def split_aggregates(query: LogicalQuery) -> Split:
    """Both halves."""
    splitter = _Splitter(query)
    outputs = [(output.name, splitter.after_merge(output.expression)) for output in query.outputs]
    having = " AND ".join(render(enclosed(splitter.after_merge(part))) for part in query.having)
    head, tail = _outer(outputs, having, query.top_k, splitter)
    keys = tuple(f"_k{index}" for index in range(len(query.keys)))
    recipe = MergeRecipe(
        keys=keys,
        partials=tuple(splitter.partials.values()),
        aggregates=tuple(splitter.aggregates.values()),
        head=head,
        tail=tail,
    )
    assert query.window is not None
    read = (query.window.node, *query.keys, *splitter.columns)
    return Split(*_around_rows(query, splitter, keys), read, recipe)


def _around_rows(query: LogicalQuery, splitter: _Splitter, keys: tuple[str, ...]) -> tuple[str, str]:
    assert query.window is not None
    inner = [f"{render(query.window.node)}.start AS {WINDOW_START}"]
    inner += [f"{render(key)} AS {name}" for key, name in zip(query.keys, keys, strict=True)]
    inner += [f"{render(column)} AS {name}" for column, name in splitter.columns.items()]
    groups = [WINDOW_START, *keys]
    outer = [*groups, *(f"{call} AS {partial.name}" for call, partial in splitter.partials.items())]
    if keys:
        outer.append(f"pmod(xxhash64({', '.join(keys)}), {BINS}) AS {BIN_COLUMN}")
    return f"SELECT {', '.join(outer)} FROM (SELECT {', '.join(inner)} ", f") AS kept GROUP BY {', '.join(groups)}"


def _outer(
    outputs: list[tuple[str, exp.Expr]], having: str, top_k: TopK | None, splitter: _Splitter
) -> tuple[str, str]:
    items = ", ".join(f"{render(expression)} AS {quoted(name)}" for name, expression in outputs)
    where = f" WHERE {having}" if having else ""
    if top_k is None:
        return f"SELECT {items}", where
    names = ", ".join(quoted(name) for name, _ in outputs)
    head = f"SELECT {names} FROM (SELECT {items}, {_rank(top_k, splitter)} AS {RANK_COLUMN}"
    return head, f"{where}) AS ranked WHERE {RANK_COLUMN} <= {top_k.k}"


def _rank(top_k: TopK, splitter: _Splitter) -> str:
    """The rank; row_number gets all group keys as tie-breakers, so that equal input gives equal output."""
    partition = [WINDOW_START, *(render(splitter.after_merge(part)) for part in top_k.partition)]
    order = [render(splitter.after_merge(ordered)) for ordered in top_k.order]
    if top_k.function == RANKS[0]:
        order += [key for index in range(len(splitter.query.keys)) if (key := f"_k{index}") not in order]
    return f"{top_k.function}() OVER (PARTITION BY {', '.join(partition)} ORDER BY {', '.join(order)})"


def _column(name: str) -> exp.Expr:
    return exp.Column(this=exp.Identifier(this=name, quoted=False))


def _window_end(window: Window) -> exp.Expr:
    seconds, microseconds = divmod(window.length // timedelta(microseconds=1), 1_000_000)
    text = f"{seconds}.{microseconds:06d}" if microseconds else str(seconds)
    length = exp.Interval(this=exp.Literal.string(text), unit=exp.Var(this="SECOND"))
    return exp.Paren(this=exp.Add(this=_column(WINDOW_START), expression=length))


def _window_struct(window: Window) -> exp.Expr:
    ends = [exp.Literal.string("start"), _column(WINDOW_START), exp.Literal.string("end"), _window_end(window)]
    return exp.Anonymous(this="named_struct", expressions=ends)
