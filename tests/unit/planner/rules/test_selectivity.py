from __future__ import annotations

import pytest

from planner.estimate.rates import EQUALITY_SELECTIVITY, FILTER_SELECTIVITY
from planner.rules.selectivity import counted_selectivity
from planner.sql.dialect import parse_select_tree
from planner.sql.source import Source


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
    ],
)
def test_values_of_counted_columns_are_as_frequent_as_each_other(condition: str, share: float) -> None:
    tree = parse_select_tree(Source(f"SELECT 1 FROM t WHERE {condition}"))
    where = tree.args["where"].this
    assert counted_selectivity([where], {"a": 50, "few": 2}) == pytest.approx(share)
    assert counted_selectivity([where, where], {"a": 50, "few": 2}) == pytest.approx(share**2)
