"""EXPLAIN: a placed plan as text and as JSON.

Each thing said about a stage or a link is a field of a section; a new one is added there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from planner.graph.batchoptions import BatchOptions
from planner.graph.plan import (
    BatchPlan,
    ConsideredFilter,
    LinkTraffic,
    PhysicalPlan,
    PlacementCandidate,
    Stage,
    TreeCandidate,
)
from planner.graph.whole import ScanOfTable
from planner.text.fields import Field, Section
from planner.text.merges import merge_json, merge_text
from planner.values.links import LinkFigures
from planner.values.splits import NOTHING
from planner.values.stages import StageKind

_UNITS = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"))
_LONG_AGO_S = 120
_COUNTS = ((1e6, " M"), (1e3, " k"))


@dataclass(frozen=True, slots=True)
class StageOfPlan:
    """A stage, and the plan that places it."""

    stage: Stage
    plan: PhysicalPlan

    @property
    def sites(self) -> tuple[str, ...]:
        """Where its tasks run."""
        return tuple(self.plan.sites_of(self.stage))

    @property
    def parts(self) -> list[tuple[int, str, range]]:
        """Of a stage in parts: their numbers, sites and bins."""
        placed = zip(self.stage.vertices, self.sites, strict=False)
        found = ((vertex.partition, site, self.stage.bins(vertex.partition)) for vertex, site in placed)
        return [(part, site, bins) for part, site, bins in found if bins is not None]

    @property
    def result(self) -> bool:
        """Whether its output is the query's result."""
        return self.stage.id in self.plan.result_stages


@dataclass(frozen=True, slots=True)
class LinkOfPlan:
    """What is expected on a link, and what was known of it; None: there is no such link, or that was not kept."""

    traffic: LinkTraffic
    figures: LinkFigures | None


@dataclass(frozen=True, slots=True)
class ReduceSite:
    """A site at which the reduce could run."""

    site: str
    elsewhere_bytes: int
    expected: bool


@dataclass(frozen=True, slots=True)
class SplitsAtSite:
    """The splits of a MAP stage's table at one site."""

    stage: str
    site: str
    count: int
    size_bytes: int
    left_out_bytes: int
    one_stage: bool
    """The plan has no other MAP stage."""


def _parts_json(s: StageOfPlan) -> list[dict[str, Any]]:
    return [{"part": part, "site": site, "first_bin": bins.start, "bins": len(bins)} for part, site, bins in s.parts]


def _parts_text(s: StageOfPlan) -> str:
    return "\n".join(f"part {part} at {site}: bins {bins.start} to {bins.stop - 1}" for part, site, bins in s.parts)


def _relation_text(stage: Stage) -> str:
    of = f" of {stage.relation}" if stage.relation else ""
    by = " by arrival" if stage.by_arrival else ""
    return of + by + (", a task for each split," if stage.kind is StageKind.MAP else "")


def _inputs_text(stage: Stage) -> str:
    return "\n".join(f"reads {i.stage}{' of the same site' if i.same_site else ''} as {i.view}" for i in stage.inputs)


STAGES: Section[StageOfPlan] = Section(
    "stages[]",
    lambda s: s.stage.id,
    (
        Field("id", "Its id in the plan.", lambda s: s.stage.id),
        Field(
            "kind",
            "What its tasks do, such as `source` or `merge`.",
            lambda s: s.stage.kind.value,
            lambda s: s.stage.kind.value,
            ": ",
        ),
        Field(
            "relation",
            "The relation that it reads; null: none.",
            lambda s: s.stage.relation,
            lambda s: _relation_text(s.stage),
            "",
        ),
        Field(
            "sites",
            "The sites of its tasks.",
            lambda s: list(s.sites),
            lambda s: f"at {', '.join(s.sites) or 'no site'}",
            " ",
        ),
        Field(
            "result",
            "True when its output is the query's result.",
            lambda s: s.result,
            lambda s: f"results at {s.plan.destination.site}" if s.result else "",
        ),
        Field("by_arrival", "True when the event time of its rows is when they arrived.", lambda s: s.stage.by_arrival),
        Field("read_columns", "The columns of the relation that it reads.", lambda s: list(s.stage.read_columns)),
        Field(
            "inputs",
            "The stages that it reads, each with its view's name, and whether only tasks of the same site are read.",
            lambda s: [{"stage": i.stage, "view": i.view, "same_site": i.same_site} for i in s.stage.inputs],
            lambda s: _inputs_text(s.stage),
            "\n",
        ),
        Field(
            "columns",
            "The columns of its output, with their Spark types.",
            lambda s: [{"name": column.name, "type": column.type} for column in s.stage.columns],
        ),
        Field(
            "merge",
            "Of a merge, final or combine: its window, and the SQL that combines the partials of each view; else null.",
            lambda s: merge_json(s.stage.merge),
            lambda s: merge_text(s.stage.merge),
            "\n",
        ),
        Field(
            "parts",
            "Of a merge in parts: each with its site, its first bin and how many it has; else empty.",
            _parts_json,
            _parts_text,
            "\n",
        ),
        Field("sql", "Its Spark SQL; may be empty.", lambda s: s.stage.sql, lambda s: s.stage.sql, "\n"),
    ),
)

LINKS: Section[LinkOfPlan] = Section(
    "links[]",
    lambda link: f"{link.traffic.source} -> {link.traffic.target}",
    (
        Field("from", "The site that sends.", lambda link: link.traffic.source),
        Field("to", "The site that receives.", lambda link: link.traffic.target),
        Field(
            "rows_per_s",
            "Rows expected per second.",
            lambda link: link.traffic.rows_per_s,
            lambda link: f"{_count(link.traffic.rows_per_s)} rows/s",
            ": ",
        ),
        Field(
            "bytes_per_s",
            "Bytes expected per second.",
            lambda link: link.traffic.bytes_per_s,
            lambda link: _bytes(link.traffic.bytes_per_s),
        ),
        Field(
            "bandwidth_bytes_per_s",
            "What the link carries per second; null: the plan has no figures of it.",
            lambda link: None if link.figures is None else link.figures.capacity_bytes_per_s,
            lambda link: _share(link),
        ),
    ),
)

FIGURES: Section[LinkFigures] = Section(
    "figures[]",
    lambda figures: f"{figures.source} -> {figures.target}",
    (
        Field("from", "The site where the link begins.", lambda figures: figures.source),
        Field("to", "The site where it ends.", lambda figures: figures.target),
        Field(
            "origin",
            "`measured`, or `topology` when the figures are those of the topology file.",
            lambda figures: "topology" if figures.age is None else "measured",
        ),
        Field(
            "age_s",
            "Seconds since it was measured; null: it was not.",
            lambda figures: None if figures.age is None else figures.age.total_seconds(),
        ),
        Field("confidence", "How far the measurements are to be relied on, 0 to 1.", lambda f: f.confidence),
        Field("capacity_bytes_per_s", "What the link carries in all.", lambda f: f.capacity_bytes_per_s),
        Field("available_bytes_per_s", "What running queries leave of that.", lambda f: f.available_bytes_per_s),
        Field("latency_s", "One-way latency in seconds.", lambda figures: figures.latency.total_seconds()),
    ),
)

CANDIDATES: Section[PlacementCandidate] = Section(
    "candidates[]",
    lambda candidate: f"{'*' if candidate.chosen else ' '} {candidate.site}",
    (
        Field(
            "stage",
            "The merge, or the final of a merge in parts, for which sites were weighed.",
            lambda candidate: candidate.stage,
        ),
        Field("site", "A site that was weighed for it.", lambda candidate: candidate.site),
        Field(
            "wan_bytes_per_s",
            "Bytes per second that would cross links, with the merge there.",
            lambda candidate: candidate.wan_bytes_per_s,
            lambda candidate: f"{_bytes(candidate.wan_bytes_per_s)} over the WAN",
            ": ",
        ),
        Field(
            "cost",
            "The sum over the links of bytes/s * latency^2 / capacity, in s^2.",
            lambda candidate: candidate.cost,
            lambda candidate: f"cost {candidate.cost:.3g}",
        ),
        Field("chosen", "True for the site that was taken.", lambda candidate: candidate.chosen),
        Field("reason", "Why it was taken or not.", lambda c: c.reason, lambda c: c.reason, ": "),
    ),
)

TREES: Section[TreeCandidate] = Section(
    "trees[]",
    lambda tree: f"{'*' if tree.chosen else ' '} {tree.tree}",
    (
        Field(
            "tree",
            "A way of combined groups to the merge that was weighed, as `SET combine_tree` has it.",
            lambda tree: tree.tree,
        ),
        Field(
            "cost",
            "The sum over the plan's links of bytes/s * latency^2 / capacity, in s^2.",
            lambda tree: tree.cost,
            lambda tree: f"cost {tree.cost:.3g}",
            ": ",
        ),
        Field(
            "closing_s",
            "How long the groups of a window are on their way to the merge, if all leave when it closes.",
            lambda tree: tree.closing_s,
            lambda tree: f"{tree.closing_s:.2f} s to the merge",
        ),
        Field("chosen", "True for the way that was taken.", lambda tree: tree.chosen),
        Field("reason", "Why it was taken or not.", lambda tree: tree.reason, lambda tree: tree.reason, ": "),
    ),
)

OPTIONS: Section[BatchOptions] = Section(
    "batch.options",
    lambda options: f"Scheduler ({options.scheduler.value})",
    (
        Field("scheduler", "The scheduler's name.", lambda options: options.scheduler.value),
        Field(
            "split_bytes",
            "Size of splits in bytes.",
            lambda options: options.split_bytes,
            lambda options: f"splits of {_size(options.split_bytes)}",
            ": ",
        ),
        Field(
            "locality_min",
            "Share of the tasks that are to run near their input, 0 to 1.",
            lambda options: options.locality_min,
            lambda options: f"{options.locality_min:.0%} of the tasks near their input",
        ),
        Field("key_filters", "When tables are filtered by keys: the setting.", lambda o: o.key_filters.value),
        Field(
            "reuse",
            "True where rows are taken again that other queries had made or sent.",
            lambda o: o.reuse,
            lambda o: "rows of other queries are taken again" if o.reuse else "",
        ),
    ),
)

SPLITS: Section[SplitsAtSite] = Section(
    "batch.splits[]",
    lambda splits: splits.site if splits.one_stage else f"{splits.stage} at {splits.site}",
    (
        Field("stage", "The MAP stage that reads them.", lambda splits: splits.stage),
        Field("site", "The site where they are.", lambda splits: splits.site),
        Field("splits", "How many they are.", lambda splits: splits.count, lambda splits: str(splits.count), ": "),
        Field("size_bytes", "Their bytes.", lambda splits: splits.size_bytes, lambda s: _size(s.size_bytes)),
        Field(
            "left_out_bytes",
            "Bytes of the table at the site that are not read: by the values of its directories, or the footers of "
            "Parquet files, no row in them fulfils the conditions.",
            lambda splits: splits.left_out_bytes,
            lambda s: f"{_size(s.left_out_bytes)} cannot match" if s.left_out_bytes else "",
        ),
    ),
)

REDUCE_SITES: Section[ReduceSite] = Section(
    "batch.reduce_sites[]",
    lambda s: f"{'*' if s.expected else ' '} {s.site}",
    (
        Field("site", "A site that has splits, or where the reduce is expected.", lambda s: s.site),
        Field(
            "expected", "True where the reduce is expected: the maps' output decides in the end.", lambda s: s.expected
        ),
        Field(
            "elsewhere_bytes",
            "Bytes of the splits at the other sites, which are to be sent there as far as the maps keep them.",
            lambda s: s.elsewhere_bytes,
            lambda s: (
                f"{_size(s.elsewhere_bytes)} of splits are elsewhere"
                f"{'; decided when the maps have ended' if s.expected else ''}"
            ),
            ": ",
        ),
    ),
)

SCANS: Section[ScanOfTable] = Section(
    "batch.scans[]",
    lambda scan: scan.table,
    (
        Field(
            "table",
            "Of a query that runs whole: a table that it scans, once for each time that it does.",
            lambda s: s.table,
        ),
        Field("stage", "The MAP stage that reads it for all its scans.", lambda s: s.stage, lambda s: s.stage, " in "),
        Field(
            "columns",
            "The columns that are sent for the scan.",
            lambda s: list(s.columns),
            lambda s: f"sends {', '.join(s.columns) or 'no column, only how many rows there are'}",
            ": ",
        ),
        Field(
            "stand_ins",
            "What is sent instead of columns that the query reads through functions alone.",
            lambda s: dict(s.stand_ins),
            lambda s: ", ".join(f"{sql} as {column}" for column, sql in s.stand_ins),
        ),
        Field(
            "distinct",
            "True where rows that are equal in the columns count once: each split sends them once.",
            lambda s: s.distinct,
            lambda s: "each row once" if s.distinct else "",
        ),
        Field(
            "counted",
            "True where rows that are equal are sent once with their number, and columns that are only summed or "
            "counted with what they add up to.",
            lambda s: s.counted,
            lambda s: "equal rows once, with their number" if s.counted else "",
        ),
        Field(
            "pushed",
            "The conditions that are evaluated at the sites: other rows are not sent for this scan.",
            lambda s: list(s.conditions),
            lambda s: "".join(f"  where {condition}\n" for condition in s.conditions).rstrip("\n"),
            "\n",
        ),
        Field(
            "not_pushed",
            "The conditions that are evaluated by the reduce alone, each with the reason.",
            lambda s: [{"condition": back.condition, "reason": back.reason} for back in s.kept_back],
            lambda s: "".join(f"  not {back.condition}: {back.reason}\n" for back in s.kept_back).rstrip("\n"),
            "\n",
        ),
    ),
)

KEY_FILTERS: Section[ConsideredFilter] = Section(
    "batch.key_filters[]",
    lambda f: f"{'*' if f.taken else ' '} {f.table}.{f.column} by {f.giver}.{f.giver_column}",
    (
        Field("table", "Of a query that runs whole: a table that could be filtered by keys.", lambda f: f.table),
        Field("column", "The column that is compared with the keys.", lambda f: f.column),
        Field("giver", "The table that gives the keys.", lambda f: f.giver),
        Field("giver_column", "The column that has them.", lambda f: f.giver_column),
        Field(
            "threshold",
            "Only groups with equal keys that may reach it give them; empty: all do.",
            lambda f: f.threshold,
            lambda f: f"where {f.threshold}" if f.threshold else "",
            " ",
        ),
        Field("taken", "True where the filter is applied.", lambda f: f.taken),
        Field("keys", "How many keys are expected.", lambda f: f.keys, lambda f: f"{f.keys} keys", ": "),
        Field(
            "key_bytes",
            "What they are expected to take on links, before compression.",
            lambda f: f.key_bytes,
            lambda f: _size(f.key_bytes),
        ),
        Field(
            "saved_bytes",
            "What is expected to be saved on links, before compression.",
            lambda f: f.saved_bytes,
            lambda f: f"save {_size(f.saved_bytes)}",
        ),
        Field("reason", "Why it is applied or not.", lambda f: f.reason, lambda f: f.reason, ": "),
    ),
)

SECTIONS: tuple[Section[Any], ...] = (
    *(STAGES, LINKS, FIGURES, CANDIDATES, TREES),
    *(OPTIONS, SPLITS, REDUCE_SITES, SCANS, KEY_FILTERS),
)


def explain_text(plan: PhysicalPlan) -> str:
    """The plan for people: operators, stages with their SQL, links, and the sites that were weighed."""
    return "\n".join(_lines(plan))


def _lines(plan: PhysicalPlan) -> Iterator[str]:
    yield "Logical plan"
    yield from (f"  {line}" for line in plan.logical)
    yield "Stages"
    for stage in plan.stages:
        yield from (f"  {line}" for line in STAGES.lines(StageOfPlan(stage, plan)))
    if isinstance(plan, BatchPlan):
        yield from _split_lines(plan)
        return
    yield "Expected traffic"
    if not plan.links:
        yield "  nothing crosses between sites"
    for link in _links(plan):
        yield from (f"  {line}" for line in LINKS.lines(link))
    stages = dict.fromkeys(candidate.stage for candidate in plan.candidates)
    for stage_id in stages:
        yield "Sites for the merge" if len(stages) == 1 else f"Sites for the merge {stage_id}"
        for candidate in plan.candidates:
            if candidate.stage == stage_id:
                yield from (f"  {line}" for line in CANDIDATES.lines(candidate))
    if plan.trees:
        yield "Ways of combined groups"
    for tree in plan.trees:
        yield from (f"  {line}" for line in TREES.lines(tree))


def _split_lines(plan: BatchPlan) -> Iterator[str]:
    if plan.options is not None:
        yield from OPTIONS.lines(plan.options)
    if plan.scans:
        yield "Scans"
    for scan in plan.scans:
        yield from (f"  {line}" for line in SCANS.lines(scan))
    if plan.key_filters:
        yield "Filters by keys"
    for considered in plan.key_filters:
        yield from (f"  {line}" for line in KEY_FILTERS.lines(considered))
    yield "Splits"
    for splits in _splits(plan):
        yield from (f"  {line}" for line in SPLITS.lines(splits))
    yield "Sites for the reduce"
    for site in _reduce_sites(plan):
        yield from (f"  {line}" for line in REDUCE_SITES.lines(site))


def explain_json(plan: PhysicalPlan) -> dict[str, Any]:
    """The same as plain values for JSON; rates are per second, costs s^2. `figures` are those of all links that were
    weighed, also by candidates that were turned down."""
    return {
        "gateway": plan.destination.site,
        "columns": [{"name": column.name, "type": column.type} for column in plan.columns],
        "logical": list(plan.logical),
        "stages": [STAGES.json(StageOfPlan(stage, plan)) for stage in plan.stages],
        "batch": _batch_json(plan),
        "links": [LINKS.json(link) for link in _links(plan)],
        "figures": [FIGURES.json(figures) for figures in plan.figures],
        "candidates": [CANDIDATES.json(candidate) for candidate in plan.candidates],
        "trees": [TREES.json(tree) for tree in plan.trees],
    }


def _batch_json(plan: PhysicalPlan) -> dict[str, Any] | None:
    if not isinstance(plan, BatchPlan):
        return None
    expected = next(iter(plan.sites_of(plan.stage(plan.result_stage))), None)
    options = None if plan.options is None else OPTIONS.json(plan.options)
    return {
        "scans": [SCANS.json(scan) for scan in plan.scans],
        "key_filters": [KEY_FILTERS.json(considered) for considered in plan.key_filters],
        "splits": [SPLITS.json(s) for s in _splits(plan)],
        "reduce_site": expected,
        "reduce_sites": [REDUCE_SITES.json(site) for site in _reduce_sites(plan)],
        "options": options,
    }


def _links(plan: PhysicalPlan) -> Iterator[LinkOfPlan]:
    figures = {figures.pair: figures for figures in plan.figures}
    return (LinkOfPlan(link, figures.get(link.pair)) for link in plan.links)


def _splits(plan: BatchPlan) -> Iterator[SplitsAtSite]:
    left_out = {(part.stage, part.site): part.size_bytes for part in plan.left_out}
    found = dict.fromkeys((*((split.stage, split.site) for split in plan.splits), *left_out), (0, 0))
    for split in plan.splits:
        count, size_bytes = found[split.stage, split.site]
        has_rows = split.parts not in ((), (NOTHING,))
        found[split.stage, split.site] = (count + has_rows, size_bytes + split.size_bytes)
    one_stage = len({stage for stage, _ in found}) <= 1
    return (SplitsAtSite(*place, *found[place], left_out.get(place, 0), one_stage) for place in sorted(found))


def _reduce_sites(plan: BatchPlan) -> tuple[ReduceSite, ...]:
    """Return the sites that were weighed, the one with the least to be sent to it first."""
    here = {split.site: 0 for split in plan.splits}
    for split in plan.splits:
        here[split.site] += split.size_bytes
    expected = plan.sites_of(plan.stage(plan.result_stage))
    every, total = {*here, *expected}, sum(here.values())
    found = (ReduceSite(site, total - here.get(site, 0), site in expected) for site in every)
    return tuple(sorted(found, key=lambda s: (s.elsewhere_bytes, not s.expected, s.site)))


def _share(link: LinkOfPlan) -> str:
    figures = link.figures
    if figures is None:
        return "no link known"
    bandwidth = figures.capacity_bytes_per_s
    return f"{100 * link.traffic.bytes_per_s / bandwidth:.3g} % of {_bytes(bandwidth)} ({_origin(figures)})"


def _origin(figures: LinkFigures) -> str:
    if figures.age is None:
        return "topology file"
    return f"measured {_ago(figures.age)} ago, {_bytes(figures.available_bytes_per_s)} available"


def _ago(age: timedelta) -> str:
    seconds = age.total_seconds()
    return f"{seconds:.0f} s" if seconds < _LONG_AGO_S else f"{seconds / 60:.0f} min"


def _size(size_bytes: int) -> str:
    return _bytes(size_bytes).removesuffix("/s")


def _bytes(rate: float) -> str:
    return next((f"{rate / size:.3g} {unit}" for size, unit in _UNITS if rate >= size), f"{rate:.3g} B/s")


def _count(rate: float) -> str:
    return next((f"{rate / size:.3g}{unit}" for size, unit in _COUNTS if rate >= size), f"{rate:.3g}")
