"""A program that follows a query's results into SQLite and may be killed at any moment: rows and cursor together.

python -m tests.e2e.follower MASTER QUERY DATABASE
"""

from __future__ import annotations

import json
import sqlite3
import sys

import selat


def main(master: str, query: str, path: str) -> None:
    with selat.connect(master) as client, sqlite3.connect(path, isolation_level=None) as db:
        db.execute("CREATE TABLE IF NOT EXISTS rows (channel TEXT, epoch INT, row TEXT)")
        db.execute("CREATE TABLE IF NOT EXISTS place (cursor TEXT)")
        stored = db.execute("SELECT cursor FROM place").fetchone()
        cursor = json.loads(stored[0]) if stored else None
        for result in client.query(query).results(cursor=cursor):
            db.execute("BEGIN")
            rows = [(result.channel, result.epoch, json.dumps(row)) for row in result.batch.to_pylist()]
            db.executemany("INSERT INTO rows VALUES (?, ?, ?)", rows)
            db.execute("DELETE FROM place")
            db.execute("INSERT INTO place VALUES (?)", (json.dumps(result.cursor),))
            db.execute("COMMIT")


if __name__ == "__main__":
    main(*sys.argv[1:])
