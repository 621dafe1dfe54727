"""How many rows and bytes a plan is expected to send, before anything has run.

    rows of a stream at a site   measured, else the binding's option `rows_per_second`, else 1000 rows/s
    a filter keeps               1/10 of the rows when it is an equality, else 1/3; conjuncts multiply
    a join with a table          as many rows as its left side
    a join of streams            as many rows as the largest of them has in a window
    a join of rows of windows    as many rows as the largest of them has in a window
    a join within an interval    as many rows as the largest of the streams
    groups of a window           100 for each key (1 without keys), in each of the windows that it is made up of;
                                 at most the rows
    partials                     per source site and epoch of 1 s: the groups met in one epoch, once for each window
                                 that a row is in; where they are combined: per window, and in a tree those of
                                 several sites together
    results                      per window: its groups, at most those of an aggregate over them, a third of them for
                                 each condition of HAVING or of a query over them, or at most k for each partition of a
                                 top-k
    to a FINAL                   the groups of a window, at most k for each partition of a top-k from each part
    bytes of a row               see `planner.relations.widths`

Nothing is taken off for compression. Copies of tables are sent once and are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from planner.graph.operators import MergeAggregate, walk
from planner.graph.origins import combines_behind, origins, source_behind
from planner.graph.plan import DraftPlan, JoinShape, QueryShape, Stage, Statistics
from planner.relations.catalog import Column
from planner.relations.widths import row_bytes
from planner.values.links import Pair
from planner.values.names import INPUT_VIEW
from planner.values.stages import StageKind

DEFAULT_ROWS_PER_S = 1000.0
FILTER_SELECTIVITY = 1 / 3
EQUALITY_SELECTIVITY = 1 / 10
GROUPS_PER_KEY = 100.0
EPOCH = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Flow:
    """Rows and bytes per second."""

    rows_per_s: float
    bytes_per_s: float

    def __add__(self, other: Flow) -> Flow:
        return Flow(self.rows_per_s + other.rows_per_s, self.bytes_per_s + other.bytes_per_s)


@dataclass(frozen=True, slots=True)
class MergeFlows:
    """What goes in and out of one MERGE, all of its parts together."""

    stage: str
    parts: int
    sources: Mapping[str, Flow]
    """By site; several sources at a site are added up."""
    out: Flow


@dataclass(frozen=True, slots=True)
class Estimate:
    """What leaves the sites of the sources of one result stage, and what a merge emits."""

    stage: str
    """The result stage."""
    sources: Mapping[str, Flow]
    """By site; several sources at a site are added up."""
    results: Flow | None
    """None when the sources' output is the result."""
    merges: tuple[MergeFlows, ...] = ()
    """The MERGEs that it is made of: the result stage itself, or those that a FINAL reads."""
    between: Mapping[Pair, Flow] = field(default_factory=dict)
    """In trees of COMBINEs, what goes from site to site before it goes to a MERGE."""
    paired: tuple[MergeFlows, ...] = ()
    """MERGEs of pairs whose output one of `merges` reads, even over others; `sources` has their sources, too."""


def estimate_flows(draft: DraftPlan, statistics: Statistics) -> tuple[Estimate, ...]:
    """The expected flows of a plan, by result stage."""
    return tuple(_estimate(draft, draft.stage(stage_id), statistics) for stage_id in draft.result_stages)


def task_rates(draft: DraftPlan, statistics: Statistics) -> Mapping[tuple[str, str], float]:
    """Bytes per second that each task is expected to send, by stage and site; of a merge, which has none yet, by "".

    Copies of tables are sent once: they count nothing.
    """
    rates: dict[tuple[str, str], float] = {}
    for last in (draft.stage(stage_id) for stage_id in draft.result_stages):
        for merge in _merges(draft, last):
            for part in _parts(draft, merge):
                stages = (part.source, part.sender, *combines_behind(part.sender, draft.stages))
                for stage in {stage.id: stage for stage in stages}.values():
                    flows = _leaving_stage(draft, merge, replace(part, sender=stage), statistics)
                    rates |= {(stage.id, site): flow.bytes_per_s for site, flow in flows.items()}
        found = _estimate(draft, last, statistics)
        rates |= {(one.stage, ""): one.out.bytes_per_s / one.parts for one in (*found.merges, *found.paired)}
        if found.results is not None and last.kind is StageKind.FINAL:
            rates[last.id, ""] = found.results.bytes_per_s
    return rates


def _merges(draft: DraftPlan, last: Stage) -> tuple[Stage, ...]:
    """The MERGEs that a FINAL reads; any other result stage itself."""
    return tuple(draft.stage(i.stage) for i in last.inputs) if last.kind is StageKind.FINAL else (last,)


@dataclass(frozen=True, slots=True)
class _Part:
    """What a result stage is made of."""

    source: Stage
    """A SOURCE."""
    sender: Stage
    """The SOURCE, or the COMBINE behind it."""
    view: str
    """That its rows are part of in the result stage."""


def _parts(draft: DraftPlan, last: Stage) -> list[_Part]:
    if last.kind is not StageKind.MERGE:
        return [_Part(last, last, INPUT_VIEW)]
    found: list[_Part] = []
    for sender, view in ((draft.stage(item.stage), item.view) for item in last.inputs):
        if sender.kind is StageKind.MERGE:
            found += (_Part(part.source, part.sender, view) for part in _parts(draft, sender))
        elif (source := source_behind(sender, draft.stages)).id in draft.shapes:
            found.append(_Part(source, sender, view))
    return found


def _paired(draft: DraftPlan, merge: Stage) -> Iterator[Stage]:
    """The MERGEs of pairs that a MERGE reads, each behind those that it reads itself."""
    for sender in (draft.stage(item.stage) for item in merge.inputs):
        if sender.kind is StageKind.MERGE:
            yield from _paired(draft, sender)
            yield sender


def _leaving_stage(draft: DraftPlan, last: Stage, part: _Part, statistics: Statistics) -> dict[str, Flow]:
    """What leaves the sites of the sender: each row, or group of an epoch, once, in however many windows it is."""
    source = part.source
    shape, join = draft.shapes[source.id], draft.joins.get(last.id)
    known = source.columns
    rates = {site: _born(draft, part, site, statistics) for site in part.sender.pinned}
    if join is not None:
        width = row_bytes(known or tuple(Column(name, "") for name in source.read_columns))
        return {site: _flow(rate, width) for site, rate in rates.items()}
    width = row_bytes(known or _assumed_columns(draft, last))
    if shape.window is None:
        return {site: _flow(rate, width) for site, rate in rates.items()}
    period = (shape.slide or shape.window) if part.sender.kind is StageKind.COMBINE else EPOCH
    return {site: _flow(_partials(shape, rate, period), width) for site, rate in rates.items()}


def _born(draft: DraftPlan, part: _Part, site: str, statistics: Statistics) -> float:
    """Rows per second that pass the filters, of all sites whose rows a task of the sender has."""
    shape = draft.shapes[part.source.id]
    sites = origins(part.sender, site, draft.stages)
    return sum(rows_per_s(shape, origin, statistics) for origin in sorted(sites)) * shape.selectivity


def _between(draft: DraftPlan, merges: Sequence[Stage], statistics: Statistics) -> dict[Pair, Flow]:
    """What the COMBINEs of a tree send to each other."""
    found: dict[Pair, Flow] = {}
    for merge, part in ((one, part) for one in merges for part in _parts(draft, one)):
        for reader in combines_behind(part.sender, draft.stages):
            for sender in (draft.stage(item.stage) for item in reader.inputs if not item.same_site):
                for site, flow in _leaving_stage(draft, merge, replace(part, sender=sender), statistics).items():
                    for target in reader.pinned:
                        found[site, target] = found.get((site, target), Flow(0.0, 0.0)) + flow
    return found


def _estimate(draft: DraftPlan, last: Stage, statistics: Statistics) -> Estimate:
    merges = _merges(draft, last)
    leaving: dict[str, Flow] = {}
    arriving: list[_Arriving] = []
    found: list[MergeFlows] = []
    for merge in merges:
        sources, rows = _sources(draft, merge, statistics)
        for site, flow in sources.items():
            leaving[site] = leaving.get(site, Flow(0.0, 0.0)) + flow
        # FINAL knows the views of the merges by other names than these.
        arriving += [(shape, f"{merge.id} {view}", rate) for shape, view, rate in rows]
        if merge.kind is StageKind.MERGE:
            out = _flow(_results(draft.joins.get(merge.id), rows), row_bytes(merge.columns or draft.columns))
            if last.kind is StageKind.FINAL:
                out = _flow(_groups_out(draft, merge, rows), row_bytes(merge.columns or draft.columns))
            found.append(MergeFlows(merge.id, merge.parts, sources, out))
    if not found:
        return Estimate(last.id, leaving, None)
    join = draft.joins.get(merges[0].id)
    results = _flow(_results(join, arriving), row_bytes(draft.columns))
    paired = [_flows_of_pairs(draft, one, statistics) for merge in merges for one in _paired(draft, merge)]
    return Estimate(last.id, leaving, results, tuple(found), _between(draft, merges, statistics), tuple(paired))


def _flows_of_pairs(draft: DraftPlan, merge: Stage, statistics: Statistics) -> MergeFlows:
    sources, rows = _sources(draft, merge, statistics)
    out = _flow(max(rate for _, _, rate in rows), row_bytes(merge.columns or draft.columns))
    return MergeFlows(merge.id, merge.parts, sources, out)


_Arriving = tuple[QueryShape, str, float]
"""The shape of a source, the view that it is part of, and its rows per second."""


def _sources(draft: DraftPlan, merge: Stage, statistics: Statistics) -> tuple[Mapping[str, Flow], Sequence[_Arriving]]:
    """What leaves the sites of a result stage's or a MERGE's sources, and the rows that this is made of."""
    leaving: dict[str, Flow] = {}
    arriving: list[_Arriving] = []
    for part in _parts(draft, merge):
        for site, flow in _leaving_stage(draft, merge, part, statistics).items():
            leaving[site] = leaving.get(site, Flow(0.0, 0.0)) + flow
        shape = draft.shapes[part.source.id]
        rate = sum(_born(draft, part, site, statistics) for site in part.sender.pinned)
        arriving.append((shape, part.view, rate))
    return leaving, arriving


def _groups_out(draft: DraftPlan, merge: Stage, arriving: Sequence[_Arriving]) -> float:
    """Rows per second from all parts of a MERGE to a FINAL: groups, and of a top-k so many from each part."""
    join = draft.joins.get(merge.id)
    if join is not None:
        return _results(replace(join, result=_of_parts(join.result, merge.parts)), arriving)
    return _results(None, [(_of_parts(shape, merge.parts), view, rate) for shape, view, rate in arriving])


def _of_parts(shape: QueryShape, parts: int) -> QueryShape:
    top_k = None if shape.top_k is None else shape.top_k * parts
    return replace(shape, result_keys=None, top_k=top_k)


def _results(join: JoinShape | None, arriving: Sequence[_Arriving]) -> float:
    """Rows per second that a merge emits; `arriving` are shape, view and rows per second of each source."""
    if join is None:
        rates: dict[str, float] = {}
        shapes: dict[str, QueryShape] = {}
        for shape, view, rate in arriving:
            shapes.setdefault(view, shape)
            rates[view] = rates.get(view, 0.0) + rate
        return max(_results_per_s(shape, rates[view]) for view, shape in shapes.items() if shape.window is not None)
    # As many rows as the largest of the streams has; none are combined before the join.
    joined = max(rate for _, _, rate in arriving) * join.selectivity
    return joined * (join.window // join.slide) if join.result.window is None else _results_per_s(join.result, joined)


def rows_per_s(shape: QueryShape, site: str, statistics: Statistics) -> float:
    """Rows of the stream per second at a site."""
    for name in (shape.relation, shape.relation.lower()):
        stats = statistics.rates.get((name, site))
        if stats is not None:
            return stats.rows_per_s
    return shape.declared_rates.get(site, DEFAULT_ROWS_PER_S)


def _assumed_columns(draft: DraftPlan, last: Stage) -> tuple[Column, ...]:
    operators = walk(last.body) if last.body is not None else iter(())
    merge = next((found for found in operators if isinstance(found, MergeAggregate)), None)
    if merge is None:
        return draft.columns
    return tuple(Column(str(index), "") for index in range(len(merge.keys) + len(merge.partials)))


def _groups(keys: int) -> float:
    return float(GROUPS_PER_KEY**keys)


def _partials(shape: QueryShape, rate: float, period: timedelta) -> float:
    """Rows per second, where each group is sent once in a period."""
    period_s = period.total_seconds()
    # An epoch is shorter than any window, so its rows are in few of those that a longer one is made up of.
    return min(rate * period_s, _groups(shape.keys)) / period_s


def _windows_of_a_row(shape: QueryShape) -> int:
    assert shape.window is not None
    return shape.window // (shape.slide or shape.window)


def _results_per_s(shape: QueryShape, rate: float) -> float:
    assert shape.window is not None
    window_s = shape.window.total_seconds()
    rows = min(rate * window_s, _groups(shape.keys) * shape.inner_windows)
    if shape.result_keys is not None:
        rows = min(rows, _groups(shape.result_keys))
    rows *= FILTER_SELECTIVITY**shape.having
    if shape.top_k is not None:
        rows = min(rows, shape.top_k * _groups(shape.top_k_keys))
    return rows * _windows_of_a_row(shape) / window_s


def _flow(rate: float, width: int) -> Flow:
    return Flow(rate, rate * width)
