"""Places waiting tasks: in free slots, in the waiting lists of others, or with the reason why not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import timedelta

from master.base.logs import line
from master.batch.estimates import Estimates
from master.batch.scheduled import tasks_of
from master.batch.slots import BatchSlots
from master.batch.turn import Turn, Wanted
from master.batch.view import Wait
from master.config.values import BatchConfig
from master.queries.registry import QueryRegistry
from master.records.model import BatchQuery, BatchTask
from planner.batch import (
    Assigned,
    Job,
    Placement,
    Policy,
    Rule,
    Skips,
    SlotView,
    Task,
    TaskEvent,
    TaskPhase,
    Waits,
    decide,
    is_local,
    next_phase,
    placing,
    placing_by_job,
    reduce_site,
)
from planner.batch.placing import Randomness
from planner.graph.plan import client_site
from planner.leases import Lease, Slot

logger = logging.getLogger(__name__)

NO_SLOTS = "no site with slots is alive and not draining"

TASKS_LOOKED_AT = 8
"""For each slot in the cluster, a turn looks at this many tasks of a query: those behind them would not
start for long."""


class TaskPlacer:
    """Takes slots for waiting tasks, and stores the placement before anybody is notified."""

    def __init__(
        self, queries: QueryRegistry, slots: BatchSlots, estimates: Estimates, *, rng: Randomness, config: BatchConfig
    ) -> None:
        self._queries = queries
        self._slots = slots
        self._estimates = estimates
        self._rng = rng
        self._config = config
        self._skips: dict[str, Skips] = {}

    def keep_only(self, queries: Collection[str]) -> None:
        """Forget how often other queries were skipped."""
        self._skips = {query: skips for query, skips in self._skips.items() if query in queries}

    def place_reduces(self, live: Sequence[BatchQuery], turn: Turn) -> None:
        """Place each REDUCE at the site to which the fewest bytes must be sent, among sites with obtainable slots."""
        for record in live:
            if not record.batch.mapped or record.batch.reduce.placed:
                continue
            wanted = Wanted(record.id, None, self._estimates.task(record, None))
            sites = {view.slot.site for view in turn.slots if view.free_at is not None}
            every = sites or {view.slot.site for view in turn.slots}
            if not every:
                turn.wait(record.id, Wait(wanted.task.name, reason=NO_SLOTS))
                continue
            outputs = {shard.site: float(shard.size_bytes) for shard in wanted.task.shards}
            site = client_site(record.plan) or reduce_site(outputs, every, record.plan.destination.site)
            if site not in every:
                turn.wait(record.id, Wait(wanted.task.name, reason=NO_SLOTS))
                continue
            slots = [view for view in turn.slots if view.slot.site == site]
            self._act([wanted], self._place(turn)([wanted.task], slots), slots, turn)

    def place_maps(self, live: Sequence[BatchQuery], turn: Turn) -> None:
        """Place MAPs where `planner.batch` decides, over the MAPs of all queries together."""
        wanted: dict[str, Wanted] = {}
        jobs = []
        for record in live:
            tasks = list(self._waiting_maps(record, turn))[: TASKS_LOOKED_AT * max(1, len(turn.slots))]
            if tasks:
                wanted |= {w.task.name: w for w in tasks}
                started = any(task.placed for _, task in tasks_of(record))
                skips = self._skips.get(record.id, Skips())
                least = turn.options[record.id].locality_min
                jobs.append(Job(record.id, tuple(w.task for w in tasks), skips, started, least))
        if not jobs:
            return
        found = decide(jobs, turn.slots, self._place(turn), self._rule(turn), turn.now)
        for query in found.skipped:
            self._skips[query] = self._skips.get(query, Skips()).another(turn.now)
            reason = f"skipped {self._skips[query].times} times: few of its tasks would run near their input"
            turn.wait(query, Wait(query, reason=reason))
        admitted = [w for w in wanted.values() if w.query not in found.skipped]
        self._act(admitted, found.placements, turn.slots, turn)

    def _rule(self, turn: Turn) -> Rule:
        return Rule(
            self._config.skips,
            lambda task, site: self._is_local(task, site, turn),
            at_once=max(1, sum(view.free_at is not None and view.free_at <= turn.now for view in turn.slots)),
            only_starts=True,
            lines_count=True,
        )

    def _waiting_maps(self, record: BatchQuery, turn: Turn) -> Iterator[Wanted]:
        silent: dict[str, None] = {}
        for number, (split, task) in enumerate(zip(record.plan.splits, record.batch.maps, strict=True)):
            if task.placed:
                continue
            if split.site in turn.alive:
                yield Wanted(record.id, number, self._estimates.task(record, number))
            else:
                silent[split.site] = None
        for site in silent:
            wait = Wait(record.id, reason=f"site {site}, which has splits of the table, is unreachable")
            turn.wait(record.id, wait)

    def _act(
        self, wanted: Sequence[Wanted], placements: Sequence[Placement], slots: Sequence[SlotView], turn: Turn
    ) -> None:
        """Take the slots that are free, and join the waiting lists of the others."""
        by_name = {w.task.name: w for w in wanted}
        assigned = [p for p in placements if isinstance(p, Assigned) and turn.links.send_off(p)]
        lasts = [timedelta(seconds=self._estimates.lease_s(p.task, p.slot.site, turn.links.joining)) for p in assigned]
        answers = self._slots.take([(p.slot, lasts) for p, lasts in zip(assigned, lasts, strict=True)])
        granted: list[tuple[Wanted, Lease, float]] = []
        for placement, last, answer in zip(assigned, lasts, answers, strict=True):
            turn.use(placement.slot)
            if isinstance(answer, Lease):
                granted.append((by_name[placement.task.name], answer, last.total_seconds()))
            elif answer:
                turn.wait(placement.task.job, Wait(placement.task.name, reason=answer))
        self._start(granted, turn)
        for waiting in placements:
            if isinstance(waiting, Waits):
                name, slot = waiting.task.name, waiting.slot
                turn.use(slot)
                turn.lines[name] = (slot,)
                turn.wait(waiting.task.job, Wait(name, slot, waiting.until, self._busy(slot)))
        placed = {turn.policy(placement.task.job) for placement in placements}
        self._stand_anywhere([w for w in wanted if turn.policy(w.query) not in placed], slots, turn)

    def _stand_anywhere(self, wanted: Sequence[Wanted], slots: Sequence[SlotView], turn: Turn) -> None:
        """No slot suits these tasks, now or later: one task of each query waits for any slot, its own site's first."""
        for query in dict.fromkeys(w.query for w in wanted):
            first = next(w for w in wanted if w.query == query)
            near = {shard.site for shard in first.task.shards}
            known = [view.slot for view in slots]
            chosen = tuple(slot for slot in known if slot.site in near) or tuple(known)
            if not chosen:
                turn.wait(query, Wait(first.task.name, reason=NO_SLOTS))
                continue
            turn.lines[first.task.name] = chosen
            listed = ", ".join(map(self._busy, chosen))
            turn.wait(query, Wait(first.task.name, chosen[0], None, listed))

    def _start(self, granted: Sequence[tuple[Wanted, Lease, float]], turn: Turn) -> None:
        """Store the placement of the tasks; from then on they are in the assignments."""
        by_query: dict[str, dict[int | None, BatchTask]] = {}
        for wanted, lease, predicted_s in granted:
            task = BatchTask(
                phase=next_phase(wanted.task.name, TaskPhase.WAITING, TaskEvent.GRANTED),
                site=lease.slot.site,
                slot=lease.slot.index,
                fencing=lease.fencing,
                placed_at=turn.now,
                predicted_s=predicted_s,
                local=self._is_local(wanted.task, lease.slot.site, turn),
            )
            by_query.setdefault(wanted.query, {})[wanted.number] = task
            logger.info(line("batch task placed", task=wanted.task.name, slot=str(lease.slot), lease=lease.fencing))
        for query, found in by_query.items():
            self._queries.set_tasks(query, found)
            turn.changed = True

    def _place(self, turn: Turn) -> Callable[[Sequence[Task], Sequence[SlotView]], list[Placement]]:
        def run_time(task: Task, site: str) -> float:
            return self._estimates.run_time_s(task, site, turn.links.joining)

        def place_by(policy: Policy) -> Callable[[Sequence[Task], Sequence[SlotView]], list[Placement]]:
            return placing(policy, run_time, turn.now, self._rng)

        return placing_by_job({query: turn.policy(query) for query in turn.options}, place_by)

    def _is_local(self, task: Task, site: str, turn: Turn) -> bool:
        return is_local(task, site, turn.links.bandwidth, self._config.near_bytes_per_s)

    def _busy(self, slot: Slot) -> str:
        record = self._slots.record(slot)
        if record is None:
            return f"{slot} is gone"
        who = record.holder or (record.offer.waiter.framework if record.offer else "nobody")
        until = f" until {record.free_by:%Y-%m-%d %H:%M:%S} at the latest" if record.free_by else ""
        return f"{slot} is {who}'s{until}"
