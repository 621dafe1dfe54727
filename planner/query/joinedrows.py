"""SQL of a MERGE that joins streams: over one view per stream, whose rows are those of closed windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from planner.merge import WINDOW_START
from planner.query.binder import Window
from planner.query.expressions import with_children
from planner.query.joins import Join
from planner.query.logical import LogicalQuery
from planner.query.split import Split, whole_aggregates
from planner.query.spread import LATE, Spread
from planner.query.sqltext import conjunction, where_sql
from planner.query.windowparts import window_part
from planner.sql.dialect import exp, quoted, render


class JoinedRows:
    """Writes the SQL and notes which columns it needs of each stream.

    A stream's view has `_window_start` and the needed columns as `_c0`, `_c1`, ...: those of the stream and of the
    tables that were joined at its sources.
    """

    def __init__(self, query: LogicalQuery, spread: Spread, window: Window, view: str = "") -> None:
        """`view` is the first stream's in the MERGE, where that is not what the query calls it."""
        self._query = query
        self._spread = spread
        self._window = window
        self._first = query.scope.stream.view
        self._view = view or self._first
        self._computed: tuple[exp.Expr, ...] = ()
        self._names: dict[str, dict[exp.Expr, str]] = {stream.view: {} for stream in query.scope.streams}

    def result_sql(self) -> str:
        """The joined rows, or their aggregates."""
        query = self._query
        self._computed = (
            *(output.expression for output in query.outputs),
            *(*query.keys, *query.having, *(query.top_k.parts if query.top_k is not None else ())),
        )
        return self._grouped() if query.window is not None else self._plain()

    def partials_sql(self, split: Split, change: Callable[[exp.Expr], exp.Expr]) -> str:
        """Partials of the joined rows; `change` says what the expressions of `split` are over them."""
        self._computed = tuple(map(change, split.read))
        return split.inline_sql(self._from(), lambda node: self._replace(change(node)))

    def view_of(self, stream: str) -> str:
        """The view of the MERGE that a stream's rows are in."""
        return self._view if stream == self._first else stream

    def columns(self, stream: str) -> Mapping[exp.Expr, str]:
        """The bound columns that are needed of the stream's view, and their names there."""
        return self._names[stream]

    def expressions(self) -> Iterator[exp.Expr]:
        """All bound expressions that the SQL computes."""
        yield from self._computed
        yield from self._spread.late
        yield from (conjunct for on in self._spread.on.values() for conjunct in on)

    def _plain(self) -> str:
        items = (f"{self._over_views(o.expression)} AS {quoted(o.name)}" for o in self._query.outputs)
        return f"SELECT {', '.join(items)} {self._from()}"

    def _grouped(self) -> str:
        whole = whole_aggregates(self._query)
        groups = [WINDOW_START, *(f"_k{index}" for index in range(len(self._query.keys)))]
        kept = [f"{self._first}.{WINDOW_START} AS {WINDOW_START}"]
        kept += [f"{self._over_views(key)} AS {name}" for key, name in zip(self._query.keys, groups[1:], strict=True)]
        kept += [f"{self._over_views(column)} AS {name}" for column, name in whole.columns.items()]
        grouped = (
            f"SELECT {', '.join((*groups, *whole.aggregates))} FROM (SELECT {', '.join(kept)} {self._from()}) AS kept"
        )
        return f"{whole.head} FROM ({grouped} GROUP BY {', '.join(groups)}) AS merged{whole.tail}"

    def _from(self) -> str:
        joins = (self._join(join) for join in self._spread.late_joins(self._query.joins))
        first = self._first if self._view == self._first else f"{self._view} AS {self._first}"
        return " ".join([f"FROM {first}", *joins]) + where_sql(self._replaced(self._spread.late))

    def _join(self, join: Join) -> str:
        view = join.member.view
        on = self._replaced(self._spread.on[view])
        if join.same_window is not None:
            on.append(exp.EQ(this=_start_of(join.same_window.other), expression=_start_of(view)))
        return f"{'LEFT JOIN' if join.left else 'JOIN'} {view} ON {conjunction(on)}"

    def _replaced(self, parts: Sequence[exp.Expr]) -> list[exp.Expr]:
        return [self._replace(part) for part in parts]

    def _over_views(self, node: exp.Expr) -> str:
        return render(self._replace(node))

    def _replace(self, node: exp.Expr) -> exp.Expr:
        """The expression over the views of the MERGE."""
        part = window_part(node, self._window, _start_of(self._first))
        if part is not None:
            return part
        if isinstance(node, exp.Column):
            return self._column(node)
        return with_children(node, self._replace)

    def _column(self, column: exp.Column) -> exp.Expr:
        owner = self._spread.owners[column.table]
        if owner == LATE:
            return column.copy()
        names = self._names[owner]
        return _column_of(owner, names.setdefault(column.copy(), f"_c{len(names)}"))


def _start_of(view: str) -> exp.Expr:
    return _column_of(view, WINDOW_START)


def _column_of(view: str, name: str) -> exp.Expr:
    return exp.Column(this=exp.Identifier(this=name, quoted=False), table=exp.Identifier(this=view, quoted=False))
