"""Fewer bytes: what the MAPs of a query that runs whole send, once the splits and their rows are known.

Filters by keys come first, for they hold for rows as they are; then rows are counted, and groups are sorted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.graph.batchoptions import KeyFilters
from planner.graph.operators import Aggregate, Sort
from planner.graph.plan import DraftPlan, Split, Stage
from planner.relations.catalog import TableStatistics
from planner.rules.countedrows import with_counted_rows
from planner.rules.keyfilters import with_key_filters
from planner.sql.dialect import exp, name_node
from planner.values.topology import Topology

MAX_SORTED = 3_000_000
"""Groups are sorted of so many rows of a split."""


def with_fewer_bytes(
    draft: DraftPlan,
    splits: Sequence[Split],
    topology: Topology,
    mode: KeyFilters,
    statistics: Mapping[str, TableStatistics],
) -> DraftPlan:
    """Return the draft of a query that runs whole, with MAPs that send less; another draft as it is.

    Args:
        draft: in stages, with types.
        splits: of its MAPs, with their rows where sites know them.
        topology: all links.
        mode: what makes a filter by keys worth it.
        statistics: what is known of tables that were analysed, by name.
    """
    if not draft.whole_scans:
        return draft
    counted = with_counted_rows(with_key_filters(draft, splits, topology, mode, statistics), splits, statistics)
    return replace(counted, stages=tuple(_sorted(stage, splits) for stage in counted.stages))


def _sorted(stage: Stage, splits: Sequence[Split]) -> Stage:
    """Return a MAP that sorts its groups: Spark gives them in no order, and sorted they compress to half, or better."""
    rows = [split.rows for split in splits if split.stage == stage.id]
    few = bool(rows) and all(count is not None and count <= MAX_SORTED for count in rows)
    if not isinstance(stage.body, Aggregate) or not stage.body.keys or not few:
        return stage
    keys = stage.body.items[: len(stage.body.keys)]
    order = tuple(exp.Ordered(this=exp.Column(this=name_node(key.name)), nulls_first=True) for key in keys)
    return replace(stage, body=Sort(stage.body, order))
