"""Moves tasks of running queries: stores each step of a handover, and gives it out once the one before is done."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from contract.handover import HandoverReport
from contract.tasks import TaskState
from master.base.clock import SteadyTime
from master.base.errors import HandoverRefusedError
from master.base.logs import line
from master.queries.lineages import Lineages
from master.reconcile.around import Surroundings
from master.reconcile.attempt import Attempt
from master.reconcile.begun import Begun, unfit
from master.reconcile.forks import Forks
from master.reconcile.joins import Joins
from master.reconcile.parts import JobParts
from master.reconcile.scales import Scales
from master.reconcile.swaps import Swaps
from master.records.model import QueryRecord, TaskStatus
from planner.graph.ids import TaskId
from planner.graph.plan import PhysicalPlan
from planner.handover.model import Handover, Lineage, Step
from planner.handover.steps import MOVES, Event, Told, event, has_emitted, unwanted
from planner.sharing.running import Running
from planner.sharing.vertices import VertexKind

logger = logging.getLogger(__name__)


class Handovers:
    """Synchronous, called from one event loop.

    Args:
        parts: of the job manager.
        lineages: the tasks in their places.
        publish: gives changed assignments out; false: it could not, and will be tried again.
        steady: the time.
        patience: how long one step may take before the handover is rolled back.
        version: the master's own; agents of others take no part.
    """

    def __init__(  # noqa: PLR0913 - each is a part of its own
        self,
        parts: JobParts,
        lineages: Lineages,
        publish: Callable[[], bool],
        *,
        steady: SteadyTime,
        patience: timedelta,
        version: str,
    ) -> None:
        self._parts = parts
        self._lineages = lineages
        self._publish = publish
        self._steady = steady
        self._patience = patience
        self._around = Surroundings(parts, lineages, version)
        self._scales = Scales(parts, lineages, self._around)
        self._swaps = Swaps(parts, lineages, self._around)
        self._forks = Forks(parts, lineages)
        self._joins = Joins(parts, lineages, self._around)
        self._storing = Attempt("handover not stored yet")

    @property
    def under_way(self) -> tuple[Lineage, ...]:
        """The places that hand over, of queries that are not over.

        When its queries are over, a handover stays as it is: the copies of results are those of both tasks.
        """
        handing = [one for one in self._lineages.all.values() if one.handover is not None]
        running = self._parts.queries.snapshots.held.placement if handing else {}
        return tuple(one for one in handing if one.place in running)

    def begin(self, place: TaskId, to_site: str, reason: str, *, without_state: bool = False) -> Lineage:
        """Ask for a move, for that reason; it is durable when this returns.

        Args:
            place: of the task.
            to_site: where it is to go on.
            reason: why it is asked for.
            without_state: the new task begins in the middle of its inputs, and takes over once the old one has emitted
                the windows of which it lacks rows.

        Raises:
            HandoverRefusedError: the task cannot be moved there now.
            UnknownSiteError
            StoreError
        """
        running = self._parts.queries.snapshots.held
        from_site = running.site(place)
        self._around.check_move(running.task(place), to_site, without_state=without_state)
        now, lineage = self._steady.now(), self._lineages.get(place)
        lineage = lineage.asked(from_site, to_site, now, reason, without_state=without_state)
        self._lineages.put(lineage)
        logger.info(line("handover asked for", task=place, was=from_site, now=to_site, reason=reason))
        self._publish()
        return lineage

    def fork(self, record: QueryRecord, stage: str, site: str, reason: str) -> Lineage:
        """Ask for a task of a query's own, for that reason, in the place of one that it shares with others.

        It is durable when this returns. The lineage is that of the shared task's place.

        Args:
            record: the query.
            stage: the stage of the query, or its vertex, for which another query's task stands.
            site: where the query's own task is to run.
            reason: why it is asked for.

        Raises:
            HandoverRefusedError: the query cannot have one now.
            UnknownSiteError
            StoreError
        """
        place, fork = self._forks.asked(record, stage, site)
        running, lineage = self._parts.queries.snapshots.held, self._lineages.get(place)
        one = running.task(place)
        late = not one.residual
        self._around.check_move(one, fork.site, without_state=late, alone=True)
        lineage = lineage.forked(running.site(place), fork, self._steady.now(), reason, without_state=late)
        self._lineages.put(lineage)
        logger.info(line("fork asked for", task=place, query=record.id, site=site, reason=reason))
        self._publish()
        return lineage

    def join(self, record: QueryRecord, stage: str, site: str, reason: str) -> Lineage:
        """Ask that a query shares the task again from which one of its own was split, for that reason.

        It is durable when this returns. `site` is where the task is to be that makes the query's epochs of those of the
        shared task; empty: where they are read.

        Raises:
            HandoverRefusedError: it cannot share one now.
            UnknownSiteError
            StoreError
        """
        lineage = self._joins.begin(record, stage, site, self._steady.now(), reason)
        logger.info(line("sharing again asked for", task=lineage.place, reason=reason))
        self._publish()
        return lineage

    def scale(self, query: str, stage: str, parts: int, sites: Sequence[str], reason: str) -> Lineage:
        """Ask for another number of parts of a merge, for that reason; it is durable when this returns.

        Raises:
            HandoverRefusedError: the merge cannot have them now.
            UnknownSiteError
            StoreError
        """
        lineage = self._scales.asked(self._parts.queries.get(query), stage, parts, sites, self._steady.now(), reason)
        self._lineages.put(lineage)
        logger.info(line("parts asked for", query=query, stage=stage, parts=parts, reason=reason))
        self._publish()
        return lineage

    def swap(self, record: QueryRecord, wanted: PhysicalPlan, reason: str) -> Lineage:
        """Ask that a query combines as a plan says, for that reason; it is durable when this returns.

        Args:
            record: the query.
            wanted: the query as it would be planned now.
            reason: why it is asked for.

        Raises:
            HandoverRefusedError: the query cannot go on so now.
            StoreError
        """
        lineage = self._swaps.asked(record, wanted, self._steady.now(), reason)
        self._lineages.put(lineage)
        logger.info(line("other tasks that combine asked for", query=record.id, reason=reason))
        self._publish()
        return lineage

    def call_off(self, place: TaskId, reason: str) -> Lineage:
        """Ask that the place's handover is rolled back, which it is unless the old task has ended its channel.

        Raises:
            HandoverRefusedError: there is none under way.
            StoreError
        """
        lineage = self._lineages.get(place)
        if lineage.handover is None:
            raise HandoverRefusedError(
                f"{place} is not moving", hint="look at its query's moves: selat query moves", ids={"task": str(place)}
            )
        if not lineage.handover.unwanted:
            lineage = lineage.with_handover(lineage.handover.not_wanted(reason))
            self._lineages.put(lineage)
            self.advance()
        return self._lineages.get(place)

    def advance(self) -> None:
        """Take every step whose time has come. Where the store fails, it is tried again."""
        if self._parts.settled and self.under_way:
            self._storing.run(self._advance, None)

    def _advance(self) -> None:
        while any(self._step(lineage) for lineage in self.under_way):
            if not self._publish():
                return

    def _step(self, lineage: Lineage) -> bool:
        """Whether something has changed."""
        handover = lineage.handover
        if handover is None:
            return False
        told = self._told(lineage, handover, self._parts.queries.snapshots.held)
        found = event(handover, told)
        if found is None:
            return False
        self._apply(lineage, handover, found, told.unwanted)
        return True

    def _apply(self, lineage: Lineage, handover: Handover, found: Event, why: str) -> None:
        now, step = self._steady.now(), MOVES[handover.step, found]
        was, place = handover.step.value, lineage.place
        if step is not None:
            changed = handover.at(step, now, reason=why if found is Event.GIVEN_UP else "")
            if step is Step.SEEDING:
                changed = changed.seeding(self._report(lineage.successor, handover.to_site).first_epochs)
                whole_us = self._whole_after_us(lineage, handover)
                changed = changed if whole_us is None else changed.whole_after(whole_us)
            self._lineages.put(lineage.with_handover(changed))
        elif found is Event.DRAINED:
            self._done(lineage, handover)
        elif handover.join is not None:
            self._joins.back(lineage, handover.join, now)
        else:
            self._lineages.put(lineage.rolled_back(now))
            self._note(place, _rolled_back(handover), handover)
        logger.info(line("handover", task=place, was=was, now=step.value if step else found.value, reason=why))

    def _done(self, lineage: Lineage, handover: Handover) -> None:
        """Store that the successor is in the place, with the new parts that it reads."""
        now, place = self._steady.now(), lineage.place
        from_epoch = self._report(lineage.task, handover.from_site).next_epoch
        if handover.fork is not None:
            self._forks.store(lineage, handover.fork, from_epoch, now)
            return
        if handover.join is not None:
            self._joins.done(lineage, handover.join, from_epoch, now)
            return
        if (others := self._others(handover)) is None:
            self._lineages.put(lineage.moved(from_epoch, now), handover.to_site)
            self._note(place, f"moved from {handover.from_site} to {handover.to_site}", handover)
            return
        change, lineages = others.changed(lineage, from_epoch, now)
        self._lineages.put_changed(place.query, change, lineages)

    def _note(self, place: TaskId, what: str, handover: Handover) -> None:
        """Log it where people look for what has become of the query."""
        took_s = (self._steady.now() - handover.asked_at).total_seconds()
        query = place.query if handover.fork is None else handover.fork.query
        self._parts.queries.note(query, f"{place.vertex} {what} after {took_s:.1f} s: {handover.reason}")

    def _told(self, lineage: Lineage, handover: Handover, running: Running) -> Told:
        old = self._status(lineage.task, handover.from_site)
        of_old, new = _report(old), [self._report(*one) for one in self._forks.successors(lineage, handover)]
        ended = old is not None and old.state is TaskState.ENDED
        withdrawn = handover.unwanted or self._why_not(lineage, handover)
        names = self._read_by_successor(lineage.place, handover, running)
        streams = frozenset(str(self._lineages.get(name).task) for name in names)
        subscribed = all(streams <= one.first_epochs.keys() for one in new)
        if handover.begins_late:
            subscribed = self._whole_after_us(lineage, handover) is not None
        return Told(
            in_force=all(map(self._in_force, self._concerned(lineage.place, handover, running))),
            subscribed=subscribed,
            ready=all(one.restored and one.caught_up for one in new) and self._is_past(lineage, handover, old),
            taken_over=all(one.taken_over for one in new),
            had_cut=of_old.cut,
            ended=ended and not of_old.cut,
            drained=of_old.cut and of_old.drained and all(one.taken_over for one in new),
            unwanted=unwanted(handover, self._steady.now(), patience=self._patience, withdrawn=withdrawn),
        )

    def _begun(self, lineage: Lineage, handover: Handover) -> tuple[Begun, ...]:
        """Return the tasks that begin without state: those that a successor reads, or else the successors."""
        if (others := self._others(handover)) is not None:
            return others.begun(lineage.place, handover)
        if not handover.without_state:
            return ()
        return tuple(Begun(task, site) for task, site in self._forks.successors(lineage, handover))

    def _whole_after_us(self, lineage: Lineage, handover: Handover) -> int | None:
        """Return the instant after which all that begin in the middle have whole windows; None: it is not known."""
        found = [self._report(one.task, one.site).whole_after_us for one in self._begun(lineage, handover) if one.late]
        known = [at_us for at_us in found if at_us is not None]
        return max(known) if known and len(known) == len(found) else None

    def _is_past(self, lineage: Lineage, handover: Handover, old: TaskStatus | None) -> bool:
        """Return whether the old task has emitted all windows of which one that begins lacks rows."""
        others = self._others(handover)
        needed_us = handover.whole_after_us if others is None else others.needed_us(lineage.place, handover)
        return has_emitted(handover, needed_us, None if old is None else old.watermark_us)

    def _why_not(self, lineage: Lineage, handover: Handover) -> str:
        """Return why nobody needs the handover, or a task that begins without state will not do; empty: it may."""
        begun = self._begun(lineage, handover)
        return self._forks.why_not(lineage, handover) or unfit(
            (one.task, self._status(one.task, one.site)) for one in begun
        )

    def _concerned(self, place: TaskId, handover: Handover, running: Running) -> Iterable[str]:
        """The sites that must have applied the step's assignments before the next step."""
        producers = {running.site(name) for name in running.task(place).inputs}
        if handover.join is not None:
            producers = {running.site(handover.join.shared)}
        if (others := self._others(handover)) is not None:
            producers |= {one.site for one in others.begun(place, handover)}
            producers |= {running.site(name) for name in others.reads(place, handover, running)}
        forked = () if handover.fork is None else (handover.fork.site,)
        match handover.step:
            case Step.REGISTERED:
                return producers
            case Step.STARTED:
                readers = {running.site(one.id) for one in running.deployed if place in one.inputs}
                return {handover.to_site, handover.from_site, *forked, *readers}
            case Step.BACK:
                return {handover.to_site, handover.from_site, *forked, *producers}
            case _:
                return {handover.from_site}

    def _others(self, handover: Handover) -> Scales | Swaps | None:
        """Return who knows the tasks that the successor reads in the place of those that run; None: it reads these."""
        if not handover.reads_others:
            return None
        return self._scales if handover.swap is None else self._swaps

    def _in_force(self, site: str) -> bool:
        report = self._parts.sites.get(site).report
        return report is not None and report.assignment_version >= self._parts.board.version(site)

    def _read_by_successor(self, place: TaskId, handover: Handover, running: Running) -> Iterable[TaskId]:
        """Return the places, but for those of tables, that the successor of the task in a place reads."""
        if handover.join is not None:
            return (handover.join.shared,)
        names = running.task(place).inputs
        return (name for name in names if running.task(name).vertex.kind is not VertexKind.TABLE)

    def _status(self, task: TaskId | None, site: str) -> TaskStatus | None:
        report = self._parts.sites.get(site).report
        tasks = () if report is None else report.tasks
        return next((status for status in tasks if status.task_id == task), None)

    def _report(self, task: TaskId | None, site: str) -> HandoverReport:
        return _report(self._status(task, site))


def _rolled_back(handover: Handover) -> str:
    if handover.fork is not None:
        return f"is shared as before, and does not run at {handover.fork.site} for this query alone"
    if handover.scaling is not None:
        return "goes on with its parts as they were"
    if handover.swap is not None:
        return "goes on with what combines as it was"
    return f"stays at {handover.from_site}, not moved to {handover.to_site}"


def _report(status: TaskStatus | None) -> HandoverReport:
    return HandoverReport() if status is None or status.handover is None else status.handover
