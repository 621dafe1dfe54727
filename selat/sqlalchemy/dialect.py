"""The dialect: connections by URL, reflection of what the catalog has, and what there is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from types import ModuleType
from typing import Any

from sqlalchemy import URL, Connection
from sqlalchemy.engine import reflection
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.exc import ArgumentError, NoSuchTableError

from selat import dbapi
from selat.client import Client
from selat.dbapi.errors import translated
from selat.errors import Unavailable
from selat.sqlalchemy.compiler import SCHEMA, SelatCompiler, SelatDDLCompiler, SelatPreparer, SelatTypeCompiler
from selat.sqlalchemy.types import type_of
from selat.values import Relation, RelationKind


def _seconds(text: str) -> timedelta:
    return timedelta(seconds=float(text))


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


_OPTIONS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "tls_dir": ("tls_dir", str),
    "insecure": ("insecure", _truth),
    "timeout_s": ("timeout", _seconds),
    "reconnect_s": ("reconnect", _seconds),
}
"""The parameters of a URL: the option of `selat.connect` that each is, and how it is read."""


class SelatDialect(DefaultDialect):
    """See the package."""

    name = "selat"
    driver = "dbapi"
    default_paramstyle = "qmark"
    statement_compiler = SelatCompiler
    ddl_compiler = SelatDDLCompiler
    type_compiler_cls = SelatTypeCompiler
    preparer = SelatPreparer
    supports_statement_cache = True
    supports_alter = False
    supports_default_values = False
    supports_empty_insert = False
    supports_native_boolean = True
    supports_native_decimal = True
    supports_sane_rowcount = False
    supports_sane_multi_rowcount = False
    postfetch_lastrowid = False
    returns_native_bytes = True
    div_is_floordiv = False
    max_identifier_length = 255

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Return the module of PEP 249."""
        return dbapi

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of `selat.dbapi.connect`; the URL's password is the caller's token. Raises ArgumentError."""
        options: dict[str, Any] = {}
        for name, value in url.query.items():
            if name not in _OPTIONS:
                raise ArgumentError(f"a URL of Selat has no parameter {name}: possible are {', '.join(_OPTIONS)}")
            option, read = _OPTIONS[name]
            try:
                options[option] = read(str(value))
            except (KeyError, ValueError) as error:
                raise ArgumentError(f"{name} cannot be {value!r}: as in timeout_s=30, insecure=true") from error
        if url.database:
            raise ArgumentError(f"a URL of Selat names no database, and this one names {url.database}")
        if url.password:
            options["token"] = str(url.password)
        return [f"{url.host}:{url.port}" if url.port else url.host], options

    def initialize(self, connection: Connection) -> None:
        """Nothing is asked: all masters speak the same."""
        self.default_schema_name = SCHEMA

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        """Return whether the master did not answer."""
        return isinstance(e, dbapi.OperationalError) and isinstance(e.__cause__, Unavailable)

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Raises dbapi.Error when the master does not answer."""
        with translated():
            dbapi_connection.client.queries(summary=True)
        return True

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Does nothing: each statement is done, or not, by itself, and SQLAlchemy says this of each connection."""

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        """Return the only level."""
        return "AUTOCOMMIT"

    def get_isolation_level_values(self, dbapi_conn: Any) -> Any:
        """Return the only level."""
        return ("AUTOCOMMIT",)

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        """Does nothing: there is one."""

    def has_schema(self, connection: Connection, schema_name: str, **_: Any) -> bool:
        """Return whether it is the one that there is."""
        return schema_name == SCHEMA

    def get_schema_names(self, connection: Connection, **_: Any) -> list[str]:
        """Return the one that there is."""
        return [SCHEMA]

    def has_table(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        """Return whether there is a table, view or stream of that name."""
        return table_name.lower() in self._readable(connection, schema, **kw)

    def get_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Return the tables. Streams are not among them: a SELECT over one does not end."""
        return self._names(RelationKind.TABLE, connection, schema, **kw)

    def get_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Return the views."""
        return self._names(RelationKind.VIEW, connection, schema, **kw)

    def get_temp_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Return nothing: no relation is temporary."""
        return []

    get_temp_view_names = get_temp_table_names

    def get_view_definition(self, connection: Connection, view_name: str, schema: str | None = None, **kw: Any) -> str:
        """The query of a view. Raises NoSuchTableError."""
        return self._found(connection, view_name, schema, **kw).definition

    def get_columns(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        """The columns of a table, view or stream. Raises NoSuchTableError."""
        return [
            {"name": column.name, "type": type_of(column.type), "nullable": True, "default": None}
            for column in self._found(connection, table_name, schema, **kw).columns
        ]

    def get_table_comment(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """What its declaration says about it. Raises NoSuchTableError."""
        return {"text": self._found(connection, table_name, schema, **kw).comment or None}

    def get_pk_constraint(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """Return a key without columns: relations have none. Raises NoSuchTableError."""
        self._found(connection, table_name, schema, **kw)
        return {"constrained_columns": [], "name": None}

    def get_indexes(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        """Return nothing: relations have neither indexes nor constraints. Raises NoSuchTableError."""
        self._found(connection, table_name, schema, **kw)
        return []

    get_foreign_keys = get_unique_constraints = get_check_constraints = get_indexes

    @reflection.cache
    def _readable(self, connection: Connection, schema: str | None = None, **kw: Any) -> dict[str, Relation]:
        """Tables, views and streams by lower-case name."""
        inner: Any = connection.connection.dbapi_connection
        client: Client = inner.client
        with translated():
            found = (*client.tables(), *client.views(), *client.streams()) if schema in (None, SCHEMA) else ()
        return {relation.name.lower(): relation for relation in found}

    def _names(self, kind: RelationKind, connection: Connection, schema: str | None, **kw: Any) -> list[str]:
        return [found.name for found in self._readable(connection, schema, **kw).values() if found.kind is kind]

    def _found(self, connection: Connection, name: str, schema: str | None, **kw: Any) -> Relation:
        """The table, view or stream of that name. Raises NoSuchTableError."""
        found: Relation | None = self._readable(connection, schema, **kw).get(name.lower())
        if found is None:
            raise NoSuchTableError(name)
        return found
