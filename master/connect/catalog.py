"""Shows Spark's clients Selat's catalog: one catalog with one database, and the session's temporary views."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from master.access.caller import caller
from master.connect.answers import texts
from master.connect.plans import plain
from master.connect.sessions import Session
from master.relations.catalog import CatalogManager
from planner.access.roles import Right
from planner.functions.table import NAMES
from planner.relations.catalog import Relation, RelationKind
from planner.rules.sinks import find_sink
from planner.sql.source import START
from planner.sql.statements import SinkTarget
from planner.values.errors import UnknownFunctionError, UnknownRelationError, UnsupportedSqlError

CATALOG = "spark_catalog"
DATABASE = "default"

_TRUTH = [pa.bool_()]
_NAMED = ("name", "catalog", "namespace", "description", "tableType", "isTemporary")
_NAMED_TYPES = [pa.string(), pa.string(), pa.list_(pa.string()), pa.string(), pa.string(), pa.bool_()]
_COLUMNS = ("name", "description", "dataType", "nullable", "isPartition", "isBucket", "isCluster")
_COLUMN_TYPES = [*[pa.string()] * 3, *[pa.bool_()] * 4]
_FUNCTIONS = ("name", "catalog", "namespace", "description", "className", "isTemporary")
_FUNCTION_TYPES = [pa.string(), pa.string(), pa.list_(pa.string()), pa.string(), pa.string(), pa.bool_()]
_DATABASES = ("name", "catalog", "description", "locationUri")

_KINDS = {RelationKind.TABLE: "MANAGED", RelationKind.VIEW: "VIEW", RelationKind.STREAM: "STREAM"}
"""Relations are listed as these kinds. A stream cannot be read by Spark's clients; a sink is not listed."""


class ClientCatalog:
    """Answers the questions of `spark.catalog`."""

    def __init__(self, catalog: CatalogManager) -> None:
        self._catalog = catalog
        self._answers: Mapping[str, Callable[[Any, Session], pa.Table]] = {
            "current_catalog": lambda asked, session: texts(("current_catalog",), [(CATALOG,)]),
            "current_database": lambda asked, session: texts(("current_database",), [(DATABASE,)]),
            "list_catalogs": lambda asked, session: texts(("name", "description"), [(CATALOG, "Selat")]),
            "list_databases": lambda asked, session: _databases(asked.pattern),
            "get_database": lambda asked, session: _databases(_known_database(asked.db_name)),
            "database_exists": lambda asked, session: _truth(plain(asked.db_name) == DATABASE),
            "set_current_catalog": lambda asked, session: _set(plain(asked.catalog_name) == CATALOG),
            "set_current_database": lambda asked, session: _set(plain(asked.db_name) == DATABASE),
            "list_tables": self._tables,
            "get_table": lambda asked, session: _listed([self._table(asked.table_name, session)]),
            "table_exists": self._exists,
            "list_columns": self._columns,
            "list_functions": lambda asked, session: self._functions(asked.pattern),
            "get_function": lambda asked, session: self._functions(self._known_function(asked.function_name)),
            "function_exists": lambda asked, session: _truth(plain(asked.function_name) in self._function_names()),
            "drop_temp_view": lambda asked, session: _truth(
                session.views.pop(plain(asked.view_name), None) is not None
            ),
            "is_cached": lambda asked, session: _truth(_name(asked.table_name) in session.cached_tables),
            "cache_table": self._cache,
            "uncache_table": self._uncache,
            "clear_cache": self._clear_cache,
            "refresh_table": lambda asked, session: _nothing(),
        }

    def answer(self, asked: Any, session: Session) -> pa.Table:
        """The answer to a `spark.connect.Catalog`.

        Raises:
            UnsupportedSqlError: that cannot be asked, or would change something.
            UnknownRelationError: there is no such relation that the caller may see.
        """
        kind = asked.WhichOneof("cat_type") or ""
        found = self._answers.get(kind)
        if found is None:
            raise UnsupportedSqlError(
                f"spark.catalog cannot do {kind} here",
                found=kind,
                hint="declare and drop relations by Selat's own client: selat sql",
            )
        return found(getattr(asked, kind), session)

    def sink(self, name: str) -> Relation:
        """The sink of that name. Raises UnknownRelationError; UnsupportedSqlError: it is something else."""
        return find_sink(SinkTarget(_name(name), START), self._catalog.snapshot)

    def _tables(self, asked: Any, session: Session) -> pa.Table:
        _known_database(asked.db_name or DATABASE)
        rows = [_row(relation) for relation in self._catalog.relations() if relation.kind in _KINDS]
        rows += [_temporary(name) for name in sorted(session.views)]
        pattern = asked.pattern or "*"
        return _listed(row for row in rows if fnmatch.fnmatchcase(row[0].lower(), pattern.lower()))

    def _exists(self, asked: Any, session: Session) -> pa.Table:
        try:
            self._table(asked.table_name, session)
        except UnknownRelationError:
            return _truth(False)
        return _truth(True)

    def _table(self, name: str, session: Session) -> tuple[Any, ...]:
        key = _name(name)
        return _temporary(key) if key in session.views else _row(self._relation(name))

    def _cache(self, asked: Any, session: Session) -> pa.Table:
        self._table(asked.table_name, session)
        session.cache_table(_name(asked.table_name))
        return _nothing()

    def _uncache(self, asked: Any, session: Session) -> pa.Table:
        session.cached_tables.discard(_name(asked.table_name))
        return _nothing()

    def _clear_cache(self, asked: Any, session: Session) -> pa.Table:
        session.clear_cache()
        return _nothing()

    def _columns(self, asked: Any, session: Session) -> pa.Table:
        rows = [
            (column.name, None, column.type.lower(), True, False, False, False)
            for column in self._relation(asked.table_name).columns
        ]
        return texts(_COLUMNS, rows, _COLUMN_TYPES)

    def _function_names(self) -> list[str]:
        return sorted({*NAMES, *self._catalog.snapshot.functions})

    def _functions(self, pattern: str) -> pa.Table:
        names = fnmatch.filter(self._function_names(), pattern.lower() or "*")
        own = self._catalog.snapshot.functions
        rows = [
            (name, CATALOG if name in own else None, [DATABASE] if name in own else None, None, "", name not in own)
            for name in names
        ]
        return texts(_FUNCTIONS, rows, _FUNCTION_TYPES)

    def _known_function(self, name: str) -> str:
        """Raises UnknownFunctionError."""
        key = _name(name)
        if key not in self._function_names():
            raise UnknownFunctionError(f"there is no function {name}", found=name, hint="docs/sql.md lists them")
        return key

    def _relation(self, name: str) -> Relation:
        if not caller().may(Right.LOOK):
            raise UnknownRelationError(f"there is no relation {name}", found=name)
        return self._catalog.get(_name(name))


def _row(relation: Relation) -> tuple[Any, ...]:
    comment = relation.comment or None
    return relation.name, CATALOG, [DATABASE], comment, _KINDS.get(relation.kind, "SINK"), False


def _temporary(name: str) -> tuple[Any, ...]:
    return name, None, [], None, "TEMPORARY", True


def _listed(rows: Iterable[Sequence[Any]]) -> pa.Table:
    return texts(_NAMED, list(rows), _NAMED_TYPES)


def _databases(pattern: str) -> pa.Table:
    there = fnmatch.fnmatchcase(DATABASE, pattern or "*")
    return texts(_DATABASES, [(DATABASE, CATALOG, "the relations of Selat", "")] if there else [])


def _known_database(name: str) -> str:
    """Raises UnknownRelationError unless it is the only one."""
    if plain(name).removeprefix(f"{CATALOG}.") != DATABASE:
        raise UnknownRelationError(
            f"there is no database {name}",
            found=name,
            hint=f"the only one is {DATABASE}",
            ids={"condition": "SCHEMA_NOT_FOUND"},
        )
    return DATABASE


def _set(possible: bool) -> pa.Table:
    if not possible:
        raise UnsupportedSqlError(f"there is one catalog, {CATALOG}, with one database, {DATABASE}")
    return texts((), [])


def _name(name: str) -> str:
    """The name of a relation or function as it is looked up here."""
    return plain(name).removeprefix(f"{DATABASE}.")


def _nothing() -> pa.Table:
    return texts((), [])


def _truth(value: bool) -> pa.Table:
    return texts(("value",), [(value,)], _TRUTH)
