"""Decides once, after the state was restored from a backup, which queries go on."""

from __future__ import annotations

import logging
from datetime import timedelta

from master.base.clock import SteadyTime
from master.base.logs import line
from master.reconcile.handout import Handout
from master.reconcile.parts import JobParts
from master.reconcile.restored import lost_queries, unsettled_sites
from master.records.lifecycle import QueryEvent

logger = logging.getLogger(__name__)


class Settling:
    """Waits until all sites have reported or have had the time to.

    Until then no site is told anything: it would end what the backup does not know, and begin anew what has ended.
    """

    def __init__(self, parts: JobParts, handout: Handout, *, steady: SteadyTime, patience: timedelta) -> None:
        """`patience` is the time that sites have to report."""
        self._parts = parts
        self._handout = handout
        self._steady = steady
        self._settle_by = steady.now() + patience

    def tick(self) -> None:
        """Settle the state if that is possible; called while it is not settled."""
        parts, assignments = self._parts, self._handout.assignments()
        made_at = parts.queries.restored_from
        assert made_at is not None
        if unsettled_sites(assignments, parts.sites.all()) and self._steady.now() < self._settle_by:
            return
        for query, reason in lost_queries(assignments, parts.sites.all(), parts.queries.all(), made_at=made_at).items():
            parts.queries.move(query, QueryEvent.NOT_CONFIRMED, reason)
            logger.warning(line("query is over", query=query, reason=reason))
        parts.queries.settle_restored()
        self._handout.refresh()
