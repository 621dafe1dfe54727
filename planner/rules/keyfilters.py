"""Filters by keys: rows of a table that find no partner in another table of the query are not sent.

KEYS     a TABLE stage: the distinct keys of one scan, sent to the sites of another table
MAP      of that table: a join with them, behind its own conditions

Which filters leave the result as it is, Spark's optimised plan says (`KeyFilter`); each holds for what the scans are
after others were applied, so they are applied one after the other: the table with the fewest bytes gives its keys
first, and none gets a filter after it has given keys.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.bind.rows import kept
from planner.graph.batchoptions import KeyFilters
from planner.graph.expressions import cast
from planner.graph.operators import Aggregate, Alias, Filter, Join, Named, Operator, Project, Scan, Sort
from planner.graph.plan import ConsideredFilter, DraftPlan, Split, Stage, StageInput
from planner.graph.whole import WholeScan
from planner.relations.catalog import Column, TableStatistics
from planner.relations.widths import row_bytes, type_bytes
from planner.rules.selectivity import counted_selectivity
from planner.sql.dialect import exp, name_node
from planner.values.links import Pair
from planner.values.names import INPUT_VIEW
from planner.values.ranges import WHOLE_NUMBERS
from planner.values.stages import StageKind
from planner.values.topology import Topology

MAX_KEY_ROWS = 3_000_000
"""Of a table that gives keys: so many, all of them different, may be copied."""
ROUND_S = 0.5
"""What a filter costs beside bytes and latency: tasks that read the keys, and start behind one another."""

_UNIQUE = 0.9
"""A column with so many different values for each row has each once: counts are estimates."""

_KEY = "_key"
_KEYS = "keys"


@dataclass(frozen=True, slots=True)
class _Size:
    """What is known of a table before it is read."""

    rows: float
    """In its splits."""
    all_rows: float
    """With those that are in no split."""
    sites: tuple[str, ...]
    """That have a split with rows."""
    found: TableStatistics
    """It holds what is known of the whole table, and of its columns."""


@dataclass(frozen=True, slots=True)
class _Effect:
    """What a filter is expected to do; bytes are those over links."""

    keys: float
    key_bytes: float
    saved_bytes: float


@dataclass(frozen=True, slots=True)
class _Candidate:
    taker: Stage
    column: str
    giver: WholeScan
    giver_column: str


def with_key_filters(
    draft: DraftPlan,
    splits: Sequence[Split],
    topology: Topology,
    mode: KeyFilters = KeyFilters.TIME,
    statistics: Mapping[str, TableStatistics] | None = None,
) -> DraftPlan:
    """The draft of a query that runs whole, with the filters by keys that are worth it; another draft as it is.

    Args:
        draft: in stages.
        splits: of its MAPs, with their rows where sites know them.
        topology: all links.
        mode: what makes a filter worth it.
        statistics: what is known of tables that were analysed, by name.
    """
    if not draft.whole_scans or mode is KeyFilters.NEVER:
        return draft
    known = statistics or {}
    sizes = {
        stage.id: _size([split for split in splits if split.stage == stage.id], known.get(stage.relation or ""))
        for stage in draft.map_stages
    }
    chooser = _Chooser(draft, sizes, topology, mode)
    chooser.choose()
    stages = tuple(chooser.maps.get(stage.id, stage) for stage in draft.stages)
    return replace(draft, stages=(*chooser.keys.values(), *stages), considered=tuple(chooser.considered))


def _size(splits: Sequence[Split], analysed: TableStatistics | None) -> _Size | None:
    """Return the size from the rows that sites know, or else those that were counted; None: there are neither."""
    rows = [split.rows for split in splits]
    size_bytes, left_out_bytes = (sum(split.size_bytes for split in splits), sum(s.left_out_bytes for s in splits))
    more = 1 + left_out_bytes / size_bytes if size_bytes else 1.0
    found = analysed or TableStatistics(0)
    if None not in rows:
        known = sum(row or 0 for row in rows)
        return _Size(known, known * more, tuple(sorted({s.site for s in splits if s.rows})), found)
    if analysed is None:
        return None
    # Whoever may have a row has to give its keys.
    sites = tuple(sorted({split.site for split in splits if split.rows != 0}))
    return _Size(analysed.rows / more, analysed.rows, sites, found)


_Keys = tuple[str, str, tuple[exp.Expr, ...], str]
"""A column, and what it is compared with: the MAP of the other table, the conditions of the scan, and its column."""


@dataclass(slots=True)
class _Chooser:
    """Applies filters, the cheapest table first."""

    draft: DraftPlan
    sizes: Mapping[str, _Size | None]
    topology: Topology
    mode: KeyFilters
    maps: dict[str, Stage] = field(default_factory=dict)
    """As they are now, by id."""
    keys: dict[tuple[str, tuple[exp.Expr, ...], str], Stage] = field(default_factory=dict)
    """By the MAP of the table that gives them, the conditions of the scan, and the column."""
    considered: list[ConsideredFilter] = field(default_factory=list)
    share: dict[str, float] = field(default_factory=dict)
    """Of the rows of a MAP those that the filters so far keep."""

    def choose(self) -> None:
        self.maps = {stage.id: stage for stage in self.draft.map_stages}
        self.share = dict.fromkeys(self.maps, 1.0)
        candidates = list(_candidates(self.draft))
        open_ = set(self.maps)
        while open_:
            giver = min(open_, key=lambda stage: (self._bytes(stage), stage))
            open_.remove(giver)
            for candidate in candidates:
                if candidate.giver.stage == giver and candidate.taker.id in open_:
                    self._consider(candidate)

    def _bytes(self, stage_id: str) -> float:
        """What would be sent of a table now; one of which nothing is known comes last."""
        if self.sizes[stage_id] is None:
            return math.inf
        rows = [self._rows(scan) or 0.0 for scan in self.draft.whole_scans if scan.stage == stage_id]
        return sum(rows) * row_bytes(self.maps[stage_id].columns)

    def _rows(self, scan: WholeScan) -> float | None:
        size = self.sizes[scan.stage]
        if size is None:
            return None
        kept_rows = size.all_rows * counted_selectivity(scan.where, size.found)
        return min(size.rows, kept_rows) * self.share[scan.stage]

    def _consider(self, candidate: _Candidate) -> None:
        taker, giver = candidate.taker, candidate.giver
        given, size, own = self._rows(giver), self.sizes[taker.id], self.sizes[giver.stage]
        kind = _type_of(self.draft, giver.table, candidate.giver_column)
        reason = _unfit(kind, own, size)
        if reason or given is None or size is None or own is None:
            self._note(candidate, _Effect(0, 0, 0), reason or "its rows are not known", taken=False)
            return
        distinct = max(1.0, min(own.all_rows, size.all_rows))
        of_giver = max(1.0, own.found.distinct.get(candidate.giver_column, distinct))
        unique = of_giver >= _UNIQUE * own.all_rows
        keys = min(given, of_giver) if unique else of_giver * -math.expm1(-given / of_giver)
        keeps = min(1.0, keys / max(1.0, size.found.distinct.get(candidate.column, distinct)))
        rows = sum(self._rows(scan) or 0.0 for scan in self.draft.whole_scans if scan.stage == taker.id)
        crossing = max(0.5, 1 - 1 / len(taker.pinned))
        saved = rows * row_bytes(taker.columns) * (1 - keeps) * crossing
        pairs = [(site, other) for site in own.sites for other in taker.pinned if site != other]
        effect = _Effect(keys, keys * type_bytes(kind) * len(pairs) / len(own.sites), saved)
        taken, why = self._worth(effect, pairs)
        self._note(candidate, effect, why, taken=taken)
        if taken:
            self.share[taker.id] *= keeps
            self._apply(candidate, kind, own.sites)

    def _worth(self, effect: _Effect, pairs: Sequence[Pair]) -> tuple[bool, str]:
        """Whether a filter whose keys are sent between these sites is applied, and why."""
        if self.mode is KeyFilters.ALWAYS:
            return True, "all are wanted"
        gain_bytes = effect.saved_bytes - effect.key_bytes
        if gain_bytes <= 0:
            return False, "the keys are more than they save"
        if self.mode is KeyFilters.BYTES:
            return True, "fewer bytes"
        links = [link for pair in pairs if (link := self.topology.link(*pair)) is not None]
        if not links:
            return False, "no link is between their sites"
        gain_s = gain_bytes / min(link.bandwidth_bytes_per_s for link in links)
        round_s = ROUND_S + 2 * max(link.latency.total_seconds() for link in links)
        return gain_s > round_s, f"{gain_s:.2g} s on links, and one more step takes {round_s:.2g} s"

    def _note(self, candidate: _Candidate, effect: _Effect, reason: str, *, taken: bool) -> None:
        self.considered.append(
            ConsideredFilter(
                table=candidate.taker.relation or "",
                column=candidate.column,
                giver=candidate.giver.table,
                giver_column=candidate.giver_column,
                taken=taken,
                keys=round(effect.keys),
                key_bytes=round(effect.key_bytes),
                saved_bytes=round(effect.saved_bytes),
                reason=reason,
            )
        )

    def _apply(self, candidate: _Candidate, kind: str, sites: tuple[str, ...]) -> None:
        giver, column = candidate.giver, candidate.giver_column
        place = (giver.stage, giver.where, column)
        if place not in self.keys:
            number = len(self.keys) + 1
            name = f"{_KEYS}{number}" if number > 1 else _KEYS
            table = replace(self.maps[giver.stage], pinned=sites)
            self.keys[place] = _keys_stage(name, table, giver, Column(column, kind))
        taker = self.maps[candidate.taker.id]
        self.maps[taker.id] = _filtered(taker, candidate.column, self.keys[place].id)


def _candidates(draft: DraftPlan) -> Iterator[_Candidate]:
    """Filters of tables: those that hold for each scan of the table."""
    for stage in draft.map_stages:
        filters = [_filters(scan, draft) for scan in draft.whole_scans if scan.stage == stage.id]
        for keys, candidate in (filters[0] if filters else {}).items():
            if candidate.giver.stage != stage.id and all(keys in others for others in filters):
                yield candidate


def _filters(scan: WholeScan, draft: DraftPlan) -> Mapping[_Keys, _Candidate]:
    """Return filters by the keys that they compare with: scans of a table with the same conditions give the same."""
    found: dict[_Keys, _Candidate] = {}
    for known in scan.filters:
        giver = draft.whole_scans[known.giver]
        keys = (known.column, giver.stage, giver.where, known.giver_column)
        found.setdefault(keys, _Candidate(draft.stage(scan.stage), known.column, giver, known.giver_column))
    return found


def _type_of(draft: DraftPlan, table: str, column: str) -> str:
    return next((known.type for known in draft.relations[table] if known.name == column), "")


def _unfit(kind: str, giver: _Size | None, taker: _Size | None) -> str:
    """Why keys are not sent whatever they cost; empty: they may be."""
    if kind not in WHOLE_NUMBERS and kind != "DATE" and not kind.startswith("DECIMAL"):
        return f"keys of the type {kind or 'of site'} are not sent"
    if giver is None or taker is None:
        return "its rows are not known"
    if not giver.sites:
        return "no row gives a key"
    return f"more than {MAX_KEY_ROWS} keys are possible" if giver.rows > MAX_KEY_ROWS else ""


def _keys_stage(name: str, table: Stage, scan: WholeScan, key: Column) -> Stage:
    """The keys of a scan, behind the filters that its table has already.

    They are sorted, and INT is sent as BIGINT: so they compress to half, or better. What they are compared with is
    cast as Spark does it for a comparison.
    """
    rows = kept(_joined(table.body), scan.where)
    column = _column(key.name)
    sent = Column(_KEY, "BIGINT") if key.type == "INT" else Column(_KEY, key.type)
    named = Named(_KEY, column if sent.type == key.type else cast(column, sent.type))
    order = exp.Ordered(this=exp.Column(this=name_node(_KEY)), nulls_first=True)
    return Stage(
        id=name,
        kind=StageKind.TABLE,
        body=Sort(Aggregate(rows, (column,), (named,)), (order,)),
        pinned=table.pinned,
        relation=table.relation,
        read_columns=tuple(dict.fromkeys((*table.read_columns, key.name))),
        inputs=table.inputs,
        columns=(sent,),
    )


def _filtered(stage: Stage, column: str, keys: str) -> Stage:
    """The MAP with one more filter."""
    assert isinstance(stage.body, Project | Aggregate)
    own = stage.body.input
    where = own.conditions if isinstance(own, Filter) else ()
    key = exp.Column(this=name_node(_KEY))
    read = StageInput(keys, keys)
    # Several columns may be filtered by the same keys.
    name = f"of_{keys}" if read not in stage.inputs else f"of_{keys}_{column}"
    # Each site's keys are distinct, and two sites may have the same.
    once = Alias(Aggregate(Scan(keys), (key,), (Named(_KEY, key),)), name)
    on = exp.EQ(this=_column(column), expression=exp.Column(this=name_node(_KEY), table=name_node(once.name)))
    joined = Join(_joined(stage.body), once, left=False, on=(on,))
    return replace(
        stage,
        body=replace(stage.body, input=kept(joined, where)),
        read_columns=tuple(dict.fromkeys((*stage.read_columns, column))),
        inputs=tuple(dict.fromkeys((*stage.inputs, read))),
    )


def _joined(body: Operator | None) -> Operator:
    """What a MAP reads, with its filters by keys and without its conditions."""
    assert isinstance(body, Project | Aggregate)
    return body.input.input if isinstance(body.input, Filter) else body.input


def _column(name: str) -> exp.Expr:
    return exp.Column(this=name_node(name), table=name_node(INPUT_VIEW))
