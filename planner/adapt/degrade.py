"""Decides which share of its rows a source lets in that has fallen behind, where its query allows that. Pure.

The source alone knows how long rows wait, and acts within a second; what the planner does for the query (re-assign,
scale, re-plan) has had its chance by the time that `after` is over.
"""

from __future__ import annotations

from planner.values.adapting import Degrade, Degrading

LEAST_SHARE = 0.02
SMALLER = 0.5
"""The share becomes so much of itself with each step down."""
LARGER = 1.25
"""And so many times itself with each step up."""
STEPS = 4
"""A step is taken after this part of the time allowed, at the earliest: what the last one has changed must show."""


def next_share(degrading: Degrading, share: float, *, behind_s: float, since_s: float) -> float:
    """Return the share of the rows that are let in from now on.

    Args:
        degrading: what is allowed.
        share: the present one.
        behind_s: how long rows wait.
        since_s: how long ago the share was changed.
    """
    after_s = degrading.after.total_seconds()
    if degrading.how is Degrade.LATE:
        if behind_s > after_s:
            return 0.0
        return 1.0 if behind_s <= after_s / 2 else share
    if since_s < after_s / STEPS:
        return share
    if behind_s > after_s:
        return max(LEAST_SHARE, share * SMALLER)
    return min(1.0, share * LARGER) if behind_s <= after_s / 2 else share
