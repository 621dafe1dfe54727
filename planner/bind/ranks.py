"""Refusals of what cannot be done with ranks of rows: a row is of a window, which says when its rank is final."""

from __future__ import annotations

from planner.bind.selects import StreamSelect
from planner.sql.dialect import exp
from planner.sql.refusals import refuse

FORM = "QUALIFY row_number() OVER (PARTITION BY window(ts, '10 seconds'), key ORDER BY x DESC) <= k is possible."


def check_ranks(query: StreamSelect, *, at: exp.Expr) -> None:
    """Raises UnsupportedSqlError at `at` where rows are ranked that are in no window, or in one of these forms."""
    source, window = query.scope.source, query.window
    if window is None:
        message = "rows of a stream are ranked within a window, or an instant, that the partition names"
        raise refuse(at, source, message, FORM)
