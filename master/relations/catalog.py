"""Streams, tables, views and sinks: the rules for declaring, changing and dropping them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from machine.clock import Clock
from machine.faults import reached
from master.base.errors import RelationExistsError, RelationInUseError
from master.base.faults import FaultPoint
from master.base.logs import line
from master.records.ids import did_you_mean
from master.sites.status import unknown_site
from master.store import RelationStore
from planner.bind.calls import called_functions
from planner.relations.catalog import (
    ARRIVED,
    SITE_COLUMN,
    Binding,
    Catalog,
    Column,
    Function,
    Relation,
    RelationKind,
    TableStatistics,
)
from planner.relations.connectors.table import altered_options, check_binding
from planner.relations.options import CONNECTOR, OptionError
from planner.sql.cursor import Cursor
from planner.sql.dialect import tokenize
from planner.sql.queries import parse_any_query, relations_named
from planner.sql.source import Source
from planner.sql.types import parse_type
from planner.values.errors import InvalidDefinitionError, PlannerError, UnknownRelationError
from planner.values.names import BIN_COLUMN
from planner.values.topology import Topology

logger = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_RESERVED_COLUMNS = (SITE_COLUMN, BIN_COLUMN)

LiveReaders = Callable[[str], tuple[str, ...]]
"""Ids of the live queries that read the relation of that name, or write into it."""


class RelationAccess(Protocol):
    """Is notified of changes of relations, and decides who may change them."""

    def check_own(self, relation: Relation) -> None:
        """Raises NotOwnerError unless the caller may change or drop the relation."""
        ...

    def created(self, relation: str) -> None:
        """The caller has declared the relation."""
        ...

    def replaced(self, relation: str) -> None:
        """The caller has replaced the view by another."""
        ...

    def dropped(self, relation: str) -> None:
        """The relation is about to be dropped."""
        ...


class EverybodysRelations:
    """Relations without owners."""

    def check_own(self, relation: Relation) -> None:
        """See `RelationAccess`, as for the others."""

    def created(self, relation: str) -> None: ...

    def replaced(self, relation: str) -> None: ...

    def dropped(self, relation: str) -> None: ...


class CatalogManager:
    """The catalog's only writer."""

    def __init__(
        self,
        store: RelationStore,
        topology: Topology,
        *,
        clock: Clock,
        live_readers: LiveReaders,
        access: RelationAccess | None = None,
    ) -> None:
        """Without `access`, relations have no owners."""
        self._access = access or EverybodysRelations()
        self._store = store
        self._topology = topology
        self._clock = clock
        self._live_readers = live_readers
        self._snapshot = Catalog(
            {r.name.lower(): r for r in store.relations()}, {f.name.lower(): f for f in store.functions()}
        )

    @property
    def snapshot(self) -> Catalog:
        return self._snapshot

    def take_functions(self, functions: Mapping[str, Function]) -> None:
        """Replace the functions in the snapshot, by lower-case name; `FunctionManager` stores them."""
        self._snapshot = replace(self._snapshot, functions=functions)

    def relations(self, kind: RelationKind | None = None) -> tuple[Relation, ...]:
        """All relations, by name."""
        found = sorted(self._snapshot.relations.items())
        return tuple(r for _, r in found if kind in (None, r.kind))

    def get(self, name: str, kind: RelationKind | None = None) -> Relation:
        """The relation of that name. Raises UnknownRelationError; its hint says when the name is of another kind."""
        relation = self._snapshot.find(name)
        if relation is None:
            raise self._unknown(name, kind)
        if kind not in (None, relation.kind):
            raise UnknownRelationError(
                f"{relation.name} is a {relation.kind.value}, not a {kind.value}" if kind else relation.name,
                found=name,
                hint=f"say {relation.kind.name} {relation.name}",
                ids={"relation": relation.name},
            )
        return relation

    def create(self, relation: Relation, *, if_not_exists: bool = False) -> tuple[Relation, bool]:
        """Declare a relation; returns it, and whether it is new.

        Raises:
            InvalidDefinitionError, UnknownSiteError: the definition is wrong.
            RelationExistsError: the name is taken.
        """
        validate_relation(relation, self._topology)
        relation = replace(relation, columns=tuple(_normalized(relation, c) for c in relation.columns))
        existing = self._snapshot.find(relation.name)
        if existing is not None:
            if if_not_exists and existing.kind is relation.kind:
                return existing, False
            raise _exists(existing)
        relation = self._put(replace(relation, created_at=self._clock.now()), "relation created")
        self._access.created(relation.name)
        return relation, True

    def put_view(self, view: Relation, *, or_replace: bool = False) -> Relation:
        """Declare a view, whose query the caller has checked.

        Raises:
            InvalidDefinitionError: the definition is wrong.
            RelationExistsError: the name is taken, and is not a view's that may be replaced.
        """
        _validate_name(view)
        _validate_columns(view)
        existing = self._snapshot.find(view.name)
        if existing is not None and not (or_replace and existing.kind is RelationKind.VIEW):
            raise _exists(existing)
        if existing is not None:
            self._access.check_own(existing)
            self._snapshot = _without(self._snapshot, existing)
        view = self._put(replace(view, created_at=self._clock.now()), "view created")
        (self._access.created if existing is None else self._access.replaced)(view.name)
        return view

    def drop(self, name: str, kind: RelationKind | None = None, *, if_exists: bool = False) -> bool:
        """Drop a relation; returns whether it existed.

        Raises:
            UnknownRelationError
            RelationInUseError: a live query reads it or writes into it, or a view uses it.
            NotOwnerError: it is another's.
        """
        if if_exists and self._snapshot.find(name) is None:
            return False
        relation = self.get(name, kind)
        self._access.check_own(relation)
        readers = self._live_readers(relation.name)
        if readers:
            raise RelationInUseError(
                f"{relation.kind.value} {relation.name} is {_used(relation)} by {', '.join(readers)}",
                hint=f"cancel first: CANCEL QUERY {readers[0]}",
                ids={"relation": relation.name, "query": readers[0]},
            )
        users = self._views_over(relation)
        if users:
            raise RelationInUseError(
                f"{relation.kind.value} {relation.name} is used by {', '.join(f'view {name}' for name in users)}",
                hint=f"drop first: DROP VIEW {users[0]}",
                ids={"relation": relation.name, "view": users[0]},
            )
        # Grants first: a relation without grants is safer than grants that wait for the next relation of that name.
        self._access.dropped(relation.name)
        self._store.delete_relation(relation.name)
        self._snapshot = _without(self._snapshot, relation)
        logger.info(line("relation dropped", relation=relation.name))
        return True

    def alter(self, name: str, options: Mapping[str, str], *, site: str | None = None) -> Relation:
        """Change options of a relation's bindings, at one site or at all; returns the changed relation.

        Raises:
            UnknownRelationError, UnknownSiteError
            InvalidDefinitionError: an option that cannot change, or a wrong value.
        """
        relation = self.get(name)
        self._access.check_own(relation)
        if relation.kind is RelationKind.VIEW:
            raise _invalid(relation, "a view has no options", f"CREATE OR REPLACE VIEW {relation.name} AS SELECT ...")
        if not options:
            raise _invalid(relation, "no option to change is given", "SET ('option' = 'value')")
        if site is not None and site not in relation.sites:
            unknown = unknown_site(site, self._topology)
            bound = ", ".join(relation.sites)
            unknown.message = f"{relation.name} is not bound at {site!r}"
            unknown.hint = f"it is bound at {bound}"
            raise unknown
        bindings = tuple(
            self._altered(relation, binding, options) if site in (None, binding.site) else binding
            for binding in relation.bindings
        )
        return self._put(replace(relation, bindings=bindings, statistics=None), "relation altered")

    def analysed(self, name: str, statistics: TableStatistics) -> None:
        """Keep what a table was found to hold, beside what is known of other columns. Raises UnknownRelationError."""
        table = self.get(name, RelationKind.TABLE)
        before = table.statistics or TableStatistics(0)
        found = replace(
            statistics,
            distinct={**before.distinct, **statistics.distinct},
            ranges={**before.ranges, **statistics.ranges},
            analyzed_at=statistics.analyzed_at or before.analyzed_at,
        )
        if found != table.statistics:
            self._put(replace(table, statistics=found), "table analysed")

    def _altered(self, relation: Relation, binding: Binding, options: Mapping[str, str]) -> Binding:
        with _at_site(relation, binding):
            return replace(binding, options=altered_options(relation, binding, options, self._clock.now()))

    def _put(self, relation: Relation, what: str) -> Relation:
        self._store.put_relation(relation)
        reached(FaultPoint.RELATION_STORED)
        relations = {**self._snapshot.relations, relation.name.lower(): relation}
        self._snapshot = replace(self._snapshot, relations=relations)
        logger.info(line(what, relation=relation.name, sites=",".join(relation.sites)))
        return relation

    def _views_over(self, relation: Relation) -> tuple[str, ...]:
        """Names of the views whose queries name the relation."""
        key = relation.name.lower()
        return tuple(
            view.name
            for view in self.relations(RelationKind.VIEW)
            if view is not relation and key in relations_named(parse_any_query(Source(view.definition))[0])
        )

    def views_calling(self, function: Function) -> tuple[str, ...]:
        """Names of the views whose queries call the Python function."""
        wanted = {function.name.lower(): function}
        return tuple(
            view.name
            for view in self.relations(RelationKind.VIEW)
            if called_functions(parse_any_query(Source(view.definition))[0], wanted)
        )

    def _unknown(self, name: str, kind: RelationKind | None) -> UnknownRelationError:
        word = kind.value if kind else "stream, table, view or sink"
        known = [r.name for r in self.relations(kind)]
        hint = did_you_mean(name, known) or ("known: " + ", ".join(known[:10]) if known else "none is declared yet")
        return UnknownRelationError(f"there is no {word} {name!r}", found=name, hint=hint, ids={"relation": name})


def validate_relation(relation: Relation, topology: Topology) -> None:
    """Raises InvalidDefinitionError or UnknownSiteError when the definition contradicts itself or the topology."""
    _validate_name(relation)
    _validate_columns(relation)
    _validate_event_time(relation)
    _validate_bindings(relation, topology)


def _validate_name(relation: Relation) -> None:
    if not _NAME.fullmatch(relation.name):
        raise _invalid(
            relation,
            f"{relation.name!r} cannot be a name",
            "a letter or '_', then letters, digits or '_' (128 at most)",
        )


def _validate_columns(relation: Relation) -> None:
    if not relation.columns and relation.kind is not RelationKind.SINK:
        raise _invalid(relation, "there are no columns", "(name TYPE, ...)")
    for column in relation.columns:
        if not column.name or not column.type:
            raise _invalid(
                relation, f"column {column.name!r} lacks its name or type", "name TYPE, as in user_id BIGINT"
            )
        # Sinks and views have no pseudo-column `site`, so that their queries may have a column of that name.
        own_site = relation.kind in (RelationKind.SINK, RelationKind.VIEW)
        reserved = (BIN_COLUMN,) if own_site else _RESERVED_COLUMNS
        if column.name.lower() in reserved:
            raise _invalid(relation, f"column {column.name!r} has a reserved name", "every relation has it by itself")
    double = _first_double(c.name.lower() for c in relation.columns)
    if double:
        raise _invalid(relation, f"column {double!r} is declared twice", "names are compared without case")


def _normalized(relation: Relation, column: Column) -> Column:
    """The column with a normalized type: relations that do not come from SQL follow the same rules."""
    source = Source(column.type)
    cursor = Cursor(tokenize(source), source)
    try:
        kind = parse_type(cursor)
        cursor.finish()
    except PlannerError as error:
        raise _invalid(relation, f"column {column.name}: {error.message}", error.hint) from error
    return replace(column, type=kind)


def _validate_event_time(relation: Relation) -> None:
    if relation.kind is not RelationKind.STREAM:
        if relation.event_time is not None:
            raise _invalid(
                relation, f"a {relation.kind.value} has no watermark", "declare a stream, or leave WATERMARK out"
            )
        return
    column = relation.column(relation.event_time or "")
    if column is None:
        raise _invalid(relation, "a stream needs an event-time column", "WATERMARK FOR ts, of a TIMESTAMP column ts")
    if column.type.upper() != "TIMESTAMP":
        raise _invalid(relation, f"event-time column {column.name} is {column.type}", "it has to be TIMESTAMP")
    if relation.by_arrival and relation.watermark_delay:
        raise _invalid(relation, "rows do not arrive late", f"WATERMARK FOR {ARRIVED.name}, without a delay")
    if relation.watermark_delay < timedelta(0):
        raise _invalid(relation, "the watermark's delay is negative", "ts - INTERVAL '5 seconds'")


def _validate_bindings(relation: Relation, topology: Topology) -> None:
    if not relation.bindings:
        raise _invalid(relation, "it is bound nowhere", "AT site WITH ('connector' = '...')")
    if relation.kind is RelationKind.SINK and len(relation.bindings) > 1:
        raise _invalid(relation, "a sink is at one site", "one binding; create one sink for each site")
    for binding in relation.bindings:
        if binding.site not in topology.sites:
            raise unknown_site(binding.site, topology)
        if not binding.options.get(CONNECTOR):
            raise _invalid(
                relation, f"the binding at {binding.site} names no connector", "WITH ('connector' = '...', ...)"
            )
        with _at_site(relation, binding):
            check_binding(relation, binding.options)
    double = _first_double(relation.sites)
    if double:
        raise _invalid(relation, f"site {double} is bound twice", "one binding for each site")


@contextmanager
def _at_site(relation: Relation, binding: Binding) -> Iterator[None]:
    """Within the block, an OptionError names the relation and the binding."""
    try:
        yield
    except OptionError as error:
        raise type(error)(
            f"{relation.kind.value} {relation.name}: {error.message} (at {binding.site})",
            option=error.option,
            at_name=error.at_name,
            hint=error.hint,
            ids={"relation": relation.name},
        ) from None


def _used(relation: Relation) -> str:
    return "written" if relation.kind is RelationKind.SINK else "read"


def _without(catalog: Catalog, relation: Relation) -> Catalog:
    left = {key: other for key, other in catalog.relations.items() if other is not relation}
    return replace(catalog, relations=left)


def _exists(existing: Relation) -> RelationExistsError:
    return RelationExistsError(
        f"{existing.name} exists already: it is a {existing.kind.value}",
        hint="streams, tables, views and sinks share one namespace; choose another name or drop it first",
        ids={"relation": existing.name},
    )


def _first_double(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _invalid(relation: Relation, message: str, hint: str) -> InvalidDefinitionError:
    return InvalidDefinitionError(
        f"{relation.kind.value} {relation.name}: {message}", hint=hint, ids={"relation": relation.name}
    )
