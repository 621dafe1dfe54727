"""Link history in a SQLite file of its own: losing its last seconds costs nothing, so no commit waits for the disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

from contract.times import from_us, to_us
from master.base.beside import in_memory, open_beside
from master.wan.history import LinkPoint
from planner.values.links import Pair
from planner.wan.samples import Method

HISTORY_FILE = "links.sqlite"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS points (
    from_site TEXT NOT NULL,
    to_site TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    capacity_bytes_per_s REAL NOT NULL,
    used_bytes_per_s REAL NOT NULL,
    rtt_us INTEGER,
    loss REAL NOT NULL,
    method TEXT
);
CREATE INDEX IF NOT EXISTS points_by_link ON points (from_site, to_site, at_us);
"""


class SqliteLinkHistory:
    """See `master.wan.history.HistoryStore`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.executescript(_SCHEMA)

    @classmethod
    def in_memory(cls) -> SqliteLinkHistory:
        return cls(in_memory())

    @classmethod
    def open(cls, directory: Path) -> SqliteLinkHistory:
        """The history in that directory, created if missing; an unusable file is replaced by an empty one."""
        return open_beside(directory / HISTORY_FILE, cls)

    def put_link_points(self, points: Iterable[LinkPoint]) -> None:
        self._connection.execute("BEGIN")
        self._connection.executemany("INSERT INTO points VALUES (?, ?, ?, ?, ?, ?, ?, ?)", map(_row, points))
        self._connection.execute("COMMIT")

    def link_points(self, pair: Pair, since: datetime) -> tuple[LinkPoint, ...]:
        rows = self._connection.execute(
            "SELECT at_us, capacity_bytes_per_s, used_bytes_per_s, rtt_us, loss, method FROM points"
            " WHERE from_site = ? AND to_site = ? AND at_us >= ? ORDER BY at_us, rowid",
            (*pair, to_us(since)),
        )
        return tuple(
            LinkPoint(
                pair,
                from_us(at_us),
                capacity,
                used,
                None if rtt_us is None else timedelta(microseconds=rtt_us),
                loss,
                None if method is None else Method(method),
            )
            for at_us, capacity, used, rtt_us, loss, method in rows
        )

    def drop_link_points(self, before: datetime) -> None:
        self._connection.execute("DELETE FROM points WHERE at_us < ?", (to_us(before),))

    def close(self) -> None:
        self._connection.close()


def _row(point: LinkPoint) -> tuple[object, ...]:
    return (
        *point.pair,
        to_us(point.at),
        point.capacity_bytes_per_s,
        point.used_bytes_per_s,
        None if point.rtt is None else point.rtt // timedelta(microseconds=1),
        point.loss,
        None if point.method is None else point.method.value,
    )
