"""Rates at which relations produce rows, measured where queries read them."""

from __future__ import annotations

from master.model import QueryRecord, SiteReport, TaskState
from planner.plan import RelationStats, StageKind, Statistics

_READING = (TaskState.RUNNING, TaskState.BACK_PRESSURED)


class MeasuredRates:
    """The last known rate by (relation, site); kept after the query that measured it is over."""

    def __init__(self) -> None:
        self._rates: dict[tuple[str, str], RelationStats] = {}

    def observe(self, record: QueryRecord, report: SiteReport) -> None:
        """Take the rates of the query's SOURCE tasks. A rate of 0 only says that nothing came lately."""
        relations = {s.id: s.relation for s in record.plan.stages if s.kind is StageKind.SOURCE}
        for task in report.tasks:
            relation = relations.get(task.stage_id) if task.query_id == record.id else None
            if relation and task.state in _READING and task.rows_in_per_s > 0:
                self._rates[relation, report.site] = RelationStats(rows_per_s=task.rows_in_per_s, measured=True)

    def snapshot(self) -> Statistics:
        return Statistics(dict(self._rates))
