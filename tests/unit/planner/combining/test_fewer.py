from __future__ import annotations

from planner.combining.fewer import ROWS_PER_S, SPARE_S, WORTH_ROWS, are_worth_combining, is_time_to_combine


def test_few_rows_and_rows_of_many_groups_are_left_as_they_are() -> None:
    assert are_worth_combining(WORTH_ROWS, WORTH_ROWS // 2)
    assert not are_worth_combining(WORTH_ROWS, WORTH_ROWS // 2 + 1)
    assert not are_worth_combining(WORTH_ROWS - 1, 10)


def test_rows_are_combined_as_long_before_their_groups_leave_as_that_takes() -> None:
    rows = 3 * ROWS_PER_S
    assert is_time_to_combine(rows, 3 + SPARE_S)
    assert not is_time_to_combine(rows, 3.1 + SPARE_S)
    assert is_time_to_combine(rows, -1.0)
