"""Batch queries: SELECTs whose rows come from tables alone, every name bound.

A batch query is a chain of blocks, one SELECT over the next. The innermost reads the first table, by its splits; every
block may join further tables. Blocks that only filter and project run on each split by itself. The first that
*gathers* (groups, sorts or limits) needs rows of all splits; it and all blocks above it are finished by one task.

Expressions read `input.c` for what stands first in FROM, `t1.c` for joined tables and `v1.c` for lateral views.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from planner.catalog import Column, Relation, RelationKind
from planner.errors import PlannerError, UnsupportedSqlError
from planner.functions import WINDOW
from planner.plan import INPUT_VIEW
from planner.query.binder import Binder
from planner.query.derived import Derived, Names, Place
from planner.query.expressions import conjuncts, first_aggregate
from planner.query.gathered import STATEMENT, Gathered, Text
from planner.query.joins import bind_joins
from planner.query.logical import LogicalQuery, bind_where, check_group_parts, group_keys, is_grouped, site_named
from planner.query.outputs import Output, bind_outputs
from planner.query.scope import Member, Scope, scope_of
from planner.query.topk import bind_top_k
from planner.sql.blocks import block_nodes, common_tables, from_items, operands
from planner.sql.dialect import exp, offset_of
from planner.sql.refusals import function_name, refuse
from planner.sql.source import Source

MAX_BLOCKS = 20
"""They are nested in one statement."""

UNION_HINT = "Submit several queries, or declare one table with a binding at each site."
STREAM_JOIN_HINT = "Name the stream first: FROM stream JOIN table ON ..."
LIMIT_HINT = "LIMIT 10, or LIMIT 10 OFFSET 20, is possible."
LATERAL_HINT = "LATERAL VIEW explode(x) t AS y is possible."
HAVING_HINT = "HAVING and QUALIFY are possible with GROUP BY, or with an aggregate in the select list."


@dataclass(frozen=True, slots=True)
class Lateral:
    """LATERAL VIEW: the rows that a generator makes of each row."""

    member: Member
    call: exp.Expr
    outer: bool


@dataclass(frozen=True, slots=True)
class Block:
    """One SELECT."""

    query: LogicalQuery
    """Without windows; `keys` are all group keys."""
    grouped: bool
    """It aggregates; without keys all rows are one group."""
    laterals: tuple[Lateral, ...]
    order: tuple[exp.Ordered, ...]
    limit: int | None
    offset: int
    below: Block | None
    """What its first rows come from; None: a table."""

    @property
    def gathers(self) -> bool:
        """Whether it needs rows of all splits."""
        return self.grouped or bool(self.order) or self.limit is not None or bool(self.offset)

    def chain(self) -> Iterator[Block]:
        """This block and those below it."""
        block: Block | None = self
        while block is not None:
            yield block
            block = block.below


def rests_on_tables(query: exp.Expr, source: Source, gathered: Gathered) -> bool:
    """Whether what a statement reads first is a table.

    Raises:
        PlannerError: it names something that is not there, with its place.
    """
    scratch = Gathered(gathered.catalog, {}, texts={STATEMENT: Text(source)})
    return Names(scratch).rests_on_table(query, Place(source))


def bind_batch(query: exp.Expr, source: Source, gathered: Gathered) -> Block:
    """The meaning of a batch query; what else is found out goes to `gathered`.

    Raises:
        PlannerError: with its place.
    """
    gathered.texts[STATEMENT] = Text(source)
    gathered.note_functions(query)
    binder = _BlockBinder(gathered)
    block = binder.block(query, Place(source))
    binder.note_unused()
    return block


class _BlockBinder:
    def __init__(self, gathered: Gathered) -> None:
        self._gathered = gathered
        self._names = Names(gathered)

    def block(self, query: exp.Expr, place: Place, depth: int = 1) -> Block:
        place = self._names.with_common(query, place)
        (part, *more) = operands(query)
        if more:
            raise refuse(
                from_items(more[0])[0], place.source, "UNION ALL of batch queries is not possible yet", UNION_HINT
            )
        if part is not query and common_tables(part):
            return self.block(part, place, depth)
        assert isinstance(part, exp.Select)
        first, *others = from_items(part)
        derived = self._names.derived(first, place)
        if derived is None:
            return self._bound(part, [(self._names.table(first, place), first), *self._joined(others, place)], place)
        if depth == MAX_BLOCKS:
            message = f"more than {MAX_BLOCKS} queries over one another are not possible"
            raise refuse(first, place.source, message, "Write fewer.")
        with self._names.within(derived):
            below = self.block(derived.query, derived.place, depth + 1)
        below = self._renamed(below, derived)
        member = _member(derived.name, INPUT_VIEW, [output.name for output in below.query.outputs])
        bound = self._bound(part, [(member, first), *self._joined(others, place)], place)
        return replace(bound, below=below)

    def note_unused(self) -> None:
        """As `compose.Composer.note_unused`: Spark checks entries of WITH that nobody uses with all the text."""
        scratch = replace(self._gathered, relations={}, unions={}, notes={})
        binder = _BlockBinder(scratch)
        for entry in self._names.unused():
            with suppress(PlannerError):
                binder.block(entry.table.this, entry.place)
        self._gathered.texts, self._gathered.site_named = scratch.texts, scratch.site_named

    def _renamed(self, below: Block, derived: Derived) -> Block:
        names = self._names.given_names(derived, tuple(output.name for output in below.query.outputs))
        outputs = tuple(replace(o, name=name) for o, name in zip(below.query.outputs, names, strict=True))
        return replace(below, query=replace(below.query, outputs=outputs))

    def _joined(self, items: Sequence[exp.Expr], place: Place) -> list[tuple[Member, exp.Expr]]:
        found = []
        for item in items:
            derived = self._names.derived(item, place)
            streams = derived is not None and not self._names.rests_on_table(derived.query, derived.place)
            member = None if streams else self._names.joined(item, place)
            if member is None or member.is_stream:
                message = f"{item.alias_or_name} is a stream and cannot be joined to a table"
                raise refuse(item, place.source, message, STREAM_JOIN_HINT)
            found.append((member, item))
        return found

    def _bound(self, select: exp.Select, members: list[tuple[Member, exp.Expr]], place: Place) -> Block:
        gathered = self._gathered
        functions = gathered.catalog.functions
        tables = scope_of(members, select, place.source, functions)
        laterals = _laterals(select, tables)
        made = [
            (lateral.member, node) for lateral, node in zip(laterals, select.args.get("laterals") or [], strict=True)
        ]
        scope = scope_of([*members, *made], select, place.source, functions)
        gathered.site_named |= site_named(select, scope)
        gathered.note_stars(place.text, select, scope)
        block = _block(select, scope, laterals)
        for member, _ in members[1:]:
            if member.derived:
                gathered.note(member.alias, f"computed where {member.relation.name} is, before it is sent")
        return block


def _member(alias: str, view: str, names: Sequence[str]) -> Member:
    columns = tuple(Column(name, "") for name in names)
    return Member(alias, view, Relation(alias, RelationKind.TABLE, columns, ()), derived=True)


def _laterals(select: exp.Select, scope: Scope) -> tuple[Lateral, ...]:
    found: list[Lateral] = []
    for number, node in enumerate(select.args.get("laterals") or [], 1):
        alias = node.args.get("alias")
        names = [name.name for name in alias.columns] if alias is not None else []
        if not node.args.get("view") or not names or not alias.name:
            raise refuse(node, scope.source, "LATERAL of this form is not possible", LATERAL_HINT)
        known = replace(scope, members=(*scope.members, *(lateral.member for lateral in found)))
        member = _member(alias.name, f"v{number}", names)
        found.append(Lateral(member, Binder(known).bind(node.this), bool(node.args.get("outer"))))
    return tuple(found)


def _block(select: exp.Select, scope: Scope, laterals: tuple[Lateral, ...]) -> Block:
    joins = bind_joins(select, scope)
    outputs = bind_outputs(select, Binder(scope, aliases=_window_name(select, scope)))
    aliases = _window_name(select, scope) | {output.name.lower(): output.expression for output in outputs}
    keys = group_keys(select, outputs, Binder(scope, aliases=aliases))
    later = Binder(scope, aliases=aliases, keys=keys)
    having = select.args.get("having")
    query = LogicalQuery(
        scope=scope,
        joins=joins,
        where=bind_where(select, Binder(scope)),
        outputs=outputs,
        window=None,
        join_window=None,
        keys=keys,
        having=conjuncts(later.bind(having.this)) if having is not None else (),
        top_k=bind_top_k(select, later),
    )
    order = tuple(_ordered(node, outputs, later) for node in _order_items(select))
    ordered = [item.this for item in order]
    aggregates = [*(o.expression for o in outputs), *query.having, *ordered]
    block = Block(
        query=query,
        grouped=is_grouped(select) or any(first_aggregate(node) is not None for node in aggregates),
        laterals=laterals,
        order=order,
        limit=_whole(select.args.get("limit"), scope.source),
        offset=_whole(select.args.get("offset"), scope.source) or 0,
        below=None,
    )
    _check(select, block, ordered)
    return block


def _window_name(select: exp.Select, scope: Scope) -> dict[str, exp.Expr]:
    """To Spark `window` is the name of the one window that a query groups by."""
    calls = {call for call in block_nodes(select) if function_name(call) == WINDOW}
    bound = {Binder(scope).bind(call) for call in calls}
    return {WINDOW: bound.pop()} if len(bound) == 1 else {}


def _check(select: exp.Select, block: Block, ordered: Sequence[exp.Expr]) -> None:
    query, source = block.query, block.query.scope.source
    if not block.grouped:
        for clause in ("having", "qualify"):
            if select.args.get(clause) is not None:
                raise refuse(
                    select.args[clause], source, f"{clause.upper()} without groups is not possible", HAVING_HINT
                )
        return
    ranked = query.top_k.parts if query.top_k is not None else ()
    for node in (*(output.expression for output in query.outputs), *query.having, *ranked, *ordered):
        check_group_parts(node, query.keys, None, source)


def _order_items(select: exp.Select) -> list[exp.Expr]:
    order = select.args.get("order")
    return list(order.expressions) if order is not None else []


def _ordered(node: exp.Expr, outputs: Sequence[Output], binder: Binder) -> exp.Ordered:
    bare = node.this
    copy = node.copy()
    if isinstance(bare, exp.Literal) and not bare.is_string:
        number = int(bare.name) if bare.name.isdecimal() else 0
        if not 1 <= number <= len(outputs):
            message = f"there is no select item {bare.name}"
            hint = f"ORDER BY 1 means the first select item; there are {len(outputs)}."
            raise refuse(bare, binder.scope.source, message, hint)
        copy.set("this", outputs[number - 1].expression.copy())
    else:
        copy.set("this", binder.bind(bare))
    assert isinstance(copy, exp.Ordered)
    return copy


def _whole(clause: exp.Expr | None, source: Source) -> int | None:
    """The number behind LIMIT or OFFSET; None: the clause is not there."""
    if clause is None:
        return None
    number = clause.expression if isinstance(clause, exp.Limit | exp.Offset) else None
    if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdecimal():
        at = number if number is not None and offset_of(number) is not None else clause
        position = source.position(offset_of(at) or 0)
        raise UnsupportedSqlError(
            "the bound must be a whole number", position=position, found=at.sql(), hint=LIMIT_HINT
        )
    return int(number.name)
