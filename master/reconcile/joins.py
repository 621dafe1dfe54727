"""A query shares the task of another query again: what is asked, and what follows."""

from __future__ import annotations

from datetime import datetime

from master.base.errors import HandoverRefusedError
from master.queries.lineages import Lineages
from master.queries.sharing import deployment_of
from master.reconcile.around import Surroundings
from master.reconcile.parts import JobParts
from master.reconcile.places import place_in
from master.records.model import QueryRecord
from planner.graph.ids import TaskId
from planner.handover.model import Handover, Join, Lineage
from planner.handover.refusals import unready
from planner.sharing.deployment import Change, Deployment
from planner.sharing.joining import Rejoin, holding, joined, refusal, released
from planner.sharing.running import Running


class Joins:
    """The part of `Handovers` that knows which task is shared again."""

    def __init__(self, parts: JobParts, lineages: Lineages, surroundings: Surroundings) -> None:
        self._parts = parts
        self._lineages = lineages
        self._surroundings = surroundings

    def begin(self, record: QueryRecord, stage: str, site: str, now: datetime, reason: str) -> Lineage:
        """Store that a query is to share a task again, which stays until it is done.

        Args:
            record: the query.
            stage: the stage for which it has a task of its own.
            site: where the task is to be that makes the query's epochs; empty: where they are read.
            now: the time.
            reason: why it is asked for.

        Raises:
            HandoverRefusedError: it cannot share one now.
            UnknownSiteError
            StoreError
        """
        running = self._parts.queries.snapshots.held
        place = place_in(record, stage, running)
        lineage, deployment = self._lineages.get(place), deployment_of(record)
        shared = lineage.origin
        refused = refusal(Rejoin(place, shared, record.plan.stage(place.stage).parts), running)
        to_site = self._parts.sites.get(site).name if site else ""
        if refused is None:
            to_site = to_site or self._read_at(place, shared, running)
            beside = {place, shared, *(one.id for one in running.deployed if {place, shared} & {*one.inputs})}
            refused = unready(self._surroundings.of_new({to_site}, beside=beside, successor=to_site))
        if refused is not None or deployment is None:
            message, hint = refused or (f"query {record.id} shares nothing", "look at selat query explain")
            raise HandoverRefusedError(message, hint=hint, ids={"query": record.id, "task": str(place)})
        lineage = lineage.joining((running.site(place), to_site), Join(shared), now, reason)
        told = f"{place.vertex} is to be shared with {shared} again: {reason}"
        self._store(record, holding(deployment, shared), lineage, {}, told)
        return lineage

    def _read_at(self, place: TaskId, shared: TaskId, running: Running) -> str:
        """Return the site where the query's rows are read; that of the shared task, if that one takes no tasks."""
        found = [running.site(one.id) for one in running.deployed if place in one.inputs]
        return next((name for name in sorted(found) if name in self._parts.sites.able()), running.site(shared))

    def done(self, lineage: Lineage, join: Join, from_epoch: int, now: datetime) -> None:
        """Store that the query shares the task.

        Raises:
            StoreError, StaleChangeError: nothing has changed.
        """
        record, handover = self._parts.queries.get(lineage.place.query), _handover(lineage)
        deployment = joined(_deployment(record), lineage.place, join.shared, handover.to_site)
        took_s = (now - handover.asked_at).total_seconds()
        told = f"{lineage.place.vertex} is shared with {join.shared} again after {took_s:.1f} s: {handover.reason}"
        self._store(record, deployment, lineage.moved(from_epoch, now), {lineage.place: handover.to_site}, told)

    def back(self, lineage: Lineage, join: Join, now: datetime) -> None:
        """Store that the query goes on with its own task.

        Raises:
            StoreError, StaleChangeError: nothing has changed.
        """
        record, handover = self._parts.queries.get(lineage.place.query), _handover(lineage)
        took_s = (now - handover.asked_at).total_seconds()
        told = f"{lineage.place.vertex} is not shared with {join.shared} after {took_s:.1f} s: {handover.reason}"
        self._store(record, released(_deployment(record), join.shared), lineage.rolled_back(now), {}, told)

    def _store(
        self,
        record: QueryRecord,
        deployment: Deployment,
        lineage: Lineage,
        placement: dict[TaskId, str],
        told: str,
    ) -> None:
        version = self._parts.queries.snapshots.version
        self._lineages.put_changed(record.id, Change(version, record.plan, deployment, placement, told), (lineage,))


def _handover(lineage: Lineage) -> Handover:
    assert lineage.handover is not None
    return lineage.handover


def _deployment(record: QueryRecord) -> Deployment:
    found = deployment_of(record)
    assert found is not None
    return found
