"""The plan of a new query beside what runs: what becomes of each vertex, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from planner.graph.ids import TaskId, VertexId
from planner.sharing.candidates import Candidate
from planner.sharing.modes import Goal, Sharing
from planner.sharing.running import Deployed, Running
from planner.sharing.wan import Wan
from planner.values.links import Pair


class Action(Enum):
    """What becomes of a vertex."""

    SHARED = "shared"
    """IN-OP: a running operator stands for it."""
    CONTAINED = "contained"
    """It is made of the output of a running operator."""
    CO_LOCATED = "co-located"
    """IN: it goes where some of its inputs arrive already."""
    PINNED = "pinned"
    """Its site is given by the data, or by where the results are wanted."""
    LOCAL = "local"
    """All its inputs are at one site."""
    PLACED = "placed"
    """By cost, or in a mode that is blind to the WAN at the site of an input."""
    UNNEEDED = "unneeded"
    """All that would read it is shared."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one vertex, and why."""

    vertex: VertexId
    action: Action
    site: str
    operator: TaskId | None
    """The running operator that it is shared with, made of, or put beside; None when there is none."""
    reason: str
    edges: tuple[VertexId, ...] = ()
    """Of a shared vertex: its readers that the operator lacks (D_v without D_w)."""
    rejected: tuple[Candidate, ...] = ()
    """What would have contended for links."""
    others: tuple[Candidate, ...] = ()
    """What could have been taken as well, and shares no more."""

    @property
    def query(self) -> str:
        """The running query of the operator; empty when there is none."""
        return self.operator.query if self.operator is not None else ""


@dataclass(frozen=True, slots=True)
class SharingPlan:
    """The plan of a new query: which vertices are deployed, and which running tasks are used."""

    query: str
    sharing: Sharing
    decisions: tuple[Decision, ...]
    deployed: tuple[Deployed, ...]
    """What is new, each behind those it reads."""
    used: tuple[TaskId, ...]
    """Ids of running operators that stand for vertices of the query, or that its operators read; sorted."""
    traffic: Mapping[Pair, float]
    """Bytes per second that the query adds between sites."""
    compared: int
    """Running operators that were looked at."""

    @property
    def placement(self) -> Mapping[TaskId, str]:
        """The site of each that is new."""
        sites = {decision.vertex: decision.site for decision in self.decisions}
        return {one.id: sites[one.vertex.id] for one in self.deployed}

    @property
    def wan_bytes_per_s(self) -> float:
        return sum(self.traffic.values())

    def decision(self, vertex: VertexId) -> Decision:
        """Raises KeyError when there is no such vertex."""
        for decision in self.decisions:
            if decision.vertex == vertex:
                return decision
        raise KeyError(vertex)


@dataclass(frozen=True, slots=True)
class Setting:
    """What a query is planned in."""

    running: Running
    wan: Wan
    alive: frozenset[str]
    """Sites that can take tasks."""
    sharing: Sharing = Sharing.SANA
    goal: Goal = Goal.BYTES
    open_sites: frozenset[str] | None = None
    """Sites that take vertices which are not bound to one; None: all that are alive."""
    placed: Mapping[VertexId, str] = field(default_factory=dict)
    """By vertex, where the caller wants it when it is not shared, in place of steps 3 and 4; not for modes that are
    blind to the WAN."""
    keeps_room: bool = True
    """Placement prefers sites whose links have room for a vertex's inputs. False: placement goes by cost alone, as in
    the published algorithm; `simulator` shows the difference."""
