"""Tokens, grants and owners of relations as rows of SQLite."""

from __future__ import annotations

from collections.abc import Mapping

from master.records.access import TokenRecord
from master.store import codec
from master.store.database import Database, readable
from planner.access.grants import Grant, Owner
from planner.values.privileges import Privilege


class AccessTables(Database):
    """See `master.store.AccessStore`."""

    def tokens(self) -> tuple[TokenRecord, ...]:
        with readable("the list of tokens"):
            rows = self._connection.execute("SELECT body FROM tokens ORDER BY id")
            return tuple(codec.loads(TokenRecord, body) for (body,) in rows)

    def put_token(self, record: TokenRecord) -> None:
        with self._transaction():
            self._connection.execute("INSERT OR REPLACE INTO tokens VALUES (?, ?)", (record.id, codec.dumps(record)))

    def grants(self) -> tuple[Grant, ...]:
        with readable("the list of grants"):
            rows = self._connection.execute("SELECT body FROM grants ORDER BY relation, privilege, role")
            return tuple(codec.loads(Grant, body) for (body,) in rows)

    def put_grant(self, grant: Grant) -> None:
        row = (grant.relation, grant.privilege.value, grant.role, codec.dumps(grant))
        with self._transaction():
            self._connection.execute("INSERT OR REPLACE INTO grants VALUES (?, ?, ?, ?)", row)

    def delete_grant(self, relation: str, privilege: Privilege, role: str) -> None:
        with self._transaction():
            self._connection.execute(
                "DELETE FROM grants WHERE relation = ? AND privilege = ? AND role = ?",
                (relation, privilege.value, role),
            )

    def owners(self) -> Mapping[str, Owner]:
        with readable("the list of owners"):
            rows = self._connection.execute("SELECT relation, body FROM owners ORDER BY relation")
            return {relation: codec.loads(Owner, body) for relation, body in rows}

    def put_owner(self, relation: str, owner: Owner) -> None:
        with self._transaction():
            self._connection.execute("INSERT OR REPLACE INTO owners VALUES (?, ?)", (relation, codec.dumps(owner)))

    def forget_relation(self, relation: str) -> None:
        with self._transaction():
            self._connection.execute("DELETE FROM grants WHERE relation = ?", (relation,))
            self._connection.execute("DELETE FROM owners WHERE relation = ?", (relation,))
