"""The parts that this room keeps consistent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from master.batch.manager import BatchManager
from master.leases.streaming import StreamingSlots
from master.queries.lineages import Lineages
from master.queries.registry import QueryRegistry
from master.reconcile.board import AssignmentBoard
from master.relations.catalog import CatalogManager
from master.sites.registry import SiteRegistry
from master.sites.statistics import MeasuredRates
from master.sites.status import Sites
from planner.wan.snapshot import WanSnapshot


@dataclass(frozen=True, slots=True)
class JobParts:
    """The parts that the job manager keeps consistent."""

    queries: QueryRegistry
    registry: SiteRegistry
    catalog: CatalogManager
    board: AssignmentBoard
    rates: MeasuredRates
    slots: StreamingSlots
    batch: BatchManager
    lineages: Lineages
    wan: Callable[[], WanSnapshot]

    @property
    def sites(self) -> Sites:
        """The sites as the registry knows them."""
        return self.registry.sites

    @property
    def settled(self) -> bool:
        """False: the state was restored from a backup, and it is not yet known which of its queries still run."""
        return self.queries.restored_from is None
