"""Tokens, grants and owners of relations as rows of SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from master.records.access import TokenRecord
from master.store import codec
from planner.access.grants import Grant, Owner


def read_tokens(connection: sqlite3.Connection) -> tuple[TokenRecord, ...]:
    rows = connection.execute("SELECT body FROM tokens ORDER BY id")
    return tuple(codec.loads(TokenRecord, body) for (body,) in rows)


def write_token(connection: sqlite3.Connection, record: TokenRecord) -> None:
    """Inside a transaction of the caller's, as are the others."""
    connection.execute("INSERT OR REPLACE INTO tokens VALUES (?, ?)", (record.id, codec.dumps(record)))


def read_grants(connection: sqlite3.Connection) -> tuple[Grant, ...]:
    rows = connection.execute("SELECT body FROM grants ORDER BY relation, privilege, role")
    return tuple(codec.loads(Grant, body) for (body,) in rows)


def write_grant(connection: sqlite3.Connection, grant: Grant) -> None:
    row = (grant.relation, grant.privilege.value, grant.role, codec.dumps(grant))
    connection.execute("INSERT OR REPLACE INTO grants VALUES (?, ?, ?, ?)", row)


def read_owners(connection: sqlite3.Connection) -> Mapping[str, Owner]:
    rows = connection.execute("SELECT relation, body FROM owners ORDER BY relation")
    return {relation: codec.loads(Owner, body) for relation, body in rows}


def write_owner(connection: sqlite3.Connection, relation: str, owner: Owner) -> None:
    connection.execute("INSERT OR REPLACE INTO owners VALUES (?, ?)", (relation, codec.dumps(owner)))
