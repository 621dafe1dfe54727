"""The expressions that say which window a row of windows is of."""

from __future__ import annotations

from collections.abc import Mapping

from planner.sql.dialect import exp

WINDOW_FIELDS = ("start", "end")

CUMULATIVE = "cumulative"
"""A cumulative window. Others begin with it, so its start says nothing, and its end says which one it is."""

SESSION = "session"
"""A session. With the keys, its start or its end says which one it is; rows of other sessions close at other times."""

CALENDAR = "calendar"
"""A value that is the same for all rows of the window, and differs from those of other windows."""

Windows = Mapping[exp.Expr, str]
"""Each expression with its part of the window: empty text for the whole window, `start`, `end`, or one of the above."""


def part_of_window(node: exp.Expr, windows: Windows) -> str | None:
    """Return the part of the window that an expression is, by its name in `Windows`; None: it is no part."""
    bare = node.unnest()
    if bare in windows:
        return windows[bare]
    field = bare.name.lower() if isinstance(bare, exp.Dot) else ""
    whole = windows.get(bare.this.unnest()) if field in WINDOW_FIELDS else None
    return field if whole in ("", SESSION) or (whole == CUMULATIVE and field == WINDOW_FIELDS[1]) else None
