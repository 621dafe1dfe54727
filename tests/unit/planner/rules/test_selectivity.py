from __future__ import annotations

from datetime import date

import pytest

from planner.estimate.rates import EQUALITY_SELECTIVITY, FILTER_SELECTIVITY
from planner.relations.catalog import TableStatistics
from planner.rules.selectivity import counted_selectivity
from planner.sql.dialect import exp, parse_select_tree
from planner.sql.source import Source

DAYS = (date(2025, 1, 1).toordinal(), date(2026, 1, 1).toordinal())
FOUND = TableStatistics(9, {"a": 50, "few": 2}, ranges={"n": (0.0, 100.0), "one": (7.0, 7.0), "day": DAYS})


@pytest.mark.parametrize(
    ("condition", "share"),
    [
        ("a = 1", 1 / 50),
        ("(a) = (1)", 1 / 50),
        ("2 = a", 1 / 50),
        ("a IN (1, 2, 3)", 3 / 50),
        ("few IN (1, 2, 3)", 1.0),
        ("b = 1", EQUALITY_SELECTIVITY),
        ("a = few", EQUALITY_SELECTIVITY),
        ("a > 1", FILTER_SELECTIVITY),
        ("b IN (1, 2)", FILTER_SELECTIVITY),
        ("NOT a IS NULL", 1.0),
        ("a = 1 OR a = 2", 2 / 50),
        ("few = 1 OR few = 2 OR a = 1", 1.0),
        ("b LIKE '%x%'", 0.1),
        ("b NOT LIKE '%x%'", 1.0),
        ("b NOT IN ('x')", 1.0),
        ("startswith(b, 'x')", 0.1),
    ],
)
def test_values_of_counted_columns_are_as_frequent_as_each_other(condition: str, share: float) -> None:
    tree = parse_select_tree(Source(f"SELECT 1 FROM t WHERE {condition}"))
    where = tree.args["where"].this
    assert counted_selectivity([where], FOUND) == pytest.approx(share)


@pytest.mark.parametrize(
    ("conditions", "share"),
    [
        ("n > 25", 0.75),
        ("25 > n", 0.25),
        ("n >= 20 AND n < 30", 0.1),
        ("n > CAST('90' AS BIGINT)", 0.1),
        ("n > 100 AND n > 7", 1e-6),
        ("n < 10 OR n > 95", 0.15),
        ("n < 50 OR n > 10", 1.0),
        ("(n < 10 AND m > 1) OR n > 95", 0.1 / 3 + 0.05),
        ("one > 5", 1.0),
        ("day >= CAST('2025-01-01' AS DATE) AND day < CAST('2025-02-01' AS DATE)", 31 / 365),
        ("day >= CAST('2025-12-31' AS DATE) AND n < 10", 0.1 / 365),
        ("n > m", FILTER_SELECTIVITY),
        ("m > 1", FILTER_SELECTIVITY),
        ("n > CAST('x' AS BIGINT)", FILTER_SELECTIVITY),
    ],
)
def test_comparisons_keep_their_part_of_a_range(conditions: str, share: float) -> None:
    where = parse_select_tree(Source(f"SELECT 1 FROM t WHERE {conditions}")).args["where"].this
    parts = list(where.flatten()) if isinstance(where, exp.And) else [where]
    assert counted_selectivity(parts, FOUND) == pytest.approx(share)
