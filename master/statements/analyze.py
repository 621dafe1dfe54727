"""EXPLAIN ANALYZE: the measurements of a query's tasks, links and results beside its plan's estimates. Pure.

Every number is as the agents last reported it. Rates are over the last minute at most, those of links over the last ten
seconds. Totals are since the query began, rows of fused operators since the agent started the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

from contract.figures import FIGURES, Unit
from contract.tasks import TaskState
from contract.times import from_us, to_us
from master.records.model import LinkUse, OperatorStatus, TaskStatus
from master.statements.columns import Column, Columns, count, rate, share, size, size_per_s
from master.views.queries import QueryView
from planner.graph.plan import LinkTraffic, PhysicalPlan, Stage
from planner.text.explain import explain_json
from planner.values.links import LinkFigures

_WRITTEN: Mapping[Unit, Callable[[Any], str]] = {
    Unit.ROWS: count,
    Unit.EPOCHS: count,
    Unit.ATTEMPTS: count,
    Unit.PLANS: count,
    Unit.BYTES: size,
    Unit.ROWS_PER_S: rate,
    Unit.BYTES_PER_S: size_per_s,
    Unit.RATIO: share,
    Unit.SECONDS: lambda seconds: f"{seconds:.1f} s",
}

_YEAR_1_US, _END_OF_TIME_US = -62_135_596_800_000_000, 253_402_300_799_000_000
"""The range of the calendar; a channel that has ended has a later watermark."""


@dataclass(frozen=True, slots=True)
class OperatorOfTask:
    """An operator fused in a task, and the rows per second that reach it."""

    status: OperatorStatus
    rows_in_per_s: float


@dataclass(frozen=True, slots=True)
class MeasuredLink:
    """A link: what the plan expects on it and knew of it, and what the query moved over it; None: nothing."""

    source: str
    target: str
    traffic: LinkTraffic | None
    figures: LinkFigures | None
    use: LinkUse | None

    @property
    def expected(self) -> float | None:
        """Bytes per second."""
        return self.traffic.bytes_per_s if self.traffic else None

    @property
    def bandwidth(self) -> float | None:
        """Bytes per second; None: the plan does not know it."""
        return self.figures.capacity_bytes_per_s if self.figures else None

    @property
    def measured(self) -> float:
        """Bytes per second."""
        return self.use.bytes_per_s if self.use else 0.0


TASKS: Columns[TaskStatus] = Columns(
    "stages[].tasks[]",
    (
        Column("task", "Its id.", lambda task: str(task.task_id)),
        Column("site", "Where it runs.", lambda task: task.site, "site"),
        Column("state", "Its state.", lambda task: task.state.value, "state"),
        Column("reason", "Why it is in this state, where there is something to say.", lambda task: task.reason),
        *(
            Column(f.name, f.traits.meaning, attrgetter(f.name), f.column.replace("_", " "), _WRITTEN[f.traits.unit])
            for f in FIGURES
        ),
    ),
)

OPERATORS: Columns[OperatorOfTask] = Columns(
    "stages[].tasks[].operators[]",
    (
        Column("operator", "What it is: `Filter`, `Join`, `Aggregate`, ...", lambda o: o.status.name, "operator"),
        Column(
            "rows_out",
            "Rows that it gave out since the agent started the task.",
            lambda o: o.status.rows_out,
            "rows out",
            count,
        ),
        Column("rows_in_per_s", "Rows per second that reach it.", lambda o: o.rows_in_per_s, "in rate", rate),
        Column("rows_out_per_s", "Rows per second out.", lambda o: o.status.rows_out_per_s, "out rate", rate),
    ),
)

LINKS: Columns[MeasuredLink] = Columns(
    "links[]",
    (
        Column("from", "The site that sends.", lambda link: link.source, "from"),
        Column("to", "The site that receives.", lambda link: link.target, "to"),
        Column(
            "expected_bytes_per_s",
            "Expected by the plan; null: nothing was.",
            lambda link: link.expected,
            "expected",
            size_per_s,
        ),
        Column(
            "bytes_per_s", "Measured over the last ten seconds.", lambda link: link.measured, "measured", size_per_s
        ),
        Column(
            "measured_to_expected",
            "One over the other; null: nothing was expected.",
            lambda link: link.measured / link.expected if link.expected else None,
            "ratio",
            lambda ratio: f"{ratio:.3g}",
        ),
        Column(
            "bandwidth_bytes_per_s",
            "What the link carries, as the plan has it; null: it does not know.",
            lambda link: link.bandwidth,
        ),
        Column(
            "bandwidth_share",
            "Share of that which is used, 0 to 1.",
            lambda link: link.measured / link.bandwidth if link.bandwidth else None,
            "of bandwidth",
            lambda ratio: f"{100 * ratio:.3g} %",
        ),
        Column("bytes", "Moved in all.", lambda link: link.use.bytes if link.use else 0, "moved", size),
        Column("epochs", "Epochs of that.", lambda link: link.use.epochs if link.use else 0, "epochs", count),
    ),
)


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
        "links": _links(record.plan, view.links),
        "result": _result(view, now=now),
        "adaptation": {"mode": plan.adapting.value, "last": view.advice or None},
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
    return TASKS.json(task) | _watermark(task.watermark_us, now=now) | {"operators": operators(task)}


def operators(task: TaskStatus) -> list[dict[str, Any]]:
    """The fused operators of a task, each with the output rate of the one before it."""
    before = (task.rows_in_per_s, *(operator.rows_out_per_s for operator in task.operators))
    return [OPERATORS.json(OperatorOfTask(o, rate)) for o, rate in zip(task.operators, before, strict=False)]


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
    """The busiest and the slowest of a stage's sites; None for a stage at one site."""
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


def _links(plan: PhysicalPlan, measured: Iterable[LinkUse]) -> list[dict[str, Any]]:
    """Every link on which the plan expects traffic or that was used; tables are copied once and are not expected."""
    traffic = {link.pair: link for link in plan.links}
    figures = {link.pair: link for link in plan.figures}
    uses = {(u.from_site, u.to_site): u for u in measured}
    pairs = sorted({*traffic, *uses})
    return [LINKS.json(MeasuredLink(*pair, traffic.get(pair), figures.get(pair), uses.get(pair))) for pair in pairs]


def _result(view: QueryView, *, now: datetime) -> dict[str, Any]:
    result = view.record.progress.result
    return {
        "gateway": view.record.plan.destination.site,
        "rows": result.rows if result else 0,
        "bytes": result.bytes if result else 0,
        "complete": result.complete if result else False,
        **_watermark(result.watermark_us if result else None, now=now),
    }
