"""The relations of FROM and the names that can be used: which column a name means, or why it means none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from planner.catalog import SITE_COLUMN, Catalog, Relation, RelationKind
from planner.errors import UnknownColumnError, UnknownRelationError, UnsupportedSqlError
from planner.functions import BARE_NOT_REPEATABLE
from planner.plan import INPUT_VIEW
from planner.sql.dialect import exp, name_node, offset_of, snippet
from planner.sql.source import Source


@dataclass(frozen=True, slots=True)
class Member:
    """A relation of FROM: the name it goes by in the query, and the view it is in a stage."""

    alias: str
    view: str
    relation: Relation

    def column(self, name: str) -> str | None:
        """The column of that name as declared, `site` included; None when there is none."""
        if name.lower() == SITE_COLUMN:
            return SITE_COLUMN
        column = self.relation.column(name)
        return column.name if column is not None else None

    def bound(self, name: str) -> exp.Column:
        return exp.Column(this=name_node(name), table=exp.Identifier(this=self.view, quoted=False))


@dataclass(frozen=True, slots=True)
class Scope:
    """The stream first, then the tables in the order of the joins."""

    members: tuple[Member, ...]
    source: Source
    using: frozenset[str] = frozenset()
    """Lower-case names of columns of USING: without a qualifier they mean the left side's."""

    @property
    def stream(self) -> Member:
        return self.members[0]

    def member(self, alias: str) -> Member | None:
        return next((m for m in self.members if m.alias.lower() == alias.lower()), None)

    def first(self, count: int) -> Scope:
        return Scope(self.members[:count], self.source, self.using)

    def owners(self, name: str) -> tuple[Member, ...]:
        """The members that an unqualified name can mean."""
        if name.lower() == SITE_COLUMN:
            return (self.stream,)
        found = tuple(m for m in self.members if m.relation.column(name) is not None)
        return found[:1] if name.lower() in self.using else found


def build_scope(tree: exp.Select, catalog: Catalog, source: Source) -> Scope:
    """The relations of FROM and its joins.

    Raises:
        UnknownRelationError, UnsupportedSqlError: at the relation that is unknown or stands in the wrong place.
    """
    tables = [tree.args["from_"].this, *(join.this for join in tree.args.get("joins") or [])]
    members: list[Member] = []
    for index, table in enumerate(tables):
        relation = _find(table, catalog, source)
        _check_place(table, relation, index, source)
        alias = table.alias_or_name
        if any(m.alias.lower() == alias.lower() for m in members):
            raise UnsupportedSqlError(
                f"{alias} is in FROM twice",
                position=source.position(offset_of(table) or 0),
                found=alias,
                hint=f"Give one of them another name: {relation.name} AS other.",
            )
        members.append(Member(alias, INPUT_VIEW if index == 0 else f"t{index}", relation))
    using = (name.name.lower() for join in tree.args.get("joins") or [] for name in join.args.get("using") or [])
    return Scope(tuple(members), source, frozenset(using))


def _find(table: exp.Expr, catalog: Catalog, source: Source) -> Relation:
    relation = catalog.find(table.name)
    if relation is None:
        raise UnknownRelationError(
            f"there is no stream or table {table.name}",
            position=source.position(offset_of(table.this) or 0),
            found=table.name,
            hint=_did_you_mean(table.name, (r.name for r in catalog.relations.values()))
            or "SHOW STREAMS and SHOW TABLES list what there is.",
        )
    return relation


def _check_place(table: exp.Expr, relation: Relation, index: int, source: Source) -> None:
    position = source.position(offset_of(table.this) or 0)
    if index == 0 and relation.kind is not RelationKind.STREAM:
        raise UnsupportedSqlError(
            f"{relation.name} is a table, and batch queries over tables are not possible yet",
            position=position,
            found=table.name,
            hint="FROM must name a stream; tables are joined to it.",
        )
    if index > 0 and relation.kind is RelationKind.STREAM:
        raise UnsupportedSqlError(
            f"{relation.name} is a stream, and streams cannot be joined with streams yet",
            position=position,
            found=table.name,
            hint="FROM names the one stream; JOIN names tables.",
        )


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


def _with_fields(column: exp.Column, parts: Sequence[exp.Identifier], used: int) -> exp.Expr:
    if "start" in parts[0].meta:
        column.this.meta.update(start=parts[0].meta["start"], end=parts[-1].meta["end"])
    bound: exp.Expr = column
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
            f"{text} is not possible: its value would differ when an epoch is run again",
            position=position,
            found=text,
            hint="Use the event time, or a column that the source writes.",
        )
    member = scope.member(parts[0].name) if len(parts) > 1 else None
    searched = (member,) if member is not None else scope.members
    near = parts[1].name if member is not None else parts[0].name
    columns = [c.name for m in searched for c in m.relation.columns]
    listed = ", ".join(f"{m.alias} ({', '.join(c.name for c in m.relation.columns)})" for m in searched)
    return UnknownColumnError(
        f"there is no column {text}",
        position=position,
        found=text,
        hint=_did_you_mean(near, [*columns, *extra, SITE_COLUMN]) or f"There are {listed} and {SITE_COLUMN}.",
    )


def _ambiguous(scope: Scope, parts: Sequence[exp.Identifier], owners: Sequence[Member]) -> UnknownColumnError:
    name = parts[0].name
    return UnknownColumnError(
        f"{name} is ambiguous",
        position=scope.source.position(parts[0].meta.get("start", 0)),
        found=name,
        hint=f"Write {' or '.join(f'{m.alias}.{name}' for m in owners)}.",
    )


def _did_you_mean(name: str, candidates: Iterable[str]) -> str:
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
