"""Streams of changes: of a site's assignment, and of a query's progress."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta

from master.queries.registry import QueryRegistry
from master.reconcile.board import AssignmentBoard
from master.records.specs import VersionedAssignment
from master.sites.registry import SiteRegistry
from master.views.queries import QueryView, QueryViews

DEFAULT_INTERVAL = timedelta(seconds=1)


class Watches:
    """Each method is one watcher's stream; it ends when the caller closes it."""

    def __init__(
        self, queries: QueryRegistry, views: QueryViews, *, board: AssignmentBoard, registry: SiteRegistry
    ) -> None:
        self._queries = queries
        self._views = views
        self._board = board
        self._registry = registry

    async def assignment(self, site: str, incarnation: str) -> AsyncGenerator[VersionedAssignment, None]:
        """The site's assignment now, and each new one.

        Raises:
            UnknownSiteError, SiteNotRegisteredError
            SiteDisplacedError: at once, or when a newer agent of the site registers.
        """
        changes = self._board.changes(site)
        sent = 0
        while True:
            seen = changes.version
            self._registry.check_incarnation(site, incarnation)
            if self._board.version(site) != sent:
                current = self._board.current(site)
                sent = current.version
                yield current
            await changes.wait_beyond(seen)

    async def query(self, reference: str, interval: timedelta) -> AsyncGenerator[QueryView, None]:
        """The query now, after each change of its state, and at least once per interval, until it is over.

        Raises:
            UnknownQueryError, AmbiguousQueryError
        """
        query = self._queries.find(reference).id
        changes = self._queries.changes(query)
        while True:
            seen = changes.version
            record = self._queries.get(query)
            yield self._views.of(record)
            if record.state.over:
                return
            await changes.wait_beyond(seen, (interval or DEFAULT_INTERVAL).total_seconds())
