"""The parts that this room keeps in step."""

from __future__ import annotations

from dataclasses import dataclass

from master.batch.manager import BatchManager
from master.leases.streaming import StreamingSlots
from master.queries.registry import QueryRegistry
from master.reconcile.board import AssignmentBoard
from master.relations.catalog import CatalogManager
from master.sites.registry import SiteRegistry
from master.sites.statistics import MeasuredRates


@dataclass(frozen=True, slots=True)
class JobParts:
    """What the job manager keeps in step."""

    queries: QueryRegistry
    sites: SiteRegistry
    catalog: CatalogManager
    board: AssignmentBoard
    rates: MeasuredRates
    slots: StreamingSlots
    batch: BatchManager

    @property
    def settled(self) -> bool:
        """False: the state was restored from a backup, and nobody knows yet which of its queries still run."""
        return self.queries.restored_from is None
