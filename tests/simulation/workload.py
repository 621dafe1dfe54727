"""Relations and queries of the simulated worlds, and what DuckDB answers over all rows at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cache

import duckdb
import pyarrow as pa

from tests.simulation import drawntables
from tests.simulation import rows as born
from tests.simulation.rows import BEGIN, FIRST_ROW_S, IDLE_S, ROWS_PER_S, USERS

WINDOW_S = 10.0
"""Of the query over bursts."""
ARCHIVE = "/archive"
"""The sink's directory, at the last site."""
_GENERATED = "WITH ('connector' = 'generator', "
RELATIONS = {
    "clicks": "CREATE STREAM clicks (user_id BIGINT, page STRING, ms INT, ts TIMESTAMP, "
    "WATERMARK FOR ts AS ts - INTERVAL '2 seconds') "
    + _GENERATED
    + "'rows_per_second' = '{rate}', 'rows' = '{rows}', 'start' = '{start}') {sites}",
    "taps": "CREATE STREAM taps (kind STRING, force INT, ts TIMESTAMP, "
    "WATERMARK FOR ts AS ts - INTERVAL '2 seconds') "
    + _GENERATED
    + "'rows_per_second' = '1', 'idle_timeout' = '{idle} seconds') {sites}",
    "pushes": "CREATE STREAM pushes (item BIGINT, amount INT, ts TIMESTAMP, "
    "WATERMARK FOR ts AS ts - INTERVAL '4 seconds') WITH ('connector' = 'push', 'idle_timeout' = '1 hour') {sites}",
    "arrivals": "CREATE STREAM arrivals (item BIGINT, amount INT, WATERMARK FOR arrived) "
    "WITH ('connector' = 'push') {sites}",
    "users": "CREATE TABLE users (user_id BIGINT, plan STRING) " + _GENERATED + "'rows' = '{users}') AT {site}",
    "archive": "CREATE SINK archive AT {last} WITH ('connector' = 'parquet', 'path' = '{archive}', "
    "'roll_interval' = '5 seconds')",
}
"""The statements that declare them; a query names those that it needs."""


PUSHED = ("pushes", "arrivals")
"""Those that producers push to."""


@dataclass(frozen=True, slots=True)
class Query:
    """A statement, and DuckDB's over all rows."""

    sql: str
    oracle: str
    needs: tuple[str, ...] = ("clicks",)
    """The relations, in the order of their declaration."""
    sink: bool = False
    """Its rows go to the sink."""
    late: bool = False
    """Its last column counts rows, some of which may be dropped as late: it says of how many."""


def _sessions(rows: str, gap: str, key: str, results: str) -> str:
    """DuckDB's statement of the sessions of a key, with their starts and ends before the results."""
    by = f"PARTITION BY {key} ORDER BY ts, e"
    return (
        f"SELECT min(ts) AS s, max(e) AS e, {results} FROM (SELECT *, sum(b) OVER ({by}) AS session FROM (SELECT *, "
        f"CASE WHEN ts <= max(e) OVER ({by} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) THEN 0 ELSE 1 END AS b "
        f"FROM (SELECT *, ts + {gap} AS e FROM {rows}))) GROUP BY session{'' if key == '1' else f', {key}'}"
    )


_GROUPS = "SELECT window.start AS s, page, count(*) AS n FROM clicks GROUP BY window(ts, '10 seconds'), page"
_TOTALS = "SELECT window.start AS s, page, sum(ms) AS m FROM clicks GROUP BY window(ts, '10 seconds'), page"
_GROUPS_WANTED = "SELECT w(ts, 10) AS s, page, count(*) AS n FROM clicks GROUP BY 1, 2"

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
        "GROUP BY window(ts, '20 seconds', '8 seconds', '3 seconds'), page",
        "SELECT s, page, count(*) AS n FROM (SELECT *, w(ts - to_seconds(3), 8) + to_seconds(3 - 8 * unnest(range(3))) "
        "AS s FROM clicks) WHERE ts < s + to_seconds(20) GROUP BY 1, 2",
    ),
    "joined": Query(
        "SELECT window.start AS s, u.plan, sum(c.ms) AS total FROM clicks c JOIN users u ON c.user_id = u.user_id "
        "GROUP BY window(c.ts, '10 seconds'), u.plan",
        "SELECT w(c.ts, 10) AS s, u.plan, sum(c.ms) AS total FROM clicks c JOIN users u ON c.user_id = u.user_id "
        "GROUP BY 1, 2",
        needs=("clicks", "users"),
    ),
    "taps": Query(
        "SELECT window.start AS s, kind, count(*) AS n FROM taps GROUP BY window(ts, '10 seconds'), kind",
        "SELECT w(ts, 10) AS s, kind, count(*) AS n FROM taps GROUP BY 1, 2",
        needs=("taps",),
        late=True,
    ),
    "pushed": Query(
        "SELECT window.start AS s, item, count(*) AS n, sum(amount) AS total FROM pushes "
        "GROUP BY window(ts, '10 seconds'), item",
        "SELECT w(ts, 10) AS s, item, count(*) AS n, sum(amount) AS total FROM pushes GROUP BY 1, 2",
        needs=("pushes",),
    ),
    "archived": Query(
        "INSERT INTO archive SELECT site, user_id, ms FROM clicks WHERE ms > 300",
        "SELECT site, user_id, ms FROM clicks WHERE ms > 300",
        needs=("clicks", "archive"),
        sink=True,
    ),
    "archived_windows": Query(
        "INSERT INTO archive SELECT window.start AS s, page, count(*) AS n FROM clicks "
        "GROUP BY window(ts, '10 seconds'), page",
        "SELECT w(ts, 10) AS s, page, count(*) AS n FROM clicks GROUP BY 1, 2",
        needs=("clicks", "archive"),
        sink=True,
    ),
    "plans": Query(
        "SELECT plan, count(*) AS n, sum(user_id) AS total FROM users GROUP BY plan",
        "SELECT plan, count(*) AS n, sum(user_id) AS total FROM users GROUP BY plan",
        needs=("users",),
    ),
}


DRAWN = tuple(sorted(QUERIES))
"""The plans of seeds have these queries."""
ALL_GROUPS = {
    "top": Query(
        f"{_GROUPS} QUALIFY row_number() OVER (PARTITION BY window ORDER BY count(*) DESC, page) <= 2",
        f"FROM ({_GROUPS_WANTED}) QUALIFY row_number() OVER (PARTITION BY s ORDER BY n DESC, page) <= 2",
    ),
    "layer": Query(
        f"SELECT s, max(n) AS most, count(*) AS pages FROM ({_GROUPS}) GROUP BY s",
        f"SELECT s, max(n) AS most, count(*) AS pages FROM ({_GROUPS_WANTED}) GROUP BY s",
    ),
    "pairs": Query(
        f"SELECT x.s AS s, x.page AS page, n, m FROM ({_GROUPS}) x JOIN ({_TOTALS}) y ON x.s = y.s AND x.page = y.page",
        "SELECT w(ts, 10) AS s, page, count(*) AS n, sum(ms) AS m FROM clicks GROUP BY 1, 2",
    ),
}
"""Their results need the groups of all bins."""
STEPS = {
    "cumulative": Query(
        "SELECT window.start AS s, window.end AS e, page, count(*) AS n, sum(ms) AS total FROM clicks "
        "GROUP BY cumulate_window(ts, '20 seconds', '5 seconds'), page",
        "SELECT w(ts, 20) AS s, e, page, count(*) AS n, sum(ms) AS total FROM (SELECT *, w(ts, 20) + "
        "to_seconds(5 * unnest(range(1, 5))) AS e FROM clicks) WHERE ts < e GROUP BY 1, 2, 3",
    ),
    "best_so_far": Query(
        "SELECT e, max(n) AS most FROM (SELECT window.end AS e, page, count(*) AS n FROM clicks "
        "GROUP BY cumulate_window(ts, '20 seconds', '5 seconds'), page) GROUP BY e",
        "SELECT e, max(n) AS most FROM (SELECT e, page, count(*) AS n FROM (SELECT *, w(ts, 20) + "
        "to_seconds(5 * unnest(range(1, 5))) AS e FROM clicks) WHERE ts < e GROUP BY 1, 2) GROUP BY e",
    ),
    "by_minute": Query(
        "SELECT date_trunc('MINUTE', ts) AS m, page, count(*) AS n FROM clicks GROUP BY m, page",
        "SELECT date_trunc('minute', ts) AS m, page, count(*) AS n FROM clicks GROUP BY 1, 2",
    ),
}
"""Cumulative windows, and units of time as keys."""
_GAP = "CASE WHEN ms > 450 THEN {}1500 milliseconds' WHEN ms < 200 THEN {}0 seconds' ELSE {}300 milliseconds' END"
SESSIONS = {
    "visits": Query(
        "SELECT session_window.start AS s, session_window.end AS e, user_id, count(*) AS n, sum(ms) AS total "
        "FROM clicks GROUP BY session_window(ts, '4 seconds'), user_id",
        _sessions("clicks", "INTERVAL 4 SECOND", "user_id", "user_id, count(*) AS n, sum(ms) AS total"),
    ),
    "long_visits": Query(
        "SELECT session_window.end AS e, user_id, count(*) AS n FROM clicks "
        "GROUP BY session_window(ts, '4 seconds'), user_id HAVING sum(ms) > 600",
        "SELECT e, user_id, n FROM ("
        + _sessions("clicks", "INTERVAL 4 SECOND", "user_id", "user_id, count(*) AS n, sum(ms) AS total")
        + ") WHERE total > 600",
    ),
    "pushed_visits": Query(
        "SELECT session_window.start AS s, session_window.end AS e, item, max(amount) AS most FROM pushes "
        "GROUP BY session_window(ts, '1 second'), item HAVING count(*) > 1",
        _sessions("pushes", "INTERVAL 1 SECOND", "item", "item, max(amount) AS most") + " HAVING count(*) > 1",
        needs=("pushes",),
    ),
    "quiet": Query(
        "SELECT e, users FROM (SELECT session_window.end AS e, count(DISTINCT user_id) AS users FROM clicks "
        f"WHERE page <> 'home' GROUP BY session_window(ts, {_GAP.format(*3 * chr(39))})) WHERE users < 9",
        "SELECT e, users FROM ("
        + _sessions(
            "(SELECT * FROM clicks WHERE page <> 'home' AND ms >= 200)",
            _GAP.format(*3 * ["INTERVAL '"]),
            "1",
            "count(DISTINCT user_id) AS users",
        )
        + ") WHERE users < 9",
    ),
}
"""Sessions, with a gap of all rows or of each."""
ELSEWHERE = {
    "elsewhere": Query(
        "SELECT window.start AS s, page, count(*) AS n, sum(ms) AS total FROM clicks WHERE site <> 'us' "
        "GROUP BY window(ts, '10 seconds'), page",
        "SELECT w(ts, 10) AS s, page, count(*) AS n, sum(ms) AS total FROM clicks WHERE site <> 'us' GROUP BY 1, 2",
    ),
}
"""It has nothing to read at a site, which combines what others send, where its groups go over that one."""
ARRIVING = {
    "arrived": Query(
        "SELECT item, sum(n) AS n, sum(total) AS total FROM (SELECT window(arrived, '5 seconds') AS w, item, "
        "count(*) AS n, sum(amount) AS total FROM arrivals GROUP BY window(arrived, '5 seconds'), item) "
        "GROUP BY item, window(w, '3650 days')",
        "SELECT item, count(*) AS n, sum(amount) AS total FROM arrivals GROUP BY item",
        needs=("arrivals",),
    ),
}
"""Each world has other arrivals: windows over them are added up, so that only what is lost, doubled or late shows."""
AGAIN = {"again": QUERIES["windows"]}
"""The same as another, whose tasks it shares where it may."""
SCALED = ("layer", "top")
"""Those of one merge with a FINAL stage behind it, whose parts can change."""
QUERIES |= ALL_GROUPS | STEPS | SESSIONS | ELSEWHERE | ARRIVING | AGAIN


def query_named(name: str) -> Query:
    """One of these, or one that is drawn."""
    if drawntables.is_drawn(name):
        return Query(drawntables.text(name), drawntables.text(name), needs=())
    return QUERIES[name]


def declarations(
    queries: tuple[str, ...], sites: tuple[str, ...], rows: int, clicks_from_s: float = FIRST_ROW_S
) -> tuple[str, ...]:
    """The statements that declare the relations of these queries."""
    start = (BEGIN + timedelta(seconds=clicks_from_s)).isoformat().replace("+00:00", "Z")
    everywhere = ", ".join(f"AT {site}" for site in sites)
    wanted = {relation for query in queries for relation in query_named(query).needs}
    drawn = {drawntables.seed_of(query) for query in queries if drawntables.is_drawn(query)}
    tables = [statement for seed in drawn for statement in drawntables.declarations(seed, sites)]
    return *tables, *(
        text.format(
            rate=ROWS_PER_S,
            rows=rows,
            start=start,
            idle=f"{IDLE_S:.0f}",
            users=USERS,
            site=sites[0],
            last=sites[-1],
            archive=ARCHIVE,
            sites=everywhere,
        )
        for relation, text in RELATIONS.items()
        if relation in wanted
    )


Rows = list[tuple[object, ...]]


@cache
def expected(name: str, sites: tuple[str, ...], rows: int, clicks_from_s: float = FIRST_ROW_S) -> Rows:
    """DuckDB's answer to a query, sorted."""
    if drawntables.is_drawn(name):
        return sorted(drawntables.expected(name, sites), key=repr)
    database = _oracle()
    for relation in QUERIES[name].needs:
        if relation != "archive":
            database.register(relation, _all_rows(relation, sites, rows, clicks_from_s))
    return sorted(database.execute(QUERIES[name].oracle).fetchall(), key=repr)


@cache
def _oracle() -> duckdb.DuckDBPyConnection:
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'; SET threads = 1")
    database.execute("CREATE MACRO w(ts, n) AS to_timestamp(floor(epoch(ts) / n) * n)")
    return database


def _all_rows(relation: str, sites: tuple[str, ...], rows: int, clicks_from_s: float) -> pa.Table:
    if relation == "users":
        return born.users(range(USERS))
    parts = []
    for site in sites:
        if relation == "clicks":
            part = born.clicks(site, range(rows), clicks_from_s)
        elif relation == "taps":
            bursts = born.bursts_s(site, sites[0], rows)
            part = born.taps(site, bursts, range((len(bursts) + 1) * born.TAPS_TOGETHER))
        else:
            part = pa.concat_tables([born.pushed(relation, site, batch) for batch in range(born.batches(rows))])
        parts.append(part.append_column("site", pa.array([site] * part.num_rows)))
    return pa.concat_tables(parts)
