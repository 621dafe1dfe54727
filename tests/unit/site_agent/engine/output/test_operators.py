from __future__ import annotations

import pytest

from site_agent.engine import OperatorRows
from site_agent.engine.output.operators import kind_of, without_halves


@pytest.mark.parametrize(
    ("spark", "kind"),
    [
        ("HashAggregate", "Aggregate"),
        ("ObjectHashAggregate", "Aggregate"),
        ("BroadcastHashJoin", "Join"),
        ("BroadcastNestedLoopJoin Inner BuildRight", "Join"),
        ("Filter", "Filter"),
        ("Generate", "Generate"),
        ("WholeStageCodegen (2)", None),
        ("Exchange", None),
        ("", None),
    ],
)
def test_an_operator_is_called_by_what_it_does(spark: str, kind: str | None) -> None:
    assert kind_of(spark) == kind


def test_an_aggregate_in_halves_counts_once_with_its_last() -> None:
    way = [
        OperatorRows("Filter", 9),
        OperatorRows("Aggregate", 6),
        OperatorRows("Aggregate", 3),
        OperatorRows("Filter", 2),
    ]

    assert without_halves(way) == (OperatorRows("Filter", 9), OperatorRows("Aggregate", 3), OperatorRows("Filter", 2))
