"""Why a task cannot be moved to a site now. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from planner.handover.model import Lineage
from planner.values.stages import StageKind

MOVABLE = (StageKind.MERGE, StageKind.FINAL, StageKind.DERIVE, StageKind.COMBINE)
"""Kinds of tasks that can be moved: their state is rows, which another task can be made of or which their readers take
before, or they have none."""

AGAIN_AFTER = timedelta(minutes=1)
"""A task whose move was rolled back leaves a draining site after so long, at the earliest."""

_STAYS = {
    StageKind.SOURCE: "a source stays with its data",
    StageKind.TABLE: "what reads a table stays with its data",
    StageKind.COMBINE: "what combines the rows of a source stays at its site",
    StageKind.SINK: "a sink stays with its files",
}


@dataclass(frozen=True, slots=True)
class Move:
    """A move that somebody asks for."""

    task: str
    kind: StageKind
    from_site: str
    to_site: str
    able: bool
    """It is true when the site takes new tasks: its agent is heard, and it is not draining."""
    slots: str = ""
    """Why the site has no slot for the task; empty: it has one."""
    under_way: str = ""
    """The site that the task is moving to already, or is coming back from; empty: it does neither."""
    busy: tuple[str, ...] = ()
    """Tasks that it reads, or that read it, and that move."""
    beside_source: bool = False
    """It reads a source, which is at its site."""
    without_state: bool = False
    """The new task is to begin in the middle of the inputs."""
    alone: bool = False
    """One of the queries that share the task is to go on with a task of its own; `without_state`, if it has one."""
    reads_table: bool = False
    takes_again: bool = False
    """The stage keeps rows that windows do not end: of sessions, pairs, totals, or with OVER."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """The versions of the agents that take part, by site, where they are not the master's."""


@dataclass(frozen=True, slots=True)
class Around:
    """The state of the sites and tasks that take part, where several tasks begin at once."""

    unable: tuple[str, ...] = ()
    """Sites of new tasks that take none."""
    slots: Mapping[str, str] = field(default_factory=dict)
    """The reasons for which sites have no slot for a new task."""
    busy: tuple[str, ...] = ()
    """Tasks that move, of those that take part."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """The versions of the agents that take part, by site, where they are not the master's."""


def unready(around: Around) -> tuple[str, str] | None:
    """Return why the tasks cannot begin now, and what would be right; None: they can."""
    if around.busy:
        return f"{', '.join(around.busy)} is moving", "wait until that has ended"
    if around.unable:
        told = f"sites take no new tasks: {', '.join(around.unable)}; they are not heard, or draining"
        return told, "look at SHOW SITES"
    if around.slots:
        told = "; ".join(f"{site}: {why}" for site, why in sorted(around.slots.items()))
        return f"sites have no slot for another task: {told}", "name sites that have"
    return _of_other_versions(around.versions)


def _of_other_versions(versions: Mapping[str, str]) -> tuple[str, str] | None:
    if not versions:
        return None
    others = ", ".join(f"{site} ({version})" for site, version in sorted(versions.items()))
    return f"agents of another version than the master's take part: {others}", "upgrade them first"


def is_movable(kind: StageKind, *, beside_source: bool) -> bool:
    """Return whether a task can be moved. All rows of its source would be sent after a COMBINE that reads one."""
    return kind in MOVABLE and not (kind is StageKind.COMBINE and beside_source)


def refusal(move: Move) -> tuple[str, str] | None:
    """Why the move cannot be made, and what would be right; None: it can."""
    if not is_movable(move.kind, beside_source=move.beside_source):
        why = _STAYS.get(move.kind, f"a {move.kind.value} task stays where it is")
        return why, "a MERGE, FINAL or DERIVE task can be moved, and a COMBINE of what other sites send"
    if move.without_state and (move.kind is not StageKind.MERGE or move.reads_table):
        why = "reads a table" if move.kind is StageKind.MERGE else f"is a {move.kind.value} task"
        told = f"{move.task} cannot begin in the middle of its inputs, because it {why}"
        return told, "move it for all queries" if move.alone else "move it with its state"
    if move.without_state and move.takes_again:
        told = (
            f"{move.task} cannot begin in the middle of its inputs: what comes out may be of rows that came long before"
        )
        return told, "move it for all queries" if move.alone else "move it with its state"
    if move.under_way:
        return f"{move.task} is on its way to {move.under_way}, or back from there", "wait until that has ended"
    if move.from_site == move.to_site and not move.alone:
        return f"{move.task} is at {move.to_site} already", "name another site"
    if not move.able:
        return f"site {move.to_site} takes no new tasks: it is not heard, or draining", "look at SHOW SITES"
    if move.slots:
        return f"site {move.to_site} has no slot for the task: {move.slots}", "name a site that has"
    if move.busy:
        return f"{', '.join(move.busy)}, next to it, is moving", "wait until that has ended"
    return _of_other_versions(move.versions)


def may_leave(kind: StageKind, lineage: Lineage, now: datetime, *, beside_source: bool = False) -> bool:
    """Return whether the move of a task away from a draining site is to be begun now."""
    last = lineage.last
    failed_lately = last is not None and not last.moved and now - last.ended_at < AGAIN_AFTER
    return is_movable(kind, beside_source=beside_source) and lineage.handover is None and not failed_lately
