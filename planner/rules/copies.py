"""Copies of joined tables that are larger than what they are joined with: such a query had better not run in parts."""

from __future__ import annotations

from planner.graph.operators import Filter, walk
from planner.graph.plan import DraftPlan, Stage
from planner.relations.catalog import Catalog
from planner.rules.selectivity import counted_selectivity
from planner.values.errors import UnsupportedSqlError
from planner.values.stages import StageKind


def large_copy(draft: DraftPlan, catalog: Catalog) -> UnsupportedSqlError | None:
    """Return why the query should not run in parts; None: no copy is known to be large.

    Each site of a MAP gets a copy of each table that is joined there. A query that runs whole sends its rows once.

    Args:
        draft: of a query over tables, in parts.
        catalog: with what is known of tables that were analysed; nothing is guessed of others.
    """
    stages = {stage.id: stage for stage in draft.stages}
    for taker in draft.map_stages:
        own = _rows(taker, catalog)
        if own is None or len(taker.pinned) < 2:
            continue
        for item in taker.inputs:
            copied = stages[item.stage]
            rows = _rows(copied, catalog) if copied.kind is StageKind.TABLE else None
            if rows is not None and rows > own:
                return UnsupportedSqlError(
                    f"each site of {taker.relation} would get a copy of {copied.relation}: {rows:.0f} rows, and it "
                    f"has {own:.0f} itself"
                )
    return None


def _rows(stage: Stage, catalog: Catalog) -> float | None:
    """Return about how many rows of its table a stage keeps; None: nobody has counted them."""
    table = catalog.find(stage.relation or "")
    found = table.statistics if table is not None else None
    if found is None or stage.body is None:
        return None
    conditions = [part for node in walk(stage.body) if isinstance(node, Filter) for part in node.conditions]
    return found.rows * counted_selectivity(conditions, found)
