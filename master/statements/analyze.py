"""EXPLAIN ANALYZE: what a query's tasks, links and results measure, beside what its plan expected. Pure.

Every number is as the agents last reported it. Rates are over the last minute at most, those of links over the last ten
seconds. Totals are since the query began, rows of fused operators since the agent started the task.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from contract.figures import FIGURES, values_of
from contract.tasks import TaskState
from contract.times import from_us, to_us
from master.records.model import LinkUse, TaskStatus
from master.views.queries import QueryView
from planner.graph.plan import LinkEstimate, PhysicalPlan, Stage
from planner.text.explain import explain_json

_YEAR_1_US, _END_OF_TIME_US = -62_135_596_800_000_000, 253_402_300_799_000_000
"""The calendar; the watermark of what has ended lies beyond it."""


def analyze_json(view: QueryView, plan: PhysicalPlan, *, now: datetime) -> dict[str, Any]:
    """A query's plan, with its sites, and its measurements, as plain values for JSON.

    Sizes are bytes, times seconds or ISO 8601 in UTC.
    """
    record = view.record
    tasks = sorted(record.progress.tasks.values(), key=lambda t: (t.stage_id, t.site))
    return {
        "query": record.id,
        "name": record.name or None,
        "state": record.state.value,
        "reason": view.reason,
        "measured_at": now.isoformat(),
        "running_s": ((record.ended_at or now) - record.submitted_at).total_seconds(),
        "plan": explain_json(plan),
        "stages": [
            _stage(stage, [t for t in tasks if t.stage_id == stage.id], now=now) for stage in record.plan.stages
        ],
        "links": _links(record.plan.links, view.links),
        "result": _result(view, now=now),
    }


def _stage(stage: Stage, tasks: Sequence[TaskStatus], *, now: datetime) -> dict[str, Any]:
    return {
        "id": stage.id,
        "kind": stage.kind.value,
        "tasks": [_task(task, now=now) for task in tasks],
        **{figure.name: figure.over(tasks) for figure in FIGURES},
        "spread": _spread([t for t in tasks if t.state not in (TaskState.STARTING, TaskState.ENDED)]),
    }


def _task(task: TaskStatus, *, now: datetime) -> dict[str, Any]:
    return {
        "task": str(task.task_id),
        "state": task.state.value,
        "site": task.site,
        "reason": task.reason,
        **values_of(task),
        **_watermark(task.watermark_us, now=now),
        "operators": operators(task),
    }


def operators(task: TaskStatus) -> list[dict[str, Any]]:
    """The fused operators of a task, each with what the one before it gave out."""
    rows_per_s = task.rows_in_per_s
    chain = []
    for operator in task.operators:
        chain.append(
            {
                "operator": operator.name,
                "rows_out": operator.rows_out,
                "rows_in_per_s": rows_per_s,
                "rows_out_per_s": operator.rows_out_per_s,
            }
        )
        rows_per_s = operator.rows_out_per_s
    return chain


def _watermark(watermark_us: int | None, *, now: datetime) -> dict[str, Any]:
    """`watermark_delay_s`: how far the watermark is behind the clock; None before the first and after the last."""
    if watermark_us is None or not _YEAR_1_US <= watermark_us < _END_OF_TIME_US:
        return {"watermark": None, "watermark_delay_s": None, "watermark_ended": (watermark_us or 0) > 0}
    return {
        "watermark": from_us(watermark_us).isoformat(),
        "watermark_delay_s": (to_us(now) - watermark_us) / 1e6,
        "watermark_ended": False,
    }


def _spread(tasks: Sequence[TaskStatus]) -> dict[str, Any] | None:
    """Which of a stage's sites does the most, and which holds the others up; None for a stage at one site."""
    if len(tasks) < 2:
        return None
    hottest = max(tasks, key=lambda t: t.busy_ratio)
    coolest = min(tasks, key=lambda t: t.busy_ratio)
    marks = {t.site: t.watermark_us for t in tasks if t.watermark_us is not None and t.watermark_us < _END_OF_TIME_US}
    slowest = min(marks, key=marks.__getitem__, default=None)
    lagging = max(tasks, key=lambda t: t.lag_rows)
    return {
        "hottest_site": hottest.site,
        "busy_ratio_max": hottest.busy_ratio,
        "busy_ratio_min": coolest.busy_ratio,
        "slowest_site": slowest,
        "watermark_spread_s": (max(marks.values()) - marks[slowest]) / 1e6 if slowest else None,
        "most_lag_site": lagging.site if lagging.lag_rows else None,
        "lag_rows_max": lagging.lag_rows,
        "rows_in_per_s_max": max(t.rows_in_per_s for t in tasks),
        "rows_in_per_s_min": min(t.rows_in_per_s for t in tasks),
    }


def _links(expected: Iterable[LinkEstimate], measured: Iterable[LinkUse]) -> list[dict[str, Any]]:
    """Every link that the plan names or that was used; tables are copied once and are in no estimate."""
    estimates = {(e.source, e.target): e for e in expected}
    uses = {(u.from_site, u.to_site): u for u in measured}
    return [_link(pair, estimates.get(pair), uses.get(pair)) for pair in sorted({*estimates, *uses})]


def _link(pair: tuple[str, str], estimate: LinkEstimate | None, use: LinkUse | None) -> dict[str, Any]:
    expected = estimate.bytes_per_s if estimate else None
    measured = use.bytes_per_s if use else 0.0
    return {
        "from": pair[0],
        "to": pair[1],
        "expected_bytes_per_s": expected,
        "bytes_per_s": measured,
        "measured_to_expected": measured / expected if expected else None,
        "bandwidth_bytes_per_s": estimate.bandwidth_bytes_per_s if estimate else None,
        "bytes": use.bytes if use else 0,
        "epochs": use.epochs if use else 0,
    }


def _result(view: QueryView, *, now: datetime) -> dict[str, Any]:
    result = view.record.progress.result
    return {
        "gateway": view.record.plan.destination.site,
        "rows": result.rows if result else 0,
        "bytes": result.bytes if result else 0,
        "complete": result.complete if result else False,
        **_watermark(result.watermark_us if result else None, now=now),
    }
