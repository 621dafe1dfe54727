"""The SQLite file of the master's state: locked by one master, migrated, and written in transactions."""

from __future__ import annotations

import fcntl
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Self

from contract.times import from_us, to_us
from machine.durations import Durations
from machine.private import NotPrivateError, make_private
from master.base.errors import StoreError, StoreFullError
from master.records.model import QueryState
from master.store import StoreFigures
from master.store.migrations import MIGRATIONS, TASK_IDS
from master.store.placements import deployment_beside_placement, placed, plan_beside_placement
from master.store.taskids import with_task_ids

STATE_FILE = "master.sqlite"
LOCK_FILE = "master.lock"

_RESTORE = "put a backup in its place, or give --data another directory"


class Database:
    """One connection, in WAL mode (or in memory, for tests); the classes of tables derive from it."""

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
        """The state in that directory, created if missing.

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
        with readable(f"the state file {directory / STATE_FILE}"):
            connection = sqlite3.connect(directory / STATE_FILE, isolation_level=None)
            connection.execute("PRAGMA journal_mode = WAL")
            # FULL: a commit survives a power cut, not only the end of this process.
            connection.execute("PRAGMA synchronous = FULL")
            return cls(connection, lock)

    def close(self) -> None:
        self._connection.close()
        if self._lock is not None:
            self._lock.close()

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
            # A full disk ends some transactions by itself, and leaves others open, failed commits among them.
            if self._connection.in_transaction:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
            # Other errors are defects of the master.
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
def readable(what: str) -> Iterator[None]:
    """Raises StoreError when the file does not hold what a master wrote."""
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            raise _not_stored(error) from error
        raise StoreError(f"{what} cannot be used: {error}", hint=_RESTORE) from error
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{what} is damaged: {type(error).__name__}: {error}", hint=_RESTORE) from error


def migrate(connection: sqlite3.Connection) -> None:
    """Apply missing migrations. Raises StoreError for tables of a newer master."""
    (done,) = connection.execute("PRAGMA user_version").fetchone()
    if done > len(MIGRATIONS):
        raise StoreError(
            f"the state file is of version {done}, this master knows versions up to {len(MIGRATIONS)}",
            hint="start the newer master that wrote it",
        )
    if 0 < done < TASK_IDS:
        _check_nothing_runs(connection)
    connection.create_function("with_task_ids", 1, with_task_ids, deterministic=True)
    connection.create_function("placed", 3, placed, deterministic=True)
    for function in (plan_beside_placement, deployment_beside_placement):
        connection.create_function(function.__name__, 1, function, deterministic=True)
    for number, step in enumerate(MIGRATIONS[done:], start=done + 1):
        # One script, one transaction: a step is applied as a whole or not at all.
        connection.executescript(f"BEGIN IMMEDIATE; {step} PRAGMA user_version = {number}; COMMIT;")


def _check_nothing_runs(connection: sqlite3.Connection) -> None:
    """Raises StoreError when queries run whose tasks have ids of an earlier version."""
    over = ", ".join(f"'{state.value}'" for state in QueryState if state.over)
    rows = connection.execute(f"SELECT id FROM queries WHERE state NOT IN ({over}) ORDER BY id").fetchall()
    if rows:
        raise StoreError(
            "queries run whose tasks were begun by an earlier version, which this one cannot take over: "
            f"{', '.join(name for (name,) in rows)}",
            hint="start the earlier version, end them with `selat query cancel`, then start this one; all else is kept",
        )


def lock_directory(directory: Path) -> IO[str]:
    """Lock the directory until the file is closed. Raises StoreError when another master holds the lock."""
    lock = (directory / LOCK_FILE).open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise StoreError(
            f"another master uses {directory}", hint="stop it, or choose another directory with --data"
        ) from None
    return lock


def instant(instant_us: int | None) -> datetime | None:
    """A time from a column that may be NULL."""
    return None if instant_us is None else from_us(instant_us)


def instant_us(instant: datetime | None) -> int | None:
    """A time for a column that may be NULL."""
    return None if instant is None else to_us(instant)
