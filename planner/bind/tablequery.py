"""Batch queries: SELECTs whose rows come from tables alone, every name bound.

A batch query is made of SELECTs, each over the next, or over several put together by UNION ALL. The innermost read
tables, by their splits; every SELECT may join further tables. Those that only filter and project run on each split by
itself. The first that *gathers* (groups, ranks, sorts or limits) needs rows of all splits; it and all SELECTs above it
are finished by one task. So is a SELECT that joins a query which gathers.

Expressions read `input.c` for what stands first in FROM, `t1.c` for joined tables and `v1.c` for lateral views.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count

from planner.bind.binder import Binder
from planner.bind.clauses import bind_where, check_group_parts, group_keys, is_grouped, site_named
from planner.bind.derived import Derived, Names, Place
from planner.bind.gathered import STATEMENT, Gathered, Text
from planner.bind.groupingsets import has_sets
from planner.bind.joins import bind_joins, only_of
from planner.bind.laterals import bind_laterals, member_of
from planner.bind.outputs import Output, bind_outputs
from planner.bind.scope import Member, Scope, scope_of
from planner.bind.selects import Lateral, TableRows, TableSelect, UnionAll
from planner.bind.tablerows import standalone
from planner.bind.topk import bind_top_k
from planner.bind.unions import OpenUnion, branch_name, check_branches, unlike
from planner.functions.traits import WINDOW
from planner.graph.expressions import cast, conjuncts, enclosed, first_aggregate, replace_columns
from planner.relations.catalog import Column
from planner.sql.blocks import block_nodes, common_tables, from_items, nested_queries, operands, scalar_queries
from planner.sql.dialect import exp, offset_of
from planner.sql.refusals import function_name, refuse
from planner.sql.source import Source
from planner.sql.within import WITHIN
from planner.values.errors import PlannerError, UnsupportedSqlError
from planner.values.names import INPUT_VIEW

MAX_NESTED = 20
"""SELECTs over one another: they are nested in one statement."""

STREAM_HINT = "A query reads tables alone, or begins with a stream: FROM stream JOIN table ON ..."
STREAM_JOIN_HINT = "Name the stream first: FROM stream JOIN table ON ..."
LIMIT_HINT = "LIMIT 10, or LIMIT 10 OFFSET 20, is possible."
HAVING_HINT = "HAVING is possible with GROUP BY, or with an aggregate in the select list."


def rests_on_tables(query: exp.Expr, source: Source, gathered: Gathered) -> bool:
    """Whether what a statement reads first is a table.

    Raises:
        PlannerError: it names something that is not there, with its place.
    """
    scratch = Gathered(gathered.catalog, {}, texts={STATEMENT: Text(source)})
    return Names(scratch).rests_on_table(query, Place(source))


def bind_batch(query: exp.Expr, source: Source, gathered: Gathered) -> TableRows:
    """The meaning of a batch query; what else is found out goes to `gathered`.

    Raises:
        PlannerError: with its place.
    """
    gathered.texts[STATEMENT] = Text(source)
    gathered.note_functions(query, source)
    binder = _TableBinder(gathered)
    rows = binder.query(query, Place(source))
    binder.note_unused()
    return rows


def bind_groups(derived: Derived, gathered: Gathered, names: Names) -> TableSelect:
    """Return the meaning of a query that groups a table, which is joined to a stream.

    Raises:
        PlannerError: with its place, also where it does more than group, or filter, one table.
    """
    rows = _over_base(_TableBinder(gathered, names).below(derived))
    plain = isinstance(rows, TableSelect) and rows.grouped and rows.below is None and not (rows.joins or rows.laterals)
    if not isinstance(rows, TableSelect) or not plain or rows.undivided or rows.order or rows.limit is not None:
        message = f"{derived.name} does more than group one table, and cannot be joined to a stream yet"
        hint = "SELECT key, max(x) AS most FROM t WHERE ... GROUP BY key can be joined, with aggregates of streams."
        raise refuse(derived.item, derived.within.source, message, hint)
    return rows


def _over_base(rows: TableRows) -> TableRows:
    """Return a SELECT over rows of a table that are filtered and projected, as one over the table."""
    below = rows.below if isinstance(rows, TableSelect) else None
    if not isinstance(rows, TableSelect) or not isinstance(below, TableSelect):
        return rows
    below = _over_base(below)
    if not isinstance(below, TableSelect) or below.ends or below.joins or below.laterals or below.below is not None:
        return rows
    columns = {output.name.lower(): output.expression for output in below.outputs}

    def over(node: exp.Expr) -> exp.Expr:
        return replace_columns(node, lambda column: enclosed(columns[column.name.lower()]))

    return replace(
        rows,
        scope=below.scope,
        where=(*below.where, *map(over, rows.where)),
        outputs=tuple(replace(output, expression=over(output.expression)) for output in rows.outputs),
        keys=tuple(over(key).unnest() for key in rows.keys),
        having=tuple(map(over, rows.having)),
        below=None,
    )


class _TableBinder:
    def __init__(self, gathered: Gathered, names: Names | None = None) -> None:
        self._gathered = gathered
        self._names = names or Names(gathered)

    def query(self, query: exp.Expr, place: Place, depth: int = 1) -> TableRows:
        """A query of any form.

        Raises:
            PlannerError: with its place.
        """
        place = self._names.with_common(query, place)
        (first, *more) = operands(query)
        if not more:
            nested = isinstance(first, exp.SetOperation) or common_tables(first)
            return (
                self.query(first, place, depth) if nested and first is not query else self._select(first, place, depth)
            )
        branches = list(self.query(first, place, depth).selects())
        names = tuple(output.name for output in branches[0].outputs)
        for part in more:
            found = self.query(part, replace(place, renamed=True), depth)
            if len(found.outputs) != len(names):
                raise unlike(part, (len(names), len(found.outputs)), place.source)
            branches += [_named(branch, names) for branch in found.selects()]
            check_branches(len(branches), part, place.source)
        return self._ordered_union(query, UnionAll(tuple(branches)), place)

    def _ordered_union(self, query: exp.Expr, rows: UnionAll, place: Place) -> TableRows:
        """ORDER BY, LIMIT and OFFSET behind a UNION ALL are a SELECT over it."""
        if not any(query.args.get(clause) for clause in ("order", "limit", "offset")):
            return rows
        member = member_of("union", INPUT_VIEW, [output.name for output in rows.outputs])
        scope = Scope((member,), place.source, functions=self._gathered.catalog.functions)
        outputs = tuple(replace(output, expression=member.bound(output.name)) for output in rows.outputs)
        below = rows if rows.ends else UnionAll(self._of_one_type(rows.branches))
        return TableSelect(
            scope=scope,
            where=(),
            outputs=outputs,
            keys=(),
            having=(),
            top_k=None,
            joins=(),
            grouped=False,
            order=tuple(_ordered(node, outputs, Binder(scope)) for node in _order_items(query)),
            limit=_whole(query.args.get("limit"), place.source),
            offset=_whole(query.args.get("offset"), place.source) or 0,
            below=below,
        )

    def _select(self, select: exp.Expr, place: Place, depth: int) -> TableSelect:
        assert isinstance(select, exp.Select)
        first, *others = from_items(select)
        derived = self._names.derived(first, place)
        if derived is None:
            member = self._names.table(first, place)
            if member.is_stream:
                message = f"{member.relation.name} is a stream, and this query reads tables"
                raise refuse(first, place.source, message, STREAM_HINT)
            return self._bound(select, [(member, first)], self._joined(others, place, depth), place)
        below = self.below(derived, depth)
        member = member_of(derived.name, INPUT_VIEW, [output.name for output in below.outputs])
        bound = self._bound(select, [(member, first)], self._joined(others, place, depth), place)
        return replace(bound, below=below)

    def below(self, derived: Derived, depth: int = 1) -> TableRows:
        """The rows of a query in FROM or behind JOIN, under the names that its columns are given."""
        if depth == MAX_NESTED:
            message = f"more than {MAX_NESTED} queries over one another are not possible"
            raise refuse(derived.item, derived.within.source, message, "Write fewer.")
        with self._names.within(derived):
            below = self.query(derived.query, derived.place, depth + 1)
        names = self._names.given_names(derived, tuple(output.name for output in below.outputs))
        branches = tuple(_named(branch, names) for branch in below.selects())
        if isinstance(below, TableSelect):
            return branches[0]
        return UnionAll(branches if below.ends else self._of_one_type(branches))

    def _of_one_type(self, branches: tuple[TableSelect, ...]) -> tuple[TableSelect, ...]:
        """The branches of a UNION ALL that MAPs compute, each with casts to the union's types."""
        name = f"u{len(self._gathered.unions) + 1}"
        self._gathered.unions[name] = OpenUnion(name, tuple(map(standalone, branches)))
        self._gathered.note(name, f"UNION ALL of {len(branches)}, each branch on the splits of its own tables")
        types = self._gathered.types
        return tuple(
            _typed(b, types.get(branch_name(name, i), ()), types.get(name, ())) for i, b in enumerate(branches)
        )

    def note_unused(self) -> None:
        """As `compose.Composer.note_unused`."""
        scratch = replace(self._gathered, relations={}, unions={}, notes={})
        binder = _TableBinder(scratch)
        for entry in self._names.unused():
            with suppress(PlannerError):
                binder.query(entry.table.this, entry.place)
        self._gathered.texts, self._gathered.site_named = scratch.texts, scratch.site_named

    def _joined(self, items: Sequence[exp.Expr], place: Place, depth: int) -> list[_Joined]:
        return [self._join(item, place, depth) for item in items]

    def _join(self, item: exp.Expr, place: Place, depth: int) -> _Joined:
        derived = self._names.derived(item, place)
        if derived is not None:
            with self._names.within(derived):
                streams = not self._names.rests_on_table(derived.query, derived.place)
                plain = self._names.is_rows_of_table(derived)
            if streams:
                raise _joined_stream(item, place)
            if not plain:
                rows = self.below(derived, depth)
                member = member_of(derived.name, self._gathered.next_table(), [output.name for output in rows.outputs])
                return _Joined(member, item, rows)
        member = self._names.joined(item, place)
        if member.is_stream:
            raise _joined_stream(item, place)
        return _Joined(member, item)

    def _bound(
        self, select: exp.Select, first: list[tuple[Member, exp.Expr]], joined: list[_Joined], place: Place
    ) -> TableSelect:
        gathered = self._gathered
        functions = gathered.catalog.functions
        members = [*first, *((join.member, join.item) for join in joined)]
        tables = scope_of(members, select, place.source, functions)
        numbers = count(1)
        laterals = bind_laterals(select, tables, lambda: f"v{next(numbers)}")
        made = [
            (lateral.member, node) for lateral, node in zip(laterals, select.args.get("laterals") or [], strict=True)
        ]
        scope = scope_of([*members, *made], select, place.source, functions)
        gathered.site_named |= site_named(select, scope)
        gathered.note_stars(place.text, select, scope)
        found = _bound_select(select, scope, laterals, renamed=place.renamed)
        for join in joined:
            if join.rows is not None:
                gathered.note(join.member.alias, "computed by the reduce, which joins it")
            elif join.member.derived:
                gathered.note(join.member.alias, f"computed where {join.member.relation.name} is, before it is sent")
        joins = zip(found.joins, joined, strict=True)
        return replace(found, joins=tuple(replace(join, rows=behind.rows) for join, behind in joins))


@dataclass(frozen=True, slots=True)
class _Joined:
    """What stands behind JOIN."""

    member: Member
    item: exp.Expr
    rows: TableRows | None = None
    """None: a table, as it is or filtered and projected."""


def _joined_stream(item: exp.Expr, place: Place) -> UnsupportedSqlError:
    message = f"{item.alias_or_name} is a stream and cannot be joined to a table"
    return refuse(item, place.source, message, STREAM_JOIN_HINT)


def _named(select: TableSelect, names: Sequence[str]) -> TableSelect:
    outputs = tuple(replace(o, name=name) for o, name in zip(select.outputs, names, strict=True))
    return replace(select, outputs=outputs)


def _typed(select: TableSelect, own: Sequence[Column], wanted: Sequence[Column]) -> TableSelect:
    """The SELECT with columns of these types, once both are known."""
    if not len(own) == len(wanted) == len(select.outputs):
        return select
    outputs = tuple(
        o if before.type == to.type else replace(o, expression=cast(o.expression.copy(), to.type))
        for o, before, to in zip(select.outputs, own, wanted, strict=True)
    )
    return replace(select, outputs=outputs)


def _bound_select(select: exp.Select, scope: Scope, laterals: tuple[Lateral, ...], *, renamed: bool) -> TableSelect:
    if has_sets(select):
        raise refuse(
            select.args["group"], scope.source, "grouping sets are not computed in parts", "Such a query runs whole."
        )
    if select.args.get(WITHIN) is not None:
        at, hint = select.expressions[0], "Rows of a table have no event time; use GROUP BY."
        raise refuse(at, scope.source, "WITHIN is possible over streams only", hint)
    places = [join.this for join in select.args.get("joins") or [] if only_of(join)]
    places += [node for node in block_nodes(select) if isinstance(node, exp.WithinGroup)]
    for place in (*places, *nested_queries(select.args.get("where") or exp.Null()), *scalar_queries(select)):
        message = "sub-queries, semi joins and WITHIN GROUP are not computed in parts"
        raise refuse(place, scope.source, message, "Such a query runs whole.")
    joins = bind_joins(select, scope, by_equality=True)
    outputs = bind_outputs(select, Binder(scope, aliases=_window_name(select, scope)), renamed=renamed)
    aliases = _window_name(select, scope) | {output.name.lower(): output.expression for output in outputs}
    keys = group_keys(select, outputs, Binder(scope, aliases=aliases))
    later = Binder(scope, aliases=aliases, keys=keys)
    having = select.args.get("having")
    found = TableSelect(
        scope=scope,
        where=bind_where(select, Binder(scope)),
        outputs=outputs,
        keys=keys,
        having=conjuncts(later.bind(having.this)) if having is not None else (),
        top_k=bind_top_k(select, later),
        joins=joins,
        grouped=is_grouped(select),
        laterals=laterals,
        order=tuple(_ordered(node, outputs, later) for node in _order_items(select)),
        limit=_whole(select.args.get("limit"), scope.source),
        offset=_whole(select.args.get("offset"), scope.source) or 0,
    )
    computed = (*found.results, *(item.this for item in found.order))
    if any(first_aggregate(node) is not None for node in computed):
        found = replace(found, grouped=True)
    _check(select, found, computed)
    return found


def _window_name(select: exp.Select, scope: Scope) -> dict[str, exp.Expr]:
    """To Spark `window` is the name of the one window that a query groups by."""
    calls = {call for call in block_nodes(select) if function_name(call) == WINDOW}
    bound = {Binder(scope).bind(call) for call in calls}
    return {WINDOW: bound.pop()} if len(bound) == 1 else {}


def _check(select: exp.Select, found: TableSelect, computed: Sequence[exp.Expr]) -> None:
    source = found.scope.source
    if not found.grouped:
        if select.args.get("having") is not None:
            raise refuse(select.args["having"], source, "HAVING without groups is not possible", HAVING_HINT)
        return
    for node in computed:
        check_group_parts(node, found.keys, None, source)


def _order_items(select: exp.Expr) -> list[exp.Expr]:
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
