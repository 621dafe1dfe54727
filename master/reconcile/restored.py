"""Settles the queries of a restored store: those that sites still run go on, the others fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from master.queries.sharing import deployment_of
from master.records.model import QueryRecord
from master.records.specs import Assignment
from master.sites.status import SiteStatus
from planner.failures.restored import unconfirmed


def unsettled_sites(assignments: Mapping[str, Assignment], sites: Iterable[SiteStatus]) -> frozenset[str]:
    """Sites that should have tasks and have not reported yet."""
    heard = {status.name for status in sites if status.report is not None}
    return frozenset(site for site, assignment in assignments.items() if assignment.tasks and site not in heard)


def lost_queries(
    assignments: Mapping[str, Assignment],
    sites: Iterable[SiteStatus],
    queries: Iterable[QueryRecord],
    *,
    made_at: datetime,
) -> dict[str, str]:
    """Queries that cannot go on, each with the reason for users.

    Args:
        assignments: What the store has the sites run.
        sites: With their reports since the master's start.
        queries: All there are.
        made_at: When the backup was made.
    """
    reports = [status.report for status in sites if status.report is not None]
    expected = _by_query((site, t.query_id, str(t.task_id)) for site, a in assignments.items() for t in a.tasks)
    reported = _by_query((report.site, t.query_id, str(t.task_id)) for report in reports for t in report.tasks)
    found = unconfirmed(expected, reported, {report.site for report in reports})
    held = {query.id: query for query in queries if query.state.held}
    lost = {query: reason for query, reason in found.items() if query in held}
    if found.keys() - lost.keys():
        # Tasks that outlived their query, because queries that share them need them.
        shared = "tasks that it shares with others are not as the backup says"
        lost |= {
            query.id: shared for query in held.values() if deployment_of(query) is not None and query.id not in lost
        }
    told = f"the master was restored from a backup of {made_at:%Y-%m-%d %H:%M:%S}: "
    return {query: f"{told}{reason}; submit it again" for query, reason in lost.items()}


def _by_query(tasks: Iterable[tuple[str, str, str]]) -> dict[str, dict[str, set[str]]]:
    """Task ids by query and site, from triples of site, query and task."""
    found: dict[str, dict[str, set[str]]] = {}
    for site, query, task in tasks:
        found.setdefault(query, {}).setdefault(site, set()).add(task)
    return found
