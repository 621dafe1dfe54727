"""The store in one SQLite file in WAL mode (or in memory, for tests)."""

from __future__ import annotations

import fcntl
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Self

from machine.durations import Durations
from machine.private import NotPrivateError, make_private
from master.base.errors import StoreError, StoreFullError
from master.base.times import from_us, to_us
from master.records.access import TokenRecord
from master.records.model import AssignmentMark, BatchState, Progress, QueryRecord, QueryState, SiteRecord, StateChange
from master.store import INCARNATIONS_KEPT, ClusterRecord, LeaseUpdate, StoredLeases, StoreFigures, codec
from master.store.access import read_grants, read_owners, read_tokens, write_grant, write_owner, write_token
from master.store.leases import read_leases, write_leases
from master.store.migrations import MIGRATIONS
from planner.access.grants import Grant, Owner
from planner.access.privileges import Privilege
from planner.catalog import Function, Relation
from planner.leases import Framework
from planner.plan import PhysicalPlan
from planner.sharing.deployment import Deployment

STATE_FILE = "master.sqlite"
LOCK_FILE = "master.lock"

_RESTORE = "put a backup in its place, or give --data another directory"


class SqliteStore:
    """See `master.store.Store`."""

    def __init__(self, connection: sqlite3.Connection, lock: IO[str] | None = None) -> None:
        self._connection = connection
        self._lock = lock
        self._commits = Durations()
        self._errors = 0
        migrate(connection)

    @classmethod
    def in_memory(cls) -> Self:
        return cls(sqlite3.connect(":memory:", isolation_level=None))

    @classmethod
    def open(cls, directory: Path) -> Self:
        """The state in that directory, made when absent.

        Raises:
            StoreError: another master uses it, a newer version wrote it, it is damaged, or cannot be written.
        """
        try:
            make_private(directory)
            lock = lock_directory(directory)
        except NotPrivateError as error:
            raise StoreError(str(error), hint=error.hint) from error
        except OSError as error:
            raise StoreError(
                f"the data directory {directory} cannot be used: {error.strerror}", hint="give --data one to write to"
            ) from error
        with _readable(f"the state file {directory / STATE_FILE}"):
            connection = sqlite3.connect(directory / STATE_FILE, isolation_level=None)
            connection.execute("PRAGMA journal_mode = WAL")
            # FULL: a commit survives a power cut, not only the end of this process.
            connection.execute("PRAGMA synchronous = FULL")
            return cls(connection, lock)

    def close(self) -> None:
        self._connection.close()
        if self._lock is not None:
            self._lock.close()

    def cluster(self, proposed_id: str) -> ClusterRecord:
        with self._transaction():
            self._connection.execute("INSERT OR IGNORE INTO cluster VALUES (1, ?, 0, 0)", (proposed_id,))
            row = self._one("SELECT id, version FROM cluster")
        return ClusterRecord(id=row[0], version=row[1])

    def next_query_number(self) -> int:
        with self._transaction():
            return int(self._one("UPDATE cluster SET query_number = query_number + 1 RETURNING query_number")[0])

    def last_query_number(self) -> int:
        row = self._connection.execute("SELECT query_number FROM cluster").fetchone()
        return int(row[0]) if row else 0

    def relations(self) -> tuple[Relation, ...]:
        with _readable("the list of streams and tables"):
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

    def queries(self) -> tuple[QueryRecord, ...]:
        with _readable("the list of queries"):
            rows = self._connection.execute(
                "SELECT id, name, sql, plan, state, reason, submitted_at_us, started_at_us, ended_at_us, progress,"
                " batch, deployment, owner FROM queries ORDER BY submitted_at_us, id"
            )
            return tuple(_query(row) for row in rows)

    def put_query(self, record: QueryRecord, change: StateChange) -> None:
        with self._transaction():
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

    def put_progress(self, progress: Mapping[str, Progress]) -> None:
        with self._transaction():
            self._connection.executemany(
                "UPDATE queries SET progress = ? WHERE id = ?",
                [(codec.dumps(value), query_id) for query_id, value in progress.items()],
            )

    def put_batch(self, query_id: str, batch: BatchState) -> None:
        with self._transaction():
            self._connection.execute("UPDATE queries SET batch = ? WHERE id = ?", (codec.dumps(batch), query_id))

    def delete_queries(self, query_ids: Collection[str]) -> None:
        rows = [(query_id,) for query_id in query_ids]
        with self._transaction():
            self._connection.executemany("DELETE FROM queries WHERE id = ?", rows)
            self._connection.executemany("DELETE FROM events WHERE query_id = ?", rows)

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

    def sites(self) -> tuple[SiteRecord, ...]:
        with _readable("the list of sites"):
            rows = self._connection.execute(
                "SELECT name, address, incarnation, slots, version, last_report_at_us FROM sites ORDER BY name"
            )
            return tuple(_site(row) for row in rows)

    def put_site(self, record: SiteRecord) -> None:
        with self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO sites VALUES (?, ?, ?, ?, ?, ?)",
                (
                    record.name,
                    record.address,
                    record.incarnation,
                    record.slots,
                    record.version,
                    _instant_us(record.last_report_at),
                ),
            )
            self._connection.execute(
                "INSERT OR IGNORE INTO incarnations VALUES (?, ?)", (record.name, record.incarnation)
            )
            self._connection.execute(
                "DELETE FROM incarnations WHERE site = ?1 AND rowid NOT IN"
                " (SELECT rowid FROM incarnations WHERE site = ?1 ORDER BY rowid DESC LIMIT ?2)",
                (record.name, INCARNATIONS_KEPT),
            )

    def put_last_reports(self, last_reports: Mapping[str, datetime]) -> None:
        with self._transaction():
            self._connection.executemany(
                "UPDATE sites SET last_report_at_us = ? WHERE name = ?",
                [(to_us(at), site) for site, at in last_reports.items()],
            )

    def draining(self) -> Mapping[str, datetime]:
        with _readable("the list of draining sites"):
            rows = self._connection.execute("SELECT site, since_us FROM draining ORDER BY site")
            return {site: from_us(since_us) for site, since_us in rows}

    def put_draining(self, site: str, since: datetime | None) -> None:
        with self._transaction():
            if since is None:
                self._connection.execute("DELETE FROM draining WHERE site = ?", (site,))
            else:
                self._connection.execute("INSERT OR REPLACE INTO draining VALUES (?, ?)", (site, to_us(since)))

    def incarnation_seen(self, site: str, incarnation: str) -> bool:
        sql = "SELECT count(*) FROM incarnations WHERE site = ? AND incarnation = ?"
        return bool(self._one(sql, (site, incarnation))[0])

    def assignment_marks(self) -> tuple[AssignmentMark, ...]:
        with _readable("the list of assignments"):
            rows = self._connection.execute("SELECT site, version, digest FROM assignments ORDER BY site")
            return tuple(AssignmentMark(*row) for row in rows)

    def put_assignment_marks(self, marks: Iterable[AssignmentMark]) -> None:
        rows = [(mark.site, mark.version, mark.digest) for mark in marks]
        with self._transaction():
            self._connection.executemany("INSERT OR REPLACE INTO assignments VALUES (?, ?, ?)", rows)
            self._connection.executemany(
                "UPDATE cluster SET version = max(version, ?)", [(version,) for _, version, _ in rows]
            )

    def restored_from(self) -> datetime | None:
        with _readable("the mark of a restored state"):
            row = self._connection.execute("SELECT made_at_us FROM restored").fetchone()
            return from_us(row[0]) if row else None

    def settle_restored(self) -> None:
        with self._transaction():
            self._connection.execute("DELETE FROM restored")

    def leases(self) -> StoredLeases:
        with _readable("the list of leases"):
            return read_leases(self._connection)

    def put_leases(self, update: LeaseUpdate) -> None:
        with self._transaction():
            write_leases(self._connection, update)

    def frameworks(self) -> tuple[Framework, ...]:
        with _readable("the list of frameworks"):
            rows = self._connection.execute("SELECT body FROM frameworks ORDER BY name")
            return tuple(codec.loads(Framework, body) for (body,) in rows)

    def put_framework(self, framework: Framework) -> None:
        with self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO frameworks VALUES (?, ?)", (framework.name, codec.dumps(framework))
            )

    def tokens(self) -> tuple[TokenRecord, ...]:
        with _readable("the list of tokens"):
            return read_tokens(self._connection)

    def put_token(self, record: TokenRecord) -> None:
        with self._transaction():
            write_token(self._connection, record)

    def grants(self) -> tuple[Grant, ...]:
        with _readable("the list of grants"):
            return read_grants(self._connection)

    def put_grant(self, grant: Grant) -> None:
        with self._transaction():
            write_grant(self._connection, grant)

    def delete_grant(self, relation: str, privilege: Privilege, role: str) -> None:
        with self._transaction():
            self._connection.execute(
                "DELETE FROM grants WHERE relation = ? AND privilege = ? AND role = ?",
                (relation, privilege.value, role),
            )

    def owners(self) -> Mapping[str, Owner]:
        with _readable("the list of owners"):
            return read_owners(self._connection)

    def put_owner(self, relation: str, owner: Owner) -> None:
        with self._transaction():
            write_owner(self._connection, relation, owner)

    def forget_relation(self, relation: str) -> None:
        with self._transaction():
            self._connection.execute("DELETE FROM grants WHERE relation = ?", (relation,))
            self._connection.execute("DELETE FROM owners WHERE relation = ?", (relation,))

    def figures(self) -> StoreFigures:
        (pages,) = self._one("PRAGMA page_count")
        (page_bytes,) = self._one("PRAGMA page_size")
        return StoreFigures(pages * page_bytes, self._errors, self._commits.read())

    def _one(self, sql: str, parameters: tuple[object, ...] = ()) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = self._connection.execute(sql, parameters).fetchone()
        if row is None:
            raise StoreError("the state file has no cluster yet", hint="call cluster() first")
        return row

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        began_s = time.monotonic()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            self._connection.execute("COMMIT")
            self._commits.observe(time.monotonic() - began_s)
        except BaseException as error:
            # A full disk ends some transactions by itself and leaves others, failed commits among them, open.
            if self._connection.in_transaction:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
            # Its other kinds are defects of ours.
            if type(error) in (sqlite3.OperationalError, sqlite3.DatabaseError):
                self._errors += 1
                raise _not_stored(error) from error
            raise


def _not_stored(error: BaseException) -> StoreError:
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
        return StoreFullError(
            "the disk of the master's state is full: nothing was accepted", hint="free some space and try again"
        )
    return StoreError(f"the master's state cannot be stored: {error}", hint="look at the disk of its data directory")


@contextmanager
def _readable(what: str) -> Iterator[None]:
    """Raises StoreError where the file does not hold what a master wrote."""
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            raise _not_stored(error) from error
        raise StoreError(f"{what} cannot be used: {error}", hint=_RESTORE) from error
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{what} is damaged: {type(error).__name__}: {error}", hint=_RESTORE) from error


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the tables up to date. Raises StoreError for those of a newer master."""
    (done,) = connection.execute("PRAGMA user_version").fetchone()
    if done > len(MIGRATIONS):
        raise StoreError(
            f"the state file is of version {done}, this master knows versions up to {len(MIGRATIONS)}",
            hint="start the newer master that wrote it",
        )
    for number, step in enumerate(MIGRATIONS[done:], start=done + 1):
        # One script, one transaction: a step is done whole or not at all.
        connection.executescript(f"BEGIN IMMEDIATE; {step} PRAGMA user_version = {number}; COMMIT;")


def lock_directory(directory: Path) -> IO[str]:
    """Keep other masters away until the file is closed. Raises StoreError when one is there."""
    lock = (directory / LOCK_FILE).open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise StoreError(
            f"another master uses {directory}", hint="stop it, or choose another directory with --data"
        ) from None
    return lock


def _query_row(record: QueryRecord) -> tuple[object, ...]:
    return (
        record.id,
        record.name,
        record.sql,
        codec.dumps(record.plan),
        record.state.value,
        record.reason,
        to_us(record.submitted_at),
        _instant_us(record.started_at),
        _instant_us(record.ended_at),
        codec.dumps(record.progress),
        None if record.batch is None else codec.dumps(record.batch),
        codec.dumps(record.deployment) if record.deployment is not None else "",
        record.owner,
    )


def _query(row: tuple[Any, ...]) -> QueryRecord:
    return QueryRecord(
        id=row[0],
        name=row[1],
        sql=row[2],
        plan=codec.loads(PhysicalPlan, row[3]),
        state=QueryState(row[4]),
        reason=row[5],
        submitted_at=from_us(row[6]),
        started_at=_instant(row[7]),
        ended_at=_instant(row[8]),
        progress=codec.loads(Progress, row[9]),
        batch=None if row[10] is None else codec.loads(BatchState, row[10]),
        deployment=codec.loads(Deployment, row[11]) if row[11] else None,
        owner=row[12],
    )


def _site(row: tuple[Any, ...]) -> SiteRecord:
    return SiteRecord(
        name=row[0],
        address=row[1],
        incarnation=row[2],
        slots=row[3],
        version=row[4],
        last_report_at=_instant(row[5]),
    )


def _instant(instant_us: int | None) -> datetime | None:
    return None if instant_us is None else from_us(instant_us)


def _instant_us(instant: datetime | None) -> int | None:
    return None if instant is None else to_us(instant)
