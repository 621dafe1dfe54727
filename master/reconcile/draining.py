"""Moves the tasks that can be moved away from draining sites."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from master.base.clock import SteadyTime
from master.base.errors import MasterError
from master.queries.sharing import is_task
from master.reconcile.handovers import Handovers
from master.reconcile.parts import JobParts
from planner.adapt.assign import Demand
from planner.adapt.leaving import new_site
from planner.adapt.model import Links
from planner.graph.ids import TaskId
from planner.handover.refusals import may_leave
from planner.sharing.running import Running
from planner.sharing.vertices import VertexKind
from planner.values.stages import StageKind

LOOK_EVERY = timedelta(seconds=2)


class Draining:
    """Looks at draining sites, and begins one move after the other where tasks read each other."""

    def __init__(self, parts: JobParts, handovers: Handovers, *, steady: SteadyTime, share: float) -> None:
        """`share`: of a link, what tasks that move may use."""
        self._parts = parts
        self._handovers = handovers
        self._steady = steady
        self._share = share
        self._looked_at = steady.now()

    def tick(self) -> None:
        now = self._steady.now()
        if not self._parts.settled or now - self._looked_at < LOOK_EVERY:
            return
        self._looked_at = now
        for place in [*self._leaving(now)]:
            self._move(place)

    def _leaving(self, now: datetime) -> Iterator[TaskId]:
        """The tasks at draining sites that can be moved, and are not on their way."""
        draining = {status.name for status in self._parts.sites.all() if status.draining}
        running = self._parts.queries.snapshots.live
        for one in running.deployed if draining else ():
            if running.site(one.id) in draining and is_task(one):
                kind = StageKind.DERIVE if one.residual else StageKind(one.vertex.kind.value)
                beside_source = running.reads(one.id, VertexKind.SOURCE)
                if may_leave(kind, self._parts.lineages.get(one.id), now, beside_source=beside_source):
                    yield one.id

    def _move(self, place: TaskId) -> None:
        running = self._parts.queries.snapshots.live
        here = running.site(place)
        able = self._parts.sites.able() - {here}
        able -= self._parts.slots.blocked(able).keys()
        links = Links.of(self._parts.wan())
        site = new_site(self._demand(place, running), able, links, share=self._share)
        if site is None:
            return
        try:
            self._handovers.begin(place, site, f"site {here} is draining")
        except MasterError:
            # A task beside it moves, or its site is away: it is looked at again.
            return

    def _demand(self, place: TaskId, running: Running) -> Demand:
        """What the task takes and gives now, by sites."""
        inputs: dict[str, float] = {}
        for name in running.task(place).inputs:
            site = running.site(name)
            inputs[site] = inputs.get(site, 0.0) + self._rate(name)
        readers = {running.site(one.id) for one in running.deployed if place in one.inputs}
        return Demand(inputs, dict.fromkeys(sorted(readers), self._rate(place)))

    def _rate(self, place: TaskId) -> float:
        """The bytes per second that a task gives out, as last reported."""
        status = self._parts.queries.get(place.query).progress.tasks.get(place)
        return 0.0 if status is None else status.bytes_out_per_s
