"""Queries that are nearly the same, each submitted beside each other one: it gives what it gives alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from random import Random

import pytest

from planner.sharing.modes import Sharing
from tests.unit.planner.engine import connect
from tests.unit.planner.sharing.executor import Deployment, Lab
from tests.unit.planner.sharing.test_random_sets import data

W = "GROUP BY window(ts, '10 seconds')"
BEST = "QUALIFY {} OVER (PARTITION BY window ORDER BY m DESC)"
SAME = "window(a.ts, '10 seconds') = window(b.ts, '10 seconds')"

FILTERS = (
    *("d > 0", "d > 1", "NOT d <= 1", "NOT d < 1", "d >= 1", "d = 1", "v IN (1, 3, NULL)", "v NOT IN (1, NULL)"),
    *("v NOT IN (1)", "v <> 1", "NOT (v = 1 OR k = 2)", "v <> 1 AND k <> 2", "v BETWEEN 3 AND 1"),
    *("v NOT BETWEEN 1 AND 3", "v < 1 OR v > 3", "(v > 1) IS NULL", "v > 1 IS NOT NULL", "v <=> 1", "NOT v <=> 1"),
    *("k = v", "v = k AND k = v", "w = 'a' OR w = 'b'", "w IN ('a', 'b')"),
)
ROWS = (
    *(f"SELECT k, v, d, w FROM s WHERE {part}" for part in FILTERS),
    *("SELECT k, v, d, w FROM s", "SELECT d AS k, k AS d, v FROM s", "SELECT k, k AS other, v FROM s"),
    *(
        "SELECT k + 1 - 1 AS k FROM s",
        "SELECT k + 0 AS k FROM s",
        "SELECT 1 + k AS k FROM s",
        "SELECT - - k AS k FROM s",
    ),
    *(
        "SELECT upper(lower(w)) AS u FROM s",
        "SELECT w || 'x' || 'y' AS u FROM s",
        "SELECT w || ('x' || 'y') AS u FROM s",
    ),
    *("SELECT coalesce(v, k) AS c, v, k FROM s", "SELECT coalesce(k, v) AS c, v, k FROM s"),
    *("SELECT CASE WHEN v > 1 THEN w END AS c FROM s", "SELECT CASE WHEN v > 1 THEN w ELSE NULL END AS c FROM s"),
    *("SELECT ts + INTERVAL 1 MINUTE AS t FROM s", "SELECT INTERVAL '60' SECOND + ts AS t FROM s"),
    *("SELECT k FROM s UNION ALL SELECT k FROM s", "SELECT k FROM s UNION ALL SELECT v FROM s"),
    *("SELECT v FROM s UNION ALL SELECT k FROM s", "SELECT ts, k, w, v, d, site AS place FROM s"),
)
GROUPS = (
    *(f"SELECT k, count(*) AS n FROM s {W}, k", f"SELECT k, count(1) AS n FROM s WHERE k > 1 {W}, k"),
    *(f"SELECT k, count(*) AS n FROM s {W}, k HAVING k > 1", f"SELECT k, count(*) AS n FROM s {W}, k HAVING k > 2"),
    *(f"SELECT k, w, count(*) AS n FROM s {W}, k, w", f"SELECT count(*) AS n, count(*) AS m FROM s {W}"),
    *(f"SELECT k > 1 AS p, count(*) AS n FROM s {W}, k > 1", f"SELECT window.end AS e, count(*) AS n FROM s {W}"),
    f"SELECT k, max(v) AS m FROM s {W}, k {BEST.format('row_number()')} <= 1",
    f"SELECT k, w, max(v) AS m FROM s {W}, w, k {BEST.format('row_number()')} <= 2",
    f"SELECT k, w, max(v) AS m FROM s {W}, k, w {BEST.format('row_number()')} <= 1",
    f"SELECT k, w, max(v) AS m FROM s {W}, k, w {BEST.format('rank()')} < 2",
    f"SELECT k, w, max(v) AS m FROM s {W}, k, w {BEST.format('dense_rank()')} = 1",
    f"SELECT k, w, max(v) AS m, min(v) AS lo, sum(v) AS t, avg(v) AS a, count(v) AS c FROM s {W}, k, w",
    f"SELECT k, max(v) AS m, min(v) AS lo, sum(v) AS t, avg(v) AS a FROM s {W}, k",
    "SELECT k, max(v) + min(v) AS m FROM s GROUP BY window(ts, '20 seconds'), k",
    f"SELECT k, count(*) FILTER (WHERE v > 1) AS n FROM s {W}, k",
    f"SELECT k, count(*) AS n FROM s WHERE v > 1 {W}, k",
    f"SELECT k, sum(CASE WHEN v > 1 THEN 1 END) AS n FROM s {W}, k",
    f"SELECT k, w, count(DISTINCT v) AS n FROM s {W}, k, w",
    f"SELECT k, count(DISTINCT v) AS n FROM s {W}, k",
    f"SELECT a, sum(n) AS t FROM (SELECT window.start AS a, k, count(*) AS n FROM s {W}, k) AS q GROUP BY a",
    f"SELECT a, k, n FROM (SELECT window.start AS a, k, count(*) AS n FROM s {W}, k) AS q WHERE n > 1",
    f"SELECT k AS n, n AS k FROM (SELECT k, count(*) AS n FROM s {W}, k) AS q",
)
JOINS = (
    "SELECT s.k AS k, t.name AS name FROM s JOIN t ON s.k = t.k",
    "SELECT s.k AS k, t.name AS name FROM s LEFT JOIN t ON s.k = t.k",
    "SELECT s.k AS k, t.name AS name, t.x AS x FROM s JOIN t ON t.k = s.k AND t.x > 2",
    "SELECT s.k AS k, t.name AS name, s.v AS v FROM s LEFT JOIN t ON s.k = t.k AND s.v > 2",
    "SELECT s.k AS k, t.name AS name, s.v AS v FROM s LEFT JOIN t ON s.k = t.k WHERE s.v > 2",
    "SELECT a.k AS k, b.name AS one, c.name AS two FROM s a JOIN t b ON a.k = b.k JOIN t c ON a.v = c.k",
    "SELECT a.k AS k, c.name AS one, b.name AS two FROM s a JOIN t b ON a.v = b.k JOIN t c ON a.k = c.k",
    f"SELECT a.k AS k, b.v AS v FROM s a JOIN s b ON a.k = b.k AND {SAME}",
    f"SELECT b.k AS k, a.v AS v FROM s a JOIN s b ON a.k = b.k AND {SAME}",
    f"SELECT a.k AS k, b.v AS v FROM s a JOIN s b ON a.k = b.k AND {SAME} WHERE a.v > 2",
    f"SELECT a.k AS k, b.v AS v FROM s a JOIN s b ON a.k = b.k AND {SAME} WHERE b.v > 2",
    f"SELECT a.k AS k, b.v AS v FROM s a LEFT JOIN s b ON a.k = b.k AND b.v > 2 AND {SAME}",
)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with connect() as db:
        yield Lab(db, data(Random(1)))


@pytest.mark.parametrize("texts", [ROWS, (ROWS[-1], *GROUPS), JOINS], ids=["rows", "groups", "joins"])
def test_nearly_the_same_side_by_side(lab: Lab, texts: tuple[str, ...]) -> None:
    for first, second in permutations(texts, 2):
        deployment = Deployment(lab)
        deployment.submit(first, Sharing.SANA, {})
        query = deployment.submit(second, Sharing.SANA, {})
        assert repr(deployment.results(query)) == repr(lab.alone(second)), (first, second)
