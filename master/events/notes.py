"""Describes changes of queries, sites, links and leases for the event log."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from master.events import EventKind, Subject
from master.records.model import QueryRecord, StateChange
from master.sites.status import SiteStatus
from planner.graph.plan import Stage
from planner.leases import Change, SlotState
from planner.values.links import Pair
from planner.values.quantities import bandwidth_text

_LONGEST = 500
"""The most characters of a message: a reason may quote SQL."""


class Notes:
    """Listens to changes, and adds an event for each."""

    def __init__(self, note: Callable[[Subject], None]) -> None:
        self._note = note

    def query(self, record: QueryRecord, change: StateChange) -> None:
        """A query was accepted, changed its state, or was given other tasks."""
        if change.source is None:
            self._tell(Subject(EventKind.QUERY, "accepted", record.id))
            self._tell(Subject(EventKind.PLACEMENT, placed(record), record.id))
            return
        moved = (
            f"{change.source.value} -> {change.target.value}" if change.source is not change.target else "redeployed"
        )
        self._tell(Subject(EventKind.QUERY, f"{moved}: {change.reason}" if change.reason else moved, record.id))

    def site(self, status: SiteStatus, said: str) -> None:
        """Something has happened to a site."""
        self._tell(Subject(EventKind.SITE, said, site=status.name))

    def link(self, pair: Pair, was_bytes_per_s: float, now_bytes_per_s: float) -> None:
        """The measured capacity of a link has changed."""
        said = f"carries {bandwidth_text(now_bytes_per_s)}, was {bandwidth_text(was_bytes_per_s)}"
        self._tell(Subject(EventKind.LINK, said, site=pair[0], to_site=pair[1]))

    def leases(self, changes: Sequence[Change]) -> None:
        """Slots have changed; only leases that were not renewed in time become events."""
        for before, after in changes:
            if after is None or after.state is not SlotState.GRACE or after.lease is None:
                continue
            if before is None or before.state is not SlotState.GRACE:
                said = f"{after.lease.holder} has not renewed its lease of {after.slot}"
                self._tell(Subject(EventKind.LEASE, said, site=after.slot.site))

    def _tell(self, subject: Subject) -> None:
        message = subject.message
        if len(message) > _LONGEST:
            message = message[: _LONGEST - 1] + "…"
        self._note(Subject(subject.kind, message, subject.query, subject.site, subject.to_site))


def placed(record: QueryRecord) -> str:
    """The sites of a new query's stages: `source clicks at us, eu; merge at eu`."""
    return "; ".join(_placed(stage, record) for stage in record.plan.stages)


def _placed(stage: Stage, record: QueryRecord) -> str:
    what = f"{stage.kind.value} {stage.relation}" if stage.relation else stage.kind.value
    tasks = record.progress.tasks.values()
    sites = record.plan.sites_of(stage) or tuple(sorted({t.site for t in tasks if t.stage_id == stage.id}))
    return f"{what} at {', '.join(sites)}" if sites else f"{what} not needed"
