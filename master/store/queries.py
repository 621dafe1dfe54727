"""Queries and the logs of their states as rows of SQLite."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from contract.times import from_us, to_us
from master.records.model import BatchQuery, BatchState, Progress, QueryRecord, QueryState, StateChange, StreamQuery
from master.store import codec
from master.store.database import Database, instant, instant_us, readable
from planner.graph.ids import TaskId
from planner.graph.plan import BatchPlan, PhysicalPlan
from planner.handover.model import Lineage
from planner.sharing.deployment import Deployment


class QueryTables(Database):
    """See `master.store.QueryStore`."""

    def next_query_number(self) -> int:
        with self._transaction():
            return int(self._one("UPDATE cluster SET query_number = query_number + 1 RETURNING query_number")[0])

    def last_query_number(self) -> int:
        row = self._connection.execute("SELECT query_number FROM cluster").fetchone()
        return int(row[0]) if row else 0

    def queries(self) -> tuple[QueryRecord, ...]:
        with readable("the list of queries"):
            rows = self._connection.execute(
                "SELECT id, name, sql, plan, state, reason, submitted_at_us, started_at_us, ended_at_us, progress,"
                " batch, deployment, owner FROM queries ORDER BY submitted_at_us, id"
            )
            return tuple(_query(row) for row in rows)

    def placement(self) -> dict[TaskId, str]:
        with readable("the placement of tasks"):
            rows = self._connection.execute("SELECT task, site FROM placement")
            return {TaskId.parse(task): site for task, site in rows}

    def running_version(self) -> int:
        with readable("the version of what runs"):
            return int(self._connection.execute("SELECT version FROM running").fetchone()[0])

    def put_query(
        self,
        record: QueryRecord,
        change: StateChange,
        placement: Mapping[TaskId, str],
        lineages: Sequence[Lineage] = (),
    ) -> int:
        with self._transaction():
            self._place(placement)
            self._put_lineages(lineages)
            self._connection.execute(
                "INSERT OR REPLACE INTO queries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", _query_row(record)
            )
            self._connection.execute(
                "INSERT INTO events (query_id, from_state, to_state, reason, at_us) VALUES (?, ?, ?, ?, ?)",
                (
                    change.query_id,
                    change.source.value if change.source else None,
                    change.target.value,
                    change.reason,
                    to_us(change.at),
                ),
            )
            return self._next_version()

    def lineages(self) -> dict[TaskId, Lineage]:
        with readable("the handovers of tasks"):
            rows = self._connection.execute("SELECT body FROM lineages ORDER BY place")
            found = [codec.loads(Lineage, body) for (body,) in rows]
            return {lineage.place: lineage for lineage in found}

    def put_lineage(self, lineage: Lineage, placement: Mapping[TaskId, str]) -> int:
        with self._transaction():
            self._place(placement)
            self._put_lineages([lineage])
            return self._next_version()

    def _put_lineages(self, lineages: Sequence[Lineage]) -> None:
        self._connection.executemany(
            "INSERT OR REPLACE INTO lineages VALUES (?, ?)", [(str(one.place), codec.dumps(one)) for one in lineages]
        )

    def _place(self, placement: Mapping[TaskId, str]) -> None:
        self._connection.executemany(
            "INSERT OR REPLACE INTO placement VALUES (?, ?)", [(str(task), site) for task, site in placement.items()]
        )

    def _next_version(self) -> int:
        return int(self._one("UPDATE running SET version = version + 1 RETURNING version")[0])

    def put_progress(self, progress: Mapping[str, Progress]) -> None:
        with self._transaction():
            self._connection.executemany(
                "UPDATE queries SET progress = ? WHERE id = ?",
                [(codec.dumps(value), query_id) for query_id, value in progress.items()],
            )

    def put_batch(self, query_id: str, batch: BatchState) -> None:
        with self._transaction():
            self._connection.execute("UPDATE queries SET batch = ? WHERE id = ?", (codec.dumps(batch), query_id))

    def delete_queries(self, query_ids: Collection[str], unplaced: Collection[TaskId]) -> None:
        rows = [(query_id,) for query_id in query_ids]
        with self._transaction():
            self._connection.executemany("DELETE FROM queries WHERE id = ?", rows)
            self._connection.executemany("DELETE FROM events WHERE query_id = ?", rows)
            nameless = [(str(task),) for task in unplaced]
            self._connection.executemany("DELETE FROM placement WHERE task = ?", nameless)
            self._connection.executemany("DELETE FROM lineages WHERE place = ?", nameless)

    def changes(self, query_id: str) -> tuple[StateChange, ...]:
        rows = self._connection.execute(
            "SELECT query_id, from_state, to_state, reason, at_us FROM events WHERE query_id = ? ORDER BY number",
            (query_id,),
        )
        return tuple(
            StateChange(
                query_id=row[0],
                source=QueryState(row[1]) if row[1] else None,
                target=QueryState(row[2]),
                reason=row[3],
                at=from_us(row[4]),
            )
            for row in rows
        )

    def restored_from(self) -> datetime | None:
        with readable("the mark of a restored state"):
            row = self._connection.execute("SELECT made_at_us FROM restored").fetchone()
            return from_us(row[0]) if row else None

    def settle_restored(self) -> None:
        with self._transaction():
            self._connection.execute("DELETE FROM restored")


def _query_row(record: QueryRecord) -> tuple[object, ...]:
    return (
        record.id,
        record.name,
        record.sql,
        codec.dumps(record.plan),
        record.state.value,
        record.reason,
        to_us(record.submitted_at),
        instant_us(record.started_at),
        instant_us(record.ended_at),
        codec.dumps(record.progress),
        codec.dumps(record.batch) if isinstance(record, BatchQuery) else None,
        codec.dumps(record.deployment) if isinstance(record, StreamQuery) and record.deployment is not None else "",
        record.owner,
    )


def _query(row: tuple[Any, ...]) -> QueryRecord:
    known: dict[str, Any] = {
        "id": row[0],
        "name": row[1],
        "sql": row[2],
        "state": QueryState(row[4]),
        "reason": row[5],
        "submitted_at": from_us(row[6]),
        "started_at": instant(row[7]),
        "ended_at": instant(row[8]),
        "progress": codec.loads(Progress, row[9]),
        "owner": row[12],
    }
    if row[10] is not None:
        return BatchQuery(**known, plan=codec.loads(BatchPlan, row[3]), batch=codec.loads(BatchState, row[10]))
    deployment = codec.loads(Deployment, row[11]) if row[11] else None
    return StreamQuery(**known, plan=codec.loads(PhysicalPlan, row[3]), deployment=deployment)
