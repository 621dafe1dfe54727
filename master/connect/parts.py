"""The parts of the master that the endpoint for Spark's clients uses. Nothing of PySpark is loaded for this."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from machine.clock import Clock
from master.planning.deploying import Deployer
from master.planning.settings import Settings
from master.planning.submission import QueryPlanner
from master.queries.registry import QueryRegistry
from master.reconcile.jobs import JobManager
from master.records.ids import RandomHex
from master.relations.catalog import CatalogManager
from master.results.fetch import ResultFetcher
from master.sites.peers import Peers
from master.sites.status import Sites
from master.statements.runner import StatementRunner
from master.views.queries import QueryViews


@dataclass(frozen=True, slots=True)
class ClientParts:
    """See the module."""

    planner: QueryPlanner
    deployer: Deployer
    jobs: JobManager
    queries: QueryRegistry
    views: QueryViews
    results: ResultFetcher
    statements: StatementRunner
    catalog: CatalogManager
    sites: Sites
    peers: Peers
    gateway: str
    timeout: timedelta
    """A site may take this long to answer a question."""
    defaults: Settings
    clock: Clock
    random_hex: RandomHex
    checks: tuple[Any, ...]
    """The interceptors that check callers; none where they are not checked."""
