"""The operators of a MERGE that joins streams. It has a view for each stream, with the rows of closed windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from planner.bind.binder import Window
from planner.bind.rows import kept
from planner.bind.selects import Join, StreamSelect
from planner.bind.windowparts import window_part
from planner.graph import operators
from planner.graph.expressions import first_of, with_children
from planner.graph.operators import Alias, Named, Operator, Project, Scan
from planner.rules.groupingsets import SET_COLUMN, expanded
from planner.rules.rankedrows import RANKED, ranked_rows
from planner.rules.split import Halves, Splitter, note_aggregates, whole_groups, with_layers
from planner.sql.dialect import exp
from planner.values.names import WINDOW_START


class JoinedRows:
    """Makes the operators and notes which columns they need of each stream.

    A stream's view has `_window_start` and the needed columns as `_c0`, `_c1`, ...: those of the stream and of the
    tables that were joined at its sources.
    """

    def __init__(self, query: StreamSelect, window: Window, view: str = "") -> None:
        """`view` is the first stream's in the MERGE, where that is not what the query calls it."""
        self._query = query
        self._owners = owners_of(query)
        self._window = window
        self._first = query.scope.stream.view
        self._view = view or self._first
        self._computed: tuple[exp.Expr, ...] = ()
        self._names: dict[str, dict[exp.Expr, str]] = {stream.view: {} for stream in query.streams}

    def result(self) -> Operator:
        """Return the joined rows, the first of them, or their aggregates."""
        query = self._query
        self._computed = (*query.results, *query.keys)
        if query.ranks:
            ranked = ranked_rows(query)
            return ranked.merge(Alias(ranked.named_rows(self._rows(), self._replace), RANKED), {})
        if query.window is not None:
            return self._grouped()
        items = tuple(Named(output.name, self._replace(output.expression)) for output in query.outputs)
        return Project(self._rows(), items)

    def partials(self, split: Halves, change: Callable[[exp.Expr], exp.Expr]) -> Operator:
        """Partials of the joined rows; `change` says what the expressions of `split` are over them."""
        self._computed = tuple(map(change, split.read))
        return split.at_source(self._rows(), lambda node: self._replace(change(node)), sent=False)

    def view_of(self, stream: str) -> str:
        """The view of the MERGE that a stream's rows are in."""
        return self._view if stream == self._first else stream

    def columns(self, stream: str) -> Mapping[exp.Expr, str]:
        """The bound columns that are needed of the stream's view, and their names there."""
        return self._names[stream]

    def expressions(self) -> Iterator[exp.Expr]:
        """All bound expressions that the SQL computes."""
        yield from self._computed
        yield from self._query.where
        yield from (conjunct for join in self._query.joins for conjunct in join.on)

    def _grouped(self) -> Operator:
        sets = self._query.sets
        splitter = Splitter(self._query, self._query.window, sets)
        note_aggregates(splitter)
        kept = [Named(WINDOW_START, self._start())]
        kept += [Named(name, self._replace(key)) for key, name in zip(self._query.keys, splitter.keys, strict=True)]
        kept += [Named(name, self._replace(column)) for column, name in splitter.columns.items()]
        rows: Operator = Project(self._rows(), tuple(kept))
        by = (WINDOW_START, *splitter.keys)
        if sets is not None:
            rows, by = expanded(rows, [item.name for item in kept], splitter.keys, sets), (*by, SET_COLUMN)
        groups = whole_groups(splitter, rows, by)
        return with_layers(self._query, splitter.result(groups), {})

    def _rows(self) -> Operator:
        rows: Operator = Scan(self._first)
        if self._view != self._first:
            rows = Alias(Scan(self._view), self._first)
        for join in self._query.joins:
            rows = self._join(rows, join)
        return kept(rows, self._replaced(self._query.where))

    def _join(self, rows: Operator, join: Join) -> Operator:
        view = join.member.view
        on = self._replaced(join.on)
        if join.same_window is not None:
            on.append(exp.EQ(this=_start_of(join.same_window.other), expression=_start_of(view)))
        return operators.Join(rows, Scan(view), join.left, tuple(on), join.only, join.right)

    def _start(self) -> exp.Expr:
        """The start of a joined row's window: of the first stream, or of one that has a row where that has none."""
        start = _start_of(self._first)
        for join in self._query.joins:
            if join.right:
                own = _start_of(join.member.view)
                start = first_of((start, own)) if join.left else own
        return start

    def _replaced(self, parts: Sequence[exp.Expr]) -> list[exp.Expr]:
        return [self._replace(part) for part in parts]

    def _replace(self, node: exp.Expr) -> exp.Expr:
        """The expression over the views of the MERGE."""
        part = window_part(node, self._window, self._start())
        if part is not None:
            return part
        if isinstance(node, exp.Column):
            return self._column(node)
        return with_children(node, self._replace)

    def _column(self, column: exp.Column) -> exp.Expr:
        owner = self._owners.get(column.table)
        if owner is None:
            return column.copy()
        names = self._names[owner]
        return _column_of(owner, names.setdefault(column.copy(), f"_c{len(names)}"))


def owners_of(query: StreamSelect) -> Mapping[str, str]:
    """By view, the stream whose sources read it; tables that the MERGE joins are left out."""
    found: dict[str, str] = {}
    for stream, source in zip(query.streams, query.sources, strict=True):
        found |= dict.fromkeys((stream.view, *(join.member.view for join in source.joins)), stream.view)
    return found


def _start_of(view: str) -> exp.Expr:
    return _column_of(view, WINDOW_START)


def _column_of(view: str, name: str) -> exp.Expr:
    return exp.Column(this=exp.Identifier(this=name, quoted=False), table=exp.Identifier(this=view, quoted=False))
