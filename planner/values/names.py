"""Names of views and columns that the planner writes and the agent reads."""

from __future__ import annotations

INPUT_VIEW = "input"
"""The view that a stage's SQL reads its main input from."""

WINDOW_START = "_window_start"
"""Column of the start of a row's window."""

WINDOW_END = "_window_end"
"""Column of the end of a row's session, beside its start."""

NEW_COLUMN = "_new"
"""Column of rows that are paired by their event times: pairs with this row are not out yet. The agent adds it."""

SINCE_COLUMN = "_since"
"""Column of rows that are added up until a key falls silent: the start of the first cell of time that they are of."""

LIFE_COLUMN = "_life"
"""Column of rows that are added up: a number, which rows of a key before and after it fell silent do not share. The
agent adds it, and `_new`: the cell is not out yet."""

OPERATION = "_op"
"""Result column of a query that tells changes: `upsert` or `delete`."""

CHANGED_AT = "_at"
"""Result column of a query that tells changes: the end of the cell of time that made the change."""

DUE_COLUMN = "_due"
"""Likewise: the row comes out now, if no other one matches it."""

ROW_COLUMN = "_row"
"""Column of rows that are joined with their newest version: the number of the row, and of that which a version is for.
The agent adds it."""

BIN_COLUMN = "_bin"
"""Output column that holds a row's bin; dropped before publishing, it orders the rows of an epoch."""

GROUP_COLUMN = "_group"
"""Output column of a COMBINE: the hash of a group's window and keys; not published."""

BINS = 64
"""Number of hash ranges of a key; fixed for the life of a cluster."""

RANK_COLUMN = "_rank"
"""The column of a row's rank, beside its others."""
