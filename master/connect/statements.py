"""Statements by which Spark's clients ask for the catalog and name views, for which Selat's own SQL has other words.

A text is one of these as a whole, or none of them; a query that has one of them within it is refused as before.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
from pyspark.sql.connect import proto as pb

from master.connect.answers import texts
from master.connect.catalog import CATALOG, DATABASE, ClientCatalog
from master.connect.sessions import Session

_NAME = r"`?(?P<name>\w+)`?"
_FORMS = {
    kind: re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE | re.DOTALL)
    for kind, pattern in {
        "current": r"SELECT (?P<name>current_(?:catalog|database|schema))\s*\(\s*\)",
        "catalogs": "SHOW CATALOGS",
        "databases": "SHOW (?:DATABASES|SCHEMAS|NAMESPACES)",
        "tables": f"SHOW TABLES (?:IN|FROM) {_NAME}",
        "use_catalog": f"USE CATALOG {_NAME}",
        "use": f"USE (?:(?:DATABASE|SCHEMA|NAMESPACE) )?{_NAME}",
        "drop": f"DROP VIEW (?:IF EXISTS )?{_NAME}",
    }.items()
}
_VIEW = re.compile(
    rf"\s*CREATE\s+(?P<replace>OR\s+REPLACE\s+)?TEMP(?:ORARY)?\s+VIEW\s+{_NAME}\s+AS\s+(?P<query>.*)",
    re.IGNORECASE | re.DOTALL,
)


def catalog_answer(text: str, catalog: ClientCatalog, session: Session) -> pa.Table | None:
    """The answer to a statement about the catalog; None: it is another text.

    Raises:
        UnsupportedSqlError: there is no other catalog or database to use.
        UnknownRelationError: there is no database of that name.
    """
    statement = text.strip().removesuffix(";").strip()
    kind, found = next(((k, m) for k, form in _FORMS.items() if (m := form.fullmatch(statement))), ("", None))
    name = found.groupdict().get("name") or "" if found is not None else ""
    match kind:
        case "current":
            value = CATALOG if name.lower() == "current_catalog" else DATABASE
            return texts((f"{name.lower()}()",), [(value,)])
        case "catalogs":
            return texts(("catalog",), [(CATALOG,)])
        case "databases":
            return texts(("namespace",), [(DATABASE,)])
        case "tables":
            return _tables(catalog.answer(pb.Catalog(list_tables=pb.ListTables(db_name=name)), session))
        case "use_catalog":
            return catalog.answer(pb.Catalog(set_current_catalog=pb.SetCurrentCatalog(catalog_name=name)), session)
        case "use":
            return catalog.answer(pb.Catalog(set_current_database=pb.SetCurrentDatabase(db_name=name)), session)
        case "drop" if session.views.pop(name.lower(), None) is not None:
            return texts((), [])
    return None


def temporary_view(relation: Any) -> Any | None:
    """The command that makes the view of a `CREATE TEMPORARY VIEW ... AS ...`; None: it is another relation."""
    made = pb.CreateDataFrameViewCommand(input=relation)
    kind = relation.WhichOneof("rel_type")
    sql = made.input.with_relations.root.sql if kind == "with_relations" else made.input.sql if kind == "sql" else None
    found = _VIEW.fullmatch(sql.query) if sql is not None else None
    if sql is None or found is None:
        return None
    sql.query = found["query"]
    made.name, made.replace = found["name"], bool(found["replace"])
    return made


def _tables(listed: pa.Table) -> pa.Table:
    """What `spark.catalog.listTables` answers, as `SHOW TABLES` has it."""
    rows = [
        (row["namespace"][0] if row["namespace"] else "", row["name"], row["isTemporary"]) for row in listed.to_pylist()
    ]
    return texts(("namespace", "tableName", "isTemporary"), rows, [pa.string(), pa.string(), pa.bool_()])
