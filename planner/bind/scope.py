"""The relations of FROM and the names that can be used: which column a name means, or why it means none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from planner.functions.table import REASONS
from planner.functions.traits import BARE_NOT_REPEATABLE
from planner.graph.expressions import enclosed, placed
from planner.relations.catalog import SITE_COLUMN, Function, Relation, RelationKind
from planner.sql.dialect import exp, name_node, offset_of, snippet
from planner.sql.source import Source
from planner.values.errors import UnknownColumnError, UnknownRelationError, UnsupportedSqlError


@dataclass(frozen=True, slots=True)
class DerivedRows:
    """What a derived table over one table or stream is: expressions over its rows, and which of them are kept."""

    base: Relation
    expressions: Mapping[str, exp.Expr]
    """By lower-case name of the column; they read the view `input`."""
    where: tuple[exp.Expr, ...]
    """Conjuncts."""


@dataclass(frozen=True, slots=True)
class Member:
    """A relation of FROM: the name it goes by in the query, and the view it is in a stage."""

    alias: str
    view: str
    relation: Relation
    """Of a derived table: its columns, and the bindings of what it reads."""
    derived: bool = False
    """A derived table; it has the column `site` only when it selects it."""
    expressions: Mapping[str, exp.Expr] | None = None
    """Of a derived table that is merged into the query: what its columns mean, by lower-case name."""
    hidden: bool = False
    """Joined by SEMI or ANTI: only the condition of its join sees its columns."""
    starred: bool = True
    """`*` has its columns; not those of a sub-query for a value."""
    rows: DerivedRows | None = None
    """Of a derived table that is joined: how the stage computes it that reads its table or stream."""

    @property
    def is_stream(self) -> bool:
        return self.relation.kind is RelationKind.STREAM

    def column(self, name: str) -> str | None:
        """The column of that name as declared, `site` included; None when there is none."""
        if name.lower() == SITE_COLUMN and not self.derived:
            return SITE_COLUMN
        column = self.relation.column(name)
        return column.name if column is not None else None

    def bound(self, name: str) -> exp.Expr:
        """What the column of that name means."""
        if self.expressions is not None:
            return enclosed(self.expressions[name.lower()])
        return exp.Column(this=name_node(name), table=exp.Identifier(this=self.view, quoted=False))


@dataclass(frozen=True, slots=True)
class Scope:
    """A stream first, then tables and further streams in the order of the joins."""

    members: tuple[Member, ...]
    source: Source
    using: frozenset[str] = frozenset()
    """Lower-case names of columns of USING: without a qualifier they mean the left side's."""
    functions: Mapping[str, Function] = field(default_factory=dict)
    """Python functions that can be called, by lower-case name."""
    nullable: frozenset[str] = frozenset()
    """Views of streams whose columns an outer join of the SELECT fills with NULL."""

    @property
    def stream(self) -> Member:
        return self.members[0]

    @property
    def streams(self) -> tuple[Member, ...]:
        return tuple(m for m in self.members if m.is_stream)

    @property
    def event_time(self) -> exp.Expr | None:
        """The event time of the first stream; None where it is not known, or may be NULL."""
        stream = self.stream
        name = None if stream.view in self.nullable else stream.relation.event_time
        return None if name is None else stream.bound(name).unnest()

    def member(self, alias: str) -> Member | None:
        return next((m for m in self.members if m.alias.lower() == alias.lower()), None)

    def first(self, count: int) -> Scope:
        return Scope(self.members[:count], self.source, self.using, self.functions)

    def owners(self, name: str) -> tuple[Member, ...]:
        """The members that an unqualified name can mean."""
        if name.lower() == SITE_COLUMN:
            return (self.stream,) if self.stream.column(name) is not None else ()
        found = tuple(m for m in self.members if m.relation.column(name) is not None)
        return found[:1] if name.lower() in self.using else found


def scope_of(
    members: Sequence[tuple[Member, exp.Expr]],
    select: exp.Expr,
    source: Source,
    functions: Mapping[str, Function],
) -> Scope:
    """The scope of these members, each with the item of FROM that it comes from, and of these Python functions.

    Raises:
        UnsupportedSqlError: two have the same name.
    """
    known: list[Member] = []
    for member, item in members:
        if any(m.alias.lower() == member.alias.lower() for m in known):
            raise UnsupportedSqlError(
                f"{member.alias} is in FROM twice",
                position=source.position(offset_of(item) or 0),
                found=member.alias,
                hint=f"Give one of them another name: {member.relation.name} AS other.",
            )
        known.append(member)
    using = (name.name.lower() for join in select.args.get("joins") or [] for name in join.args.get("using") or [])
    return Scope(tuple(known), source, frozenset(using), functions)


def resolve(scope: Scope, parts: Sequence[exp.Identifier]) -> exp.Expr | None:
    """The column that a dotted name means, with its struct fields; None when no relation has it.

    Raises:
        UnknownColumnError: it is ambiguous, or its qualifier has no such column.
    """
    names = [part.name for part in parts]
    member = scope.member(names[0]) if len(names) > 1 else None
    if member is not None and (column := member.column(names[1])) is not None:
        return _with_fields(member.bound(column), parts, 2)
    owners = scope.owners(names[0])
    if len(owners) > 1:
        raise _ambiguous(scope, parts, owners)
    if owners:
        return _with_fields(owners[0].bound(owners[0].column(names[0]) or names[0]), parts, 1)
    if member is not None:
        raise unknown_column(scope, parts)
    return None


def _with_fields(column: exp.Expr, parts: Sequence[exp.Identifier], used: int) -> exp.Expr:
    bound = placed(column, parts[0].meta.get("start"), parts[-1].meta.get("end"))
    for part in parts[used:]:
        bound = exp.Dot(this=bound, expression=name_node(part.name))
    return bound


def unknown_column(scope: Scope, parts: Sequence[exp.Identifier], extra: Iterable[str] = ()) -> Exception:
    """The error for a name that means nothing, with the names that come close."""
    text = ".".join(part.name for part in parts)
    offset = parts[0].meta.get("start", 0)
    position = scope.source.position(offset)
    if len(parts) == 1 and text.lower() in BARE_NOT_REPEATABLE:
        return UnsupportedSqlError(
            f"{text} is not possible: {REASONS[text.lower()]}",
            position=position,
            found=text,
            hint="Use the event time, or a column that the source writes.",
        )
    member = scope.member(parts[0].name) if len(parts) > 1 else None
    searched = (member,) if member is not None else scope.members
    near = parts[1].name if member is not None else parts[0].name
    columns = [c.name for m in searched for c in m.relation.columns]
    sites = [SITE_COLUMN] if any(m.column(SITE_COLUMN) for m in searched) else []
    listed = ", ".join(f"{m.alias} ({', '.join(c.name for c in m.relation.columns)})" for m in searched)
    return UnknownColumnError(
        f"there is no column {text}",
        position=position,
        found=text,
        hint=did_you_mean(near, [*columns, *extra, *sites]) or f"There are {' and '.join([listed, *sites])}.",
    )


def _ambiguous(scope: Scope, parts: Sequence[exp.Identifier], owners: Sequence[Member]) -> UnknownColumnError:
    name = parts[0].name
    return UnknownColumnError(
        f"{name} is ambiguous",
        position=scope.source.position(parts[0].meta.get("start", 0)),
        found=name,
        hint=f"Write {' or '.join(f'{m.alias}.{name}' for m in owners)}.",
    )


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    spelled = {candidate.lower(): candidate for candidate in sorted(candidates)}
    close = get_close_matches(name.lower(), spelled, n=1, cutoff=0.6)
    return f"Did you mean {spelled[close[0]]}?" if close else ""


def invalid_star(scope: Scope, star: exp.Expr) -> UnknownRelationError:
    """The error for `x.*` when FROM has no x."""
    return UnknownRelationError(
        f"there is no {star.args['table'].name} in FROM",
        position=scope.source.position(offset_of(star) or 0),
        found=snippet(star, scope.source.text),
        hint=f"There is {', '.join(m.alias for m in scope.members)}.",
    )
