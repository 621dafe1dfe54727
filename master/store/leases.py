"""Leases as rows of SQLite, one for each held slot and one mark for all; the frameworks that hold them."""

from __future__ import annotations

import sqlite3
from datetime import timedelta

from contract.times import duration_us, from_us, to_us
from master.store import LeaseUpdate, StoredLeases, codec
from master.store.database import Database, readable
from planner.leases import Framework, Lease, Slot


class LeaseTables(Database):
    """See `master.store.LeaseStore`."""

    def leases(self) -> StoredLeases:
        with readable("the list of leases"):
            return _leases(self._connection)

    def put_leases(self, update: LeaseUpdate) -> None:
        with self._transaction():
            _write(self._connection, update)

    def frameworks(self) -> tuple[Framework, ...]:
        with readable("the list of frameworks"):
            rows = self._connection.execute("SELECT body FROM frameworks ORDER BY name")
            return tuple(codec.loads(Framework, body) for (body,) in rows)

    def put_framework(self, framework: Framework) -> None:
        with self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO frameworks VALUES (?, ?)", (framework.name, codec.dumps(framework))
            )


def _leases(connection: sqlite3.Connection) -> StoredLeases:
    rows = connection.execute(
        "SELECT site, slot, holder, fencing, granted_at_us, expires_at_us, grace_us FROM leases ORDER BY site, slot"
    )
    leases = tuple(
        Lease(
            slot=Slot(site, slot),
            holder=holder,
            fencing=fencing,
            granted_at=from_us(granted_at_us),
            expires_at=from_us(expires_at_us),
            grace=timedelta(microseconds=grace_us),
        )
        for site, slot, holder, fencing, granted_at_us, expires_at_us, grace_us in rows
    )
    mark = connection.execute("SELECT fencing, alive_at_us FROM lease_mark").fetchone()
    return StoredLeases(leases, mark[0], from_us(mark[1])) if mark else StoredLeases()


def _write(connection: sqlite3.Connection, update: LeaseUpdate) -> None:
    """Write rows inside the caller's transaction."""
    connection.executemany("DELETE FROM leases WHERE site = ? AND slot = ?", update.freed)
    connection.executemany("INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, ?, ?, ?)", map(_row, update.held))
    connection.execute("INSERT OR REPLACE INTO lease_mark VALUES (1, ?, ?)", (update.fencing, to_us(update.alive_at)))


def _row(lease: Lease) -> tuple[object, ...]:
    return (
        *lease.slot,
        lease.holder,
        lease.fencing,
        to_us(lease.granted_at),
        to_us(lease.expires_at),
        duration_us(lease.grace),
    )
