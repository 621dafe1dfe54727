"""Input that is easy to read wrongly: quoted CSV at several sites against DuckDB, and pushed rows from the future."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

import selat
from tests.e2e.cluster import wait_until
from tests.e2e.faults import Scene, kill
from tests.e2e.oracle import assert_same, expected, rows_of

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(400)]

NAMES = ('Dr, "x"', "two\nlines", "two\nother lines", '"', "a,b", "é;\tß", "plain", '""', "\n,\n")
WINDOWED = (
    "SELECT n.label, v.name, count(*) AS n, sum(v.amount) AS total FROM {visits} v JOIN names n ON v.name = n.name "
    "GROUP BY n.label, v.name, {window}"
)


def write_inputs(root: Path) -> str:
    """A stream at two sites and a table, with quoted values as keys; the statements for them."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for site, offset in (("us", 0), ("eu", 1)):
        (root / site).mkdir()
        for file in range(2):
            rows = [
                (NAMES[(n * 5 + offset) % len(NAMES)], n, (start + timedelta(seconds=file * 60 + n % 60)).isoformat())
                for n in range(3000)
            ]
            write(root / site / f"{file}.csv", rows)
    write(root / "names.csv", [(name, f"label, {number % 3}\n") for number, name in enumerate(NAMES)])
    return f"""
    CREATE STREAM visits (name STRING, amount BIGINT, ts TIMESTAMP, WATERMARK FOR ts)
      WITH ('connector' = 'files', 'format' = 'csv', 'until' = 'end')
      AT us WITH ('path' = '{root}/us'), AT eu WITH ('path' = '{root}/eu');
    CREATE TABLE past (name STRING, amount BIGINT, ts TIMESTAMP) WITH ('connector' = 'files', 'format' = 'csv')
      AT us WITH ('path' = '{root}/us'), AT eu WITH ('path' = '{root}/eu');
    CREATE TABLE names (name STRING, label STRING)
      AT us WITH ('connector' = 'files', 'format' = 'csv', 'path' = '{root}/names.csv');
    """


def write(path: Path, rows: Sequence[tuple[object, ...]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def oracle(root: Path) -> duckdb.DuckDBPyConnection:
    db = duckdb.connect()
    options = "delim=',', quote='\"', escape='\"', header=false, auto_detect=false"
    columns = "{'name': 'VARCHAR', 'amount': 'BIGINT', 'ts': 'TIMESTAMPTZ'}"
    db.execute(f"CREATE VIEW visits AS SELECT * FROM read_csv('{root}/*/*.csv', {options}, columns = {columns})")
    columns = "{'name': 'VARCHAR', 'label': 'VARCHAR'}"
    db.execute(f"CREATE VIEW names AS SELECT * FROM read_csv('{root}/names.csv', {options}, columns = {columns})")
    return db


def test_quoted_values_are_joined_and_grouped_as_duckdb_does(
    calm: Scene, calm_client: selat.Client, tmp_path: Path
) -> None:
    client = calm_client
    list(client.script(write_inputs(tmp_path)))
    stream = client.sql(WINDOWED.format(visits="visits", window="window(v.ts, '1 minute')"))
    batch = client.sql(WINDOWED.format(visits="past", window="v.amount % 10"))
    assert isinstance(stream, selat.Query)
    assert isinstance(batch, selat.Query)
    db = oracle(tmp_path)
    for name, query, group in (("stream", stream, "floor(epoch(v.ts) / 60)"), ("table", batch, "v.amount % 10")):
        wanted = expected(db, WINDOWED.format(visits="visits", window=group))
        assert_same(rows_of(query.results().arrow()), wanted, name)
        assert query.wait().rows_malformed == 0
    for name in ("visits", "past", "names"):
        client.drop(name)


def test_a_row_from_the_future_makes_no_other_row_late(isolated: Scene, isolated_client: selat.Client) -> None:
    client = isolated_client
    client.sql("CREATE STREAM soon (n BIGINT, ts TIMESTAMP, WATERMARK FOR ts) WITH ('connector' = 'push') AT us, AT eu")
    query = client.sql("SELECT n, site FROM soon")
    assert isinstance(query, selat.Query)
    now = datetime.now(UTC)
    future = now + timedelta(days=365)
    us = client.push("soon", "us")
    us.send([{"n": 1, "ts": now}, {"n": 2, "ts": future}])
    us.flush()
    wait_until(lambda: query.info().rows_malformed == 1)
    kill(isolated.cluster, "agent-us")
    us.send([{"n": 3, "ts": now}, {"n": 4, "ts": future}])
    us.finish()
    client.push("soon", "eu").finish()
    values = sorted(row["n"] for row in query.results().rows())
    info = query.wait()
    client.drop("soon")

    assert (values, info.rows_in, info.rows_late, info.rows_malformed) == ([1, 3], 2, 0, 2)
    files = sorted(isolated.cluster.data.root.glob(f"sites/*/dead-letters/{query.id}.*/*.jsonl"))
    letters = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert sorted(json.loads(letter["row"])["n"] for letter in letters) == [2, 4]
    assert all(f"ts: {future.isoformat()} is more than 0:10:00 ahead" in letter["reason"] for letter in letters)
