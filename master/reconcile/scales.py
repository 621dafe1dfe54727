"""Another number of parts for a merge while its query runs: what its handover asks of the parts, and what follows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from contract.handover import HandoverReport
from contract.tasks import TaskState
from master.base.errors import HandoverRefusedError
from master.queries.lineages import Lineages
from master.queries.sharing import deployment_of
from master.reconcile.around import Surroundings
from master.reconcile.parts import JobParts
from master.records.model import QueryRecord, TaskStatus
from planner.graph.ids import TaskId
from planner.handover.model import Handover, Lineage, Scaling
from planner.handover.refusals import Around
from planner.sharing.deployment import Change
from planner.sharing.running import Deployed, Running
from planner.sharing.scaling import (
    Scale,
    final_of,
    new_parts,
    parts_of,
    refusal,
    scaled_deployment,
    scaled_plan,
    sites_for,
    whole_from_us,
)
from planner.values.stages import StageKind


class Scales:
    """The part of `Handovers` that knows the parts of merges."""

    def __init__(self, parts: JobParts, lineages: Lineages, surroundings: Surroundings) -> None:
        self._parts = parts
        self._lineages = lineages
        self._surroundings = surroundings

    def asked(  # noqa: PLR0913 - what is asked for, when and why
        self, record: QueryRecord, stage: str, number: int, sites: Sequence[str], now: datetime, reason: str
    ) -> Lineage:
        """The lineage of the FINAL behind a stage, with a handover to a task that reads so many new parts.

        Raises:
            HandoverRefusedError: the stage cannot have them now.
            UnknownSiteError
        """
        running = self._parts.queries.snapshots.held
        ids = {"query": record.id, "stage": stage}
        found = next((one for one in record.plan.stages if one.id == stage), None)
        if found is None:
            names = ", ".join(one.id for one in record.plan.stages if one.kind is StageKind.MERGE) or "none"
            told = f"query {record.id} has no stage {stage!r}"
            raise HandoverRefusedError(told, hint=f"its merges: {names}", ids=ids)
        parts = parts_of(record.id, stage, running)
        where = sites_for(number, [self._parts.sites.get(site).name for site in sites], _sites(parts, running))
        final = final_of(parts, running)
        scale = Scale(record.id, found, number, where, self._around(where, parts, final, running))
        refused = refusal(scale, parts, running)
        if refused is not None or final is None:
            message, hint = refused or ("it has no FINAL task", "")
            raise HandoverRefusedError(message, hint=hint, ids=ids)
        places = (final.id, *(one.id for one in parts), *new_parts(record.id, stage, where))
        generation = max(self._lineages.get(place).next_generation for place in places)
        lineage = self._lineages.get(final.id)
        return lineage.scaled(running.site(final.id), Scaling(stage, where), generation, now, reason)

    def _around(
        self, sites: Sequence[str], parts: Sequence[Deployed], final: Deployed | None, running: Running
    ) -> Around:
        beside = {one.id for one in parts} | {name for one in parts for name in one.inputs}
        if final is not None:
            beside |= {final.id, *(one.id for one in running.deployed if final.id in one.inputs)}
        site = running.site(final.id) if final is not None else ""
        return self._surroundings.of_new(sites, beside=beside, successor=site)

    def whole_after_us(self, place: TaskId, handover: Handover) -> int | None:
        """The instant after which all new parts have whole windows; None: not all have said so yet."""
        return last_whole_after_us(status for _, status in self._new(place, handover))

    def is_past(self, place: TaskId, handover: Handover, old: TaskStatus | None) -> bool:
        """Whether the old FINAL has emitted all windows that a new part misses."""
        scaling = handover.scaling
        merge = self._parts.queries.get(place.query).plan.stage(place.stage).merge
        if scaling is None or handover.whole_after_us is None or merge is None or old is None:
            return False
        return old.watermark_us is not None and old.watermark_us >= whole_from_us(handover.whole_after_us, merge)

    def why_not(self, place: TaskId, handover: Handover) -> str:
        """Why the new parts will not do; empty: they may."""
        return unfit(self._new(place, handover))

    def sites(self, place: TaskId, handover: Handover, running: Running) -> set[str]:
        """The sites of the new parts and of what they read."""
        scaling = handover.scaling
        assert scaling is not None
        read = {name for part in running.task(place).inputs for name in running.task(part).inputs}
        return {*scaling.sites, *(running.site(name) for name in read)}

    def changed(self, lineage: Lineage, from_epoch: int, now: datetime) -> tuple[Change, tuple[Lineage, ...]]:
        """What the query is once its FINAL reads the new parts, and who is in its places then."""
        handover, record = lineage.handover, self._parts.queries.get(lineage.place.query)
        assert handover is not None
        assert handover.scaling is not None
        stage, sites, generation = handover.scaling.stage, handover.scaling.sites, handover.generation
        places = new_parts(record.id, stage, sites)
        snapshots, deployment = self._parts.queries.snapshots, deployment_of(record)
        old = (one.id for one in parts_of(record.id, stage, snapshots.held))
        change = Change(
            snapshots.version,
            scaled_plan(record.plan, stage, len(sites)),
            None if deployment is None else scaled_deployment(deployment, record.id, stage, sites),
            {**dict(zip(places, sites, strict=True)), lineage.place: handover.to_site},
            f"{stage} has {len(sites)} parts, at {', '.join(sites)}",
            frozenset(places),
        )
        # A place that is given up keeps the number of its generations, should it be taken again.
        given = sorted({*places, *old})
        replaced = (self._lineages.get(place).replaced(generation) for place in given)
        return change, (lineage.moved(from_epoch, now), *replaced)

    def _new(self, place: TaskId, handover: Handover) -> Iterator[tuple[TaskId, TaskStatus | None]]:
        """The tasks of the new parts, with what their sites report of them."""
        scaling = handover.scaling
        for number, site in enumerate(scaling.sites if scaling is not None else ()):
            name = TaskId(place.query, scaling.stage if scaling else "", number, generation=handover.generation)
            report = self._parts.sites.get(site).report
            tasks = () if report is None else report.tasks
            yield name, next((status for status in tasks if status.task_id == name), None)


def last_whole_after_us(begun: Iterable[TaskStatus | None]) -> int | None:
    """Return the instant after which all tasks that begin in the middle have whole windows; None: not all have said so
    yet, or there are none."""
    found = [_report(status).whole_after_us for status in begun]
    known = [at_us for at_us in found if at_us is not None]
    return max(known) if known and len(known) == len(found) else None


def unfit(begun: Iterable[tuple[TaskId, TaskStatus | None]]) -> str:
    """Return why one of the tasks that begin in the middle of their inputs will not do; empty: all may."""
    for name, status in begun:
        if status is not None and status.missed_inputs:
            return f"{name} began too late: {', '.join(map(str, status.missed_inputs))} has ended"
        if status is not None and status.state is TaskState.FAILED:
            return f"{name} failed: {status.reason}"
    return ""


def _sites(parts: Sequence[Deployed], running: Running) -> tuple[str, ...]:
    return tuple(running.site(one.id) for one in parts)


def _report(status: TaskStatus | None) -> HandoverReport:
    return HandoverReport() if status is None or status.handover is None else status.handover
