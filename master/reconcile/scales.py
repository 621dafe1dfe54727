"""Another number of parts for a merge while its query runs: what its handover asks of the parts, and what follows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from master.base.errors import HandoverRefusedError
from master.queries.lineages import Lineages
from master.queries.sharing import deployment_of
from master.reconcile.around import Surroundings
from master.reconcile.begun import Begun
from master.reconcile.parts import JobParts
from master.records.model import QueryRecord
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
        site, scaling = running.site(final.id), Scaling(stage, where)
        begun = Handover(generation, site, site, now, reason=reason, scaling=scaling)
        return self._lineages.get(final.id).begun(begun)

    def _around(
        self, sites: Sequence[str], parts: Sequence[Deployed], final: Deployed | None, running: Running
    ) -> Around:
        beside = {one.id for one in parts} | {name for one in parts for name in one.inputs}
        if final is not None:
            beside |= {final.id, *(one.id for one in running.deployed if final.id in one.inputs)}
        site = running.site(final.id) if final is not None else ""
        return self._surroundings.of_new(sites, beside=beside, successor=site)

    def begun(self, place: TaskId, handover: Handover) -> tuple[Begun, ...]:
        """Return the new parts."""
        scaling = _scaling(handover)
        names = new_parts(place.query, scaling.stage, scaling.sites)
        return tuple(
            Begun(name._replace(generation=handover.generation), site)
            for name, site in zip(names, scaling.sites, strict=True)
        )

    def needed_us(self, place: TaskId, handover: Handover) -> int | None:
        """Return the watermark with which all windows are out that a new part misses; None: it is not known yet."""
        merge, whole_us = self._parts.queries.get(place.query).plan.stage(place.stage).merge, handover.whole_after_us
        return None if merge is None or whole_us is None else whole_from_us(whole_us, merge)

    def reads(self, place: TaskId, handover: Handover, running: Running) -> frozenset[TaskId]:
        """Return the places that the new parts read."""
        return frozenset(name for part in running.task(place).inputs for name in running.task(part).inputs)

    def changed(self, lineage: Lineage, from_epoch: int, now: datetime) -> tuple[Change, tuple[Lineage, ...]]:
        """Return what the query is once its FINAL reads the new parts, and who is in its places then."""
        handover, record = lineage.handover, self._parts.queries.get(lineage.place.query)
        assert handover is not None
        scaling, generation = _scaling(handover), handover.generation
        stage, sites = scaling.stage, scaling.sites
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


def _scaling(handover: Handover) -> Scaling:
    assert handover.scaling is not None
    return handover.scaling


def _sites(parts: Sequence[Deployed], running: Running) -> tuple[str, ...]:
    return tuple(running.site(one.id) for one in parts)
