"""The loop of adaptation: every interval one picture of all queries, one round of decisions, and a journal of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from machine.clock import Clock
from master.adaptation.acting import Acting
from master.adaptation.graphs import graph_of
from master.adaptation.journal import Journal
from master.adaptation.sightings import Sightings
from master.base.clock import SteadyTime
from master.leases.manager import LeaseManager
from master.queries.registry import QueryRegistry
from master.records.model import QueryRecord, QueryState, SiteReport
from master.sites.status import Sites
from planner.adapt.decide import Round, decide
from planner.adapt.memory import Memory
from planner.adapt.model import Links, Seen, Settings
from planner.adapt.situation import Decision, Situation, Verdict
from planner.graph.ids import TaskId
from planner.sharing.vertices import RESULTS
from planner.values.adapting import Adapting
from planner.wan.snapshot import WanSnapshot

logger = logging.getLogger(__name__)

Decide = Callable[[Situation, Memory, Settings], Round]


@dataclass(frozen=True, slots=True)
class AdvisorParts:
    """What the advisor looks at."""

    queries: QueryRegistry
    sites: Sites
    leases: LeaseManager
    journal: Journal
    wan: Callable[[], WanSnapshot]
    acting: Acting


class Advisor:
    """Called from one event loop."""

    def __init__(self, parts: AdvisorParts, *, clock: Clock, settings: Settings, decide: Decide = decide) -> None:
        """`decide` takes its time in a thread."""
        self._parts = parts
        self._decide = decide
        self._clock = clock
        self._steady = SteadyTime(clock)
        self._settings = settings
        self._sightings = Sightings(self._steady.now())
        self._before: Seen | None = None
        self._looked_at = self._steady.now()
        self._memory = Memory()
        self._looking: asyncio.Task[None] | None = None
        self.looks = 0
        """How often it has looked."""

    @property
    def journal(self) -> Journal:
        return self._parts.journal

    def take(self, report: SiteReport) -> None:
        """A site has reported."""
        self._sightings.take(report, self._steady.now())

    def tick(self) -> None:
        """Begin to look at all queries once an interval has passed, if the last look is over.

        Decisions take their time in a thread: integer programs are among them.
        """
        now, under_way = self._steady.now(), self._looking is not None and not self._looking.done()
        if (now - self._looked_at).total_seconds() >= self._settings.interval_s and not under_way:
            self._looked_at = now
            self._looking = asyncio.create_task(self._look(now), name="adaptation")

    async def close(self) -> None:
        """Look no more."""
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _look(self, now: datetime) -> None:
        try:
            await self.look(now)
        except Exception:
            logger.exception("adaptation failed")
        self.looks += 1

    async def look(self, now: datetime) -> None:
        """One round. The first picture is only compared with the next."""
        running = self._parts.queries.snapshots.held
        known = set(running.placement) | {TaskId(query, RESULTS) for query in running.queries}
        self._sightings.keep_only(known)
        self.journal.forget(frozenset(record.id for record in self._parts.queries.all()))
        before, self._before = self._before, self._sightings.seen(now)
        advised = {record.id: record for record in self._parts.queries.all() if _is_advised(record)}
        if before is None or not advised:
            return
        graphs = tuple(graph_of(record, running) for record in advised.values() if record.id in running.queries)
        situation = Situation(
            graphs,
            before,
            self._before,
            Links.of(self._parts.wan()),
            self._free_slots(),
            self._parts.acting.moving,
            {site.name: len(self._parts.leases.table.of_site(site.name)) for site in self._parts.sites.all()},
        )
        found = await asyncio.to_thread(self._decide, situation, self._memory, self._settings)
        self._memory = found.memory
        for (query, stage), helped in found.effects.items():
            state = "the cause is gone" if helped else "the cause is still there"
            became = self._parts.acting.became((query, stage)) or "it was advised, and not done"
            self.journal.conclude(query, stage, f"{became}; {state}")
        modes = {query: record.plan.adapting for query, record in advised.items()}
        # A query may have ended, or been paused, meanwhile.
        now_advised = {record.id for record in self._parts.queries.all() if _is_advised(record)}
        decisions = [one for one in found.decisions if one.query in now_advised]
        self.journal.note([(one, modes[one.query]) for one in decisions], self._clock.now())
        await self._act(situation, decisions, modes)

    async def _act(self, situation: Situation, decisions: Iterable[Decision], modes: Mapping[str, Adapting]) -> None:
        """Begin what was decided about queries that let it be done."""
        graphs = {graph.query: graph for graph in situation.graphs}
        for one in decisions:
            if one.verdict is not Verdict.ACT or modes[one.query] is not Adapting.ON or one.chosen is None:
                continue
            why_not = await self._parts.acting.act(one, graphs[one.query], situation.after, situation.links)
            if why_not:
                self.journal.conclude(one.query, one.chosen.changes[0].group[1], why_not)

    def _free_slots(self) -> Mapping[str, int]:
        """By site where a task may begin."""
        free: dict[str, int] = {}
        for site in self._parts.sites.all():
            if site.name in self._parts.sites.alive() and not site.draining:
                records = self._parts.leases.table.of_site(site.name)
                free[site.name] = sum(1 for one in records if one.reachable and one.lease is None and one.offer is None)
        return free


def _is_advised(record: QueryRecord) -> bool:
    """Whether it runs, and asks for it; one that is about to start is looked at when it runs."""
    at_work = record.state in (QueryState.RUNNING, QueryState.PAUSED)
    return at_work and record.plan.adapting is not Adapting.OFF
