from __future__ import annotations

import pytest

from contract.splits import condition_from_proto, condition_to_proto, parts_from_proto, split_to_proto
from planner.graph.plan import Split
from planner.values.ranges import AllOf, AnyOf, Comparison, Condition
from planner.values.splits import FilePart
from selat.v1 import exchange_pb2

PARTS = (FilePart("/a", 3, 4), FilePart("", 0, 2**40))


@pytest.mark.parametrize("parts", [(), PARTS])
def test_a_split_is_the_same_at_the_other_end(parts: tuple[FilePart, ...]) -> None:
    message = split_to_proto(Split("us", parts, 13, left_out_bytes=7))
    assert (parts_from_proto(message), message.size_bytes, message.left_out_bytes) == (parts, 13, 7)


@pytest.mark.parametrize(
    "condition",
    [
        Comparison("a", ">=", "-1"),
        AllOf((Comparison("a", "IS NULL"), AnyOf((Comparison("b", "=", "x"), AllOf(()))))),
        AnyOf(()),
    ],
)
def test_a_condition_is_the_same_at_the_other_end(condition: Condition) -> None:
    assert condition_from_proto(condition_to_proto(condition)) == condition


def test_what_is_not_known_of_a_condition_counts_as_true() -> None:
    test = exchange_pb2.RowTest(column="a", operator="LIKE", value="x")
    assert condition_from_proto(exchange_pb2.RowCondition(test=test)) == AllOf(())
    assert condition_from_proto(exchange_pb2.RowCondition()) == AllOf(())
