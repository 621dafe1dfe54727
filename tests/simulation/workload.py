"""Relations and queries of the simulated worlds, and what DuckDB answers over all rows at once."""

from __future__ import annotations

from collections.abc import Mapping
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
    changes: bool = False
    """Its rows are changes: behind its last column are the operation and the instant of each."""
    own: tuple[str, ...] = ()
    """Its first columns, which tell a row from all others, where rows may be dropped as late: those behind them follow
    from the rows that were not dropped."""


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
_CHAIN = "OVER (PARTITION BY user_id ORDER BY ts, ms)"
SESSIONS |= {
    "first_of_chains": Query(
        "SELECT user_id, ts, ms FROM clicks QUALIFY row_number() OVER (PARTITION BY user_id ORDER BY ts) = 1 "
        "WITHIN INTERVAL '2 seconds'",
        f"SELECT user_id, ts, ms FROM clicks QUALIFY lag(ts) {_CHAIN} IS NULL "
        f"OR ts - lag(ts) {_CHAIN} > INTERVAL 2 SECOND",
    ),
    "last_of_chains": Query(
        "SELECT user_id, ts, ms FROM clicks WHERE ms > 200 QUALIFY row_number() OVER "
        "(PARTITION BY session_window(ts, '3 seconds'), user_id ORDER BY ts DESC) = 1",
        f"SELECT user_id, ts, ms FROM clicks WHERE ms > 200 QUALIFY lead(ts) {_CHAIN} IS NULL "
        f"OR lead(ts) {_CHAIN} - ts > INTERVAL 3 SECOND",
    ),
}
"""Sessions, with a gap of all rows or of each, and one row of each."""
_NEAR = "b.user_id = a.user_id AND b.ts BETWEEN a.ts - INTERVAL '500' MILLISECONDS AND a.ts + INTERVAL '4' SECONDS"
_SLOW = "a.ms > 250 AND b.ms < 200"
_VERSIONS = "(SELECT user_id, ts, max(ms) AS ms FROM clicks WHERE ms > 300 GROUP BY user_id, ts)"
"""The greatest of one instant counts, where its other columns say nothing."""


def _paired(sql: str, on: str = _NEAR, oracle: str = "", needs: tuple[str, ...] = ("clicks",)) -> Query:
    """DuckDB understands the same text, but for a window."""
    return Query(sql.format(on=on), (oracle or sql).format(on=on), needs)


PAIRED = {
    "after": _paired(
        f"SELECT a.user_id, a.ts, b.ts AS then, b.ms FROM clicks a JOIN clicks b ON {{on}} AND {_SLOW} AND a.ts < b.ts"
    ),
    "followed": _paired("SELECT a.user_id, a.ts, b.page FROM clicks a LEFT JOIN clicks b ON {on} AND a.ms > 400"),
    "between": _paired(
        "SELECT a.ts, b.ts AS then FROM (SELECT * FROM clicks WHERE ms > 400) a FULL JOIN "
        "(SELECT * FROM clicks WHERE ms < 100) b ON {on}"
    ),
    "seen_again": _paired(
        "SELECT b.user_id, b.ts FROM clicks b SEMI JOIN clicks a ON {on} AND a.ms > 350 AND b.ms < 150"
    ),
    "never_again": _paired(
        "SELECT user_id, ts FROM clicks a WHERE ms > 300 "
        "AND NOT EXISTS (SELECT 1 FROM clicks b WHERE {on} AND b.ms < 200)"
    ),
    "pairs_of_windows": _paired(
        f"SELECT window.start AS s, a.page, count(*) AS n FROM clicks a JOIN clicks b ON {{on}} AND {_SLOW} "
        "GROUP BY window(b.ts, '10 seconds'), a.page",
        oracle=f"SELECT w(b.ts, 10) AS s, a.page, count(*) AS n FROM clicks a JOIN clicks b ON {{on}} AND {_SLOW} "
        "GROUP BY 1, 2",
    ),
    "three": _paired(
        f"SELECT a.ts, b.page, c.ms FROM clicks a JOIN clicks b ON {{on}} AND {_SLOW} LEFT JOIN clicks c "
        "ON c.user_id = b.user_id AND c.ts BETWEEN b.ts AND b.ts + INTERVAL '2' SECONDS AND c.ms > 450"
    ),
    "until": _paired(
        "SELECT a.user_id, a.ts, a.until, count(*) AS n, max(b.ms) AS most FROM clicks b JOIN ("
        "SELECT user_id, ts, ts + CASE WHEN ms > 250 THEN INTERVAL '3' SECONDS ELSE INTERVAL '1' SECONDS END AS until "
        "FROM clicks WHERE ms > 200) a ON a.user_id = b.user_id AND b.ts BETWEEN a.ts AND a.until "
        "GROUP BY a.user_id, a.ts, a.until"
    ),
    "newest": _paired(
        "SELECT a.user_id, a.ts, b.ms FROM clicks a {on} a.user_id = b.user_id AND b.ms > 300",
        on="LEFT ASOF JOIN clicks b MATCH_CONDITION (a.ts > b.ts) ON",
        oracle=f"SELECT a.user_id, a.ts, b.ms FROM clicks a ASOF LEFT JOIN {_VERSIONS} b "
        "ON a.user_id = b.user_id AND a.ts > b.ts",
    ),
    "newest_of_windows": _paired(
        "SELECT window.start AS s, b.ms, count(*) AS n FROM clicks a {on} a.user_id = b.user_id AND b.ms > 300 "
        "GROUP BY window(a.ts, '10 seconds'), b.ms",
        on="JOIN clicks FOR SYSTEM_TIME AS OF a.ts AS b ON",
        oracle=f"SELECT w(a.ts, 10) AS s, b.ms, count(*) AS n FROM clicks a ASOF JOIN {_VERSIONS} b "
        "ON a.user_id = b.user_id AND a.ts >= b.ts GROUP BY 1, 2",
    ),
}
"""Streams that are joined within intervals, or with versions."""


def _totalled(
    keys: str,
    results: str,
    every_s: int,
    *,
    rows: str = "clicks",
    having: str = "true",
    ttl_s: int = 0,
    asked: str = "",
    late: bool = False,
) -> Query:
    """Groups over all rows so far, as cells of so many seconds change them.

    Args:
        keys: names of columns.
        results: what both understand of the rows of a group.
        every_s: the length of cells.
        rows: a relation, or the oracle's sub-query over it.
        having: as the results.
        ttl_s: how long a key is silent at most.
        asked: the query up to HAVING; empty: that of the keys and the results.
        late: see `Query.late`.
    """
    asked = asked or f"SELECT {keys}, {results} FROM {rows} GROUP BY {keys}"
    if having != "true":
        asked += f" HAVING {having}"
    asked += f" EMIT EVERY INTERVAL '{every_s} seconds'"
    asked += f" STATE TTL INTERVAL '{ttl_s} seconds'" if ttl_s else ""
    silent = f"c - lag(c) OVER (PARTITION BY {keys} ORDER BY c) >= to_seconds({every_s + ttl_s})" if ttl_s else "false"
    oracle = (
        f"WITH r AS (SELECT *, w(ts, {every_s}) AS cell FROM {rows}), c AS (SELECT *, sum(CAST(coalesce(new, false) AS "
        f"INT)) OVER (PARTITION BY {keys} ORDER BY c) AS life FROM (SELECT {keys}, c, {silent} AS new FROM (SELECT "
        f"DISTINCT {keys}, cell AS c FROM r))), b AS (SELECT *, min(c) OVER (PARTITION BY {keys}, life) AS since "
        f"FROM c), t AS (SELECT {keys}, {results}, c, life, coalesce({having}, false) AS holds FROM b JOIN r "
        f"USING ({keys}) WHERE cell BETWEEN since AND c GROUP BY {keys}, c, life) SELECT * EXCLUDE (c, life, holds), "
        f"CASE WHEN holds THEN 'upsert' ELSE 'delete' END AS _op, c + to_seconds({every_s}) AS _at FROM t QUALIFY "
        f"holds OR coalesce(lag(holds) OVER (PARTITION BY {keys}, life ORDER BY c), {bool(ttl_s)})"
    )
    return Query(asked, oracle, ("taps",) if "FROM taps" in asked else ("clicks",), late=late, changes=True)


def _ranked(keys: str, results: str, order: str, most: int, every_s: int) -> Query:
    """The first rows of each key so far, as cells of so many seconds change them."""
    fields = ", ".join(f"{name} := {name}" for name in results.split(", "))
    return Query(
        f"SELECT {keys}, {results}, row_number() OVER (PARTITION BY {keys} ORDER BY {order}) AS place FROM clicks "
        f"QUALIFY place <= {most} EMIT EVERY INTERVAL '{every_s} seconds'",
        f"WITH r AS (SELECT *, w(ts, {every_s}) AS cell FROM clicks), t AS (SELECT {keys}, {results}, c.cell AS c, "
        f"row_number() OVER (PARTITION BY {keys}, c.cell ORDER BY {order}) AS place FROM (SELECT DISTINCT {keys}, cell "
        f"FROM r) c JOIN r USING ({keys}) WHERE r.cell <= c.cell QUALIFY place <= {most}), g AS (SELECT *, "
        f"struct_pack({fields}) AS whole FROM t) SELECT {keys}, {results}, "
        f"CAST(place AS INT) AS place, 'upsert' AS _op, c + to_seconds({every_s}) AS _at FROM g QUALIFY "
        f"whole IS DISTINCT FROM lag(whole) OVER (PARTITION BY {keys}, place ORDER BY c)",
        changes=True,
    )


TOTALLED = {
    "so_far": _totalled("page", "count(*) AS n, sum(ms) AS total", 10),
    "odd_so_far": _totalled("user_id", "count(*) AS n, max(ms) AS most", 2, having="sum(ms) % 3 > 0"),
    "since_silence": _totalled("user_id, page", "count(*) AS n, min(ts) AS since", 1, ttl_s=9),
    "many_since_silence": _totalled(
        "user_id", "count(DISTINCT page) AS pages, sum(ms) AS total", 2, having="count(*) % 3 < 2", ttl_s=4
    ),
    "early": _totalled(
        "s, page",
        "count(*) AS n, count(DISTINCT user_id) AS users",
        2,
        rows="(SELECT *, w(ts, 10) AS s FROM clicks)",
        having="count(DISTINCT user_id) > 2",
        asked="SELECT window.start AS s, page, count(*) AS n, count(DISTINCT user_id) AS users FROM clicks "
        "GROUP BY window(ts, '10 seconds'), page",
    ),
    "of_minute": _totalled(
        "m, page",
        "count(*) AS n",
        5,
        rows="(SELECT *, date_trunc('minute', ts) AS m FROM clicks)",
        asked="SELECT date_trunc('MINUTE', ts) AS m, page, count(*) AS n FROM clicks GROUP BY m, page",
    ),
    "slowest": _ranked("page", "user_id, ms, ts", "ms DESC, ts, user_id", 2, 2),
    "taps_so_far": _totalled("kind", "count(*) AS n", 5, rows="taps", late=True),
    "early_taps": _totalled(
        "s, kind",
        "count(*) AS n",
        5,
        rows="(SELECT *, w(ts, 20) AS s FROM taps)",
        asked="SELECT window.start AS s, kind, count(*) AS n FROM taps GROUP BY window(ts, '20 seconds'), kind",
        late=True,
    ),
    "pairs_so_far": _totalled(
        "page",
        "count(*) AS n, sum(ms) AS total",
        5,
        rows=f"(SELECT a.ts, a.page, b.ms FROM clicks a JOIN clicks b ON {_NEAR} AND {_SLOW})",
        asked=f"SELECT a.page, count(*) AS n, sum(b.ms) AS total FROM clicks a JOIN clicks b ON {_NEAR} AND {_SLOW} "
        "GROUP BY a.page",
    ),
}
"""Groups and ranks over all rows so far: what comes out are changes."""
_TOGETHER = (
    "(SELECT user_id, ts, ms, 'click' AS kind FROM clicks WHERE ms > 250 UNION ALL "
    "SELECT item AS user_id, ts, amount AS ms, 'push' AS kind FROM pushes)"
)
_BEFORE = "SELECT page, s, n, lag(n) OVER (PARTITION BY page ORDER BY s) AS earlier FROM ({})"
_FIRST = "QUALIFY row_number() OVER (PARTITION BY {} ORDER BY count(*) DESC, page) = 1"
_BEST = (
    "SELECT s, page, n, max(n) OVER (ORDER BY s RANGE BETWEEN INTERVAL '30 seconds' PRECEDING AND CURRENT ROW) AS most"
)


def _beside(sql: str, oracle: str = "", needs: tuple[str, ...] = ("clicks",), own: tuple[str, ...] = ()) -> Query:
    """DuckDB understands the same text, but for a window."""
    return Query(sql, oracle or sql, needs, late=bool(own), own=own)


BESIDE = {
    "before": _beside(
        "SELECT user_id, ts, ms, lag(page, 2) OVER (PARTITION BY user_id ORDER BY ts, ms, page) AS earlier, "
        "sum(ms) OVER (PARTITION BY user_id ORDER BY ts, ms, page ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) AS total "
        "FROM clicks"
    ),
    "lately": _beside(
        "SELECT page, ts, ms, count(*) OVER (PARTITION BY page ORDER BY ts RANGE BETWEEN INTERVAL '3 seconds' "
        "PRECEDING AND CURRENT ROW) AS n, max(ms) OVER (PARTITION BY page ORDER BY ts RANGE BETWEEN "
        "INTERVAL '9 seconds' PRECEDING AND CURRENT ROW) AS most, lag(ts) OVER (PARTITION BY page ORDER BY ts, ms) "
        "AS earlier FROM clicks WHERE ms > 100"
    ),
    "before_all": _beside(
        "SELECT ts, ms, lag(user_id) OVER (ORDER BY ts, user_id, ms) AS earlier, sum(ms) OVER (ORDER BY ts "
        "RANGE BETWEEN INTERVAL '1 second' PRECEDING AND CURRENT ROW) AS total FROM clicks WHERE ms < 400"
    ),
    "other_page": _beside(
        "SELECT user_id, ts, page FROM (SELECT *, lag(page) OVER (PARTITION BY user_id ORDER BY ts, page) AS earlier "
        "FROM (SELECT user_id, ts, page FROM clicks)) WHERE page <> earlier"
    ),
    "before_of_two": _beside(
        "SELECT user_id, ts, kind, lag(kind) OVER (PARTITION BY user_id ORDER BY ts, kind) AS earlier "
        f"FROM {_TOGETHER}",
        needs=("clicks", "pushes"),
    ),
    "before_taps": _beside(
        "SELECT site, kind, force, ts, lag(force) OVER (PARTITION BY kind ORDER BY ts, force, site) AS earlier, "
        "count(*) OVER (PARTITION BY kind ORDER BY ts RANGE BETWEEN INTERVAL '3 seconds' PRECEDING AND CURRENT ROW) "
        "AS n FROM taps",
        needs=("taps",),
        own=("site", "kind", "force", "ts"),
    ),
    "before_pairs": _beside(
        "SELECT b.user_id, b.ts, a.ms, lag(a.ms) OVER (PARTITION BY b.user_id ORDER BY b.ts, a.ms) AS earlier "
        f"FROM clicks a JOIN clicks b ON {_NEAR} AND {_SLOW}"
    ),
    "grew": _beside(
        "SELECT page, s, n, earlier FROM (SELECT page, s, n, lag(n) OVER (PARTITION BY page ORDER BY e) AS earlier "
        "FROM (SELECT page, window.start AS s, window.end AS e, count(*) AS n FROM clicks "
        "GROUP BY page, window(ts, '5 seconds'))) WHERE n > earlier OR earlier IS NULL",
        "SELECT page, s, n, earlier FROM (SELECT page, s, n, lag(n) OVER (PARTITION BY page ORDER BY s) AS earlier "
        "FROM (SELECT page, w(ts, 5) AS s, count(*) AS n FROM clicks GROUP BY ALL)) "
        "WHERE n > earlier OR earlier IS NULL",
    ),
    "counts_before": _beside(_BEFORE.format(_GROUPS), _BEFORE.format(_GROUPS_WANTED)),
    "best_lately": _beside(
        f"{_BEST} FROM ({_GROUPS} {_FIRST.format('window')})",
        f"{_BEST} FROM (FROM ({_GROUPS_WANTED}) QUALIFY row_number() OVER (PARTITION BY s ORDER BY n DESC, page) = 1)",
    ),
    "windows_so_far": _totalled(
        "page",
        "sum(n) AS n, max(n) AS most",
        10,
        rows="(SELECT page, user_id, w(ts, 5) + to_seconds(5) AS ts, count(*) AS n FROM clicks GROUP BY ALL)",
        asked="SELECT page, sum(n) AS n, max(n) AS most FROM (SELECT page, user_id, window.end AS e, count(*) AS n "
        "FROM clicks GROUP BY page, user_id, window(ts, '5 seconds')) GROUP BY page",
    ),
    "groups_since_silence": _totalled(
        "user_id",
        "count(*) AS times, sum(n) AS n",
        5,
        rows="(SELECT page, user_id, w(ts, 2) AS ts, count(*) AS n FROM clicks GROUP BY ALL)",
        having="sum(n) % 3 > 0",
        ttl_s=10,
        asked="SELECT user_id, count(*) AS times, sum(n) AS n FROM (SELECT page, user_id, window.start AS s, "
        "count(*) AS n FROM clicks GROUP BY page, user_id, window(ts, '2 seconds')) GROUP BY user_id",
    ),
    "best_pairs_so_far": _totalled(
        "page",
        "count(*) AS n, sum(ms) AS total",
        10,
        rows="(SELECT w(b.ts, 5) + to_seconds(5) AS ts, a.page, max(b.ms) AS ms FROM clicks a JOIN clicks b "
        f"ON {_NEAR} AND {_SLOW} GROUP BY ALL)",
        asked="SELECT page, count(*) AS n, sum(ms) AS total FROM (SELECT window.end AS e, a.page, max(b.ms) AS ms "
        f"FROM clicks a JOIN clicks b ON {_NEAR} AND {_SLOW} GROUP BY window(b.ts, '5 seconds'), a.page) GROUP BY page",
    ),
    "windows_of_taps_so_far": _totalled(
        "kind",
        "sum(n) AS n",
        10,
        rows="(SELECT kind, w(ts, 5) + to_seconds(5) AS ts, count(*) AS n FROM taps GROUP BY ALL)",
        asked="SELECT kind, sum(n) AS n FROM (SELECT kind, window.end AS e, count(*) AS n FROM taps "
        "GROUP BY kind, window(ts, '5 seconds')) GROUP BY kind",
        late=True,
    ),
}
"""Rows with what those before them have, and what is made of the rows of windows as of those of streams."""
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
QUERIES |= ALL_GROUPS | STEPS | SESSIONS | PAIRED | TOTALLED | BESIDE | ELSEWHERE | ARRIVING | AGAIN


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
    needs = (relation for relation in QUERIES[name].needs if relation != "archive")
    return _answered(name, {relation: _all_rows(relation, sites, rows, clicks_from_s) for relation in needs})


def answer_over(own: Rows, name: str, sites: tuple[str, ...], rows: int) -> Rows:
    """Return DuckDB's answer to a query over the one relation that it needs, had this only the rows with these values
    in the query's own columns."""
    (relation,) = QUERIES[name].needs
    kept, table = frozenset(own), _all_rows(relation, sites, rows, FIRST_ROW_S)
    values = zip(*(table.column(column).to_pylist() for column in QUERIES[name].own), strict=True)
    return _answered(name, {relation: table.filter(pa.array([row in kept for row in values], pa.bool_()))})


def _answered(name: str, relations: Mapping[str, pa.Table]) -> Rows:
    database = _oracle()
    for relation, rows in relations.items():
        database.register(relation, rows)
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
