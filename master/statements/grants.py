"""GRANT, REVOKE and SHOW GRANTS."""

from __future__ import annotations

from master.access.grants import GrantManager
from master.relations.catalog import CatalogManager
from master.views.outcomes import Done, Rows
from planner.sql.statements import Grant, Revoke


def run_grant_statement(statement: Grant | Revoke, catalog: CatalogManager, grants: GrantManager) -> Done:
    """The answer of the statement.

    Raises:
        UnknownRelationError, NotOwnerError, AccessOffError
        InvalidRequestError: the relation has no such privilege.
    """
    relation = catalog.get(statement.relation)
    said = f"{statement.privilege.value} on {relation.name}"
    if isinstance(statement, Grant):
        new = grants.grant(relation, statement.privilege, statement.role)
        return Done(f"{said} granted to {statement.role}" + ("" if new else " already"))
    there = grants.revoke(relation, statement.privilege, statement.role)
    return Done(f"{said} revoked from {statement.role}" if there else f"{said} was not granted to {statement.role}")


def grant_rows(grants: GrantManager) -> Rows:
    """In the order of relations, privileges and roles."""
    return Rows(
        ("relation", "privilege", "role", "granted_by", "granted_at"),
        tuple(
            (
                g.relation,
                g.privilege.value,
                g.role,
                g.granted_by,
                g.granted_at.strftime("%Y-%m-%dT%H:%M:%SZ") if g.granted_at else "",
            )
            for g in grants.all()
        ),
    )
