"""Derived tables: what the names in FROM, WITH and JOIN mean, and how a derived table is joined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from planner.bind.binder import Binder
from planner.bind.clauses import bind_where, is_grouped, site_named
from planner.bind.gathered import STATEMENT, Gathered, Text
from planner.bind.outputs import Output, bind_outputs
from planner.bind.scope import DerivedRows, Member, Scope, did_you_mean
from planner.bind.unions import is_real_site
from planner.graph.expressions import first_aggregate, generates, placed
from planner.relations.catalog import SITE_COLUMN, Column, Relation, RelationKind
from planner.sql.blocks import block_nodes, common_tables, from_items, operands, unwrapped
from planner.sql.dialect import exp, offset_of
from planner.sql.queries import parse_query
from planner.sql.refusals import BATCH_CLAUSES, is_over, refuse
from planner.sql.source import Source, ViewSource
from planner.sql.within import WITHIN
from planner.values.errors import InvalidDefinitionError, PlannerError, UnknownRelationError, UnsupportedSqlError
from planner.values.names import INPUT_VIEW

_SYMMETRIC = ("", "INNER", "CROSS")
JOIN_HINT = "Join tables one by one: JOIN t ON ..., JOIN (SELECT ... FROM t WHERE ...) AS d ON ..."


@dataclass(frozen=True, slots=True)
class Place:
    """Where a query stands: what its names can mean, and the text that its errors are about."""

    source: Source
    text: str = STATEMENT
    common: Mapping[str, Common] = field(default_factory=dict)
    """Entries of WITH by lower-case name."""
    views: tuple[str, ...] = ()
    """Views that it is within, outermost first."""
    renamed: bool = False
    """A further branch of a UNION ALL: its columns get the names of the first."""


@dataclass(frozen=True, slots=True)
class Common:
    """An entry of WITH and where it stands."""

    table: exp.CTE
    place: Place


@dataclass(frozen=True, slots=True)
class Derived:
    """A derived table: its query, the names its columns are given, and where it is used."""

    name: str
    query: exp.Expr
    columns: tuple[str, ...]
    place: Place
    item: exp.Expr
    """In FROM."""
    within: Place
    """Of the item."""


class Names:
    """Looks up what stands in FROM, WITH and JOIN."""

    def __init__(self, gathered: Gathered) -> None:
        self._gathered = gathered
        self._entries: dict[tuple[str, int], Common] = {}
        self._named: set[tuple[str, int]] = set()

    def unused(self) -> list[Common]:
        """Entries of WITH that nothing has named so far, last first."""
        return [common for key, common in reversed(self._entries.items()) if key not in self._named]

    def derived(self, item: exp.Expr, place: Place) -> Derived | None:
        """The item of FROM as a derived table; None for a stream or table."""
        if isinstance(item, exp.Subquery):
            return Derived(
                item.alias or "subquery", unwrapped(item.this), (), replace(place, renamed=False), item, place
            )
        found = place.common.get(item.name.lower())
        if found is not None:
            self._named.add(_key(found))
            columns = tuple(name.name for name in _columns_of(found.table))
            inner = replace(found.place, views=place.views)
            return Derived(item.alias_or_name, found.table.this, columns, inner, item, place)
        relation = self.relation(item, place)
        if relation.kind is not RelationKind.VIEW:
            return None
        return self._view(relation, item, place)

    def _view(self, relation: Relation, item: exp.Expr, place: Place) -> Derived:
        key = relation.name.lower()
        position = place.source.position(offset_of(item) or 0)
        if key in place.views:
            raise InvalidDefinitionError(
                f"view {relation.name} is defined by itself",
                position=position,
                found=item.name,
                hint=f"It is within {' -> '.join(place.views)}; define one of them anew by CREATE OR REPLACE VIEW.",
            )
        self._gathered.texts[place.text].relations.add(relation.name)
        source = ViewSource(relation.definition, reference=position)
        text = self._gathered.texts.pop(key, None) or Text(source)
        self._gathered.texts = {key: text, **self._gathered.texts}
        inner = Place(source, key, {}, (*place.views, key))
        tree = _parsed(relation, source)
        self._gathered.note_functions(tree, source)
        names = tuple(column.name for column in relation.columns)
        return Derived(item.alias_or_name, tree, names, inner, item, place)

    @contextmanager
    def within(self, derived: Derived) -> Iterator[None]:
        """Errors within a view say so."""
        try:
            yield
        except PlannerError as error:
            if derived.place.text not in (derived.within.text, STATEMENT):
                error.message = f"in view {derived.place.text}: {error.message}"
            raise

    def with_common(self, query: exp.Expr, place: Place) -> Place:
        for table in common_tables(query):
            outside = Common(table, replace(place, renamed=False))
            self._entries.setdefault(_key(outside), outside)
            place = replace(place, common={**place.common, table.alias.lower(): outside})
            self._check_names(table.this, replace(place, common=place.common))
        return place

    def _check_names(self, query: exp.Expr, place: Place) -> None:
        """Raises UnknownRelationError when an entry of WITH names a relation that is not there, used or not."""
        inner = {table.alias.lower() for table in query.find_all(exp.CTE)}
        for table in query.find_all(exp.Table):
            name = table.name.lower()
            if name not in inner and name not in place.common:
                self._gathered.texts[place.text].relations.add(self.relation(table, place).name)

    def relation(self, item: exp.Expr, place: Place) -> Relation:
        relation = self._gathered.catalog.find(item.name)
        if relation is None:
            known = [r.name for r in self._gathered.catalog.relations.values()]
            known += [common.table.alias for common in place.common.values()]
            raise UnknownRelationError(
                f"there is no stream, table or view {item.name}",
                position=place.source.position(offset_of(item.this) or 0),
                found=item.name,
                hint=did_you_mean(item.name, known) or "SHOW STREAMS, SHOW TABLES and SHOW VIEWS list what there is.",
            )
        if relation.kind is RelationKind.SINK:
            raise UnsupportedSqlError(
                f"{relation.name} is a sink, and nothing can be read from a sink",
                position=place.source.position(offset_of(item.this) or 0),
                found=item.name,
                hint="Declare what it wrote as a stream or table of the connector 'files', and read that.",
            )
        return relation

    def rests_on_table(self, query: exp.Expr, place: Place) -> bool:
        """Whether what a query reads first is a table."""
        place = self.with_common(query, place)
        (first, *_) = operands(query)
        if isinstance(first, exp.SetOperation):
            return self.rests_on_table(first, place)
        return self._is_table(from_items(self.stream_first(first, place))[0], place)

    def _is_table(self, item: exp.Expr, place: Place) -> bool:
        derived = self.derived(item, place)
        if derived is None:
            return self.relation(item, place).kind is RelationKind.TABLE
        with self.within(derived):
            return self.rests_on_table(derived.query, derived.place)

    def stream_first(self, select: exp.Expr, place: Place) -> exp.Expr:
        """The SELECT with its stream in FROM, where that is what a table in FROM is joined to first.

        With `*` the order of the columns would not be that of the text.
        """
        joins = select.args.get("joins") or []
        plain = [not (j.args.get("side") or (j.args.get("kind") or "").upper() not in _SYMMETRIC) for j in joins[:1]]
        if not any(plain) or any(isinstance(item, exp.Star) for item in select.expressions):
            return select
        first, second = from_items(select)[:2]
        if not self._is_table(first, place) or self._is_table(second, place):
            return select
        turned = select.copy()
        turned.args["from_"].set("this", second.copy())
        turned.args["joins"][0].set("this", first.copy())
        return turned

    def stream(self, item: exp.Expr, place: Place) -> Member:
        """The stream in FROM.

        Raises:
            UnknownRelationError, UnsupportedSqlError: it is no stream.
        """
        relation = self.relation(item, place)
        if relation.kind is not RelationKind.STREAM:
            raise UnsupportedSqlError(
                f"{relation.name} is a table, and this query reads streams",
                position=place.source.position(offset_of(item.this) or 0),
                found=item.name,
                hint="Tables are joined to a stream. A query over tables alone is a batch query of its own.",
            )
        return self.table(item, place)

    def table(self, item: exp.Expr, place: Place) -> Member:
        """The stream or table in FROM."""
        self._check_alias_columns(item, place)
        return Member(item.alias_or_name, INPUT_VIEW, self._used(self.relation(item, place), place))

    def _used(self, relation: Relation, place: Place) -> Relation:
        self._gathered.relations[relation.name] = relation
        self._gathered.texts[place.text].relations.add(relation.name)
        return relation

    def _check_alias_columns(self, item: exp.Expr, place: Place) -> None:
        if _alias_columns(item):
            message = "new column names for a stream or table are not possible"
            raise refuse(item, place.source, message, "Rename in the select list, with AS.")

    def given_names(self, derived: Derived, names: tuple[str, ...]) -> tuple[str, ...]:
        for given in (derived.columns, _alias_columns(derived.item)):
            if given and len(given) != len(names):
                raise InvalidDefinitionError(
                    f"{derived.name} has {len(names)} columns, but {len(given)} names are given",
                    position=derived.within.source.position(offset_of(derived.item) or 0),
                    found=derived.name,
                    hint=f"Its columns are {', '.join(names)}.",
                )
            names = given or names
        double = next((n for i, n in enumerate(names) if n.lower() in {m.lower() for m in names[:i]}), None)
        if double is not None:
            raise InvalidDefinitionError(
                f"two columns of {derived.name} are called {double}",
                position=derived.within.source.position(offset_of(derived.item) or 0),
                found=double,
                hint="Give each a name of its own.",
            )
        return names

    def is_rows_of_table(self, derived: Derived) -> bool:
        """Whether it only filters and projects one table or stream: no more than `table_rows` can be asked for."""
        place = self.with_common(derived.query, derived.place)
        query = unwrapped(derived.query)
        if not isinstance(query, exp.Select) or len(from_items(query)) > 1:
            return False
        if is_grouped(query) or any(query.args.get(clause) for clause in ("having", "qualify", WITHIN, *BATCH_CLAUSES)):
            return False
        if any(first_aggregate(item) is not None for item in query.expressions) or any(
            map(is_over, block_nodes(query))
        ):
            return False
        inner = self.derived(from_items(query)[0], place)
        return inner is None or self.is_rows_of_table(inner)

    def joined(self, item: exp.Expr, place: Place) -> Member:
        """What stands behind JOIN: a stream, a table, or a derived table over one table."""
        derived = self.derived(item, place)
        view = self._gathered.next_table()
        if derived is None:
            self._check_alias_columns(item, place)
            return Member(item.alias_or_name, view, self._used(self.relation(item, place), place))
        return replace(self.table_rows(derived), alias=derived.name, view=view)

    def table_rows(self, derived: Derived) -> Member:
        """A derived table over one table, as a table that is computed where the table is."""
        with self.within(derived):
            base, outputs, where = self._over_table(derived)
        names = self.given_names(derived, tuple(output.name for output in outputs))
        expressions = dict(zip((n.lower() for n in names), (o.expression for o in outputs), strict=True))
        for name, expression in expressions.items():
            if not is_real_site(name, expression):
                raise InvalidDefinitionError(
                    f"a column of {derived.name} is called {SITE_COLUMN}, but is not the site",
                    position=derived.within.source.position(offset_of(derived.item) or 0),
                    found=derived.name,
                    hint="Rename it with AS.",
                )
        start = offset_of(derived.item)
        if derived.place.text != derived.within.text:
            expressions = {name: placed(expression, start) for name, expression in expressions.items()}
            where = tuple(placed(part, start) for part in where)
        columns = tuple(Column(name, "") for name in names)
        relation = Relation(base.name, RelationKind.TABLE, columns, base.bindings)
        self._gathered.note(derived.name, f"computed where {base.name} is, before it is sent")
        return Member(derived.name, "", relation, derived=True, rows=DerivedRows(base, expressions, where))

    def _over_table(self, derived: Derived) -> tuple[Relation, tuple[Output, ...], tuple[exp.Expr, ...]]:
        place = self.with_common(derived.query, derived.place)
        query = unwrapped(derived.query)
        source = place.source
        if not isinstance(query, exp.Select):
            raise refuse(derived.item, derived.within.source, "a UNION ALL cannot be joined yet", JOIN_HINT)
        items = from_items(query)
        grouped = [key for key in ("group", "distinct", "having", "qualify", WITHIN) if query.args.get(key) is not None]
        aggregates = bool(grouped) or any(first_aggregate(item) is not None for item in query.expressions)
        if len(items) > 1 or aggregates:
            what = "aggregates" if aggregates else "reads several relations"
            raise refuse(
                derived.item, derived.within.source, f"{derived.name} {what} and cannot be joined yet", JOIN_HINT
            )
        if any(query.args.get(key) for key in BATCH_CLAUSES) or any(map(is_over, block_nodes(query))):
            message = f"{derived.name} sorts, limits, ranks or generates rows and cannot be joined yet"
            raise refuse(derived.item, derived.within.source, message, JOIN_HINT)
        (item,) = items
        inner = self.derived(item, place)
        where: tuple[exp.Expr, ...] = ()
        if inner is None:
            base = self.relation(item, place)
            self._check_alias_columns(item, place)
            member = Member(item.alias_or_name, INPUT_VIEW, self._used(base, place))
        else:
            member = self.table_rows(inner)
            assert member.rows is not None
            base, where = member.rows.base, member.rows.where
            member = replace(member, view=INPUT_VIEW, expressions=member.rows.expressions, rows=None)
        scope = Scope((member,), source, functions=self._gathered.catalog.functions)
        self._gathered.site_named |= site_named(query, scope)
        self._gathered.note_stars(place.text, query, scope)
        outputs = bind_outputs(query, Binder(scope))
        own = bind_where(query, Binder(scope))
        if generates(own) or (inner is not None and generates(member.bound(c.name) for c in member.relation.columns)):
            message = f"{derived.name} is made of rows that a generator makes, and cannot be joined yet"
            raise refuse(derived.item, derived.within.source, message, "Let the condition stand behind the join.")
        return base, outputs, (*where, *own)


def _key(common: Common) -> tuple[str, int]:
    """An entry by its text and offset: views are parsed with every use."""
    return common.place.text, offset_of(common.table.args["alias"]) or 0


def _parsed(relation: Relation, source: ViewSource) -> exp.Query:
    try:
        return parse_query(source)
    except PlannerError as error:
        error.message = f"in view {relation.name}: {error.message}"
        raise


def _columns_of(table: exp.Expr) -> list[exp.Expr]:
    alias = table.args.get("alias")
    return list(alias.args.get("columns") or []) if alias is not None else []


def _alias_columns(item: exp.Expr) -> tuple[str, ...]:
    return tuple(column.name for column in _columns_of(item))
