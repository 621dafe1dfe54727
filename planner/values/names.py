"""Names of views and columns that the planner writes and the agent reads."""

from __future__ import annotations

INPUT_VIEW = "input"
"""The view that a stage's SQL reads its main input from."""

WINDOW_START = "_window_start"
"""Column of the start of a row's window."""

WINDOW_END = "_window_end"
"""Column of the end of a row's session, beside its start."""

BIN_COLUMN = "_bin"
"""Output column that holds a row's bin; dropped before publishing, it orders the rows of an epoch."""

GROUP_COLUMN = "_group"
"""Output column of a COMBINE: the hash of a group's window and keys; not published."""

BINS = 64
"""Number of hash ranges of a key; fixed for the life of a cluster."""

RANK_COLUMN = "_rank"
"""The column of a row's rank, beside its others."""
