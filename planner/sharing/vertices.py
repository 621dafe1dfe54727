"""The vertices of a query's graph, with fingerprints: what they compute, and of what.

A vertex is a task of the plan (a stage at a site), or what takes the results. Two vertices of one fingerprint read the
same rows and do the same with them, so they send the same rows: one of them is enough. In a fingerprint are the kind,
the form of the stage's SQL, the fingerprints of what it reads and, where it reads a relation, all that decides what
it reads: declaration, options of the binding, when it was declared. Not in it are names, texts, the order of columns,
the ids of stages, and for a merge the site, which its rows do not depend on. Of groups it says what their bins
are made of: a reader may take some bins of this channel, and the others of a channel that stands for another. Of a part
of a merge it says which bins it takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from planner.graph.ids import VertexId
from planner.graph.operators import CombinePartials, PartialAggregate
from planner.graph.plan import DraftPlan, Merge, Neighbours, Pairs, PhysicalPlan, Stage, Totals
from planner.relations.catalog import Relation
from planner.relations.connectors.table import traits_of
from planner.sharing.forms import Form, View, digest, form_of
from planner.values.flags import flags_of
from planner.values.names import INPUT_VIEW
from planner.values.stages import StageKind

RESULTS = "results"


class VertexKind(Enum):
    TABLE = "table"
    SOURCE = "source"
    COMBINE = "combine"
    MERGE = "merge"
    FINAL = "final"
    SINK = "sink"
    RESULTS = "results"
    """The gateway's copy of a result channel."""


@dataclass(frozen=True, slots=True)
class Vertex:
    """One task of a query that is to be run."""

    id: VertexId
    """In its query; of what takes the results, the stage is `RESULTS`."""
    kind: VertexKind
    fingerprint: str
    inputs: tuple[VertexId, ...] = ()
    """The vertices that it reads."""
    output_bytes_per_s: float = 0.0
    pinned: str | None = None
    """Where it has to run, for its data or its readers are there; None: anywhere."""
    form: Form | None = None
    """What it computes; None where the SQL is of no form that is known, or there is none."""
    reads: str = ""
    """Digest of what its form is over; forms of the same are comparable."""
    columns: tuple[str, ...] = ()
    """Names of the output's columns, as its SQL has them."""
    types: tuple[str, ...] = ()
    """Their Spark types; empty until they are known."""
    bins: tuple[str, ...] = ()
    """Of groups, the columns that make their bin."""

    @property
    def stage(self) -> str:
        """Of the query's plan; `RESULTS` of what takes the results."""
        return self.id.stage


@dataclass(frozen=True, slots=True)
class _Read:
    """A stage as its readers see it."""

    stage: Stage
    form: Form | None
    digest: str
    """Of the stage, without what is different from site to site."""
    waits: tuple[str, ...] = ()
    """Of a MERGE: which windows its rows wait for. What it emits at once is the same in all of equal windows."""

    def names(self) -> dict[str, str]:
        """What its columns are, by lower-case name."""
        if self.form is None:
            return {column.name.lower(): digest([self.digest, column.name]) for column in self.stage.columns}
        return {name.lower(): digest([self.digest, term.label]) for name, term in self.form.columns}


def vertices_of(
    plan: DraftPlan | PhysicalPlan,
    relations: Mapping[str, Relation],
    rates: Mapping[tuple[str, str], float],
    *,
    owner: str,
    gateway: str,
) -> tuple[Vertex, ...]:
    """The vertices of a plan, each behind those it reads.

    Args:
        plan: typed or not; casts that are redundant are known to be only where types are.
        relations: the streams and tables of the plan, by name, as they were when it was made.
        rates: bytes per second that a stage sends, by stage and site; of a stage that has no site yet, by stage and "".
        owner: the query. What writes into a sink is its own, whatever it writes.
        gateway: the site that takes results.
    """
    reads: dict[str, _Read] = {}
    vertices: list[Vertex] = []
    for stage in plan.stages:
        reads[stage.id] = _read(stage, relations, reads)
        vertices += _tasks(reads[stage.id], vertices, (relations, rates, owner))
    if plan.stages and all(stage.kind is not StageKind.SINK for stage in plan.stages):
        takers = [_results(number, stage, vertices, gateway) for number, stage in enumerate(plan.result_stages)]
        vertices += takers
    return tuple(vertices)


def forms_of(plan: PhysicalPlan, relations: Mapping[str, Relation]) -> dict[str, Form | None]:
    """What each stage of a plan computes, by stage; None where its SQL is of no form that is known.

    Args:
        plan: typed, as it runs.
        relations: its streams and tables, by name.
    """
    reads: dict[str, _Read] = {}
    for stage in plan.stages:
        reads[stage.id] = _read(stage, relations, reads)
    return {name: read.form for name, read in reads.items()}


def _read(stage: Stage, relations: Mapping[str, Relation], before: Mapping[str, _Read]) -> _Read:
    places = list(dict.fromkeys(i.view for i in stage.inputs))
    views: dict[str, View] = {}
    for place, view in enumerate(places):
        found = _view(f"v{place}", [before[i.stage] for i in stage.inputs if i.view == view])
        views[view.lower()] = _with_flags(found, stage.merge)
    if stage.relation is not None and stage.relation in relations:
        types = {column.name.lower(): column.type for column in relations[stage.relation].columns if column.type}
        views[INPUT_VIEW] = View(INPUT_VIEW, None, types)
    form = form_of(stage.body, views)
    same_site = [str(i.same_site) for i in stage.inputs]
    behind = [f"{place} {i.behind}" for place, i in enumerate(stage.inputs) if i.behind]
    does = [form.digest] if form is not None else [stage.sql, *_names_of(views)]
    waits = _merge_parts(stage, places, form)
    bins = _bins_of(stage)
    by_name = dict(form.columns) if form is not None else {}
    # Without a form, the text says it.
    binned = sorted(by_name[name].label for name in bins if name in by_name)
    parts = [stage.kind.value, *sorted(stage.read_columns), *same_site, *behind, *waits, *does, *binned]
    return _Read(stage, form, digest(parts), tuple(waits))


def _bins_of(stage: Stage) -> tuple[str, ...]:
    return stage.body.bins if isinstance(stage.body, PartialAggregate | CombinePartials) else ()


def _view(name: str, stages: Sequence[_Read]) -> View:
    """One or more stages as one view; their columns have the same names in the same places."""
    # Columns of one row of the branches belong together, so all are listed in one order of the stages.
    by_stage = [read.names() for read in sorted(stages, key=lambda read: read.digest)]
    columns = {column: digest(names.get(column, "") for names in by_stage) for column in by_stage[0]}
    types = {column.name.lower(): column.type for column in stages[0].stage.columns if column.type}
    known = {columns[column]: type_ for column, type_ in types.items() if column in columns}
    return View(name, columns, known if len(stages) == 1 else {})


def _with_flags(view: View, merge: Merge | None) -> View:
    """Return the view with the columns that the agent adds to rows that are added up, or that have others before
    them."""
    if merge is None or not (merge.totals or merge.neighbours):
        return view
    flags = {name: f"flag {name}" for name in flags_of(merge)}
    return replace(view, columns={**(view.columns or {}), **flags})


def _names_of(views: Mapping[str, View]) -> list[str]:
    """What a text that could not be read may name."""
    return [
        part
        for view in views.values()
        for name, column in sorted((view.columns or {}).items())
        for part in (view.name, name, column)
    ]


def _merge_parts(stage: Stage, places: Sequence[str], form: Form | None) -> list[str]:
    merge = stage.merge
    if merge is None:
        return []
    required = {view.view: view.required for view in merge.views}
    parts = [
        str(merge.window),
        str(merge.period),
        *([f"shifted {merge.offset}"] if merge.offset else []),
        *(["panes"] if merge.panes else []),
        *(["cumulative"] if merge.cumulates else []),
        *([f"{merge.months} months"] if merge.months else []),
        *(["sessions", str(merge.sessions.at_start)] if merge.sessions is not None else []),
        *([] if merge.pairs is None else _pair_parts(merge.pairs)),
        *([] if merge.totals is None else _total_parts(merge.totals)),
        *([] if merge.neighbours is None else _neighbour_parts(merge.neighbours)),
        *(str(required.get(place)) for place in places),
    ]
    return parts if form is not None else [*parts, merge.combine_sql]


def _pair_parts(pairs: Pairs) -> list[str]:
    sides = [
        part for side in (pairs.first, pairs.second) for part in (side.view, *side.keys, side.unmatched, side.once)
    ]
    bounds = (pairs.lower, pairs.upper, pairs.until, pairs.emits_pairs, pairs.newest, pairs.strict)
    return ["pairs", *map(str, (*sides, *bounds))]


def _neighbour_parts(neighbours: Neighbours) -> list[str]:
    return ["neighbours", *neighbours.keys, str(neighbours.rows), str(neighbours.within)]


def _total_parts(totals: Totals) -> list[str]:
    return ["totals", *totals.keys, str(totals.compares), str(totals.ttl), totals.ends]


def _tasks(
    read: _Read,
    before: Sequence[Vertex],
    known: tuple[Mapping[str, Relation], Mapping[tuple[str, str], float], str],
) -> list[Vertex]:
    relations, rates, owner = known
    stage = read.stage
    vertices = []
    for number, home in enumerate(stage.homes):
        site = home or ""
        groups = [[v for v in before if v.stage == i.stage and _reaches(v, site, i.same_site)] for i in stage.inputs]
        over = [digest(sorted(v.fingerprint for v in group)) for group in _by_view(stage, groups)]
        if stage.relation is not None:
            over.append(_binding(relations.get(stage.relation), stage.relation, site))
        own = [owner, stage.id] if stage.kind is StageKind.SINK else []
        part = [f"part {number} of {stage.parts}"] if stage.parts > 1 else []
        rate = rates.get((stage.id, site), rates.get((stage.id, ""), 0.0))
        vertices.append(
            Vertex(
                id=VertexId(stage.id, number),
                kind=VertexKind(stage.kind.value),
                fingerprint=digest([read.digest, *over, *own, *part]),
                inputs=tuple(v.id for group in groups for v in group),
                output_bytes_per_s=rate,
                pinned=site or None,
                form=read.form,
                reads=digest([stage.kind.value, *over, *part, *read.waits, *_converted(stage, relations, site)]),
                columns=tuple(column.name for column in stage.columns),
                types=tuple(column.type for column in stage.columns),
                bins=_bins_of(stage),
            )
        )
    return vertices


def _reaches(vertex: Vertex, site: str, same_site: bool) -> bool:
    return not same_site or vertex.pinned == site


def _by_view(stage: Stage, groups: Sequence[Sequence[Vertex]]) -> list[list[Vertex]]:
    """The vertices that each view is made of, in the order of the views."""
    views: dict[str, list[Vertex]] = {}
    for stage_input, group in zip(stage.inputs, groups, strict=True):
        views.setdefault(stage_input.view, []).extend(group)
    return list(views.values())


def _binding(relation: Relation | None, name: str, site: str) -> str:
    """All that decides which rows are read at a site, and which of them are late."""
    if relation is None:
        return digest([name, site])
    options = [option for b in relation.bindings if b.site == site for option in sorted(b.options.items())]
    return digest(
        [
            relation.kind.value,
            relation.name.lower(),
            site,
            str(relation.event_time),
            str(relation.watermark_delay),
            str(relation.created_at),
            *(f"{column.name} {column.type}" for column in relation.columns),
            *(part for option in options for part in option),
        ]
    )


def _converted(stage: Stage, relations: Mapping[str, Relation], site: str) -> Sequence[str]:
    """Columns that decide which rows there are: a row of a file is malformed by the columns that are read."""
    relation = relations.get(stage.relation or "")
    bindings = relation.bindings if relation is not None else ()
    known = any(b.site == site and traits_of(b.options).whole_rows for b in bindings)
    return () if known else sorted(stage.read_columns)


def _results(number: int, stage_id: str, vertices: Sequence[Vertex], gateway: str) -> Vertex:
    inputs = [v for v in vertices if v.stage == stage_id]
    return Vertex(
        id=VertexId(RESULTS, number),
        kind=VertexKind.RESULTS,
        fingerprint=digest([RESULTS, gateway, *sorted(v.fingerprint for v in inputs)]),
        inputs=tuple(v.id for v in inputs),
        pinned=gateway,
    )
