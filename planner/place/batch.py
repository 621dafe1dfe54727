"""A batch query's plan: splits are where they are; where tasks run is decided while it runs (`planner.batch`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from planner.batch import BatchOptions, reduce_site
from planner.graph.ids import VertexId
from planner.graph.plan import BatchPlan, DraftPlan, LeftOut, Split, Stage, client_site
from planner.place.placement import check_site, checked_destination
from planner.relations.catalog import SITE_COLUMN, Column
from planner.text.logical import logical_lines
from planner.values.errors import PlacementError
from planner.values.splits import NOTHING
from planner.values.stages import StageKind
from planner.values.topology import Topology

MAX_SPLITS = 10_000
"""What becomes of a query's tasks is stored whole with every change."""


def place_batch(
    draft: DraftPlan,
    topology: Topology,
    splits: Sequence[Split],
    *,
    alive: frozenset[str],
    options: BatchOptions | None = None,
) -> BatchPlan:
    """The plan of a batch query.

    Args:
        draft: in stages, with types.
        topology: all sites.
        splits: all parts of the tables that its MAP stages read, at all their sites.
        alive: sites that can take tasks now.
        options: how its tasks are to be placed; None: as the master does it.

    Raises:
        PlacementError: a site that is needed is not in the topology, not alive, or draining; or there are too many
            splits.
    """
    for stage in draft.stages:
        leave_out = " or leave it out in WHERE, by conditions on site" if stage.kind is StageKind.MAP else ""
        for site in stage.pinned:
            why = (f"{stage.relation} is bound there", f"Start its agent{leave_out}.")
            check_site(site, topology, alive, why)
    destination = checked_destination(draft, topology, alive)
    if len(splits) > MAX_SPLITS:
        names = sorted({stage.relation or "" for stage in draft.map_stages})
        tables = f"table {names[0]} has" if len(names) == 1 else f"tables {', '.join(names)} have"
        raise PlacementError(
            f"{tables} {len(splits)} splits, and at most {MAX_SPLITS} are possible",
            found=", ".join(names),
            hint="SET split_size to more than it is, or read fewer sites, by conditions on site in WHERE.",
        )
    left_out = tuple(LeftOut(s.stage, s.site, s.left_out_bytes) for s in splits if s.left_out_bytes)
    parts = tuple(part for stage in draft.map_stages for part in _tasks(stage, splits))
    outputs = Counter[str]()
    for split in parts:
        outputs[split.site] += split.size_bytes
    able = (alive & set(topology.sites)) - topology.draining
    expected = client_site(draft) or reduce_site(outputs, able, destination.site)
    pinned = {stage.id: _sites(stage, parts) for stage in draft.map_stages}
    return BatchPlan(
        stages=tuple(replace(stage, pinned=pinned.get(stage.id, stage.pinned)) for stage in draft.stages),
        result_stage=draft.result_stage,
        destination=destination,
        columns=draft.columns,
        sites={VertexId(draft.result_stage): expected},
        logical=logical_lines(draft.logical, draft.notes),
        functions=draft.functions,
        splits=parts,
        options=options,
        read_columns={s.id: _read_columns(draft, s) for s in draft.map_stages},
        scans=draft.scans,
        left_out=left_out,
        key_filters=draft.considered,
    )


def _tasks(stage: Stage, splits: Sequence[Split]) -> tuple[Split, ...]:
    """The splits that the stage has a task for; one at least: an aggregate without keys has a result without rows."""
    own = tuple(split for split in splits if split.stage == stage.id)
    with_rows = tuple(split for split in own if split.parts != (NOTHING,))
    return with_rows or own[:1] or (Split(stage.pinned[0], (), 0, stage.id),)


def _sites(stage: Stage, splits: Sequence[Split]) -> tuple[str, ...]:
    """Where its splits are."""
    return tuple(sorted({split.site for split in splits if split.stage == stage.id}))


def _read_columns(draft: DraftPlan, source: Stage) -> tuple[Column, ...]:
    """What a task reads of a split; where it runs elsewhere, so much is sent."""
    declared = draft.relations[source.relation or ""]
    columns = tuple(column for column in declared if column.name in source.read_columns)
    return (*columns, Column(SITE_COLUMN, "STRING")) if source.id in draft.site_read else columns
