"""GRANT and REVOKE. Grammar: docs/sql.md."""

from __future__ import annotations

from planner.sql.cursor import Cursor
from planner.sql.statements import Grant, Revoke, Statement
from planner.values.errors import InvalidDefinitionError
from planner.values.privileges import Privilege, is_role_name

GRANT_FORM = "GRANT SELECT | INSERT ON relation TO role"
REVOKE_FORM = "REVOKE SELECT | INSERT ON relation FROM role"


def parse_grant(cursor: Cursor) -> Statement:
    position = cursor.position
    cursor.expect("GRANT")
    privilege = _privilege(cursor, GRANT_FORM)
    cursor.expect("ON", hint=f"{GRANT_FORM} is possible.")
    relation = cursor.name("a stream's, table's, view's or sink's name")
    cursor.expect("TO", hint=f"{GRANT_FORM} is possible.")
    role = _role(cursor)
    cursor.finish()
    return Grant(privilege, relation, role, position)


def parse_revoke(cursor: Cursor) -> Statement:
    position = cursor.position
    cursor.expect("REVOKE")
    privilege = _privilege(cursor, REVOKE_FORM)
    cursor.expect("ON", hint=f"{REVOKE_FORM} is possible.")
    relation = cursor.name("a stream's, table's, view's or sink's name")
    cursor.expect("FROM", hint=f"{REVOKE_FORM} is possible.")
    role = _role(cursor)
    cursor.finish()
    return Revoke(privilege, relation, role, position)


def _privilege(cursor: Cursor, form: str) -> Privilege:
    for privilege in Privilege:
        if cursor.take(privilege.value):
            return privilege
    raise cursor.error("SELECT or INSERT is expected", hint=f"{form} is possible.")


def _role(cursor: Cursor) -> str:
    place, found = cursor.position, cursor.found
    role = cursor.name("a role's or group's name").lower()
    if not is_role_name(role):
        raise InvalidDefinitionError(
            f"{found[:70]} cannot be a role",
            position=place,
            found=found[:70],
            hint="A letter, then up to 63 letters, digits, '_' or '-'; with '-' in back-quotes.",
        )
    return role
