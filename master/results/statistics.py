"""Puts what queries found out about tables into the catalog.

The results of ANALYZE TABLE are read when its query has finished, also after a restart of the master. Of a table that
another query has read to its end, the number of rows is kept.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import pyarrow.ipc as ipc

from master.base.errors import MasterError
from master.base.logs import line
from master.queries.batch_tasks import map_id
from master.queries.registry import QueryRegistry
from master.records.model import BatchQuery, QueryRecord, QueryState, StateChange
from master.relations.catalog import CatalogManager
from master.results.fetch import FetchStart, ResultFetcher
from planner.relations.catalog import Catalog, Relation, TableStatistics
from planner.sql.analyze_ddl import statistics_of
from planner.sql.script import parse_script
from planner.sql.statements import AnalyzeTable
from planner.values.errors import PlannerError

logger = logging.getLogger(__name__)

_BEGINNING = "ANALYZE"


def rows_read(record: BatchQuery, catalog: Catalog) -> dict[str, int]:
    """The rows of each table that a query has read at all sites of the table, with nothing left out."""
    plan, statuses = record.plan, record.progress.tasks
    found: dict[str, int] = {}
    for stage in plan.stages:
        table = catalog.find(stage.relation or "")
        own = [number for number, split in enumerate(plan.splits) if split.stage == stage.id]
        if table is None or {plan.splits[number].site for number in own} != set(table.sites):
            continue
        tasks = [task for number in own if (task := statuses.get(map_id(record, number))) is not None]
        if len(tasks) == len(own) and not any(part.stage == stage.id for part in plan.left_out):
            found[table.name] = sum(task.rows_in for task in tasks)
    return found


class StatisticsKeeper:
    """Reads the results of queries of ANALYZE TABLE that have finished, one after the other."""

    def __init__(self, queries: QueryRegistry, catalog: CatalogManager, results: ResultFetcher) -> None:
        self._queries = queries
        self._catalog = catalog
        self._results = results
        self._waiting: dict[str, None] = {}
        self._reading: asyncio.Task[None] | None = None
        for record in queries.all():
            self._note(record)
        queries.listen(self._changed)

    def tick(self) -> None:
        """Begin to read the next result, unless one is being read."""
        if self._waiting and (self._reading is None or self._reading.done()):
            query = next(iter(self._waiting))
            del self._waiting[query]
            self._reading = asyncio.create_task(self._read(query))

    async def close(self) -> None:
        """Give up what is being read: it is read again after the next start."""
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading

    def _changed(self, record: QueryRecord, change: StateChange) -> None:
        if change.target is not QueryState.FINISHED:
            return
        if self._table(record) is not None:
            self._note(record)
        elif isinstance(record, BatchQuery):
            self._keep_rows(record)

    def _keep_rows(self, record: BatchQuery) -> None:
        try:
            for table, rows in rows_read(record, self._catalog.snapshot).items():
                self._catalog.analysed(table, TableStatistics(rows))
        except MasterError as error:
            # The query has finished whatever becomes of its by-products.
            logger.warning(line("statistics lost", query=record.id, reason=error.message))

    def _note(self, record: QueryRecord) -> None:
        """Remember a finished query whose table has no statistics of later than its submission."""
        table = self._table(record)
        if table is None or record.state is not QueryState.FINISHED:
            return
        known = table.statistics.analyzed_at if table.statistics is not None else None
        if known is None or known < record.submitted_at:
            self._waiting[record.id] = None

    def _table(self, record: QueryRecord) -> Relation | None:
        """The table that a query of ANALYZE TABLE counted; None: it is another query, or the table is another now."""
        if not record.sql.upper().startswith(_BEGINNING):
            return None
        statement = parse_script(record.sql)[0]
        table = self._catalog.snapshot.find(statement.name) if isinstance(statement, AnalyzeTable) else None
        old = table is not None and table.created_at is not None and table.created_at <= record.submitted_at
        return table if old else None

    async def _read(self, query: str) -> None:
        try:
            async for epoch in self._results.fetch(query, FetchStart(), follow=True):
                record = self._queries.get(query)
                table = self._table(record)
                for row in ipc.open_stream(epoch.arrow_stream).read_all().to_pylist():
                    if table is not None:
                        self._catalog.analysed(table.name, statistics_of(row, record.submitted_at))
        except (MasterError, PlannerError) as error:
            logger.warning(line("statistics lost", query=query, reason=error.message))
