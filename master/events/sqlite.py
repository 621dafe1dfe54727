"""Events in a SQLite file of their own: no commit waits for the disk, and a full disk stops nothing."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from contract.times import from_us, to_us
from master.base.logs import line
from master.events import Event, EventKind, Subject

logger = logging.getLogger(__name__)

EVENTS_FILE = "events.sqlite"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    message TEXT NOT NULL,
    query TEXT NOT NULL,
    site TEXT NOT NULL,
    to_site TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    first_at_us INTEGER NOT NULL,
    count INTEGER NOT NULL
);
"""


class SqliteEvents:
    """See `master.events.EventStore`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._failed = False
        connection.executescript(_SCHEMA)

    @classmethod
    def in_memory(cls) -> SqliteEvents:
        return cls(sqlite3.connect(":memory:", isolation_level=None))

    @classmethod
    def open(cls, directory: Path) -> SqliteEvents:
        """The events in that directory, created if missing; an unusable file is replaced by an empty one."""
        path = directory / EVENTS_FILE
        try:
            return cls._open(path)
        except sqlite3.DatabaseError:
            path.replace(path.with_suffix(".damaged"))
            return cls._open(path)

    @classmethod
    def _open(cls, path: Path) -> SqliteEvents:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        return cls(connection)

    def events(self) -> Iterable[Event]:
        """The kept events, except those of a kind that this version does not know."""
        known = {kind.value: kind for kind in EventKind}
        rows = self._connection.execute("SELECT * FROM events ORDER BY number")
        return tuple(
            Event(
                number,
                Subject(known[kind], message, query, site, to_site),
                from_us(at_us),
                from_us(first_at_us),
                count,
            )
            for number, kind, message, query, site, to_site, at_us, first_at_us, count in rows
            if kind in known
        )

    def put_event(self, event: Event, gone: Iterable[int]) -> None:
        subject = event.subject
        row = (event.number, subject.kind.value, subject.message, subject.query, subject.site, subject.to_site)
        times = (to_us(event.at), to_us(event.first_at), event.count)
        try:
            self._connection.execute("BEGIN")
            self._connection.executemany("DELETE FROM events WHERE number = ?", [(number,) for number in gone])
            self._connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, *times))
            self._connection.execute("COMMIT")
            self._failed = False
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if not self._failed:
                logger.warning(line("events not stored", reason=error))
            self._failed = True

    def close(self) -> None:
        self._connection.close()
