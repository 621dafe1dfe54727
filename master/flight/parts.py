"""The parts of the master that the endpoint uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from master.api.watch import Watches
from master.queries.registry import QueryRegistry
from master.reconcile.jobs import JobManager
from master.records.ids import RandomHex
from master.relations.catalog import CatalogManager
from master.results.fetch import ResultFetcher
from master.statements.runner import StatementRunner


@dataclass(frozen=True, slots=True)
class FlightParts:
    """See the module."""

    statements: StatementRunner
    queries: QueryRegistry
    jobs: JobManager
    results: ResultFetcher
    watches: Watches
    catalog: CatalogManager
    random_hex: RandomHex
    checks: tuple[Any, ...]
    """The interceptors that check callers; none where they are not checked."""
