"""A world in which tasks of one query give way to others, and say how far they have come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from contract.handover import HandoverReport
from contract.tasks import TaskState
from master.records.specs import TaskSpec
from planner.graph.ids import TaskId
from planner.graph.plan import PhysicalPlan
from planner.handover.model import Step
from tests.unit.master.build import report, status
from tests.unit.master.world import World

SITES = ("us", "eu", "hub")


class Changing(World):
    """One query that runs.

    Args:
        plan: of the query.
        handing_over: the stage whose task hands over.
    """

    def __init__(self, plan: PhysicalPlan, handing_over: str) -> None:
        super().__init__()
        self.query = self.jobs.submit(plan, sql="SELECT ...").id
        self._handing_over = handing_over
        self.said: dict[TaskId, HandoverReport] = {}
        self.watermarks: dict[TaskId, int] = {}
        self.states: dict[TaskId, TaskState] = {}
        self.late: dict[TaskId, int] = {}
        self.hear()

    def place(self, stage: str, number: int = 0, generation: int = 0) -> TaskId:
        return TaskId(self.query, stage, number, generation=generation)

    def step(self) -> Step | None:
        handover = self.lineages.get(self.place(self._handing_over)).handover
        return None if handover is None else handover.step

    def hear(self, *sites: str) -> None:
        """Heartbeats of these sites, or all, with what their tasks say."""
        for site in sites or SITES:
            tasks = [
                replace(
                    status(spec.task_id, self.states.get(spec.task_id, TaskState.RUNNING), site=site),
                    handover=self.said.get(spec.task_id),
                    watermark_us=self.watermarks.get(spec.task_id),
                    rows_late=self.late.get(spec.task_id, 0),
                )
                for spec in self.board.current(site).assignment.tasks
            ]
            self.jobs.report(report(site, *tasks, assignment_version=self.board.version(site)))

    def specs(self) -> Mapping[TaskId, TaskSpec]:
        return {spec.task_id: spec for site in SITES for spec in self.board.current(site).assignment.tasks}

    def homes(self) -> Mapping[TaskId, str]:
        return {spec.task_id: site for site in SITES for spec in self.board.current(site).assignment.tasks}

    def from_seeding_to_cut(self, out_us: int) -> None:
        """The old task has emitted what is needed, and the new one has caught up."""
        self.said[self.place(self._handing_over, 0, 1)] = HandoverReport(restored=True, caught_up=True)
        self.watermarks[self.place(self._handing_over)] = out_us
        self.hear()

    def from_cut_to_end(self) -> None:
        """The new task has taken over, and all readers have read the old channel."""
        old, new = self.place(self._handing_over), self.place(self._handing_over, 0, 1)
        self.said[old] = HandoverReport(cut=True, last_epoch=8, drained=True)
        self.said[new] = HandoverReport(restored=True, caught_up=True, taken_over=True)
        self.states[old] = TaskState.ENDED
        self.hear()
