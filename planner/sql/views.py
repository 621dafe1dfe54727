"""CREATE VIEW. Grammar: docs/sql.md."""

from __future__ import annotations

from planner.relations.catalog import RelationKind
from planner.sql.cursor import Cursor
from planner.sql.ddl import relation_name
from planner.sql.emit import emit_of
from planner.sql.queries import begins_query, select_query
from planner.sql.statements import CreateView
from planner.values.errors import InvalidDefinitionError

FORM = "CREATE [OR REPLACE] VIEW [IF NOT EXISTS] name [(column, ...)] [COMMENT '...'] AS SELECT ..."


def begins_view(cursor: Cursor) -> bool:
    return cursor.at("CREATE", "VIEW") or cursor.at("CREATE", "OR", "REPLACE", "VIEW")


def parse_create_view(cursor: Cursor) -> CreateView:
    """Raises SqlSyntaxError, UnsupportedSqlError, InvalidDefinitionError: with the place."""
    position = cursor.position
    cursor.expect("CREATE")
    or_replace = cursor.take("OR", "REPLACE")
    cursor.expect("VIEW", hint=FORM)
    at_option = cursor.position
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    if or_replace and if_not_exists:
        raise InvalidDefinitionError(
            "a view is either replaced or left as it is",
            position=at_option,
            found="IF NOT EXISTS",
            hint="OR REPLACE or IF NOT EXISTS, not both.",
        )
    name = relation_name(cursor, RelationKind.VIEW)
    columns = _columns(cursor) if cursor.at("(") else ()
    comment = cursor.string("the comment") if cursor.take("COMMENT") else ""
    cursor.expect("AS", hint=FORM)
    if not begins_query(cursor):
        raise cursor.error("SELECT is expected", hint=FORM)
    query = select_query(cursor.tokens[cursor.index :], cursor.source)
    if (emit := emit_of(query.tree)) is not None:
        raise emit.refused(query.source, "a view cannot end in EMIT EVERY", "Let it end the query that reads the view.")
    return CreateView(name, columns, comment, query, or_replace, if_not_exists, position)


def _columns(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect("(")
    columns: list[str] = []
    while True:
        place, found = cursor.position, cursor.found
        name = cursor.name("a column's name")
        if name.lower() in {column.lower() for column in columns}:
            raise InvalidDefinitionError(
                f"two columns are called {name}", position=place, found=found, hint="Names are compared without case."
            )
        columns.append(name)
        if not cursor.take(","):
            break
    cursor.expect(")", hint="The columns of a view are names alone; their types follow from the query.")
    return tuple(columns)
