"""Queries over tables that one task runs as they are written: what their names mean, and whether that is possible.

Nothing else is bound: what of each table is needed, Spark says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from planner.bind.calls import checked_call
from planner.bind.derived import Common, Names, Place
from planner.bind.gathered import STATEMENT, Gathered, Text
from planner.graph.clientplan import ClientQuery
from planner.graph.whole import ViewText, WholeQuery
from planner.relations.catalog import SITE_COLUMN, Relation, RelationKind
from planner.sql.blocks import common_tables
from planner.sql.dialect import exp, offset_of
from planner.sql.queries import parse_any_query
from planner.sql.refusals import function_name, refuse
from planner.sql.source import Source, ViewSource
from planner.sql.statements import SelectQuery
from planner.sql.wholeforms import check_bare_names, check_calls, refused_in_whole
from planner.values.edits import Edit, edited
from planner.values.errors import InvalidDefinitionError, PlannerError, UnsupportedSqlError

SITE_HINT = "Write the columns out, or leave site out."


def bind_whole(select: SelectQuery, gathered: Gathered, refusal: PlannerError) -> WholeQuery | None:
    """The query as one that Spark runs as it is written; None: it reads streams, or has unsafe parts.

    It may read nothing at all, as `SELECT 1` does, by which many tools ask whether a connection is alive.

    Args:
        select: the query as parsed.
        gathered: what else is found out goes there.
        refusal: why it does not run in parts.

    Raises:
        PlannerError: a name is unknown, or means something else than it seems; with its place.
    """
    gathered.texts[STATEMENT] = Text(select.source)
    binder = _Binder(gathered)
    if not binder.names_of(select.tree, Place(select.source)):
        return None
    gathered.texts = {name: gathered.texts[name] for name in (*binder.views, STATEMENT)}
    edits = binder.checked_calls(select.tree, select.source)
    site_named = binder.site_named()
    if site_named:
        gathered.site_named = {table.name for table in binder.tables.values()}
    return WholeQuery(
        sql=edited(select.text, edits),
        edits=tuple(edits),
        tables=tuple(binder.tables.values()),
        views=tuple(binder.views.values()),
        site_named=site_named,
        refusal=refusal,
    )


def bind_client(query: ClientQuery, text: str, gathered: Gathered) -> WholeQuery:
    """The plan that a client made, with what its names mean; it may read no table.

    Args:
        query: the plan.
        text: what stands for it where a query has a text.
        gathered: what else is found out goes there.

    Raises:
        PlannerError: a name is unknown or that of a stream, or a SQL text in the plan is not possible.
    """
    gathered.texts[STATEMENT] = Text(Source(text))
    binder = _Binder(gathered, local=query.local)
    for sql in (*query.texts, *(f"SELECT * FROM {name}" for name in query.names)):
        source = Source(sql)
        tree, _ = parse_any_query(source)
        if not binder.names_of(tree, Place(source)):
            raise _not_over_tables(binder.other)
        if binder.checked_calls(tree, source):
            raise UnsupportedSqlError(
                "a plan of a Spark client calls a Python function of Selat",
                hint="call it in a view of Selat (CREATE VIEW), and read that, or use selat sql",
            )
    gathered.texts = {name: gathered.texts[name] for name in (*binder.views, STATEMENT)}
    return WholeQuery(
        sql="",
        edits=(),
        tables=tuple(binder.tables.values()),
        views=tuple(binder.views.values()),
        site_named=False,
        refusal=UnsupportedSqlError("a client of Spark made its plan"),
        plan=query.plan,
    )


def _not_over_tables(relation: Relation | None) -> UnsupportedSqlError:
    if relation is None:
        return UnsupportedSqlError(
            "a SQL text of a Spark client has a form that is not possible here", hint="docs/sql.md has those that are"
        )
    return UnsupportedSqlError(
        f"{relation.name} is a {relation.kind.value}, and a Spark client reads tables, and views over tables alone",
        found=relation.name,
        hint=f"read it by Selat's own SQL and client: selat sql 'SELECT ... FROM {relation.name} ...'",
        ids={"relation": relation.name},
    )


@dataclass(slots=True)
class _Binder:
    """Finds the relations behind names, through views."""

    gathered: Gathered
    tables: dict[str, Relation] = field(default_factory=dict)
    """By lower-case name, as `views`."""
    views: dict[str, ViewText] = field(default_factory=dict)
    """Each after those that it uses."""
    trees: list[tuple[exp.Expr, Source]] = field(default_factory=list)
    local: frozenset[str] = frozenset()
    """Lower-case names that mean nothing of the catalog in a client's own texts."""
    other: Relation | None = None
    """It was named, but is neither a table nor a view."""

    def names_of(self, tree: exp.Expr, place: Place) -> bool:
        """Looks up all names of a text; False when one is a stream, or a view that is not possible.

        Raises:
            PlannerError: a name is unknown, with its place.
        """
        if refused_in_whole(tree) is not None:
            return False
        self.trees.append((tree, place.source))
        names = Names(self.gathered)
        local = self.local if place.text == STATEMENT else frozenset()
        return all(
            self._named(names.relation(t, _within(place, common)), t, place)
            for t, common in _tables(tree)
            if t.name.lower() not in local
        )

    def _named(self, relation: Relation, item: exp.Expr, place: Place) -> bool:
        self.gathered.texts[place.text].relations.add(relation.name)
        key = relation.name.lower()
        if relation.kind is RelationKind.VIEW:
            return key in self.views or self._view(relation, item, place)
        if relation.kind is RelationKind.TABLE:
            self.tables[key] = relation
            self.gathered.relations[relation.name] = relation
            return True
        self.other = relation
        return False

    def _view(self, view: Relation, item: exp.Expr, place: Place) -> bool:
        key = view.name.lower()
        position = place.source.position(offset_of(item) or 0)
        if key in place.views:
            raise InvalidDefinitionError(
                f"view {view.name} is defined by itself",
                position=position,
                found=item.name,
                hint=f"It is within {' -> '.join(place.views)}; define one of them anew by CREATE OR REPLACE VIEW.",
            )
        source = ViewSource(view.definition, reference=position)
        tree, _ = parse_any_query(source)
        inner = Place(source, key, {}, (*place.views, key))
        self.gathered.texts[key] = Text(source)
        try:
            if not self.names_of(tree, inner):
                return False
            edits = self.checked_calls(tree, source)
        except PlannerError as error:
            error.message = f"in view {view.name}: {error.message}"
            raise
        columns = tuple(column.name for column in view.columns)
        self.views[key] = ViewText(view.name, columns, edited(view.definition, edits))
        return True

    def checked_calls(self, tree: exp.Expr, source: Source) -> list[Edit]:
        """Each Python function's name in a text, with the name of its version.

        Raises:
            PlannerError: a call is not possible.
        """
        check_calls(tree, source)
        check_bare_names(tree, source)
        self.gathered.note_functions(tree, source)
        edits, functions = [], self.gathered.catalog.functions
        for call in tree.find_all(exp.Anonymous):
            function = functions.get(function_name(call))
            if function is not None:
                versioned = checked_call(call, function, source)
                start = int(call.meta["start"])
                edits.append(Edit(start, start + source.text[start:].index("("), versioned))
        return edits

    def site_named(self) -> bool:
        """Whether a text names the pseudo-column. Raises UnsupportedSqlError when another means it by `*`."""
        named = any(_names_site(tree) for tree, _ in self.trees)
        for tree, source in self.trees if named else ():
            for node in tree.walk(bfs=False):
                star = isinstance(node, exp.Star) and isinstance(node.parent, exp.Select | exp.Column)
                natural = isinstance(node, exp.Join) and bool(node.args.get("method"))
                if star or natural:
                    what = "NATURAL JOIN" if natural else "*"
                    raise refuse(node, source, f"{what} beside {SITE_COLUMN} is not possible here", SITE_HINT)
        return named


def _names_site(tree: exp.Expr) -> bool:
    columns = any(column.name.lower() == SITE_COLUMN for column in tree.find_all(exp.Column))
    using = (name for join in tree.find_all(exp.Join) for name in join.args.get("using") or ())
    return columns or any(name.name.lower() == SITE_COLUMN for name in using)


def _tables(tree: exp.Expr) -> Iterator[tuple[exp.Table, Mapping[str, exp.CTE]]]:
    """What stands in FROM, except for entries of WITH, each with the entries that could have been meant."""
    stack: list[tuple[exp.Expr, Mapping[str, exp.CTE]]] = [(tree, {})]
    while stack:
        node, common = stack.pop()
        clause = node.args.get("with_")
        for table in common_tables(node):
            entry = {**common, table.alias.lower(): table}
            stack.append((table.this, entry if clause is not None and clause.args.get("recursive") else common))
            common = entry
        if isinstance(node, exp.Table) and node.name.lower() not in common:
            yield node, common
        parts = [(child, common) for child in node.iter_expressions() if not isinstance(child, exp.With)]
        stack += reversed(parts)


def _within(place: Place, common: Mapping[str, exp.CTE]) -> Place:
    entries = {name: Common(table, place) for name, table in common.items()}
    return Place(place.source, place.text, entries, place.views)
