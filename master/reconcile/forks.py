"""One query goes on with a task of its own in the place of one that it shares: what is asked, and what follows."""

from __future__ import annotations

from datetime import datetime

from master.base.errors import HandoverRefusedError
from master.queries.lineages import Lineages
from master.queries.sharing import deployment_of
from master.reconcile.generations import readers_in
from master.reconcile.parts import JobParts
from master.reconcile.places import shared_place
from master.records.model import QueryRecord
from planner.graph.ids import TaskId
from planner.handover.model import Fork, Handover, Lineage
from planner.sharing.deployment import Change
from planner.sharing.forking import forked, own_task
from planner.sharing.running import Deployed


class Forks:
    """The part of `Handovers` that knows which query goes on by itself."""

    def __init__(self, parts: JobParts, lineages: Lineages) -> None:
        self._parts = parts
        self._lineages = lineages

    def asked(self, record: QueryRecord, stage: str, site: str) -> tuple[TaskId, Fork]:
        """Return the place of the task that a query shares for a stage, and the task of its own that it is to get.

        Raises:
            HandoverRefusedError: it shares none for that stage, or can run nothing in its place.
            UnknownSiteError
        """
        place = shared_place(record, stage, self._parts.queries.snapshots.held)
        own = self._own(record, place)
        if own is None:
            told = f"query {record.id} can run no task of its own in the place of {place}"
            raise HandoverRefusedError(told, hint="move it for all queries", ids={"task": str(place)})
        generation = max(self._lineages.get(name).next_generation for name in (place, own.id))
        return place, Fork(record.id, own.id._replace(generation=generation), self._parts.sites.get(site).name)

    def _own(self, record: QueryRecord, place: TaskId) -> Deployed | None:
        """Return the task that a query would run in the place of one that it shares; None: it can run none."""
        deployment = deployment_of(record)
        running = self._parts.queries.snapshots.held
        return own_task(deployment, record.id, place, running) if deployment is not None else None

    def is_wanted(self, lineage: Lineage, fork: Fork) -> bool:
        """Return whether anything of the query still reads the shared task."""
        return bool(readers_in(self._parts.queries.snapshots.held, lineage.place, fork.query))

    def why_not(self, lineage: Lineage, handover: Handover) -> str:
        """Return why the query needs no task of its own any more; empty: it does."""
        fork = handover.fork
        return "" if fork is None or self.is_wanted(lineage, fork) else f"query {fork.query} does not run any more"

    def successors(self, lineage: Lineage, handover: Handover) -> tuple[tuple[TaskId, str], ...]:
        """Return the tasks that take over, each with its site; without that of a query that does not run any more."""
        fork = handover.fork
        gone = fork.task if fork is not None and not self.is_wanted(lineage, fork) else None
        return tuple((task, site) for task, site in lineage.successors.items() if task != gone)

    def store(self, lineage: Lineage, fork: Fork, from_epoch: int, now: datetime) -> None:
        """Store that the query runs its own task.

        So it is for a query that is over, whose results go on in that task's channel. Of one that is not known any
        more, or shares the task no more, nothing is left to be stored.

        Raises:
            StoreError, StaleChangeError: nothing has changed.
        """
        moved = lineage.moved(from_epoch, now)
        record = next((one for one in self._parts.queries.all() if one.id == fork.query), None)
        deployment = deployment_of(record) if record is not None else None
        own = self._own(record, lineage.place) if record is not None else None
        if record is None or deployment is None or own is None:
            self._lineages.put(moved)
            return
        change = Change(
            self._parts.queries.snapshots.version,
            record.plan,
            forked(deployment, lineage.place, own, fork.site),
            {fork.place: fork.site},
            _told(lineage, fork, now),
        )
        self._lineages.put_changed(record.id, change, (moved, lineage.branch(from_epoch)))


def _told(lineage: Lineage, fork: Fork, now: datetime) -> str:
    """Return what has become of the query, for people."""
    assert lineage.handover is not None
    took_s = (now - lineage.handover.asked_at).total_seconds()
    at = f"at {fork.site} after {took_s:.1f} s: {lineage.handover.reason}"
    return f"{fork.place.vertex} runs for this query alone, {at}"
