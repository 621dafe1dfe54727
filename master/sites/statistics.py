"""Rates at which relations produce rows, measured where queries read them."""

from __future__ import annotations

from collections.abc import Collection

from contract.tasks import TaskState
from master.records.model import QueryRecord, SiteReport
from planner.graph.plan import RelationStats, Statistics
from planner.values.stages import StageKind

_READING = (TaskState.RUNNING, TaskState.BACK_PRESSURED)


class MeasuredRates:
    """The last known rate by (relation, site); kept when the query that measured it is over, until `keep_only`."""

    def __init__(self) -> None:
        self._rates: dict[tuple[str, str], RelationStats] = {}

    def observe(self, record: QueryRecord, report: SiteReport) -> None:
        """Record the rates of the query's SOURCE tasks. A rate of 0 only says that no rows came lately."""
        relations = {s.id: s.relation for s in record.plan.stages if s.kind is StageKind.SOURCE}
        for task in report.tasks:
            # By the query's own stage, also where another query's task does its work.
            known = record.progress.tasks.get(task.task_id)
            relation = relations.get(known.stage_id) if known is not None else None
            reads = task.state in _READING and not task.task_id.derived
            if relation and reads and task.rows_in_per_s > 0:
                self._rates[relation, report.site] = RelationStats(rows_per_s=task.rows_in_per_s, measured=True)

    def keep_only(self, relations: Collection[str]) -> None:
        """Forget the rates of all relations but these (lower case)."""
        self._rates = {key: stats for key, stats in self._rates.items() if key[0].lower() in relations}

    def snapshot(self) -> Statistics:
        return Statistics(dict(self._rates))
