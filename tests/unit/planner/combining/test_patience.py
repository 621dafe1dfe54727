from __future__ import annotations

import pytest

from planner.combining.patience import EPOCHS_AT_ONCE, ROWS_AT_ONCE, fits_one_job, is_worth_a_job, patience_s


@pytest.mark.parametrize(
    ("checkpoint_due_s", "wanted_s"), [(None, 0.5 * EPOCHS_AT_ONCE), (60.0, 0.5 * EPOCHS_AT_ONCE), (0.3, 0.3), (-1, 0)]
)
def test_epochs_wait_for_some_intervals_and_for_no_checkpoint(checkpoint_due_s: float | None, wanted_s: float) -> None:
    assert patience_s(0.5, checkpoint_due_s) == wanted_s


def test_many_rows_and_the_end_of_a_window_are_worth_a_job() -> None:
    assert is_worth_a_job(ROWS_AT_ONCE, ends_window=False)
    assert is_worth_a_job(0, ends_window=True)
    assert not is_worth_a_job(ROWS_AT_ONCE - 1, ends_window=False)


def test_one_job_takes_as_many_rows_as_may_be_in_memory() -> None:
    assert fits_one_job(40, 60, most_rows=100)
    assert not fits_one_job(41, 60, most_rows=100)
