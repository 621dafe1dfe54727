"""Relations, queries and rows of the simulated worlds, and what DuckDB answers over all rows at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache

import duckdb
import pyarrow as pa

from contract.times import to_us
from planner.relations.catalog import RelationKind
from planner.relations.connectors.generator import GENERATOR
from site_agent.connectors.generator.connector import GeneratorConnector, GeneratorSource, GeneratorTable
from site_agent.connectors.sources import Offset, Poll, ReadLimit, Source, SourceContext, Split, Table
from site_agent.engine import ArrowScan, Scan
from tests.simulation.engine import INSTANT

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
"""The instant of the world's first second."""
FIRST_ROW_S = 2.0
"""A stream that began when it was declared would have other rows in each world, and nothing in the memo."""
ROWS_PER_S = 2
ROWS_TOGETHER = 10
"""Epochs end at multiples of this row number, so that worlds have epochs in common."""
PAGES = ("home", "search", "cart", "help")
USERS = 20

STREAM = """CREATE STREAM clicks (user_id BIGINT, page STRING, ms INT, ts TIMESTAMP,
WATERMARK FOR ts AS ts - INTERVAL '2 seconds') WITH ('connector' = 'generator', 'rows_per_second' = '{rate}',
'rows' = '{rows}', 'start' = '{start}') {sites}"""
TABLE = """CREATE TABLE users (user_id BIGINT, plan STRING) WITH ('connector' = 'generator', 'rows' = '{users}')
AT {site}"""


@dataclass(frozen=True, slots=True)
class Query:
    """A statement, and DuckDB's over all rows."""

    sql: str
    oracle: str


QUERIES = {
    "windows": Query(
        "SELECT window.start AS s, page, count(*) AS n, sum(ms) AS total FROM clicks "
        "GROUP BY window(ts, '10 seconds'), page",
        "SELECT w(ts, 10) AS s, page, count(*) AS n, sum(ms) AS total FROM clicks GROUP BY 1, 2",
    ),
    "rows": Query(
        "SELECT site, user_id, ms FROM clicks WHERE ms > 250 AND site IN ('us', 'eu')",
        "SELECT site, user_id, ms FROM clicks WHERE ms > 250 AND site IN ('us', 'eu')",
    ),
    "by_site": Query(
        "SELECT window.start AS s, site, min(ms) AS least, max(ms) AS most, count(*) AS n FROM clicks "
        "GROUP BY window(ts, '5 seconds'), site HAVING count(*) > 3",
        "SELECT w(ts, 5) AS s, site, min(ms) AS least, max(ms) AS most, count(*) AS n FROM clicks "
        "GROUP BY 1, 2 HAVING count(*) > 3",
    ),
    "distinct": Query(
        "SELECT window.start AS s, count(DISTINCT user_id) AS users FROM clicks GROUP BY window(ts, '10 seconds')",
        "SELECT w(ts, 10) AS s, count(DISTINCT user_id) AS users FROM clicks GROUP BY 1",
    ),
    "sliding": Query(
        "SELECT window.start AS s, page, count(*) AS n FROM clicks "
        "GROUP BY window(ts, '20 seconds', '10 seconds'), page",
        "SELECT s, page, count(*) AS n FROM (SELECT *, w(ts, 10) - to_seconds(10 * unnest(range(2))) AS s FROM clicks) "
        "GROUP BY 1, 2",
    ),
    "joined": Query(
        "SELECT window.start AS s, u.plan, sum(c.ms) AS total FROM clicks c JOIN users u ON c.user_id = u.user_id "
        "GROUP BY window(c.ts, '10 seconds'), u.plan",
        "SELECT w(c.ts, 10) AS s, u.plan, sum(c.ms) AS total FROM clicks c JOIN users u ON c.user_id = u.user_id "
        "GROUP BY 1, 2",
    ),
}


def declarations(sites: tuple[str, ...], rows: int) -> tuple[str, ...]:
    """The statements that declare the relations."""
    start = (BEGIN + timedelta(seconds=FIRST_ROW_S)).isoformat().replace("+00:00", "Z")
    stream = STREAM.format(rate=ROWS_PER_S, rows=rows, start=start, sites=", ".join(f"AT {site}" for site in sites))
    return stream, TABLE.format(users=USERS, site=sites[0])


def last_row_s(rows: int) -> float:
    """When the last row is born."""
    return FIRST_ROW_S + rows / ROWS_PER_S


def clicks(site: str, numbers: range) -> pa.Table:
    """Rows of the stream, by number."""
    salt = sum(site.encode())
    first_us, step_us = to_us(BEGIN + timedelta(seconds=FIRST_ROW_S)), 1_000_000 // ROWS_PER_S
    return pa.table(
        {
            "user_id": pa.array([(n * 7 + salt) % (USERS + 5) for n in numbers], pa.int64()),
            "page": pa.array([PAGES[(n * 31 + salt) // 3 % len(PAGES)] for n in numbers], pa.string()),
            "ms": pa.array([(n * 37 + salt) % 500 for n in numbers], pa.int32()),
            "ts": pa.array([first_us + n * step_us for n in numbers], INSTANT),
        }
    )


def users(numbers: range) -> pa.Table:
    """Rows of the table, by number."""
    plans = pa.array(["free" if n % 3 else "paid" for n in numbers], pa.string())
    return pa.table({"user_id": pa.array(numbers, pa.int64()), "plan": plans})


class ClicksSource(GeneratorSource):
    """The generator's offsets and rate, with rows that need no Spark."""

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._context = context

    def poll(self, start: Offset, *, now: datetime, limit: ReadLimit) -> Poll:
        """See `Source.poll`."""
        found = super().poll(start, now=now, limit=limit)
        first, end = start["row"], found.end["row"]
        assert isinstance(first, int)
        assert isinstance(end, int)
        if found.ended or end % ROWS_TOGETHER == 0:
            return found
        end = max(first, end // ROWS_TOGETHER * ROWS_TOGETHER)
        floor_us = min(to_us(now), self._schedule.time_us(end) or to_us(now))
        return replace(found, end={"row": end}, empty=end == first, event_time_floor_us=floor_us)

    def scan(self, start: Offset, end: Offset) -> Scan:
        """See `Source.scan`."""
        first, last = start["row"], end["row"]
        assert isinstance(first, int)
        assert isinstance(last, int)
        wanted = set(self._context.read_columns) | {self._context.event_time}
        rows = clicks(self._context.site, range(first, last))
        return ArrowScan(rows.select([name for name in rows.column_names if name in wanted]))


class UsersTable(GeneratorTable):
    """See `ClicksSource`."""

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._context = context

    def scan(self, split: Split | None = None) -> Scan:
        """See `Table.scan`."""
        rows = users(range(USERS))
        return ArrowScan(rows.select([name for name in rows.column_names if name in self._context.read_columns]))


class Connector(GeneratorConnector):
    """See `GeneratorConnector`."""

    def open_source(self, context: SourceContext) -> Source:
        context.check(GENERATOR, RelationKind.STREAM)
        return ClicksSource(context)

    def open_table(self, context: SourceContext) -> Table:
        context.check(GENERATOR, RelationKind.TABLE)
        return UsersTable(context)


Rows = list[tuple[object, ...]]


@cache
def expected(name: str, sites: tuple[str, ...], rows: int) -> Rows:
    """DuckDB's answer to a query, sorted."""
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.execute("CREATE MACRO w(ts, n) AS to_timestamp(floor(epoch(ts) / n) * n)")
        born = [clicks(site, range(rows)).append_column("site", pa.array([site] * rows)) for site in sites]
        database.register("clicks", pa.concat_tables(born))
        database.register("users", users(range(USERS)))
        return sorted(database.execute(QUERIES[name].oracle).fetchall(), key=repr)
