"""The kinds of stages. The tasks of a stage have its kind."""

from __future__ import annotations

from enum import Enum


class StageKind(Enum):
    SOURCE = "source"
    TABLE = "table"
    COMBINE = "combine"
    """At each site of a SOURCE: it keeps partials of open windows, so that each group leaves the site once."""
    MERGE = "merge"
    FINAL = "final"
    """Behind a MERGE in parts: what needs the groups of all parts."""
    SINK = "sink"
    MAP = "map"
    """Batch: the part of the query over one split of a table. For the agent that runs it, it is a TABLE."""
    REDUCE = "reduce"
    """Batch: the rest of the query, over all rows of the MAP tasks."""
    DERIVE = "derive"
    """Of a task, never of a stage in a plan: it computes what is left to do, from another task's channel."""
