"""Small epochs wait for one another: a Spark job has a cost that does not depend on its rows."""

from __future__ import annotations

EPOCHS_AT_ONCE = 4
"""An epoch waits for others for so many intervals at most."""
ROWS_AT_ONCE = 5_000
"""This many rows wait for no others."""


def patience_s(interval_s: float, checkpoint_due_s: float | None) -> float:
    """Return how long epochs may wait, in seconds.

    Args:
        interval_s: between two epochs of the input.
        checkpoint_due_s: until a checkpoint is due, which needs what was taken; None: none will be.
    """
    most_s = EPOCHS_AT_ONCE * interval_s
    return most_s if checkpoint_due_s is None else max(0.0, min(most_s, checkpoint_due_s))


def is_worth_a_job(rows: int, *, ends_window: bool) -> bool:
    """Return whether epochs that wait with so many rows are taken now; `ends_window`: with them a window ends."""
    return ends_window or rows >= ROWS_AT_ONCE


def fits_one_job(came_rows: int, due_rows: int, *, most_rows: int) -> bool:
    """Return whether one job takes the rows that came and those that are held of the windows that end with them."""
    return came_rows + due_rows <= most_rows
