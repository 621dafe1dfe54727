"""Compares the master's table of slots with its assignments."""

from __future__ import annotations

from master.base.errors import NotSettledError
from master.leases.streaming import STREAMING
from master.records.model import StreamQuery
from master.server import Master


def ahead_of_slots(master: Master) -> list[str]:
    """Sites where a query begins although no slot there is leased for it: one that is reachable, and not waited for."""
    starting = {q.id for q in master.queries.all() if isinstance(q, StreamQuery) and q.state.starting}
    found = []
    for site in sorted(master.sites.alive()):
        try:
            tasks = master.board.current(site).assignment.tasks
        except NotSettledError:
            return []
        begins = sorted(str(task.task_id) for task in tasks if task.query_id in starting and not task.paused)
        if begins and not any(record.holder == STREAMING for record in master.leases.table.of_site(site)):
            found.append(f"{', '.join(begins)} at {site} without a slot")
    return found
