"""UNION ALL below other SELECTs: what the columns of the union mean in each of its branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from planner.bind.paired import event_times
from planner.bind.rows import joined_rows, kept
from planner.bind.scope import DerivedRows, Member
from planner.bind.selects import Join, Lateral, StreamSelect, UnionInput
from planner.graph.expressions import cast, enclosed, is_site, replace_columns
from planner.graph.operators import Alias, Named, Operator, Project, Scan, UnionAll
from planner.relations.catalog import SITE_COLUMN, Column, Relation, RelationKind
from planner.sql.blocks import FIRST
from planner.sql.dialect import exp, name_node, offset_of
from planner.sql.source import Source
from planner.values.errors import InvalidDefinitionError, Position, UnsupportedSqlError
from planner.values.names import INPUT_VIEW

MAX_BRANCHES = 64


def check_branches(count: int, part: exp.Expr, source: Source) -> None:
    """Raises UnsupportedSqlError when a UNION ALL has too many branches; `part` is the last."""
    if count > MAX_BRANCHES:
        raise UnsupportedSqlError(
            f"a UNION ALL of more than {MAX_BRANCHES} queries is not possible",
            position=_begin(part, source),
            found="SELECT",
            hint="Submit several queries.",
        )


def unlike(part: exp.Expr, counts: tuple[int, int], source: Source) -> InvalidDefinitionError:
    """The error for a branch with another number of columns than the first: (that of the first, its own)."""
    return InvalidDefinitionError(
        f"the first SELECT of the UNION ALL has {counts[0]} columns, this one {counts[1]}",
        position=_begin(part, source),
        found="SELECT",
        hint="All SELECTs of a UNION ALL have as many columns, in the same order.",
    )


def _begin(part: exp.Expr, source: Source) -> Position:
    return source.position(int(part.meta.get(FIRST, offset_of(part) or 0)))


@dataclass(frozen=True, slots=True)
class OpenUnion:
    """A UNION ALL whose columns' types only Spark can say: the union and each branch over the relations' columns."""

    name: str
    branches: tuple[Operator, ...]
    """Over views of the relations' names."""

    @property
    def statements(self) -> Mapping[str, Operator]:
        """What is to be analysed, by the name under which the types are then known."""
        parts = {branch_name(self.name, index): branch for index, branch in enumerate(self.branches)}
        return {self.name: UnionAll(self.branches), **parts}


def branch_name(union: str, index: int) -> str:
    return f"{union}.{index}"


def open_union(name: str, branches: Sequence[StreamSelect]) -> OpenUnion:
    return OpenUnion(name, tuple(map(_branch, branches)))


def _branch(branch: StreamSelect) -> Operator:
    items = tuple(Named(output.name, output.expression) for output in branch.outputs)
    sources: dict[str, Operator] = {INPUT_VIEW: relation_rows(branch.scope.stream.relation)}
    sources |= {join.member.view: member_rows(join.member) for join in branch.joins}
    rows = joined_rows(branch.joins, sources, branch.laterals)
    return Project(kept(rows, branch.where), items)


def relation_rows(relation: Relation) -> Operator:
    """A relation, over a view of its name, as what stands first in FROM."""
    return Alias(Scan(relation.name), INPUT_VIEW)


def member_rows(member: Member) -> Operator:
    """A joined table over views of the relations' names."""
    if member.rows is None:
        return Alias(Scan(member.relation.name), member.view)
    items = tuple(Named(name, node) for name, node in member.rows.expressions.items())
    return Alias(Project(kept(relation_rows(member.relation), member.rows.where), items), member.view)


def event_time_of(outputs: Mapping[str, exp.Expr], select: StreamSelect) -> str | None:
    """The name of a column that is the event time of the stream, unchanged; of several that are joined, of one."""
    times = event_times(select)
    names = (name for time in times for name, expression in outputs.items() if expression.unnest() == time)
    return next(names, None)


def exported(
    name: str, index: int, branch: StreamSelect, types: Mapping[str, Sequence[Column]]
) -> Mapping[str, exp.Expr]:
    """What the union's columns are in a branch, by lower-case name, in the union's type where it differs."""
    wanted, found = types.get(name, ()), types.get(branch_name(name, index), ())
    outputs = [output.expression for output in branch.outputs]
    names = [output.name.lower() for output in branch.outputs]
    if len(wanted) != len(outputs) or len(found) != len(outputs):
        return dict(zip(names, outputs, strict=True))
    return {
        column: expression if own.type == to.type else cast(expression.copy(), to.type)
        for column, expression, own, to in zip(names, outputs, found, wanted, strict=True)
    }


def union_member(alias: str, view: str, branches: Sequence[StreamSelect]) -> Member:
    """The union as the stream of an aggregating SELECT."""
    columns = tuple(Column(output.name, "") for output in branches[0].outputs)
    times = {event_time_of({o.name.lower(): o.expression for o in b.outputs}, b) for b in branches}
    event_time = times.pop() if len(times) == 1 else None
    named = next((c.name for c in columns if c.name.lower() == event_time), None)
    return Member(alias, view, Relation(alias, RelationKind.STREAM, columns, (), event_time=named), derived=True)


@dataclass(frozen=True, slots=True)
class Substitution:
    """From the columns of a query over a union to what they are in one branch."""

    view: str
    """The union's."""
    columns: Mapping[str, exp.Expr]
    """By lower-case name."""
    tables: Mapping[str, str]
    """Views of the joined tables: each branch has copies of its own."""

    def __call__(self, node: exp.Expr) -> exp.Expr:
        return replace_columns(node, self._column)

    def _column(self, column: exp.Column) -> exp.Expr:
        if column.table == self.view:
            return enclosed(self.columns[column.name.lower()])
        table = self.tables.get(column.table, column.table)
        return exp.Column(this=name_node(column.name), table=exp.Identifier(this=table, quoted=False))


def specialized(query: StreamSelect, branch: StreamSelect, change: Substitution) -> UnionInput:
    """An aggregating query over a union as it is over one of the branches."""
    joins = tuple(_join(join, change) for join in query.joins)
    members = (*branch.scope.members, *(join.member for join in joins))
    window = query.window
    own = replace(
        query,
        scope=replace(query.scope, members=members),
        joins=(*branch.joins, *joins),
        laterals=_laterals(branch, tuple(replace(lateral, call=change(lateral.call)) for lateral in query.laterals)),
        where=(*branch.where, *map(change, query.where)),
        keys=tuple(map(change, query.keys)),
        window=replace(window, node=change(window.node)) if window is not None else None,
        join_window=branch.join_window,
        outputs=(),
        having=(),
        top_k=None,
    )
    return UnionInput(own, change)


def _join(join: Join, change: Substitution) -> Join:
    view = change.tables.get(join.member.view, join.member.view)
    return replace(join, member=replace(join.member, view=view), on=tuple(map(change, join.on)))


def merged_member(alias: str, inner: StreamSelect, columns: Mapping[str, exp.Expr]) -> Member:
    """A derived table over a stream, or several that are joined, as the stream of the SELECT over it."""
    names = tuple(Column(output.name, "") for output in inner.outputs)
    event_time = event_time_of(columns, inner)
    named = next((c.name for c in names if c.name.lower() == event_time), None)
    base = inner.scope.stream.relation
    relation = Relation(base.name, RelationKind.STREAM, names, base.bindings, event_time=named)
    return Member(alias, INPUT_VIEW, relation, derived=True, expressions=columns)


def merged(query: StreamSelect, inner: StreamSelect) -> StreamSelect:
    """A SELECT over a derived table, merged with that table's query."""
    members = (*inner.scope.members, *query.scope.members[1:])
    # Behind a join that keeps rows of the other side, a condition would drop them.
    first = any(join.right for join in query.joins)
    return replace(
        query,
        scope=replace(query.scope, members=members, nullable=inner.scope.nullable | query.scope.nullable),
        joins=(*inner.joins, *query.joins),
        laterals=_laterals(inner, query.laterals),
        before=(*inner.before, *(inner.where if first else ())),
        where=(*(() if first else inner.where), *query.where),
    )


def _laterals(inner: StreamSelect, outer: Sequence[Lateral]) -> tuple[Lateral, ...]:
    """Return the lateral views of a query and, behind its joins, those of the SELECT over it."""
    behind = (replace(lateral, joins=lateral.joins + len(inner.joins)) for lateral in outer)
    return (*inner.laterals, *behind)


def joined_member(alias: str, inner: StreamSelect, view: str) -> Member:
    """A derived table that filters and projects one stream, as a stream that is joined under this view.

    Its columns are not merged into the query: under a LEFT JOIN they are NULL where nothing matches, constants too.
    """
    columns = {output.name.lower(): output.expression for output in inner.outputs}
    rows = DerivedRows(inner.scope.stream.relation, columns, inner.where)
    return replace(merged_member(alias, inner, columns), view=view, expressions=None, rows=rows)


def derived_expressions(query: StreamSelect, member: Member) -> list[exp.Expr]:
    """The expressions that columns of a joined derived table stand for, once for each use in a condition."""
    rows = member.rows
    conditions = (*query.where, *(conjunct for join in query.joins for conjunct in join.on)) if rows else ()
    columns = (column for conjunct in conditions for column in conjunct.find_all(exp.Column))
    return [rows.expressions[c.name.lower()] for c in columns if rows is not None and c.table == member.view]


def is_real_site(name: str, expression: exp.Expr) -> bool:
    """Whether a column of a joined table that is called `site` is the site."""
    return name.lower() != SITE_COLUMN or is_site(expression.unnest(), INPUT_VIEW)
