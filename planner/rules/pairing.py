"""Stages of a query that joins streams within intervals of time: a MERGE for each stream that is joined.

    SOURCE per stream     its conditions and tables, the columns that are needed, the event time of the row
      -> MERGE 1          pairs of the first two streams
      -> MERGE 2 ...      pairs of those and the next stream; the last one sends what a SOURCE would, rows or partials

A row that leaves a MERGE has the event time of the stream that the next interval names, which may be before the
watermark by a constant: the reader of the channel takes that off. `spread_join` has said what is done where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from planner.bind.intervals import Interval, behind
from planner.bind.outputs import Output
from planner.bind.rows import kept
from planner.bind.scope import Member
from planner.bind.selects import Join, StreamSelect
from planner.graph import operators
from planner.graph.bins import bin_of
from planner.graph.expressions import cast, replace_columns
from planner.graph.operators import Named, Operator, Project, Scan
from planner.graph.plan import JoinShape, Merge, MergeView, Pairs, Stage, StageInput
from planner.rules.joinbins import equal_columns, pair_keys, type_of
from planner.rules.joinedrows import owners_of
from planner.rules.shape import query_shape, selectivity_of
from planner.rules.split import Halves
from planner.rules.spread import renamed
from planner.rules.stages import Stages, add_source, table_stage
from planner.sql.dialect import exp, render
from planner.sql.refusals import refuse
from planner.values.names import BIN_COLUMN, DUE_COLUMN, INPUT_VIEW, NEW_COLUMN, ROW_COLUMN, WINDOW_END, WINDOW_START
from planner.values.pairs import PairSide
from planner.values.ranges import WHOLE_NUMBERS
from planner.values.stages import StageKind

TIMESTAMP = "TIMESTAMP"
_NOT_COMPARED = frozenset(("", "FLOAT", "DOUBLE"))
"""Types of keys by which agents cannot look rows up: equal values may be written in several ways, or not known."""
EVERY = timedelta(seconds=1)
"""Pairs come out when the watermark has moved on by so much."""


def add_pairs(
    plan: Stages, query: StreamSelect, split: Halves | None = None, change: Callable[[exp.Expr], exp.Expr] | None = None
) -> str:
    """The stages of a query that joins streams within intervals; the id of the last, which sends what a SOURCE would.

    Args:
        plan: gets the stages.
        query: behind all rules.
        split: set when the query aggregates.
        change: from the expressions of `split` to those of this query, where it is one branch of a union.
    """
    chain = _Chain(query)
    steps = chain.steps
    last = steps[-1]
    same = change or (lambda node: node)
    rows = chain.rows(last)
    if split is None:
        items = tuple(Named(output.name, chain.over(last, output.expression)) for output in query.outputs)
        body: Operator = Project(rows, items)
        used = [output.expression for output in query.outputs]
    else:
        body = split.at_source(rows, lambda node: chain.over(last, same(node)), sent=True)
        used = list(map(same, split.read))
    bodies = {last.number: body}
    for step in reversed(steps[1:]):
        # The columns that a step needs from those before it are known once all steps behind it are made.
        before = steps[step.number - 1]
        outputs = chain.sent_to(step, step.left, step.columns[INPUT_VIEW])
        made = tuple(Named(name, chain.over(before, node)) for name, node in outputs)
        bodies[before.number] = Project(chain.rows(before), made)
    plan.stages += _late_tables(query, used)
    sent = ""
    for step in steps:
        sent = _add_step(plan, chain, step, bodies[step.number], sent)
    return sent


@dataclass(frozen=True, slots=True)
class _Step:
    """One stream that is joined to the rows before it."""

    number: int
    joins: tuple[Join, ...]
    """Joins with tables before it, its own, and those with tables that follow the last step."""
    join: Join
    interval: Interval
    left: str
    """The stream of the rows on the left by whose event time they are joined."""
    columns: Mapping[str, dict[exp.Expr, str]] = field(default_factory=lambda: {INPUT_VIEW: {}})
    """The columns that each of its views must have, and their names there."""

    @property
    def view(self) -> str:
        """Return the view of the joined stream."""
        return self.join.member.view

    @property
    def sides(self) -> tuple[str, str]:
        """The views of the first and the second rows of pairs."""
        own = (INPUT_VIEW, self.view)
        return own if self.interval.first == self.left else own[::-1]


class _Chain:
    """Makes the operators of all steps, and notes which columns they need of the views that they read."""

    def __init__(self, query: StreamSelect) -> None:
        self.query = query
        self.owners = owners_of(query)
        self.times = {stream.view: stream.bound(stream.relation.event_time or "").unnest() for stream in query.streams}
        self.steps = tuple(_steps(query))
        # By view: the step that joins its rows; the first stream's are on the left of all.
        self._homes = {query.scope.stream.view: -1} | {
            join.member.view: step.number for step in self.steps for join in step.joins
        }
        self._names: dict[exp.Expr, str] = {}

    def over(self, step: _Step, node: exp.Expr) -> exp.Expr:
        """An expression over the views of a step."""
        return replace_columns(node, lambda column: self._column(step, column))

    def rows(self, step: _Step) -> Operator:
        """The joined rows that come out at a step."""
        rows: Operator = Scan(INPUT_VIEW)
        for join in step.joins:
            on = tuple(self.over(step, conjunct) for conjunct in join.on)
            if join is step.join:
                rows = _pairs(rows, join, on)
            else:
                rows = operators.Join(rows, Scan(join.member.view), join.left, on, join.only, join.right)
        where = self.query.where if step is self.steps[-1] else ()
        return kept(rows, [*_come_out(step.join), *(self.over(step, conjunct) for conjunct in where)])

    def sent_to(self, step: _Step, stream: str, needed: Mapping[exp.Expr, str]) -> list[tuple[str, exp.Expr]]:
        """Return the columns of a view of a step: the event time, until when rows match, what is needed, the bin."""
        interval, outputs = step.interval, [(WINDOW_START, self.times[stream])]
        if interval.until is not None and stream == interval.first:
            outputs.append((WINDOW_END, _instant(interval.until, self.query)))
        outputs += [(name, column) for column, name in needed.items()]
        keys = [pair[0 if stream == step.left else 1] for pair in pair_keys(self.query, step.join, self.owners)]
        if keys:
            outputs.append((BIN_COLUMN, bin_of(keys)))
        return outputs

    def side(self, step: _Step, view: str) -> PairSide:
        """Return the keys of one of the two views of a MERGE, and what becomes of its rows beside pairs."""
        left, join = view == INPUT_VIEW, step.join
        columns = [pair[0 if left else 1] for pair in equal_columns(join, self.owners)]
        names = [self._name(step, view, column) for column in columns]
        unmatched = join.keeps_unmatched if left else join.right
        return PairSide(view, tuple(names), unmatched, once=left and join.only == "SEMI")

    def _column(self, step: _Step, column: exp.Column) -> exp.Expr:
        owner = self.owners.get(column.table, column.table)
        home = self._homes.get(owner)
        if home is None:
            return column.copy()
        if home == step.number and owner != step.view:
            # The column belongs to a table that this step joins.
            return column.copy()
        view = step.view if home == step.number else INPUT_VIEW
        return _column_of(view, self._name(step, view, column))

    def _name(self, step: _Step, view: str, column: exp.Expr) -> str:
        stream = step.left if view == INPUT_VIEW else step.view
        if column == self.times[stream]:
            return WINDOW_START
        if stream == step.interval.first and column == step.interval.until and _is_instant(column, self.query):
            return WINDOW_END
        name = self._names.setdefault(column.copy(), f"_c{len(self._names)}")
        return step.columns[view].setdefault(column.copy(), name)


def _steps(query: StreamSelect) -> Iterator[_Step]:
    before: list[Join] = []
    joins = list(query.joins)
    number, last = 0, max(place for place, join in enumerate(joins) if join.interval is not None)
    for place, join in enumerate(joins):
        before.append(join)
        if join.interval is None:
            continue
        view = join.member.view
        behind_it = joins[place + 1 :] if place == last else []
        columns: dict[str, dict[exp.Expr, str]] = {INPUT_VIEW: {}, view: {}}
        yield _Step(number, (*before, *behind_it), join, join.interval, join.interval.other(view), columns)
        number, before = number + 1, []


def _pairs(rows: Operator, join: Join, on: tuple[exp.Expr, ...]) -> Operator:
    """The joined rows; `_come_out` says which of them come out now, where ON does not."""
    right = Scan(join.member.view)
    if join.interval is not None and join.interval.newest:
        row, version = _column_of(INPUT_VIEW, ROW_COLUMN), _column_of(join.member.view, ROW_COLUMN)
        return operators.Join(rows, right, join.left, (*on, exp.EQ(this=row, expression=version)))
    new = exp.Paren(this=_new(join))
    if join.only == "SEMI":
        matched = operators.Join(rows, right, left=False, on=(*on, new), only="SEMI")
        return operators.Join(matched, right, left=False, on=(*on, exp.Not(this=new.copy())), only="ANTI")
    if join.only or join.left or join.right:
        return operators.Join(rows, right, join.left, on, join.only, join.right)
    return operators.Join(rows, right, left=False, on=(*on, new))


def _come_out(join: Join) -> list[exp.Expr]:
    """The condition on joined rows that come out now. It is evaluated behind all joins: a sub-query has no aliases."""
    left, right = INPUT_VIEW, join.member.view
    if join.interval is not None and join.interval.newest:
        return []
    if join.only == "ANTI":
        return [_column_of(left, DUE_COLUMN)]
    cases = [(right, left)] if join.left else []
    cases += [(left, right)] if join.right else []
    if not cases:
        return []
    lacking = ((exp.Is(this=_column_of(one, NEW_COLUMN), expression=exp.Null()), other) for one, other in cases)
    ifs = [exp.If(this=is_lacking, true=_column_of(other, DUE_COLUMN)) for is_lacking, other in lacking]
    return [exp.Case(ifs=ifs, default=_new(join))]


def _new(join: Join) -> exp.Expr:
    """Return the condition that a pair is not out yet."""
    own, joined = _column_of(INPUT_VIEW, NEW_COLUMN), _column_of(join.member.view, NEW_COLUMN)
    return exp.Or(this=own, expression=joined)


def _add_step(plan: Stages, chain: _Chain, step: _Step, body: Operator, before: str) -> str:
    query, interval = chain.query, step.interval
    inputs: list[StageInput] = []
    if before:
        lag = behind(query.intervals[: step.number], step.left)
        assert lag is not None
        inputs.append(StageInput(before, INPUT_VIEW, behind=lag))
    streams = query.streams[step.number + 1 : step.number + 2] if before else query.streams[:2]
    for stream in streams:
        view = INPUT_VIEW if stream.view == query.scope.stream.view else stream.view
        outputs = chain.sent_to(step, stream.view, step.columns[view])
        source = query.sources[query.streams.index(stream)]
        inputs.append(StageInput(_add_rows(plan, source, stream, outputs), view))
    inputs += [StageInput(j.member.view, j.member.view) for j in step.joins if not j.member.is_stream]
    first, second = (chain.side(step, view) for view in step.sides)
    pairs = Pairs(
        first,
        second,
        interval.lower,
        interval.upper,
        WINDOW_END if interval.until is not None else "",
        emits_pairs=step.join.only != "ANTI",
        until_words=render(interval.until) if interval.until is not None else "",
        newest=interval.newest,
        strict=interval.strict,
    )
    there = {INPUT_VIEW: not step.join.right, step.view: not step.join.keeps_unmatched}
    views = tuple(MergeView(view, required=needed) for view, needed in there.items())
    if interval.newest:
        _check_types(chain, step)
    merge_id = plan.next_id(StageKind.MERGE, "m")
    merge = Merge(WINDOW_START, max(interval.kept, EVERY), "", EVERY, views, pairs=pairs)
    plan.stages.append(
        Stage(id=merge_id, kind=StageKind.MERGE, body=body, pinned=(), inputs=tuple(inputs), merge=merge)
    )
    plan.joins[merge_id] = joined_shape(query)
    return merge_id


def _check_types(chain: _Chain, step: _Step) -> None:
    """Raises UnsupportedSqlError where agents could not tell which keys are equal: they look versions up themselves."""
    for columns in equal_columns(step.join, chain.owners):
        types = {type_of(column, chain.query) for column in columns}
        if (len(types) > 1 and not types <= WHOLE_NUMBERS) or types & _NOT_COMPARED:
            message = "the columns that are equal in an ASOF JOIN must be of one type, and not FLOAT or DOUBLE"
            raise refuse(columns[0], chain.query.scope.source, message, "Cast one of them in a sub-query.")


def joined_shape(query: StreamSelect) -> JoinShape:
    """Return the shape of joined rows, which come out one by one, for estimates."""
    return JoinShape(EVERY, EVERY, selectivity_of(query.where), query_shape(query))


def _add_rows(plan: Stages, source: StreamSelect, stream: Member, outputs: Iterable[tuple[str, exp.Expr]]) -> str:
    """The SOURCE stage of a stream, and the TABLE stages that it reads."""
    own = [(name, renamed(expression, stream)) for name, expression in outputs]
    items = tuple(Output(name, expression, expression) for name, expression in own)
    return add_source(plan, replace(source, outputs=items), None)


def _late_tables(query: StreamSelect, used: Sequence[exp.Expr]) -> Iterator[Stage]:
    """The stages of tables that can be joined only behind a join of streams."""
    read = (*used, *query.where, *(conjunct for join in query.joins for conjunct in join.on))
    for join in query.joins:
        if not join.member.is_stream:
            yield table_stage(join, read, join.member.relation.sites)


def _instant(node: exp.Expr, query: StreamSelect) -> exp.Expr:
    return node.copy() if _is_instant(node, query) else cast(node.copy(), TIMESTAMP)


def _is_instant(node: exp.Expr, query: StreamSelect) -> bool:
    return isinstance(node, exp.Column) and type_of(node, query) == TIMESTAMP


def _column_of(view: str, name: str) -> exp.Expr:
    return exp.Column(this=exp.Identifier(this=name, quoted=False), table=exp.Identifier(this=view, quoted=False))
