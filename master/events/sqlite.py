"""Events in a SQLite file of their own: no commit waits for the disk, and a full disk stops nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from contract.times import from_us, to_us
from master.base.beside import Writing, in_memory, open_beside
from master.events import Event, EventKind, Subject

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
        self._writing = Writing(connection, "events not stored")
        connection.executescript(_SCHEMA)

    @classmethod
    def in_memory(cls) -> SqliteEvents:
        return cls(in_memory())

    @classmethod
    def open(cls, directory: Path) -> SqliteEvents:
        """The events in that directory, created if missing; an unusable file is replaced by an empty one."""
        return open_beside(directory / EVENTS_FILE, cls)

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
        with self._writing.transaction() as connection:
            connection.executemany("DELETE FROM events WHERE number = ?", [(number,) for number in gone])
            connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, *times))

    def close(self) -> None:
        self._connection.close()
