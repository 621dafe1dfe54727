"""Queries over queries: WITH, sub-queries in FROM, views and UNION ALL become SELECTs over streams and tables.

A derived table that only joins, filters and projects is merged: its columns are replaced by what they mean. One that
stands on the right of a join is computed where its table or stream is read. One that aggregates stays, and the SELECT
over it becomes a layer that the MERGE stage computes. A UNION ALL is its branches, each a query of its own; only an
aggregate over it takes them together again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from planner.bind.binder import Window
from planner.bind.clauses import is_grouped, site_named
from planner.bind.derived import Derived, Names, Place
from planner.bind.gathered import STATEMENT, Gathered, Text
from planner.bind.joins import check_on, is_equality, only_of
from planner.bind.laterals import HINT as LATERAL_HINT
from planner.bind.laterals import bind_laterals, lifted
from planner.bind.layers import closing_time, layer_view, rows_member, with_layer
from planner.bind.over import has_over
from planner.bind.paired import check_paired
from planner.bind.scalars import OF_VALUE
from planner.bind.scope import Member, scope_of
from planner.bind.selects import Below, StreamSelect, TableSelect
from planner.bind.streamselect import bind_stream_select
from planner.bind.subqueries import without_subqueries
from planner.bind.tablequery import bind_groups
from planner.bind.unions import (
    Substitution,
    check_branches,
    derived_expressions,
    exported,
    joined_member,
    merged,
    merged_member,
    open_union,
    specialized,
    union_member,
    unlike,
)
from planner.graph.expressions import MAX_MERGED_NODES, is_small, placed
from planner.relations.catalog import SITE_COLUMN, Column, Relation, RelationKind
from planner.sql.blocks import common_tables, from_items, operands
from planner.sql.dialect import MAX_CHAIN, exp, offset_of
from planner.sql.emit import emit_of
from planner.sql.refusals import LATERALS, check_over_stream, refuse
from planner.sql.source import Source
from planner.values.errors import PlannerError, UnsupportedSqlError
from planner.values.names import INPUT_VIEW

JOINED_STREAM_HINT = (
    "A stream, or a query that only filters and projects one, can be joined to a stream; rows of windows can be joined "
    "to rows of windows, where both queries aggregate."
)
UNION_OF_JOINS_HINT = "Aggregate in each branch: SELECT ... GROUP BY window(...), ... UNION ALL SELECT ..."
UNION_HINT = "Write the outer SELECT in each branch: SELECT ... FROM (...) UNION ALL SELECT ... FROM (...)."


class Composer:
    """Binds the queries of one statement."""

    def __init__(self, gathered: Gathered) -> None:
        self._gathered = gathered
        self._names = Names(gathered)
        self._groups: dict[str, TableSelect] = {}
        """Tables that are grouped before they are joined, by view."""

    def query(self, query: exp.Expr, place: Place) -> tuple[StreamSelect, ...]:
        """The branches of a query.

        Raises:
            PlannerError: with its place.
        """
        place = self._names.with_common(query, place)
        parts = operands(query)
        if len(parts) == 1:
            (part,) = parts
            nested = isinstance(part, exp.SetOperation) or common_tables(part)
            return self.query(part, place) if nested and part is not query else self._select(part, place)
        check_over_stream(query, place.source)
        found = list(self.query(parts[0], place))
        names = tuple(output.name for output in found[0].columns)
        for part in parts[1:]:
            branches = self.query(part, replace(place, renamed=True))
            if len(branches[0].columns) != len(names):
                raise unlike(part, (len(names), len(branches[0].columns)), place.source)
            found += [_renamed(branch, names) for branch in branches]
            check_branches(len(found), part, place.source)
        return tuple(found)

    def note_unused(self) -> None:
        """Notes what Spark has to know about entries of WITH that nothing uses: it checks the whole text.

        Such an entry may be a query that streams cannot run; it adds nothing to the plan.
        """
        scratch = replace(self._gathered, relations={}, unions={}, notes={})
        composer = Composer(scratch)
        for entry in self._names.unused():
            with suppress(PlannerError):
                composer.query(entry.table.this, entry.place)
        self._gathered.texts, self._gathered.site_named = scratch.texts, scratch.site_named

    def _select(self, select: exp.Expr, place: Place) -> tuple[StreamSelect, ...]:
        assert isinstance(select, exp.Select)
        check_over_stream(select, place.source)
        turned = self._names.stream_first(select, place)
        assert isinstance(turned, exp.Select)
        select = turned
        select = without_subqueries(select, lambda item: self._columns(item, place), place.source)
        first, *others = from_items(select)
        derived = self._names.derived(first, place)
        if derived is None:
            member = self._names.stream(first, place)
            return (self._bound(select, [(member, first), *self._joined(others, place)], place),)
        branches = self._branches(derived)
        if any(branch.window is not None for branch in branches):
            return (self._over_aggregate(select, branches, derived, place),)
        together = is_grouped(select) or select.args.get("qualify") is not None or has_over(select)
        if len(branches) == 1 or not (together or emit_of(select) is not None):
            return self._over_rows(select, branches, derived, place)
        return (self._over_union(select, branches, derived, place),)

    def _columns(self, item: exp.Expr, place: Place) -> frozenset[str]:
        """Names of the columns of a stream or table."""
        if self._names.derived(item, place) is not None:
            return frozenset()
        relation = self._names.relation(item, place)
        return frozenset((SITE_COLUMN, *(column.name.lower() for column in relation.columns)))

    def _bound(
        self,
        select: exp.Select,
        members: list[tuple[Member, exp.Expr]],
        place: Place,
        below: Window | None = None,
    ) -> StreamSelect:
        """One SELECT over these members; `below` is the window in which the streams of the first are joined."""
        functions = self._gathered.catalog.functions
        joins = select.args.get("joins") or []
        joined = zip(members[1:], joins, strict=True)
        members = [members[0], *((_of_join(member, join), item) for (member, item), join in joined)]
        relations = scope_of(members, select, place.source, functions)
        laterals = bind_laterals(select, relations, self._gathered.next_lateral)
        made = [(lateral.member, node) for lateral, node in zip(laterals, select.args.get(LATERALS) or (), strict=True)]
        scope = scope_of([*members, *made], select, place.source, functions)
        query = replace(bind_stream_select(select, scope, renamed=place.renamed, below=below), laterals=laterals)
        query = replace(query, joins=tuple(replace(j, rows=self._groups.get(j.member.view)) for j in query.joins))
        if query.joins_streams and (grouped := next((j for j in query.joins if j.rows is not None), None)):
            item = next(item for member, item in members if member.view == grouped.member.view)
            message = f"{grouped.member.alias} groups a table, and cannot be joined to joined streams yet"
            raise refuse(item, place.source, message, "Join it with one of the streams, in a sub-query.")
        if any(0 < lateral.joins < len(query.joins) for lateral in laterals):
            message = "IN and EXISTS behind both JOIN and LATERAL VIEW are not possible yet"
            raise refuse(made[0][1], place.source, message, "Put the LATERAL VIEW, or the joins, into a sub-query.")
        if query.joins_streams and laterals:
            raise refuse(made[0][1], place.source, "LATERAL VIEW over joined streams is not possible yet", LATERAL_HINT)
        self._gathered.site_named |= site_named(select, scope)
        self._gathered.note_stars(place.text, select, scope)
        self._gathered.note_joins(place.text, query.joins)
        if query.window is not None and not is_grouped(select):
            self._gathered.note_window_names(place.text, select, query.window.name, scope)
        for join in query.joins:
            if not (join.member.is_stream or any(is_equality(conjunct, join.member.view) for conjunct in join.on)):
                self._gathered.note(join.member.alias, "no equality: each row is compared with all its rows")
        for member, item in members:
            self._check_expressions(derived_expressions(query, member), member.alias, item, place)
        return query

    def _joined(self, items: Sequence[exp.Expr], place: Place) -> list[tuple[Member, exp.Expr]]:
        """What stands behind each JOIN."""
        found = ((self._joined_stream(item, place) or self._joined_groups(item, place), item) for item in items)
        return [(member or self._names.joined(item, place), item) for member, item in found]

    def _joined_groups(self, item: exp.Expr, place: Place) -> Member | None:
        """Return a derived table that groups a table; None for anything else."""
        derived = self._names.derived(item, place)
        if derived is None:
            return None
        with self._names.within(derived):
            if self._names.is_rows_of_table(derived):
                return None
        rows = bind_groups(derived, self._gathered, self._names)
        base = rows.scope.stream.relation
        relation = Relation(
            base.name, RelationKind.TABLE, tuple(Column(o.name, "") for o in rows.outputs), base.bindings
        )
        member = Member(derived.name, self._gathered.next_table(), relation, derived=True)
        self._groups[member.view] = rows
        self._gathered.note(derived.name, f"sites of {base.name} send partials of its groups")
        return member

    def _joined_stream(self, item: exp.Expr, place: Place) -> Member | None:
        """A derived table over a stream; None for anything else."""
        derived = self._names.derived(item, place)
        if derived is None:
            return None
        with self._names.within(derived):
            if self._names.rests_on_table(derived.query, derived.place):
                return None
        branches = self._branches(derived)
        what = _more_than_rows(branches)
        if what:
            raise refuse(item, place.source, f"{derived.name} {what} and cannot be joined yet", JOINED_STREAM_HINT)
        base = branches[0].scope.stream.relation.name
        self._gathered.note(derived.name, f"computed where {base} is, before it is sent")
        return joined_member(derived.name, branches[0], self._gathered.next_table())

    def _branches(self, derived: Derived) -> tuple[StreamSelect, ...]:
        """The rows of a derived table, under the names that its columns are given."""
        with self._names.within(derived):
            branches = self.query(derived.query, derived.place)
        names = tuple(output.name for output in branches[0].columns)
        given = self._names.given_names(derived, names)
        branches = tuple(_renamed(branch, given) for branch in branches)
        if derived.place.text != derived.within.text:
            start = offset_of(derived.item) or 0
            branches = tuple(_moved(branch, start) for branch in branches)
        source, view = derived.within.source, self._gathered.next_lateral
        return tuple(b if b.window is not None else lifted(b, view, derived.item, source) for b in branches)

    def _over_rows(
        self, select: exp.Select, branches: tuple[StreamSelect, ...], derived: Derived, place: Place
    ) -> tuple[StreamSelect, ...]:
        """Each branch merged into a copy of the SELECT."""
        union = self._open(branches) if len(branches) > 1 else ""
        others = from_items(select)[1:]
        found = []
        for index, branch in enumerate(branches):
            member = merged_member(derived.name, branch, exported(union, index, branch, self._gathered.types))
            members = [(member, derived.item), *self._joined(others, place)]
            query = merged(self._bound(select, members, place, branch.join_window), branch)
            self._check_joined_rows(query, branch, derived)
            check_paired(query, place.source, at=derived.item)
            self._check_size(query, derived.name, derived.item, derived.within)
            found.append(query)
        self._gathered.note(
            derived.name, "merged into the SELECT over it" if not union else "UNION ALL, merged as well"
        )
        return tuple(found)

    def _check_joined_rows(self, query: StreamSelect, branch: StreamSelect, derived: Derived) -> None:
        """Refuses rows of generators that are joined with streams, or that stand between joins, and joined rows that
        are filtered before a join that keeps rows of the other side."""
        outer = query.joins[len(branch.joins) :]
        if branch.joins and branch.where and any(join.right for join in outer):
            message = f"{derived.name} filters joined rows, and cannot be joined by RIGHT or FULL yet"
            raise refuse(derived.item, derived.within.source, message, "Put its joins and this one into one SELECT.")
        between = any(0 < lateral.joins < len(query.joins) for lateral in query.laterals)
        if between or (query.laterals and query.joins_streams):
            what = "joins and generates rows and cannot be joined" if between else "generates rows and cannot be joined"
            message = f"{derived.name} {what}{'' if between else ' with streams'} yet"
            raise refuse(derived.item, derived.within.source, message, "Join first: FROM ... JOIN ... LATERAL VIEW ...")

    def _check_size(self, query: StreamSelect, name: str, item: exp.Expr, place: Place) -> None:
        nodes = [*(output.expression for output in query.outputs), *query.where, *query.keys]
        self._check_expressions(nodes, name, item, place)

    def _check_expressions(self, nodes: Sequence[exp.Expr], name: str, item: exp.Expr, place: Place) -> None:
        """Refuses expressions that have grown too large: a name used twice on each level doubles them each time."""
        if not is_small(nodes):
            raise refuse(
                item,
                place.source,
                f"written out, the expressions over {name} are too large",
                f"At most {MAX_MERGED_NODES} operators, names and values, {MAX_CHAIN} in one chain, are possible.",
            )

    def _over_union(
        self, select: exp.Select, branches: tuple[StreamSelect, ...], derived: Derived, place: Place
    ) -> StreamSelect:
        """An aggregate over all branches: each computes partials, one MERGE takes them all."""
        union = self._open(branches)
        member = union_member(derived.name, union, branches)
        tables = self._joined(from_items(select)[1:], place)
        for item in [derived.item] if all(b.join_window is not None for b in branches) else _streams(tables):
            message = "an aggregate over a UNION ALL of which every branch joins streams is not possible yet"
            raise refuse(item, place.source, message, UNION_OF_JOINS_HINT)
        query = self._bound(select, [(member, derived.item), *tables], place)
        self._check_joined_branches(query, branches, derived.item, place)
        inputs = []
        for index, branch in enumerate(branches):
            copies = {m.view: self._gathered.next_table() if index else m.view for m, _ in tables}
            columns = exported(union, index, branch, self._gathered.types)
            inputs.append(specialized(query, branch, Substitution(union, columns, copies)))
            self._check_joined_rows(inputs[-1].query, branch, derived)
            check_paired(inputs[-1].query, place.source, at=derived.item)
            self._check_size(inputs[-1].query, derived.name, derived.item, derived.within)
            check_on(inputs[-1].query.joins, query.scope, at=derived.item)
        self._gathered.note(derived.name, f"UNION ALL of {len(branches)}, aggregated branch by branch")
        return replace(query, inputs=tuple(inputs))

    def _check_joined_branches(
        self, query: StreamSelect, branches: Sequence[StreamSelect], item: exp.Expr, place: Place
    ) -> None:
        """Refuses an aggregate whose windows differ from those in which a branch joins streams."""
        window = query.window
        for joined in (branch.join_window for branch in branches if branch.join_window is not None):
            if window is not None and not joined.like(window):
                message = f"a branch of the UNION ALL joins streams in windows of {joined.words}"
                hint = f"Group by the same windows, not by those of {window.words}, or aggregate in each branch."
                raise refuse(item, place.source, message, hint)

    def _over_aggregate(
        self, select: exp.Select, branches: tuple[StreamSelect, ...], derived: Derived, place: Place
    ) -> StreamSelect:
        source = place.source
        if len(branches) > 1:
            message = "a SELECT over a UNION ALL of aggregates is not possible yet"
            raise refuse(derived.item, source, message, UNION_HINT)
        if select.args.get(LATERALS):
            message = "LATERAL VIEW over the rows of windows is not possible yet"
            raise refuse(select.args[LATERALS][0], source, message, "Use it in the sub-query, before aggregating.")
        if emit_of(select) is not None or has_over(select):
            return self._over_closed_windows(select, branches[0], derived, place)
        queries = [branches[0]]
        members = [(rows_member(derived.name, layer_view(branches[0]), branches[0]), derived.item)]
        for join in select.args.get("joins") or []:
            name, query = self._window_rows(join.this, derived.name, place)
            queries.append(query)
            member = rows_member(name, self._gathered.next_table(), query)
            members.append((_of_join(member, join), join.this))
            self._gathered.note(name, f"joined to the rows of {derived.name} by the merge, window by window")
        scope = scope_of(members, select, source, self._gathered.catalog.functions)
        found = with_layer(queries, select, scope, renamed=place.renamed)
        self._gathered.note_stars(place.text, select, scope)
        self._gathered.note(derived.name, "the SELECT over it is computed by the merge, window by window")
        return found

    def _over_closed_windows(
        self, select: exp.Select, rows: StreamSelect, derived: Derived, place: Place
    ) -> StreamSelect:
        """Return a SELECT over the rows of windows as over those of a stream, whose event time one of their columns
        is."""
        if select.args.get("joins"):
            join = select.args["joins"][0]
            hint = "Join before aggregating, or aggregate in a query of its own."
            raise refuse(join.this, place.source, "joins with the rows of windows are not possible here yet", hint)
        found = closing_time(rows)
        if found is None:
            hint = "Select its end in the sub-query: window.end AS closed. Sessions are not possible yet."
            raise refuse(derived.item, place.source, f"{derived.name} does not select when its windows end", hint)
        name, behind = found
        member = rows_member(derived.name, INPUT_VIEW, rows)
        member = replace(member, relation=replace(member.relation, event_time=name))
        query = self._bound(select, [(member, derived.item)], place)
        self._gathered.note(derived.name, f"its rows are read as those of a stream, by {name}")
        return replace(query, below=Below(rows, behind))

    def _window_rows(self, item: exp.Expr, to: str, place: Place) -> tuple[str, StreamSelect]:
        """What stands behind JOIN and is joined to the rows of windows of `to`."""
        derived = self._names.derived(item, place)
        if derived is None:
            raise self._not_rows_of_windows(item, item.alias_or_name, to, place)
        with self._names.within(derived):
            if self._names.rests_on_table(derived.query, derived.place):
                raise self._not_rows_of_windows(item, derived.name, to, place)
        branches = self._branches(derived)
        if len(branches) > 1 or branches[0].window is None:
            raise self._not_rows_of_windows(item, derived.name, to, place)
        return derived.name, branches[0]

    def _not_rows_of_windows(self, item: exp.Expr, name: str, to: str, place: Place) -> UnsupportedSqlError:
        message = f"{to} aggregates, and only rows of windows can be joined to it; {name} has none"
        return refuse(item, place.source, message, "Join tables before aggregating, or aggregate both.")

    def _open(self, branches: tuple[StreamSelect, ...]) -> str:
        name = f"u{len(self._gathered.unions) + 1}"
        self._gathered.unions[name] = open_union(name, branches)
        return name


def bind_statement(query: exp.Expr, source: Source, gathered: Gathered) -> tuple[StreamSelect, ...]:
    """The branches of a statement; what else is found out goes to `gathered`.

    Raises:
        PlannerError: with its place.
    """
    gathered.texts[STATEMENT] = Text(source)
    gathered.note_functions(query, source)
    composer = Composer(gathered)
    branches = composer.query(query, Place(source))
    composer.note_unused()
    return branches


def _of_join(member: Member, join: exp.Expr) -> Member:
    """Return a member with what the kind of its join says of its columns."""
    return replace(member, hidden=bool(only_of(join)), starred=OF_VALUE not in join.meta)


def _more_than_rows(branches: Sequence[StreamSelect]) -> str:
    """What a derived table over a stream does besides filtering and projecting it; empty: nothing."""
    first = branches[0]
    if len(branches) > 1:
        return "is a UNION ALL"
    if first.window is not None:
        return "aggregates"
    if first.laterals:
        return "generates rows"
    return "reads several relations" if first.joins else ""


def _streams(members: Sequence[tuple[Member, exp.Expr]]) -> list[exp.Expr]:
    return [item for member, item in members if member.is_stream]


def _renamed(branch: StreamSelect, names: tuple[str, ...]) -> StreamSelect:
    outputs = tuple(replace(o, name=name) for o, name in zip(branch.columns, names, strict=True))
    if branch.layers:
        return replace(branch, layers=(*branch.layers[:-1], replace(branch.layers[-1], outputs=outputs)))
    return replace(branch, outputs=outputs)


def _moved(branch: StreamSelect, start: int) -> StreamSelect:
    """The branch with all its places set to where the view is named; places in the view's text mean nothing there."""
    if branch.window is not None:
        return branch
    joins = tuple(replace(join, on=tuple(placed(part, start) for part in join.on)) for join in branch.joins)
    outputs = tuple(replace(o, expression=placed(o.expression, start)) for o in branch.outputs)
    laterals = tuple(replace(lateral, call=placed(lateral.call, start)) for lateral in branch.laterals)
    return replace(
        branch,
        laterals=laterals,
        joins=joins,
        where=tuple(placed(part, start) for part in branch.where),
        outputs=outputs,
    )
