"""Decides which tasks of batch queries run where; called again whenever something may have changed.

At each turn, in this order: note which tasks have ended; give back their slots; renew the others; place the tasks that
wait, by `planner.batch` over the slots, links and times as they are now; stand in line where that is faster, or where
nothing else is left. What a task was given is stored before anybody hears of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from master.base.logs import line
from master.batch.links import Links
from master.batch.scheduled import scheduled, tasks_of, with_tasks
from master.batch.slots import BatchSlots
from master.batch.view import BatchView, Wait, batch_view
from master.config.values import BatchConfig
from master.queries.batch_tasks import map_id, read_id, reduce_id
from master.queries.registry import QueryRegistry
from master.records.model import BatchTask, QueryRecord, SiteState, TaskState
from master.sites.registry import SiteRegistry
from planner.batch import (
    Assigned,
    BatchOptions,
    Job,
    Placement,
    Policy,
    Rule,
    SentShares,
    Skips,
    SlotView,
    Task,
    TaskEvent,
    TaskHistory,
    TaskPhase,
    Waits,
    decide,
    is_local,
    lease_estimate_s,
    next_phase,
    placing,
    placing_by_job,
    reduce_site,
    run_time_s,
    transfer_s,
)
from planner.batch.placing import Randomness
from planner.batch.seen import SOON
from planner.leases import Lease, Slot
from planner.topology import Topology
from planner.wan.figures import link_figures
from planner.wan.snapshot import WanSnapshot

logger = logging.getLogger(__name__)

NO_LINK_BYTES_PER_S = 1.0
"""Where there is no link, or it is full: a place of last resort."""

NO_SLOTS = "no site with slots is heard and not draining"

TASKS_LOOKED_AT = 8
"""Tasks of a query, for each slot there is, that a turn looks at: those behind them would not start for long."""


@dataclass(frozen=True, slots=True)
class BatchParts:
    """What the manager works with."""

    queries: QueryRegistry
    sites: SiteRegistry
    slots: BatchSlots
    topology: Topology
    wan: Callable[[], WanSnapshot]
    """All links as they are known now."""
    rng: Randomness


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A task that waits for a slot."""

    query: str
    number: int | None
    """Of the split; None: the REDUCE."""
    task: Task


@dataclass(slots=True)
class _Turn:
    """What is known and decided in one turn."""

    now: datetime
    links: Links
    slots: list[SlotView]
    alive: frozenset[str]
    lines: dict[str, tuple[Slot, ...]] = field(default_factory=dict)
    """Waiting lists to be in, by ticket."""
    waits: dict[str, list[Wait]] = field(default_factory=dict)
    """By query."""
    policies: dict[str, Policy] = field(default_factory=dict)
    """By query."""
    changed: bool = False

    def use(self, slot: Slot) -> None:
        self.slots = [view for view in self.slots if view.slot != slot]


class BatchManager:
    """Synchronous, called from the master's event loop."""

    def __init__(self, parts: BatchParts, config: BatchConfig) -> None:
        self._parts = parts
        self._config = config
        self._history = TaskHistory(config.estimates.records)
        self._sent = SentShares(config.estimates.records)
        self._skips: dict[str, Skips] = {}
        self._waits: dict[str, list[Wait]] = {}
        self._remember()

    def follow(self) -> bool:
        """One turn; whether sites have something else to do now.

        Raises:
            StoreError: what was decided before it happened stays.
        """
        records = [record for record in self._parts.queries.all() if record.batch and record.state.live]
        if not records and self._parts.slots.idle:
            self._skips, self._waits = {}, {}
            return False
        self._parts.slots.follow_sites()
        changed = sum(map(self._note_ends, records)) > 0
        live = [self._parts.queries.get(record.id) for record in records]
        self._keep_slots(live)
        turn = self._begin(live, changed=changed)
        self._place_reduces(live, turn)
        self._place_maps(live, turn)
        self._parts.slots.stand_in_line(turn.lines)
        self._waits = turn.waits
        self._skips = {query: skips for query, skips in self._skips.items() if query in {r.id for r in live}}
        return turn.changed

    def view(self, record: QueryRecord) -> BatchView | None:
        """What users see of the query's tasks; None for one that reads streams."""
        if record.batch is None:
            return None
        return batch_view(record, self._config.policy, self._waits.get(record.id, ()) if record.state.live else ())

    def _remember(self) -> None:
        """What tasks that have ended took."""
        for record in self._parts.queries.all():
            for number, task in tasks_of(record):
                if task.phase is TaskPhase.DONE:
                    self._learn(record, number, task)

    def _begin(self, live: Sequence[QueryRecord], *, changed: bool) -> _Turn:
        parts = self._parts
        alive = frozenset(s.name for s in parts.sites.all() if s.state is SiteState.ALIVE)
        now = parts.slots.now()
        turn = _Turn(now, Links(self._bandwidth(), live), parts.slots.view(now), alive, changed=changed)
        turn.policies = {record.id: self._options(record).scheduler for record in live}
        ends = dict(self._expected_ends(live, turn))
        turn.slots = [view._replace(free_at=ends.get(view.slot, view.free_at)) for view in turn.slots]
        return turn

    def _expected_ends(self, live: Sequence[QueryRecord], turn: _Turn) -> Iterator[tuple[Slot, datetime]]:
        """Of its own tasks more is known than what their leases say: the history may have grown since."""
        for record in live:
            for number, task in tasks_of(record):
                slot = Slot(task.site, task.slot)
                if task.phase is TaskPhase.RUNNING and task.placed_at is not None and slot in self._parts.slots.held:
                    wanted = scheduled(record, number, self._sent)
                    lasts_s = self._lease_s(wanted, task.site, turn.links.joined)
                    yield slot, max(turn.now + SOON, task.placed_at + timedelta(seconds=lasts_s))

    def _bandwidth(self) -> Callable[[str, str], float]:
        figures = link_figures(self._parts.topology, self._parts.wan())

        def bandwidth(source: str, target: str) -> float:
            known = figures.get((source, target))
            return max(known.available_bytes_per_s, NO_LINK_BYTES_PER_S) if known else NO_LINK_BYTES_PER_S

        return bandwidth

    def _note_ends(self, record: QueryRecord) -> bool:
        """Take over which tasks have ended; whether one has."""
        state, statuses = record.batch, record.progress.tasks
        assert state is not None
        now = self._parts.slots.now()
        found: dict[int | None, BatchTask] = {}
        for number, task in tasks_of(record):
            if task.phase is not TaskPhase.RUNNING:
                continue
            identifier = reduce_id(record) if number is None else map_id(record, number, task)
            status = statuses.get(identifier)
            if status is not None and status.state is TaskState.ENDED:
                phase = next_phase(identifier, task.phase, TaskEvent.ENDED)
                found[number] = replace(task, phase=phase, ended_at=now)
        if not found:
            return False
        self._parts.queries.set_batch(record.id, with_tasks(state, found))
        for number, task in found.items():
            self._learn(record, number, task)
        return True

    def _learn(self, record: QueryRecord, number: int | None, task: BatchTask) -> None:
        """From a task that has ended: what was sent of its split, and how long it computed."""
        if task.placed_at is None or task.ended_at is None:
            return
        self._note_sent(record, number)
        wanted = scheduled(record, number, self._sent)
        moved_s = transfer_s(wanted, task.site, self._bandwidth())
        took_s = (task.ended_at - task.placed_at).total_seconds() - moved_s
        # How long a link really took is not known: of MAPs with transfers, the first of a kind has to do.
        first = number is None or self._history.processing_s(wanted, task.site) is None
        if moved_s == 0 or (took_s > 0 and first):
            self._history.add(wanted, task.site, max(took_s, 0.0))

    def _note_sent(self, record: QueryRecord, number: int | None) -> None:
        """How much of a split was sent, where it was read for a task elsewhere."""
        batch = record.plan.batch
        if number is None or batch is None:
            return
        split = batch.splits[number]
        read = record.progress.tasks.get(read_id(record, number, split))
        if read is not None and read.bytes_out:
            model = scheduled(record, number).model
            self._sent.add(model, size_bytes=split.size_bytes, sent_bytes=read.bytes_out)

    def _keep_slots(self, live: Sequence[QueryRecord]) -> None:
        """Give back the slots of tasks that have ended, and keep those of tasks that run."""
        now, needed = self._parts.slots.now(), dict[Slot, timedelta]()
        for record in live:
            for _, task in tasks_of(record):
                if task.phase is TaskPhase.RUNNING and task.placed_at is not None:
                    left_s = task.predicted_s - (now - task.placed_at).total_seconds()
                    needed[Slot(task.site, task.slot)] = timedelta(seconds=max(left_s, 0.0))
        self._parts.slots.keep_only(needed)
        self._parts.slots.renew(needed)

    def _place_reduces(self, live: Sequence[QueryRecord], turn: _Turn) -> None:
        """Each at the site to which the fewest bytes have to be sent, of those where slots can be had."""
        for record in live:
            if record.batch is None or not record.batch.mapped or record.batch.reduce.placed:
                continue
            wanted = _Wanted(record.id, None, scheduled(record, None))
            sites = {view.slot.site for view in turn.slots if view.free_at is not None}
            every = sites or {view.slot.site for view in turn.slots}
            if not every:
                turn.waits[record.id] = [Wait(wanted.task.name, reason=NO_SLOTS)]
                continue
            outputs = {shard.site: float(shard.size_bytes) for shard in wanted.task.shards}
            site = reduce_site(outputs, every, record.plan.gateway)
            slots = [view for view in turn.slots if view.slot.site == site]
            self._act([wanted], self._place(turn)([wanted.task], slots), slots, turn)

    def _place_maps(self, live: Sequence[QueryRecord], turn: _Turn) -> None:
        wanted: dict[str, _Wanted] = {}
        jobs = []
        for record in live:
            tasks = list(self._waiting_maps(record, turn))[: TASKS_LOOKED_AT * max(1, len(turn.slots))]
            if tasks:
                wanted |= {w.task.name: w for w in tasks}
                started = any(task.placed for _, task in tasks_of(record))
                skips = self._skips.get(record.id, Skips())
                least = self._options(record).locality_min
                jobs.append(Job(record.id, tuple(w.task for w in tasks), skips, started, least))
        if not jobs:
            return
        found = decide(jobs, turn.slots, self._place(turn), self._rule(turn), turn.now)
        for query in found.skipped:
            self._skips[query] = self._skips.get(query, Skips()).another(turn.now)
            reason = f"skipped {self._skips[query].times} times: few of its tasks would run near their input"
            turn.waits.setdefault(query, []).append(Wait(query, reason=reason))
        admitted = [w for w in wanted.values() if w.query not in found.skipped]
        self._act(admitted, found.placements, turn.slots, turn)

    def _rule(self, turn: _Turn) -> Rule:
        return Rule(
            self._config.skips,
            lambda task, site: self._is_local(task, site, turn),
            at_once=max(1, sum(view.free_at is not None and view.free_at <= turn.now for view in turn.slots)),
            only_starts=True,
            lines_count=True,
        )

    def _waiting_maps(self, record: QueryRecord, turn: _Turn) -> Iterator[_Wanted]:
        assert record.batch is not None
        batch = record.plan.batch
        assert batch is not None
        silent: dict[str, None] = {}
        for number, (split, task) in enumerate(zip(batch.splits, record.batch.maps, strict=True)):
            if task.placed:
                continue
            if split.site in turn.alive:
                yield _Wanted(record.id, number, scheduled(record, number, self._sent))
            else:
                silent[split.site] = None
        for site in silent:
            wait = Wait(record.id, reason=f"site {site}, which has splits of the table, is not heard")
            turn.waits.setdefault(record.id, []).append(wait)

    def _act(
        self, wanted: Sequence[_Wanted], placements: Sequence[Placement], slots: Sequence[SlotView], turn: _Turn
    ) -> None:
        """Take the slots that are free, and wait for the others."""
        by_name = {w.task.name: w for w in wanted}
        assigned = [p for p in placements if isinstance(p, Assigned) and turn.links.send_off(p)]
        lasts = [timedelta(seconds=self._lease_s(p.task, p.slot.site, turn.links.joining)) for p in assigned]
        answers = self._parts.slots.take([(p.slot, lasts) for p, lasts in zip(assigned, lasts, strict=True)])
        granted: list[tuple[_Wanted, Lease, float]] = []
        for placement, last, answer in zip(assigned, lasts, answers, strict=True):
            turn.use(placement.slot)
            if isinstance(answer, Lease):
                granted.append((by_name[placement.task.name], answer, last.total_seconds()))
            elif answer:
                self._waits_for(by_name[placement.task.name], Wait(placement.task.name, reason=answer), turn)
        self._start(granted, turn)
        for waiting in placements:
            if isinstance(waiting, Waits):
                name, slot = waiting.task.name, waiting.slot
                turn.use(slot)
                turn.lines[name] = (slot,)
                self._waits_for(by_name[name], Wait(name, slot, waiting.until, self._busy(slot)), turn)
        placed = {turn.policies[placement.task.job] for placement in placements}
        self._stand_anywhere([w for w in wanted if turn.policies[w.query] not in placed], slots, turn)

    def _stand_anywhere(self, wanted: Sequence[_Wanted], slots: Sequence[SlotView], turn: _Turn) -> None:
        """None of these has a slot, nor one to wait for: one of each query waits for any, its site's first of all."""
        for query in dict.fromkeys(w.query for w in wanted):
            first = next(w for w in wanted if w.query == query)
            near = {shard.site for shard in first.task.shards}
            known = [view.slot for view in slots]
            chosen = tuple(slot for slot in known if slot.site in near) or tuple(known)
            if not chosen:
                self._waits_for(first, Wait(first.task.name, reason=NO_SLOTS), turn)
                continue
            turn.lines[first.task.name] = chosen
            listed = ", ".join(map(self._busy, chosen))
            self._waits_for(first, Wait(first.task.name, chosen[0], None, listed), turn)

    def _waits_for(self, wanted: _Wanted, wait: Wait, turn: _Turn) -> None:
        turn.waits.setdefault(wanted.query, []).append(wait)

    def _start(self, granted: Sequence[tuple[_Wanted, Lease, float]], turn: _Turn) -> None:
        """Store what the tasks were given; from then on they are in the assignments."""
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
            state = self._parts.queries.get(query).batch
            assert state is not None
            self._parts.queries.set_batch(query, with_tasks(state, found))
            turn.changed = True

    def _place(self, turn: _Turn) -> Callable[[Sequence[Task], Sequence[SlotView]], list[Placement]]:
        estimates = self._config.estimates

        def run_time(task: Task, site: str) -> float:
            return run_time_s(task, site, turn.links.joining, self._history, estimates)

        def place_by(policy: Policy) -> Callable[[Sequence[Task], Sequence[SlotView]], list[Placement]]:
            return placing(policy, run_time, turn.now, self._parts.rng)

        return placing_by_job(turn.policies, place_by)

    def _options(self, record: QueryRecord) -> BatchOptions:
        """Those that the query was submitted with."""
        plan = record.plan.batch
        return plan.options if plan is not None and plan.options is not None else self._config.options

    def _lease_s(self, task: Task, site: str, bandwidth: Callable[[str, str], float]) -> float:
        return lease_estimate_s(task, site, bandwidth, self._history, self._config.estimates)

    def _is_local(self, task: Task, site: str, turn: _Turn) -> bool:
        return is_local(task, site, turn.links.bandwidth, self._config.near_bytes_per_s)

    def _busy(self, slot: Slot) -> str:
        record = self._parts.slots.record(slot)
        if record is None:
            return f"{slot} is gone"
        who = record.holder or (record.offer.waiter.framework if record.offer else "nobody")
        until = f" until {record.free_by:%Y-%m-%d %H:%M:%S} at the latest" if record.free_by else ""
        return f"{slot} is {who}'s{until}"
