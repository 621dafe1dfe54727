"""Fewer bytes: what the MAPs of a query that runs whole send, once the splits and their rows are known.

Filters by keys come first, for they hold for rows as they are; then rows are counted, and groups are sorted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.graph.batchoptions import KeyFilters
from planner.graph.operators import Aggregate, Project, Sort
from planner.graph.plan import DraftPlan, Split, Stage
from planner.relations.catalog import TableStatistics
from planner.relations.widths import row_bytes
from planner.rules.countedrows import with_counted_rows
from planner.rules.keyfilters import COMPRESSED, GROUPED_PER_S, with_key_filters
from planner.rules.selectivity import counted_selectivity, drawn
from planner.sql.dialect import exp, name_node
from planner.values.topology import Topology

MAX_SORTED = 3_000_000
"""Groups are sorted of so many rows of a split."""
SORTED_SHARE = 0.5
"""Rows that are sorted take this share of the bytes on a link."""


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
        mode: what makes a filter by keys worth it, and a search for equal rows.
        statistics: what is known of tables that were analysed, by name.
    """
    if not draft.whole_scans:
        return draft
    counted = with_counted_rows(with_key_filters(draft, splits, topology, mode, statistics), splits, statistics)
    if mode is KeyFilters.TIME:
        counted = _without_slow_groups(counted, splits, topology, statistics)
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


def _without_slow_groups(
    draft: DraftPlan, splits: Sequence[Split], topology: Topology, statistics: Mapping[str, TableStatistics]
) -> DraftPlan:
    """Return the draft with MAPs that send equal rows as often as there are, where it takes longer to find them.

    Of a table that was not analysed nothing is known, and MAPs with filters by keys have fewer rows than is known.
    """
    for stage in draft.map_stages:
        found, body = statistics.get(stage.relation or ""), stage.body
        if found is None or stage.inputs or not isinstance(body, Aggregate) or len(body.items) > len(body.keys):
            continue
        if not body.keys or not _is_slow(stage, draft, splits, topology, found):
            continue
        mapped = replace(stage, body=Project(body.input, body.items))
        scans = tuple(replace(s, distinct=s.distinct and s.stage != stage.id) for s in draft.scans)
        stages = tuple(mapped if other.id == stage.id else other for other in draft.stages)
        draft = replace(draft, stages=stages, scans=scans)
    return draft


def _is_slow(
    stage: Stage, draft: DraftPlan, splits: Sequence[Split], topology: Topology, found: TableStatistics
) -> bool:
    """Return whether the site with most rows needs longer to group them than the slowest link for what that saves."""
    own = [split for split in splits if split.stage == stage.id]
    sites = {split.site for other in draft.map_stages for split in splits if split.stage == other.id}
    links = [link for split in own for site in sites if (link := topology.link(split.site, site)) is not None]
    if not links or any(split.rows is None for split in own):
        return False
    share = min(1.0, sum(counted_selectivity(s.where, found) for s in draft.whole_scans if s.stage == stage.id))
    different = math.prod(found.distinct.get(column.name, 1) for column in stage.columns)
    rows, left = Counter[str](), Counter[str]()
    for split in own:
        rows[split.site] += round((split.rows or 0) * share)
        left[split.site] += round(drawn(different, (split.rows or 0) * share))
    site, most = max(rows.items(), key=lambda item: (item[1], item[0]))
    saved_bytes = (most - left[site] * SORTED_SHARE) * row_bytes(stage.columns) / COMPRESSED
    return saved_bytes / min(link.bandwidth_bytes_per_s for link in links) < most / GROUPED_PER_S
