"""SQLite files beside the master's state: no commit waits for the disk, and a full disk stops nothing."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from master.base.logs import line

logger = logging.getLogger(__name__)

T = TypeVar("T")


def open_beside(path: Path, make: Callable[[sqlite3.Connection], T]) -> T:
    """Return what `make` makes of the file, which is created if missing; an empty one replaces an unusable one."""
    try:
        return make(_connected(path))
    except (sqlite3.DatabaseError, ValueError, KeyError, TypeError):
        path.replace(path.with_suffix(".damaged"))
        return make(_connected(path))


def in_memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None)


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


class Writing:
    """Transactions of such a file; of consecutive ones that fail, only the first is logged."""

    def __init__(self, connection: sqlite3.Connection, failure: str) -> None:
        """`failure` is the text of the log line."""
        self._connection = connection
        self._failure = failure
        self._failed = False

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of the block is stored, or nothing."""
        try:
            self._connection.execute("BEGIN")
            yield self._connection
            self._connection.execute("COMMIT")
            self._failed = False
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if not self._failed:
                logger.warning(line(self._failure, reason=error))
            self._failed = True
