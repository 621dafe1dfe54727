"""Sites as rows of SQLite."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from contract.times import from_us, to_us
from master.records.model import SiteRecord
from master.store import INCARNATIONS_KEPT
from master.store.database import Database, instant, instant_us, readable


class SiteTables(Database):
    """See `master.store.SiteStore`."""

    def sites(self) -> tuple[SiteRecord, ...]:
        with readable("the list of sites"):
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
                    instant_us(record.last_report_at),
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
        with readable("the list of draining sites"):
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


def _site(row: tuple[Any, ...]) -> SiteRecord:
    return SiteRecord(
        name=row[0],
        address=row[1],
        incarnation=row[2],
        slots=row[3],
        version=row[4],
        last_report_at=instant(row[5]),
    )
