"""A query gives up a task of its own, and shares the task of another query again from which it was split. Pure.

What it reads from then on is made of the shared channel epoch by epoch, because its own epochs have other numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.graph.ids import TaskId
from planner.sharing.deployment import Deployment
from planner.sharing.running import Deployed, Running
from planner.sharing.vertices import VertexKind
from planner.values.literals import quoted_name
from planner.values.names import INPUT_VIEW


@dataclass(frozen=True, slots=True)
class Rejoin:
    """A query that is to share a task again."""

    place: TaskId
    """The place of the task of its own."""
    shared: TaskId
    """The place from which it was split; `place`: it was not."""
    parts: int
    """The number of parts of its stage."""


def refusal(asked: Rejoin, running: Running) -> tuple[str, str] | None:
    """Return why the query cannot share the task again, and what would be right; None: it can."""
    place, shared = asked.place, asked.shared
    own = running.task(place)
    if own.residual:
        return f"{place} is made of {own.inputs[0]}, which is shared", "there is nothing to be done"
    if shared == place:
        told = f"{place} was not split from a task of another query"
        return told, "submit the query again to have it share what runs"
    if shared not in running.placement:
        return f"{shared}, from which {place} was split, does not run any more", "let the query go on as it is"
    if own.vertex.kind is not VertexKind.MERGE or asked.parts > 1:
        told = "runs in parts" if asked.parts > 1 else f"is a {own.vertex.kind.value} task"
        return f"{place} cannot meet the channel of {shared}, because it {told}", "only a merge in one part can"
    return None


def remade(own: Deployed, shared: TaskId) -> Deployed:
    """Return what makes a query's rows of those of the shared task, in the place of its own task."""
    names = ", ".join(map(quoted_name, own.vertex.columns))
    return replace(own, inputs=(shared,), residual=f"SELECT {names} FROM {INPUT_VIEW}")


def joined(deployment: Deployment, place: TaskId, shared: TaskId, site: str) -> Deployment:
    """Return what a query runs once it shares a task again, by a task at that site."""
    deployed = tuple(remade(one, shared) if one.id == place else one for one in deployment.deployed)
    note = f"{place.vertex} at {site}: shared with {shared} again"
    return replace(
        released(deployment, shared),
        deployed=deployed,
        wanted={**deployment.wanted, place.vertex: site},
        notes={**deployment.notes, place.vertex: note},
    )


def holding(deployment: Deployment, shared: TaskId) -> Deployment:
    """Return the deployment with a task that has to stay until it is shared again."""
    return replace(deployment, held=(*deployment.held, shared))


def released(deployment: Deployment, shared: TaskId) -> Deployment:
    """Return the deployment without that."""
    return replace(deployment, held=tuple(name for name in deployment.held if name != shared))
