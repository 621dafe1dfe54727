"""Decides which tasks of batch queries run where; called again whenever something may have changed.

At each turn, in this order: note which tasks have ended; give back their slots; renew the others; place the tasks that
wait, by `planner.batch` over the slots, links and times as they are now; stand in line where that is faster, or where
nothing else is left. What a task was given is stored before anybody hears of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from contract.tasks import TaskState
from master.batch.estimates import Bandwidth, Estimates
from master.batch.links import Links
from master.batch.placer import TaskPlacer
from master.batch.scheduled import tasks_of
from master.batch.slots import BatchSlots
from master.batch.turn import Turn
from master.batch.view import BatchView, Wait, batch_view
from master.config.values import BatchConfig
from master.queries.batch_tasks import map_id, reduce_id
from master.queries.registry import QueryRegistry
from master.records.model import BatchQuery, BatchTask, SiteState
from master.sites.status import Sites
from planner.batch import BatchOptions, TaskEvent, TaskPhase, next_phase
from planner.batch.placing import Randomness
from planner.batch.seen import SOON
from planner.leases import Slot
from planner.values.topology import Topology
from planner.wan.figures import link_figures
from planner.wan.snapshot import WanSnapshot

logger = logging.getLogger(__name__)

NO_LINK_BYTES_PER_S = 1.0
"""Where there is no link, or a full one: such a site is a last resort."""


@dataclass(frozen=True, slots=True)
class BatchParts:
    """The parts that the manager uses."""

    queries: QueryRegistry
    sites: Sites
    slots: BatchSlots
    topology: Topology
    wan: Callable[[], WanSnapshot]
    """All links as they are known now."""
    rng: Randomness


class BatchManager:
    """Synchronous, called from the master's event loop."""

    def __init__(self, parts: BatchParts, config: BatchConfig) -> None:
        self._parts = parts
        self._config = config
        self._estimates = Estimates(config.estimates, self._bandwidth)
        self._placer = TaskPlacer(parts.queries, parts.slots, self._estimates, rng=parts.rng, config=config)
        self._waits: dict[str, list[Wait]] = {}
        self._remember()

    def follow(self) -> bool:
        """Take one turn; returns whether the assignments of sites have changed.

        Raises:
            StoreError: what was decided before it happened stays.
        """
        records = self._live()
        if not records and self._parts.slots.idle:
            self._placer.keep_only(())
            self._waits = {}
            return False
        self._parts.slots.follow_sites()
        changed = sum(map(self._note_ends, records)) > 0
        live = self._live()
        self._keep_slots(live)
        turn = self._begin(live, changed=changed)
        self._placer.place_reduces(live, turn)
        self._placer.place_maps(live, turn)
        self._parts.slots.stand_in_line(turn.lines)
        self._waits = turn.waits
        self._placer.keep_only({record.id for record in live})
        return turn.changed

    def view(self, record: BatchQuery) -> BatchView:
        """The state of the query's tasks, for users."""
        return batch_view(record, self._config.policy, self._waits.get(record.id, ()) if record.state.live else ())

    def _live(self) -> list[BatchQuery]:
        return [record for record in self._all() if record.state.live]

    def _all(self) -> Iterator[BatchQuery]:
        return (record for record in self._parts.queries.all() if isinstance(record, BatchQuery))

    def _remember(self) -> None:
        """Learn from tasks that have ended."""
        for record in self._all():
            for number, task in tasks_of(record):
                if task.phase is TaskPhase.DONE:
                    self._estimates.learn(record, number, task)

    def _begin(self, live: Sequence[BatchQuery], *, changed: bool) -> Turn:
        parts = self._parts
        alive = frozenset(s.name for s in parts.sites.all() if s.state is SiteState.ALIVE)
        now = parts.slots.now()
        options = {record.id: self._options(record) for record in live}
        turn = Turn(now, Links(self._bandwidth(), live), parts.slots.view(now), alive, options, changed=changed)
        ends = dict(self._expected_ends(live, turn))
        turn.slots = [view._replace(free_at=ends.get(view.slot, view.free_at)) for view in turn.slots]
        return turn

    def _expected_ends(self, live: Sequence[BatchQuery], turn: Turn) -> Iterator[tuple[Slot, datetime]]:
        """When the slots of running tasks become free: estimates may have improved since the leases were taken."""
        for record in live:
            for number, task in tasks_of(record):
                slot = Slot(task.site, task.slot)
                if task.phase is TaskPhase.RUNNING and task.placed_at is not None and slot in self._parts.slots.held:
                    wanted = self._estimates.task(record, number)
                    lasts_s = self._estimates.lease_s(wanted, task.site, turn.links.joined)
                    yield slot, max(turn.now + SOON, task.placed_at + timedelta(seconds=lasts_s))

    def _bandwidth(self) -> Bandwidth:
        figures = link_figures(self._parts.topology, self._parts.wan())

        def bandwidth(source: str, target: str) -> float:
            known = figures.get((source, target))
            return max(known.available_bytes_per_s, NO_LINK_BYTES_PER_S) if known else NO_LINK_BYTES_PER_S

        return bandwidth

    def _note_ends(self, record: BatchQuery) -> bool:
        """Record which tasks have ended; returns whether one has."""
        statuses = record.progress.tasks
        now = self._parts.slots.now()
        found: dict[int | None, BatchTask] = {}
        for number, task in tasks_of(record):
            if task.phase is not TaskPhase.RUNNING:
                continue
            identifier = reduce_id(record) if number is None else map_id(record, number)
            status = statuses.get(identifier)
            if status is not None and status.state is TaskState.ENDED:
                phase = next_phase(str(identifier), task.phase, TaskEvent.ENDED)
                found[number] = replace(task, phase=phase, ended_at=now)
        if not found:
            return False
        self._parts.queries.set_tasks(record.id, found)
        for number, task in found.items():
            self._estimates.learn(record, number, task)
        return True

    def _keep_slots(self, live: Sequence[BatchQuery]) -> None:
        """Release the slots of ended tasks, and renew those of running ones."""
        now, needed = self._parts.slots.now(), dict[Slot, timedelta]()
        for record in live:
            for _, task in tasks_of(record):
                if task.phase is TaskPhase.RUNNING and task.placed_at is not None:
                    left_s = task.predicted_s - (now - task.placed_at).total_seconds()
                    needed[Slot(task.site, task.slot)] = timedelta(seconds=max(left_s, 0.0))
        self._parts.slots.keep_only(needed)
        self._parts.slots.renew(needed)

    def _options(self, record: BatchQuery) -> BatchOptions:
        """The options that the query was submitted with, or the defaults."""
        return record.plan.options or self._config.options
