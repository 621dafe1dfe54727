from __future__ import annotations

import pytest

from planner.rules.bounds import MAX_TESTS, needed_rows
from planner.sql.dialect import exp
from planner.values.ranges import AllOf, AnyOf, Comparison, Condition
from tests.unit.planner.build import catalog_of, draft_of

CATALOG = catalog_of(
    "CREATE TABLE t (a INT, b BIGINT, c STRING, d DATE, ts TIMESTAMP, m DECIMAL(15,2), f DOUBLE, w DECIMAL(38,2)) "
    "WITH ('connector' = 'other') AT eu AT us; CREATE TABLE u (a INT, b INT) AT eu WITH ('connector' = 'other');"
)


def needed(sql: str, stage: str = "map") -> Condition | None:
    draft = draft_of(sql, CATALOG)
    found = draft.stage(stage)
    return needed_rows(found, draft.relations[found.relation or ""])


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("a = 3", Comparison("a", "=", "3")),
        ("A <=> 3", Comparison("a", "=", "3")),
        ("3 < b", Comparison("b", ">", "3")),
        ("b >= -3", Comparison("b", ">=", "-3")),
        ("a > 1.5", Comparison("a", ">", "1.5")),
        ("m <= 1.5", Comparison("m", "<=", "1.5")),
        ("m = CAST('1.5' AS DECIMAL(4,2))", Comparison("m", "=", "1.5")),
        ("a = CAST(5 AS BIGINT)", Comparison("a", "=", "5")),
        ("c = 'x'", Comparison("c", "=", "x")),
        ("c IS NULL", Comparison("c", "IS NULL")),
        ("f IS NOT NULL", Comparison("f", "IS NOT NULL")),
        ("d < '2026-01-31'", Comparison("d", "<", "2026-01-31")),
        ("d < DATE '2026-01-31'", Comparison("d", "<", "2026-01-31")),
        ("ts >= TIMESTAMP '2026-01-31 10:00:00'", Comparison("ts", ">=", "2026-01-31 10:00:00")),
        ("ts >= DATE '2026-01-31'", Comparison("ts", ">=", "2026-01-31")),
        ("a BETWEEN 1 AND 2", AllOf((Comparison("a", ">=", "1"), Comparison("a", "<=", "2")))),
        ("a BETWEEN 1 AND b", AllOf((Comparison("a", ">=", "1"),))),
        ("c IN ('x', 'y')", AnyOf((Comparison("c", "=", "x"), Comparison("c", "=", "y")))),
        (
            "(a = 1 OR c = 'x' OR b < 2)",
            AnyOf((Comparison("a", "=", "1"), Comparison("c", "=", "x"), Comparison("b", "<", "2"))),
        ),
        ("(a = 1 AND abs(b) = 2 OR c = 'x')", AnyOf((AllOf((Comparison("a", "=", "1"),)), Comparison("c", "=", "x")))),
    ],
)
def test_what_is_understood(where: str, expected: Condition) -> None:
    assert needed(f"SELECT a FROM t WHERE {where}") == AllOf((expected,))


@pytest.mark.parametrize(
    "where",
    [
        "a <> 3",
        "NOT a = 3",
        "a NOT IN (3)",
        "a = b",
        "a + 1 = 3",
        "a = '3'",
        "c = 3",
        "f = 3",
        "w = 3",
        "a = 1e2",
        "a = NULL",
        "c LIKE 'x%'",
        "(a = 1 OR abs(b) = 2)",
        "(a IN (1, b))",
        "m = CAST('1.555' AS DECIMAL(4,2))",
        "a = CAST(1.5 AS INT)",
        "a = CAST('2026-01-31' AS DATE)",
        "d < TIMESTAMP '2026-01-31 10:00:00'",
        "d < '2026-01-31 10:00:00'",
        "d < 'yesterday'",
        "ts >= CAST('2026-01-31 10:00:00' AS DATE)",
        "site = 'eu'",
        f"a IN ({', '.join(map(str, range(MAX_TESTS + 1)))})",
    ],
)
def test_what_is_not_understood_counts_as_true(where: str) -> None:
    assert needed(f"SELECT a FROM t WHERE {where}") is None


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT t.a FROM t LEFT JOIN u ON t.a = u.a AND t.b = 7 WHERE t.a > 3", "3"),
        ("SELECT t.a FROM t JOIN u ON t.a = u.a WHERE t.a > 3 AND u.b > 4", "3"),
        ("SELECT e FROM t LATERAL VIEW explode(array(b)) x AS e WHERE a > 3 AND e > 1", "3"),
        ("SELECT b, count(*) AS n FROM t WHERE a > 3 GROUP BY b HAVING count(*) > 4", "3"),
        ("SELECT e FROM (SELECT a AS e, b AS a FROM t) WHERE e > 3", "3"),
        ("SELECT a FROM (SELECT a + 1 AS a FROM t WHERE a > 3) WHERE a > 4", "3"),
        ("SELECT a FROM (SELECT a FROM t WHERE a > 3 ORDER BY a LIMIT 2) WHERE a > 4", "3"),
        ("SELECT a FROM t WHERE a > 3 UNION ALL SELECT a FROM u", "3"),
    ],
)
def test_through_the_operators_above(sql: str, expected: str) -> None:
    assert needed(sql) == AllOf((Comparison("a", ">", expected),))


def test_each_branch_of_a_union_on_its_own() -> None:
    assert needed("SELECT a FROM t WHERE a > 3 UNION ALL SELECT a FROM u", "map2") is None


def test_long_chains() -> None:
    chain = " OR ".join(f"a = {number}" for number in range(200))
    found = needed(f"SELECT a FROM t WHERE b = 1 AND ({chain})")
    assert isinstance(found, AllOf)
    assert isinstance(found.parts[1], AnyOf)
    assert len(found.parts[1].parts) == 200


def test_a_range_that_may_be_turned_round_is_not_understood() -> None:
    draft = draft_of("SELECT a FROM t WHERE a BETWEEN 1 AND 2", CATALOG)
    stage = draft.stage("map")
    for between in stage.body.input.conditions:  # type: ignore[union-attr]
        assert isinstance(between, exp.Between)
        between.set("symmetric", True)
    assert needed_rows(stage, draft.relations["t"]) is None
