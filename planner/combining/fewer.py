"""Decides when the rows of a window become one for each group, before its groups begin to leave.

A task holds several rows of a group: each epoch brings one of its own, and a checkpoint combines only some of them. All
of them are read to choose the groups that leave, and again to make what is sent. Where they are many, that takes longer
than the link is busy. So they are combined once, while there is time.
"""

from __future__ import annotations

WORTH_ROWS = 200_000
"""Fewer rows are read in a moment."""
WORTH_SHARE = 0.5
"""Combining is worth it if no larger share of the rows is left."""
ROWS_PER_S = 200_000
"""So many rows are combined in a second, by a slow site."""
SPARE_S = 5.0
"""The rows that come meanwhile are taken in before groups leave."""


def are_worth_combining(rows: int, groups: int) -> bool:
    """Return whether the rows of a window, at most so many, are so many more than its groups."""
    return rows >= WORTH_ROWS and groups <= WORTH_SHARE * rows


def is_time_to_combine(rows: int, leave_in_s: float) -> bool:
    """Return whether so many rows are combined now, if the first of their groups leave in so many seconds."""
    return leave_in_s <= rows / ROWS_PER_S + SPARE_S
