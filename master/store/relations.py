"""Relations and functions as rows of SQLite."""

from __future__ import annotations

from master.store import codec
from master.store.database import Database, readable
from planner.relations.catalog import Function, Relation


class RelationTables(Database):
    """See `master.store.RelationStore`."""

    def relations(self) -> tuple[Relation, ...]:
        with readable("the list of streams and tables"):
            rows = self._connection.execute("SELECT body FROM relations ORDER BY key")
            return tuple(codec.loads(Relation, body) for (body,) in rows)

    def put_relation(self, relation: Relation) -> None:
        with self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO relations VALUES (?, ?)", (relation.name.lower(), codec.dumps(relation))
            )

    def delete_relation(self, name: str) -> None:
        with self._transaction():
            self._connection.execute("DELETE FROM relations WHERE key = ?", (name.lower(),))

    def functions(self) -> tuple[Function, ...]:
        rows = self._connection.execute("SELECT body FROM functions ORDER BY key")
        return tuple(codec.loads(Function, body) for (body,) in rows)

    def put_function(self, function: Function) -> None:
        with self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO functions VALUES (?, ?)", (function.name.lower(), codec.dumps(function))
            )

    def delete_function(self, name: str) -> None:
        with self._transaction():
            self._connection.execute("DELETE FROM functions WHERE key = ?", (name.lower(),))
