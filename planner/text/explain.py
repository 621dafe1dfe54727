"""EXPLAIN: a placed plan as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from planner.graph.batchoptions import BatchOptions
from planner.graph.plan import (
    BatchPlan,
    LinkEstimate,
    LinkFigures,
    Merge,
    PhysicalPlan,
    PlacementCandidate,
    Stage,
    StageKind,
)
from planner.sql.intervals import format_interval

_UNITS = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"))
_LONG_AGO_S = 120
_COUNTS = ((1e6, " M"), (1e3, " k"))


def explain_text(plan: PhysicalPlan) -> str:
    """The plan for people: operators, stages with their SQL, links, and the sites that were weighed."""
    return "\n".join(_lines(plan))


def _lines(plan: PhysicalPlan) -> Iterator[str]:
    yield "Logical plan"
    yield from (f"  {line}" for line in plan.logical)
    yield "Stages"
    for stage in plan.stages:
        yield from _stage_lines(stage, plan)
    if isinstance(plan, BatchPlan):
        yield from _split_lines(plan)
        return
    yield "Expected traffic"
    if not plan.links:
        yield "  nothing crosses between sites"
    figures = {(f.source, f.target): f for f in plan.figures}
    yield from (f"  {_link_line(link, figures.get((link.source, link.target)))}" for link in plan.links)
    stages = dict.fromkeys(candidate.stage for candidate in plan.candidates)
    for stage_id in stages:
        yield "Sites for the merge" if len(stages) == 1 else f"Sites for the merge {stage_id}"
        yield from (f"  {_candidate_line(candidate)}" for candidate in plan.candidates if candidate.stage == stage_id)


def _split_lines(plan: BatchPlan) -> Iterator[str]:
    if plan.options is not None:
        options = plan.options
        chosen = f"splits of {_size(options.split_bytes)}, {options.locality_min:.0%} of the tasks near their input"
        yield f"Scheduler ({options.scheduler.value}): {chosen}"
    yield "Splits"
    found = _by_site(plan)
    several = len({stage for stage, _ in found}) > 1
    for (stage, site), (count, size_bytes) in found.items():
        yield f"  {f'{stage} at ' if several else ''}{site}: {count}, {_size(size_bytes)}"
    yield "Sites for the reduce"
    for site in plan.sites_of(plan.stage(plan.result_stage)):
        yield f"  * {site}: by the sizes of the splits; decided when the maps have ended"


def _by_site(plan: BatchPlan) -> dict[tuple[str, str], tuple[int, int]]:
    """How many splits each MAP stage has at each site, and their bytes."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for split in sorted(plan.splits, key=lambda split: (split.stage, split.site)):
        count, size_bytes = found.get((split.stage, split.site), (0, 0))
        found[split.stage, split.site] = (count + bool(split.parts), size_bytes + split.size_bytes)
    return found


def _size(size_bytes: int) -> str:
    return _bytes(size_bytes).removesuffix("/s")


def _stage_lines(stage: Stage, plan: PhysicalPlan) -> Iterator[str]:
    result = f", results at {plan.destination.site}" if stage.id in plan.result_stages else ""
    of = f" of {stage.relation}" if stage.relation else ""
    if stage.kind is StageKind.MAP:
        of += ", a task for each split,"
    yield f"  {stage.id}: {stage.kind.value}{of} at {', '.join(plan.sites_of(stage)) or 'no site'}{result}"
    for source in stage.inputs:
        same = " of the same site" if source.same_site else ""
        yield f"    reads {source.stage}{same} as {source.view}"
    if stage.merge is not None:
        yield f"    emits each window of {_window(stage.merge)} once, when it closes"
    if stage.sql:
        yield f"    {stage.sql}"


def _window(merge: Merge) -> str:
    every = f" every {format_interval(merge.period)}" if merge.period != merge.window else ""
    return f"{format_interval(merge.window)}{every}"


def _link_line(link: LinkEstimate, figures: LinkFigures | None) -> str:
    line = f"{link.source} -> {link.target}: {_count(link.rows_per_s)} rows/s, {_bytes(link.bytes_per_s)}"
    if link.bandwidth_bytes_per_s is None:
        return f"{line}, no link known"
    share = 100 * link.bytes_per_s / link.bandwidth_bytes_per_s
    origin = f" ({_origin(figures)})" if figures is not None else ""
    return f"{line}, {share:.3g} % of {_bytes(link.bandwidth_bytes_per_s)}{origin}"


def _origin(figures: LinkFigures) -> str:
    if figures.age is None:
        return "topology file"
    return f"measured {_ago(figures.age)} ago, {_bytes(figures.available_bytes_per_s)} available"


def _ago(age: timedelta) -> str:
    seconds = age.total_seconds()
    return f"{seconds:.0f} s" if seconds < _LONG_AGO_S else f"{seconds / 60:.0f} min"


def _candidate_line(candidate: PlacementCandidate) -> str:
    mark = "*" if candidate.chosen else " "
    figures = f"{_bytes(candidate.wan_bytes_per_s)} over the WAN, cost {candidate.cost:.3g}"
    return f"{mark} {candidate.site}: {figures}: {candidate.reason}"


def _bytes(rate: float) -> str:
    return next((f"{rate / size:.3g} {unit}" for size, unit in _UNITS if rate >= size), f"{rate:.3g} B/s")


def _count(rate: float) -> str:
    return next((f"{rate / size:.3g}{unit}" for size, unit in _COUNTS if rate >= size), f"{rate:.3g}")


def explain_json(plan: PhysicalPlan) -> dict[str, Any]:
    """The same as plain values for JSON; rates are per second, costs s^2. `figures` are those of all links that were
    weighed, also by candidates that were turned down."""
    return {
        "gateway": plan.destination.site,
        "columns": [{"name": column.name, "type": column.type} for column in plan.columns],
        "logical": list(plan.logical),
        "stages": [_stage_json(stage, plan) for stage in plan.stages],
        "batch": _batch_json(plan),
        "links": [
            {
                "from": link.source,
                "to": link.target,
                "rows_per_s": link.rows_per_s,
                "bytes_per_s": link.bytes_per_s,
                "bandwidth_bytes_per_s": link.bandwidth_bytes_per_s,
            }
            for link in plan.links
        ],
        "figures": [_figures_json(figures) for figures in plan.figures],
        "candidates": [
            {
                "stage": candidate.stage,
                "site": candidate.site,
                "wan_bytes_per_s": candidate.wan_bytes_per_s,
                "cost": candidate.cost,
                "chosen": candidate.chosen,
                "reason": candidate.reason,
            }
            for candidate in plan.candidates
        ],
    }


def _batch_json(plan: PhysicalPlan) -> dict[str, Any] | None:
    if not isinstance(plan, BatchPlan):
        return None
    expected = next(iter(plan.sites_of(plan.stage(plan.result_stage))), None)
    splits = [
        {"stage": stage, "site": site, "splits": count, "size_bytes": size_bytes}
        for (stage, site), (count, size_bytes) in _by_site(plan).items()
    ]
    return {"splits": splits, "reduce_site": expected, "options": _options_json(plan.options)}


def _options_json(options: BatchOptions | None) -> dict[str, Any] | None:
    if options is None:
        return None
    return {
        "scheduler": options.scheduler.value,
        "split_bytes": options.split_bytes,
        "locality_min": options.locality_min,
    }


def _figures_json(figures: LinkFigures) -> dict[str, Any]:
    return {
        "from": figures.source,
        "to": figures.target,
        "origin": "topology" if figures.age is None else "measured",
        "age_s": None if figures.age is None else figures.age.total_seconds(),
        "confidence": figures.confidence,
        "capacity_bytes_per_s": figures.capacity_bytes_per_s,
        "available_bytes_per_s": figures.available_bytes_per_s,
        "latency_s": figures.latency.total_seconds(),
    }


def _stage_json(stage: Stage, plan: PhysicalPlan) -> dict[str, Any]:
    return {
        "id": stage.id,
        "kind": stage.kind.value,
        "sites": list(plan.sites_of(stage)),
        "relation": stage.relation,
        "read_columns": list(stage.read_columns),
        "inputs": [{"stage": i.stage, "view": i.view, "same_site": i.same_site} for i in stage.inputs],
        "columns": [{"name": column.name, "type": column.type} for column in stage.columns],
        "sql": stage.sql,
        "merge": _merge_json(stage.merge),
        "result": stage.id in plan.result_stages,
    }


def _merge_json(merge: Merge | None) -> dict[str, Any] | None:
    if merge is None:
        return None
    return {
        "window_column": merge.window_column,
        "window_s": merge.window.total_seconds(),
        "slide_s": merge.period.total_seconds(),
        "combine_sql": merge.combine_sql,
        "views": [
            {"view": view.view, "combine_sql": view.combine_sql, "required": view.required} for view in merge.views
        ],
    }
