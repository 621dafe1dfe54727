"""The tasks that were in each place, and the handovers under way: the only writer of lineages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from machine.faults import reached
from master.base.faults import FaultPoint
from master.queries.registry import QueryRegistry
from master.store import QueryStore
from planner.graph.ids import TaskId
from planner.handover.model import Lineage
from planner.sharing.deployment import Change


class Lineages:
    """Kept in memory as they are stored; every change is durable first."""

    def __init__(self, store: QueryStore, queries: QueryRegistry) -> None:
        self._store = store
        self._queries = queries
        self._known = dict(store.lineages())

    @property
    def all(self) -> Mapping[TaskId, Lineage]:
        """Return the lineages by place, where there was more than one task, or a handover is or was under way."""
        return MappingProxyType(self._known)

    def get(self, place: TaskId) -> Lineage:
        return self._known.get(place) or Lineage(place)

    def put(self, lineage: Lineage, moved_to: str | None = None) -> None:
        """Store a lineage; with a site, the place is there from now on.

        Raises:
            StoreError: nothing has changed.
        """
        placement = {} if moved_to is None else {lineage.place: moved_to}
        version = self._store.put_lineage(lineage, placement)
        reached(FaultPoint.HANDOVER_STORED)
        self._known[lineage.place] = lineage
        self._queries.snapshots.redeployed(version, placement)

    def put_changed(self, query: str, change: Change, lineages: Sequence[Lineage]) -> None:
        """Store lineages together with what their query runs from now on.

        Raises:
            StoreError, StaleChangeError: nothing has changed.
        """
        self._queries.redeploy(query, change, lineages)
        reached(FaultPoint.HANDOVER_STORED)
        self._known.update({lineage.place: lineage for lineage in lineages})

    def keep_only(self, queries: frozenset[str]) -> None:
        """Forget the places of queries that are no longer known; the store has forgotten them with the queries."""
        placed = self._queries.snapshots.placement
        for place in [place for place in self._known if place.query not in queries and place not in placed]:
            del self._known[place]
