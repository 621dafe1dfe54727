"""Streams and tables: the rules for declaring, changing and dropping them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

from master.clock import Clock
from master.errors import RelationExistsError, RelationInUseError
from master.generator_rate import with_rate_change
from master.ids import did_you_mean
from master.logs import line
from master.sites import unknown_site
from master.store import Store
from planner.catalog import SITE_COLUMN, Binding, Catalog, Column, Relation, RelationKind
from planner.errors import InvalidDefinitionError, PlannerError, UnknownRelationError
from planner.plan import BIN_COLUMN
from planner.sql.cursor import Cursor
from planner.sql.dialect import tokenize
from planner.sql.source import Source
from planner.sql.types import parse_type
from planner.topology import Topology

logger = logging.getLogger(__name__)

CONNECTOR = "connector"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_RESERVED_COLUMNS = (SITE_COLUMN, BIN_COLUMN)

LiveReaders = Callable[[str], tuple[str, ...]]
"""Ids of the live queries that read the relation of that name."""


class CatalogManager:
    """The catalog's only writer."""

    def __init__(self, store: Store, topology: Topology, *, clock: Clock, live_readers: LiveReaders) -> None:
        self._store = store
        self._topology = topology
        self._clock = clock
        self._live_readers = live_readers
        self._snapshot = Catalog({r.name.lower(): r for r in store.relations()})

    @property
    def snapshot(self) -> Catalog:
        return self._snapshot

    def relations(self, kind: RelationKind | None = None) -> tuple[Relation, ...]:
        """Ordered by name."""
        found = sorted(self._snapshot.relations.items())
        return tuple(r for _, r in found if kind in (None, r.kind))

    def get(self, name: str, kind: RelationKind | None = None) -> Relation:
        """Raises UnknownRelationError; its hint tells when the name is of the other kind."""
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
        """The relation as declared, and whether it is new.

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
            raise RelationExistsError(
                f"{existing.name} exists already: it is a {existing.kind.value}",
                hint="streams and tables share one namespace; choose another name or drop it first",
                ids={"relation": existing.name},
            )
        return self._put(replace(relation, created_at=self._clock.now()), "relation created"), True

    def drop(self, name: str, kind: RelationKind | None = None, *, if_exists: bool = False) -> bool:
        """Whether there was something to drop.

        Raises:
            UnknownRelationError
            RelationInUseError: a live query reads it.
        """
        if if_exists and self._snapshot.find(name) is None:
            return False
        relation = self.get(name, kind)
        readers = self._live_readers(relation.name)
        if readers:
            raise RelationInUseError(
                f"{relation.kind.value} {relation.name} is read by {', '.join(readers)}",
                hint=f"cancel first: CANCEL QUERY {readers[0]}",
                ids={"relation": relation.name, "query": readers[0]},
            )
        self._store.delete_relation(relation.name)
        self._snapshot = Catalog({k: r for k, r in self._snapshot.relations.items() if r is not relation})
        logger.info(line("relation dropped", relation=relation.name))
        return True

    def alter(self, name: str, options: Mapping[str, str], *, site: str | None = None) -> Relation:
        """The relation with these options merged into its bindings (at one site, or at all).

        Raises:
            UnknownRelationError, UnknownSiteError
            InvalidDefinitionError: an option that cannot change, or a wrong value.
        """
        relation = self.get(name)
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
        return self._put(replace(relation, bindings=bindings), "relation altered")

    def _altered(self, relation: Relation, binding: Binding, options: Mapping[str, str]) -> Binding:
        connector = binding.options.get(CONNECTOR, "")
        if options.get(CONNECTOR, connector) != connector:
            raise _invalid(
                relation, "the connector of a binding cannot change", "drop the relation and declare it anew"
            )
        return replace(
            binding, options=with_rate_change(relation, binding.options, changes=options, now=self._clock.now())
        )

    def _put(self, relation: Relation, what: str) -> Relation:
        self._store.put_relation(relation)
        self._snapshot = Catalog({**self._snapshot.relations, relation.name.lower(): relation})
        logger.info(line(what, relation=relation.name, sites=",".join(relation.sites)))
        return relation

    def _unknown(self, name: str, kind: RelationKind | None) -> UnknownRelationError:
        word = kind.value if kind else "stream or table"
        known = [r.name for r in self.relations(kind)]
        hint = did_you_mean(name, known) or ("known: " + ", ".join(known[:10]) if known else "none is declared yet")
        return UnknownRelationError(f"there is no {word} {name!r}", found=name, hint=hint, ids={"relation": name})


def validate_relation(relation: Relation, topology: Topology) -> None:
    """Raises InvalidDefinitionError or UnknownSiteError when the definition contradicts itself or the topology."""
    if not _NAME.fullmatch(relation.name):
        raise _invalid(
            relation,
            f"{relation.name!r} cannot be a name",
            "a letter or '_', then letters, digits or '_' (128 at most)",
        )
    _validate_columns(relation)
    _validate_event_time(relation)
    _validate_bindings(relation, topology)


def _validate_columns(relation: Relation) -> None:
    if not relation.columns:
        raise _invalid(relation, "there are no columns", "(name TYPE, ...)")
    for column in relation.columns:
        if not column.name or not column.type:
            raise _invalid(
                relation, f"column {column.name!r} lacks its name or type", "name TYPE, as in user_id BIGINT"
            )
        if column.name.lower() in _RESERVED_COLUMNS:
            raise _invalid(relation, f"column {column.name!r} has a reserved name", "every relation has it by itself")
    double = _first_double(c.name.lower() for c in relation.columns)
    if double:
        raise _invalid(relation, f"column {double!r} is declared twice", "names are compared without case")


def _normalized(relation: Relation, column: Column) -> Column:
    """The column with its type as declarations write it: what does not come from SQL is held to the same rules."""
    source = Source(column.type)
    cursor = Cursor(tokenize(source), source)
    try:
        kind = parse_type(cursor)
        cursor.finish()
    except PlannerError as error:
        raise _invalid(relation, f"column {column.name}: {error.message}", error.hint) from error
    return replace(column, type=kind)


def _validate_event_time(relation: Relation) -> None:
    if relation.kind is RelationKind.TABLE:
        if relation.event_time is not None:
            raise _invalid(relation, "a table has no watermark", "declare a stream, or leave WATERMARK out")
        return
    column = relation.column(relation.event_time or "")
    if column is None:
        raise _invalid(relation, "a stream needs an event-time column", "WATERMARK FOR ts, of a TIMESTAMP column ts")
    if column.type.upper() != "TIMESTAMP":
        raise _invalid(relation, f"event-time column {column.name} is {column.type}", "it has to be TIMESTAMP")
    if relation.watermark_delay < timedelta(0):
        raise _invalid(relation, "the watermark's delay is negative", "ts - INTERVAL '5 seconds'")


def _validate_bindings(relation: Relation, topology: Topology) -> None:
    if not relation.bindings:
        raise _invalid(relation, "it is bound nowhere", "AT site WITH ('connector' = '...')")
    for binding in relation.bindings:
        if binding.site not in topology.sites:
            raise unknown_site(binding.site, topology)
        if not binding.options.get(CONNECTOR):
            raise _invalid(
                relation, f"the binding at {binding.site} names no connector", "WITH ('connector' = 'files', ...)"
            )
    double = _first_double(relation.sites)
    if double:
        raise _invalid(relation, f"site {double} is bound twice", "one binding for each site")


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
