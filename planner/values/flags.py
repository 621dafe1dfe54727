"""The columns that an agent adds to the rows that wait in a MERGE, when it hands them out to Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from planner.values.names import DUE_COLUMN, LIFE_COLUMN, NEW_COLUMN, ROW_COLUMN


class _Pairs(Protocol):
    @property
    def newest(self) -> bool: ...


class _Merge(Protocol):
    """A MERGE, as the planner or an agent describes how it keeps rows."""

    @property
    def totals(self) -> object | None: ...
    @property
    def neighbours(self) -> object | None: ...
    @property
    def pairs(self) -> _Pairs | None: ...


def flags_of(merge: _Merge) -> Mapping[str, str]:
    """Return Spark's type of each column, by name, in their order; none: rows are of windows or sessions."""
    if merge.totals is not None:
        return {NEW_COLUMN: "BOOLEAN", LIFE_COLUMN: "BIGINT"}
    if merge.neighbours is not None:
        return {NEW_COLUMN: "BOOLEAN"}
    if merge.pairs is None:
        return {}
    return {ROW_COLUMN: "BIGINT"} if merge.pairs.newest else {NEW_COLUMN: "BOOLEAN", DUE_COLUMN: "BOOLEAN"}
