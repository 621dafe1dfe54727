"""Looks, before a handover begins, at the sites and tasks that take part, and says whether it may begin."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from master.base.errors import HandoverRefusedError
from master.queries.lineages import Lineages
from master.reconcile.parts import JobParts
from planner.graph.ids import TaskId
from planner.graph.plan import takes_again
from planner.handover.refusals import Around, Move, refusal
from planner.sharing.running import Deployed
from planner.sharing.vertices import VertexKind
from planner.values.stages import StageKind


class Surroundings:
    """Looks at the present.

    Args:
        parts: of the job manager.
        lineages: the tasks in their places.
        version: the master's own; agents of others take no part.
    """

    def __init__(self, parts: JobParts, lineages: Lineages, version: str) -> None:
        self._parts = parts
        self._lineages = lineages
        self._version = version

    def of_new(self, new: Collection[str], *, beside: Collection[TaskId], successor: str) -> Around:
        """Return what keeps several tasks from beginning at once.

        Args:
            new: their sites.
            beside: places of tasks that run, and take part.
            successor: the site of the task that takes over; empty: it is not known.
        """
        running = self._parts.queries.snapshots.held
        at_work = {*new, successor} - {""}
        return Around(
            unable=tuple(sorted({*new} - self._parts.sites.able())),
            slots=self._parts.slots.blocked(at_work),
            busy=self._moving(beside),
            versions=self._of_other_versions({running.site(name) for name in beside} | at_work),
        )

    def check_move(self, one: Deployed, to_site: str, *, without_state: bool, alone: bool = False) -> None:
        """Raises HandoverRefusedError unless the task can be moved there now, UnknownSiteError."""
        sites, lineage = self._parts.sites, self._lineages.get(one.id)
        running = self._parts.queries.snapshots.held
        beside = {*one.inputs, *(other.id for other in running.deployed if one.id in other.inputs)}
        beside |= self._joining(one.id)
        found = refusal(
            Move(
                str(one.id),
                StageKind.DERIVE if one.residual else StageKind(one.vertex.kind.value),
                running.site(one.id),
                sites.get(to_site).name,
                to_site in sites.able(),
                slots=self._parts.slots.blocked([to_site]).get(to_site, ""),
                under_way="" if lineage.handover is None else lineage.handover.to_site,
                busy=self._moving(beside),
                without_state=without_state,
                alone=alone,
                beside_source=running.reads(one.id, VertexKind.SOURCE),
                reads_table=running.reads(one.id, VertexKind.TABLE),
                takes_again=self._takes_again(one),
                versions=self._of_other_versions({running.site(name) for name in (*beside, one.id)} | {to_site}),
            )
        )
        if found is not None:
            message, hint = found
            raise HandoverRefusedError(message, hint=hint, ids={"task": str(one.id), "site": to_site})

    def _takes_again(self, one: Deployed) -> bool:
        stages = self._parts.queries.get(one.id.query).plan.stages
        return takes_again(stage for stage in stages if stage.id == one.id.stage)

    def _joining(self, place: TaskId) -> frozenset[TaskId]:
        """Return the places whose queries are about to share a task."""
        under_way = ((one.place, one.handover) for one in self._lineages.all.values())
        return frozenset(name for name, found in under_way if found and found.join and found.join.shared == place)

    def _moving(self, places: Iterable[TaskId]) -> tuple[str, ...]:
        return tuple(sorted(str(place) for place in places if self._lineages.get(place).handover is not None))

    def _of_other_versions(self, sites: Iterable[str]) -> Mapping[str, str]:
        """Return, by site, the versions of agents that are not the master's."""
        records = ((site, self._parts.sites.get(site).record) for site in sorted(sites))
        return {
            site: one.version or "unknown" for site, one in records if one is not None and one.version != self._version
        }
