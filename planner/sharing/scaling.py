"""Another number of parts for a merge whose query runs: who may have it, and what the query is then. Pure.

All new parts begin side by side with the old ones, in the middle of their inputs, so each misses the windows that were
open then. The task behind them, the FINAL, is followed by one that reads the new parts. It takes over as in any
handover, once the old one has emitted all windows that a new part misses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from planner.graph.ids import TaskId, VertexId
from planner.graph.plan import Merge, PhysicalPlan, Stage
from planner.handover.refusals import Around, unready
from planner.sharing.deployment import Deployment, apart, is_apart
from planner.sharing.running import Deployed, Running
from planner.sharing.vertices import Vertex, VertexKind
from planner.values.names import BINS
from planner.values.stages import StageKind

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Scale:
    """Another number of parts that somebody asks for."""

    query: str
    stage: Stage
    number: int
    """Of the new parts."""
    sites: tuple[str, ...]
    """It has the site of each new part."""
    around: Around = field(default_factory=Around)
    """The state of these sites and that of the FINAL; and of the parts, what they read, the FINAL and what reads it."""


def parts_of(query: str, stage: str, running: Running) -> tuple[Deployed, ...]:
    """The parts of a stage that run, in the order of their bins."""
    return tuple(sorted((one for one in running.deployed if _is_of(one.id, query, stage)), key=lambda one: one.id))


def final_of(parts: Sequence[Deployed], running: Running) -> Deployed | None:
    """The FINAL that reads these parts, and nothing else; None: there is none, or others read some of them."""
    ids = {one.id for one in parts}
    readers = [one for one in running.deployed if not ids.isdisjoint(one.inputs)]
    if len(readers) != 1 or readers[0].vertex.kind is not VertexKind.FINAL:
        return None
    return readers[0] if set(readers[0].inputs) == ids else None


def refusal(asked: Scale, parts: Sequence[Deployed], running: Running) -> tuple[str, str] | None:
    """Why the merge cannot have that many parts, and what would be right; None: it can."""
    name, wanted = asked.stage.id, asked.number
    if asked.stage.kind is not StageKind.MERGE:
        return f"{name} is a {asked.stage.kind.value} stage", "the parts of a MERGE stage can be changed"
    if not parts:
        return f"query {asked.query} runs no merge of its own for {name}", "look at selat query explain"
    if not 1 <= wanted <= BINS:
        return f"{name} cannot have {wanted} parts", f"a merge has 1 to {BINS} parts"
    if final_of(parts, running) is None:
        return (
            f"the rows of {name} do not go to a FINAL task of their own",
            "parts can be changed of a merge planned with SET merge_parallelism whose only reader is a FINAL stage",
        )
    return _unfit(asked, parts, running) or unready(asked.around)


def _unfit(asked: Scale, parts: Sequence[Deployed], running: Running) -> tuple[str, str] | None:
    name = asked.stage.id
    if any(running.task(read).vertex.kind is VertexKind.TABLE for read in parts[0].inputs):
        return f"{name} reads a table, whose rows were sent once", "submit the query with that many parts"
    if not all(is_apart(one) for one in parts):
        return f"other queries may share the parts of {name}", "submit the query with SET sharing = 'net'"
    if len(asked.sites) == len(parts) and asked.sites == tuple(running.site(one.id) for one in parts):
        return f"{name} has {len(parts)} parts at these sites already", "name another number, or other sites"
    return None


def sites_for(parts: int, wanted: Sequence[str], now: Sequence[str]) -> tuple[str, ...]:
    """The site of each new part: the wanted ones in turn, or else those of the parts that run; none if there are none.

    Not more than there are bins.
    """
    sites = tuple(wanted) or tuple(now)
    return tuple(sites[number % len(sites)] for number in range(min(parts, BINS))) if sites else ()


def whole_from_us(whole_after_us: int, final: Merge) -> int:
    """The watermark from which on all windows of a FINAL that are still to come are made of whole ones.

    Args:
        whole_after_us: the parts have every window that ends later.
        final: how the FINAL's rows wait. A window of it that begins later than that has only windows that end later.
    """
    period_us = final.period // _MICROSECOND
    at_us = whole_after_us + 1 + final.window // _MICROSECOND
    return -(-at_us // period_us) * period_us


def new_parts(query: str, stage: str, sites: Sequence[str]) -> tuple[TaskId, ...]:
    """The places of the parts, in the order of their bins."""
    return tuple(TaskId(query, stage, number) for number in range(len(sites)))


def scaled_plan(plan: PhysicalPlan, stage: str, parts: int) -> PhysicalPlan:
    """The plan with so many parts of a stage."""
    return replace(plan, stages=tuple(replace(s, parts=parts) if s.id == stage else s for s in plan.stages))


def scaled_deployment(deployment: Deployment, query: str, stage: str, sites: Sequence[str]) -> Deployment:
    """The deployment with other parts of a stage, which stand where the first of the old ones stood."""
    old = tuple(one for one in deployment.deployed if _is_of(one.id, query, stage))
    ids = {one.vertex.id for one in old}
    vertices = [_part(query, old[0].vertex, number, len(old) / len(sites)) for number in range(len(sites))]
    new = [Deployed(TaskId.of(query, vertex.id), vertex, old[0].inputs) for vertex in vertices]
    changed = {vertex.id: _rewired(vertex, ids, vertices) for vertex in deployment.vertices if vertex.id not in ids}
    deployed = [
        replace(one, vertex=_rewired(one.vertex, ids, vertices), inputs=_in_place(one.inputs, old, new))
        for one in deployment.deployed
        if one.id not in {gone.id for gone in old}
    ]
    at = deployment.deployed.index(old[0])
    first = next(n for n, vertex in enumerate(deployment.vertices) if vertex.id in ids)
    wanted = {vertex: site for vertex, site in deployment.wanted.items() if vertex not in ids}
    return replace(
        deployment,
        vertices=(*[*changed.values()][:first], *vertices, *[*changed.values()][first:]),
        deployed=(*deployed[:at], *new, *deployed[at:]),
        wanted=wanted | {vertex.id: site for vertex, site in zip(vertices, sites, strict=True)},
        notes={vertex: note for vertex, note in deployment.notes.items() if vertex not in ids},
    )


def _part(query: str, like: Vertex, number: int, share: float) -> Vertex:
    name = VertexId(like.stage, number)
    rate = like.output_bytes_per_s * share
    return replace(like, id=name, fingerprint=apart(query, name), output_bytes_per_s=rate)


def _rewired(vertex: Vertex, gone: set[VertexId], parts: Sequence[Vertex]) -> Vertex:
    """A vertex that reads the new parts in the place of those that are gone."""
    if gone.isdisjoint(vertex.inputs):
        return vertex
    others = tuple(name for name in vertex.inputs if name not in gone)
    return replace(vertex, inputs=(*(part.id for part in parts), *others))


def _in_place(inputs: tuple[TaskId, ...], old: Sequence[Deployed], new: Sequence[Deployed]) -> tuple[TaskId, ...]:
    gone = {one.id for one in old}
    if gone.isdisjoint(inputs):
        return inputs
    return (*(one.id for one in new), *(name for name in inputs if name not in gone))


def _is_of(task: TaskId, query: str, stage: str) -> bool:
    return (task.query, task.stage, task.derived) == (query, stage, False)
