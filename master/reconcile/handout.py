"""Hands out assignments: leases slots for tasks, has batch tasks placed, and publishes what each site is to run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from machine.clock import Clock
from master.config.values import MasterConfig
from master.queries.sharing import is_task
from master.reconcile.assignments import AssignmentInput, build_assignments, keeps_results, stage_sites
from master.reconcile.attempt import Attempt
from master.reconcile.parts import JobParts
from master.reconcile.removals import Removals
from master.records.model import QueryState, StreamQuery
from master.records.specs import Assignment
from planner.sharing.running import Running


class Handout:
    """Level-triggered: computes everything from the records at each call."""

    def __init__(self, parts: JobParts, removals: Removals, *, clock: Clock, config: MasterConfig) -> None:
        self._parts = parts
        self._removals = removals
        self._clock = clock
        self._config = config
        self._kept: frozenset[str] = frozenset()
        self._held_back: frozenset[str] = frozenset()
        self._counted: tuple[Running, Mapping[str, int]] | None = None
        """It holds what ran when tasks were last counted, and how many were where."""
        self._publishing = Attempt("assignments not given out yet")
        self._leasing = Attempt("slots not leased yet")
        self._placing = Attempt("batch tasks not placed yet")

    def refresh(self) -> None:
        """Compute all assignments and publish those that changed.

        What brought this about is stored already: where versions cannot be, the next tick tries again.
        """
        if self._parts.settled:
            self._publishing.run(self.publish, None)

    def publish(self) -> None:
        """As `refresh`, but raises StoreError, and then nothing has changed."""
        self._kept = self._results_kept()
        self._follow_slots()
        self.place_batch()
        self._held_back = self._without_slots()
        self._parts.board.publish(self.assignments(self._held_back))
        for record in self._parts.queries.all():
            if record.state is QueryState.CANCELLING:
                self._removals.note(record, self._parts.queries.snapshots.placement)

    @property
    def published(self) -> bool:
        """Return whether the newest assignments have been given out."""
        return not self._publishing.failed

    def tick(self, *, moved: bool) -> None:
        """Renew slots; publish when batch tasks have `moved`, or when anything else has changed that assignments depend
        on."""
        self._follow_slots()
        due = moved or self._publishing.failed
        if due or self._results_kept() != self._kept or self._without_slots() != self._held_back:
            self.refresh()

    def place_batch(self) -> bool:
        """Place the tasks of batch queries; returns whether assignments may have changed.

        If the store fails, the next tick tries again.
        """
        return self._parts.settled and self._placing.run(self._parts.batch.follow, otherwise=True)

    def assignments(self, held_back: frozenset[str] = frozenset()) -> Mapping[str, Assignment]:
        """Every site's assignment, with the tasks of the queries in `held_back` paused."""
        parts = self._parts
        snapshot = AssignmentInput(
            queries=parts.queries.all(),
            placement=parts.queries.snapshots.placement,
            catalog=parts.catalog.snapshot,
            sites=tuple(status.name for status in parts.sites.all()),
            site_addresses=parts.sites.addresses(),
            now=self._clock.now(),
            held_back=held_back,
            lineages=parts.lineages.all,
        )
        return build_assignments(
            snapshot,
            epoch_interval=self._config.epoch_interval,
            results_retention=self._config.results_retention,
            live_results=self._config.live_results,
        )

    def _follow_slots(self) -> None:
        """Lease slots for the tasks. If the store fails, the next tick tries again, and nothing waits for it."""
        self._leasing.run(lambda: self._parts.slots.follow(self._tasks_by_site()), None)

    def _tasks_by_site(self) -> Mapping[str, int]:
        """The number of tasks of streaming queries at each site, including those that wait for a slot."""
        running = self._parts.queries.snapshots.live
        # Every step of a handover makes another value of what runs.
        if self._counted is None or self._counted[0] is not running:
            self._counted = running, self._count(running)
        return self._counted[1]

    def _count(self, running: Running) -> Counter[str]:
        lineages = self._parts.lineages.all
        moving = [lineage for place, lineage in lineages.items() if place in running.placement]
        found = Counter(running.site(one.id) for one in running.deployed if is_task(one))
        begun = [one.handover for one in moving if one.handover is not None and one.handover.started]
        found.update(handover.to_site for handover in begun)
        found.update(site for handover in begun if handover.scaling for site in handover.scaling.sites)
        return found

    def _without_slots(self) -> frozenset[str]:
        """Starting queries that wait for a slot at one of their sites; running queries keep running."""
        records = (record for record in self._parts.queries.all() if isinstance(record, StreamQuery))
        starting = [record for record in records if record.state.starting]
        placement = self._parts.queries.snapshots.placement
        return frozenset(record.id for record in starting if self._parts.slots.blocked(stage_sites(record, placement)))

    def _results_kept(self) -> frozenset[str]:
        now, retention = self._clock.now(), self._config.results_retention
        return frozenset(q.id for q in self._parts.queries.all() if keeps_results(q, now=now, retention=retention))
