"""Filters by keys: rows of a table that find no partner in another table of the query are not sent.

KEYS     a TABLE stage: the distinct keys of one scan, sent to the sites of another table
MAP      of that table: a join with them, behind its own conditions

A table that a query scans several times may get a filter by the keys of one of these scans, where that holds for all
others: whatever filters that scan alone then filters the table. A scan of which only large groups matter (`Threshold`)
gives the keys of groups that are large enough at one site to be so in all: of n sites, one has an nth of the bound.

Which filters leave the result as it is, Spark's optimised plan says (`KeyFilter`); each holds for what the scans are
after others were applied, so they are applied one after the other. There: the table with the fewest bytes gives its
keys first, to those that have not given theirs. And back, from the last table to the first: each gets the keys of those
that came after it, which have the filters of both ways by then. For an acyclic join this is the full reducer of
Bernstein and Chiu (1981).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from planner.bind.rows import kept
from planner.graph.batchoptions import KeyFilters
from planner.graph.expressions import cast, columns_of
from planner.graph.operators import Aggregate, Alias, Filter, Join, Named, Operator, Project, Scan, Sort
from planner.graph.plan import ConsideredFilter, DraftPlan, Split, Stage, StageInput
from planner.graph.whole import WholeScan
from planner.relations.catalog import Column, TableStatistics
from planner.relations.widths import row_bytes
from planner.rules.largegroups import large_at_a_site, large_groups, may_be_missed, threshold_text
from planner.rules.selectivity import counted_selectivity, drawn
from planner.sql.dialect import exp, name_node
from planner.values.links import Pair
from planner.values.names import INPUT_VIEW
from planner.values.ranges import WHOLE_NUMBERS
from planner.values.scans import KeyFilter, Threshold
from planner.values.stages import StageKind
from planner.values.topology import Topology

MAX_KEY_ROWS = 3_000_000
"""Of a table that gives keys: so many, all of them different, may be copied."""
ROUND_S = 0.5
"""What a filter costs beside bytes and latency: tasks that read the keys, and start behind one another."""
READ_PER_S = 4_000_000
"""A task reads so many rows of a second for their keys."""
GROUPED_PER_S = 600_000
"""A core groups so many rows of a second, and sorts the groups: TPC-H's Q4 at scale 1 took 6 s of a core less without,
of 3.8 million rows."""
MOVED_PER_S = 700_000
"""So many rows of a second leave Spark, and come into another one's query, on a core and however fast links are:
TPC-H's Q5 at scale 1 took 12 s of two cores more than plain Spark for 7.7 million rows."""

COMPRESSED = 4
"""Rows take a fourth of their bytes on a link: those of TPC-H's tables take between a third and an eighth."""
KEY_BITS = 5
"""A sorted key takes so many more bits than its mean distance from the next has."""
TRANSFER_BYTES = 200
"""A transfer takes so many bytes for schema, frames and acknowledgement, however little is in it. They count on the way
back alone: on the way there, a filter also makes the keys fewer that its table gives."""

MAX_WAYS = 4
"""There and back, and once more: filters of the second way make keys of the first fewer."""

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
    tasks_at_site: float = 1.0


@dataclass(frozen=True, slots=True)
class _Effect:
    """What a filter is expected to do; bytes are those over links."""

    keys: float
    key_bytes: float
    saved_bytes: float
    saved_rows: float = 0.0
    """At a site of the taker."""
    read_rows: float = 0.0
    """At a site of the giver."""
    grouped_rows: float = 0.0
    """The keys at the giver, and once more at each task of a site of the taker."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    taker: Stage
    column: str
    giver: WholeScan
    giver_column: str
    """It is `column` where the giver is one of the taker's own scans."""
    threshold: Threshold | None = None
    """Only groups of the giver that may reach it give their keys; None: all groups do."""


@dataclass(frozen=True, slots=True)
class _Match:
    """A filter that keeps the rows of a taker that have keys of a giver."""

    keys: float
    key_bytes: float
    """Over links."""
    keeps: float
    """The share of the rows."""


@dataclass(frozen=True, slots=True)
class _Alone:
    """A filter of one scan, and not of each scan of its table: it is applied where the scan's keys are read."""

    filters: tuple[_Candidate, ...] = ()
    keeps: float = 1.0
    key_bytes: float = 0.0


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
    tasks = len(splits) / max(1, len({split.site for split in splits}))
    if None not in rows:
        known = sum(row or 0 for row in rows)
        return _Size(known, known * more, tuple(sorted({s.site for s in splits if s.rows})), found, tasks)
    if analysed is None:
        return None
    # Whoever may have a row has to give its keys.
    sites = tuple(sorted({split.site for split in splits if split.rows != 0}))
    return _Size(analysed.rows / more, analysed.rows, sites, found, tasks)


_Keys = tuple[str, str, tuple[exp.Expr, ...], str]
"""A column, and what it is compared with: the MAP of the other table, the conditions of the scan, and its column."""

_Place = tuple[str, tuple[exp.Expr, ...], str, Threshold | None]
"""The origin of keys: the MAP of their table, the conditions of the scan, the column, and what groups must reach."""

_Filter = tuple[str, str, _Place, tuple[StageInput, ...]]
"""A MAP, a column, the origin of the keys that it is compared with, and the filters that this had."""

_Column = tuple[str, str]
"""A MAP, and a column of its table."""


@dataclass(slots=True)
class _Chooser:
    """Applies filters, the cheapest table first."""

    draft: DraftPlan
    sizes: Mapping[str, _Size | None]
    topology: Topology
    mode: KeyFilters
    maps: dict[str, Stage] = field(default_factory=dict)
    """As they are now, by id."""
    keys: dict[tuple[_Place, tuple[StageInput, ...]], Stage] = field(default_factory=dict)
    """The stages that give keys, by the origin of the keys and the filters that it had."""
    considered: list[ConsideredFilter] = field(default_factory=list)
    share: dict[str, float] = field(default_factory=dict)
    """Of the rows of a MAP those that the filters so far keep."""
    values: dict[_Column, float] = field(default_factory=dict)
    """The filters so far leave at most so many different values of a column."""
    alone: dict[tuple[str, tuple[exp.Expr, ...]], tuple[Stage, float]] = field(default_factory=dict)
    """The stage that reads a scan for its keys, and the share of rows that it leaves, by the scan."""
    applied: set[_Filter] = field(default_factory=set)
    """The filters so far."""

    def choose(self) -> None:
        self.maps = {stage.id: stage for stage in self.draft.map_stages}
        self.share = dict.fromkeys(self.maps, 1.0)
        candidates = list(_candidates(self.draft))
        # Scans that Spark made of one have the same keys.
        own = list({_place(candidate): candidate for candidate in _own_candidates(self.draft)}.values())
        more = [*candidates, *_candidates_by_own(self.draft, own)]
        open_, given = set(self.maps), list[str]()
        while open_:
            giver = min(open_, key=lambda stage: (self._bytes(stage, own, open_), stage))
            open_.remove(giver)
            given.append(giver)
            for candidate in own:
                if candidate.taker.id == giver:
                    self._consider(candidate, self._alone(candidate, open_))
            for candidate in candidates:
                if candidate.giver.stage == giver and candidate.taker.id in open_:
                    self._consider(candidate, _Alone())
        for way in range(1, 2 if self.mode is KeyFilters.ALWAYS else MAX_WAYS):
            takers = given[::-1] if way % 2 else given
            before = len(self.applied)
            for number, taker in enumerate(takers):
                self._again(taker, takers[:number], more)
            if len(self.applied) == before:
                break

    def _again(self, taker: str, givers: Sequence[str], candidates: Sequence[_Candidate]) -> None:
        """Filters a table by those that come before it on a further way, with the filters that they have by now."""
        for candidate in candidates:
            known = self._identity(candidate) in self.applied
            if candidate.taker.id == taker and candidate.giver.stage in givers and not known:
                self._consider(candidate, _Alone(), again=True)

    def _bytes(self, stage_id: str, own: Sequence[_Candidate], open_: Set[str]) -> float:
        """Return the bytes that a table would send if it came next; one of unknown size comes last."""
        size = self.sizes[stage_id]
        if size is None:
            return math.inf
        rows = self._sent_rows(stage_id)
        for candidate in own:
            if candidate.taker.id == stage_id:
                match = self._match(candidate, self._alone(candidate, open_).keeps)
                rows *= match.keeps if isinstance(match, _Match) else 1.0
        return rows * row_bytes(self.maps[stage_id].columns)

    def _sent_rows(self, stage_id: str) -> float:
        """Rows of a table that any of its scans needs."""
        size = self.sizes[stage_id]
        rows = sum(self._rows(scan) or 0.0 for scan in self.draft.whole_scans if scan.stage == stage_id)
        return rows if size is None else min(rows, size.rows * self.share[stage_id])

    def _rows(self, scan: WholeScan) -> float | None:
        size = self.sizes[scan.stage]
        if size is None:
            return None
        kept_rows = size.all_rows * counted_selectivity(scan.where, size.found)
        return min(size.rows, kept_rows) * self.share[scan.stage]

    def _match(self, candidate: _Candidate, alone: float = 1.0) -> _Match | str:
        """Return the effect of a filter, or the reason not to send keys; `alone` is the share of the giver's rows."""
        taker, giver = candidate.taker, candidate.giver
        given, size, own = self._rows(giver), self.sizes[taker.id], self.sizes[giver.stage]
        kind = _type_of(self.draft, giver.table, candidate.giver_column)
        reason = _unfit(kind, own, size)
        if reason or given is None or size is None or own is None:
            return reason or "its rows are not known"
        _, known = self.alone.get((giver.stage, giver.where), (None, 1.0))
        given *= alone if giver.stage == taker.id else known
        distinct = max(1.0, min(own.all_rows, size.all_rows))
        of_giver = max(1.0, own.found.distinct.get(candidate.giver_column, distinct))
        unique = of_giver >= _UNIQUE * own.all_rows
        of_giver = min(of_giver, self.values.get((giver.stage, candidate.giver_column), of_giver))
        keys = min(given, of_giver) if unique else drawn(of_giver, given)
        if candidate.threshold is not None:
            keys = large_groups(candidate.threshold, given, keys, len(own.sites), own.found)
        of_taker = size.found.distinct.get(candidate.column, distinct)
        of_taker = self.values.get((taker.id, candidate.column), of_taker)
        if self._are_of_taker(candidate):
            of_taker = drawn(of_taker, self._sent_rows(taker.id))
        keeps = min(1.0, keys / max(1.0, of_taker))
        low, high = own.found.ranges.get(candidate.giver_column, (1.0, distinct))
        pairs = _pairs(own.sites, taker)
        key_bytes = _sorted_bytes(keys, high - low + 1) * len(pairs) / len(own.sites)
        return _Match(keys, key_bytes, keeps)

    def _identity(self, candidate: _Candidate) -> _Filter:
        inputs = self.maps[candidate.giver.stage].inputs
        return candidate.taker.id, candidate.column, _place(candidate), inputs

    def _are_of_taker(self, candidate: _Candidate) -> bool:
        """Return True when the giver was filtered by the taker's keys, and so has no others."""
        return any(
            (stage, column, place[0], place[2])
            == (candidate.giver.stage, candidate.giver_column, candidate.taker.id, candidate.column)
            for stage, column, place, _ in self.applied
        )

    def _alone(self, candidate: _Candidate, open_: Set[str]) -> _Alone:
        """The filters of a scan that gives keys to its own table, by tables that have given theirs."""
        scan, found = candidate.giver, _Alone()
        for known in scan.filters if candidate.threshold is None else ():
            other = self.draft.whole_scans[known.giver]
            if other.stage == scan.stage or other.stage in open_:
                continue
            filter_ = _Candidate(candidate.taker, known.column, other, known.giver_column)
            match = self._match(filter_)
            if isinstance(match, str) or self._identity(filter_) in self.applied:
                continue
            saved = self._saved_bytes(candidate.taker, match.keeps) * found.keeps
            if self.mode is KeyFilters.ALWAYS or saved > match.key_bytes:
                key_bytes = found.key_bytes + match.key_bytes
                found = _Alone((*found.filters, filter_), found.keeps * match.keeps, key_bytes)
        return found

    def _saved_bytes(self, taker: Stage, keeps: float) -> float:
        crossing = max(0.5, 1 - 1 / len(taker.pinned))
        rows = self._sent_rows(taker.id)
        return (self._row_bytes(taker, rows, 1.0) - self._row_bytes(taker, rows * keeps, keeps)) * crossing

    def _row_bytes(self, taker: Stage, rows: float, keeps: float) -> float:
        """Return what so many rows of a table take on links; of its values a share is left."""
        size, sent_bytes = self.sizes[taker.id], rows * row_bytes(taker.columns) / COMPRESSED
        column = taker.columns[0] if len(taker.columns) == 1 else None
        if size is None or column is None or not isinstance(taker.body, Aggregate) or column.name not in _known(size):
            return sent_bytes
        # Different keys, sorted.
        sites = max(1, len(size.sites))
        low, high = size.found.ranges[column.name]
        different = drawn(max(1.0, size.found.distinct[column.name] * keeps), rows / sites)
        return min(sent_bytes, sites * _sorted_bytes(different, high - low + 1))

    def _consider(self, candidate: _Candidate, alone: _Alone, *, again: bool = False) -> None:
        """Apply a filter that is worth it. `again`: on a further way, where EXPLAIN tells only what is applied."""
        taker, own, size = candidate.taker, self.sizes[candidate.giver.stage], self.sizes[candidate.taker.id]
        match = self._match(candidate, alone.keeps)
        if isinstance(match, str) or own is None or size is None:
            effect, taken, why = _Effect(0, 0, 0), False, str(match)
        else:
            pairs = _pairs(own.sites, taker)
            key_bytes = match.key_bytes + alone.key_bytes + (TRANSFER_BYTES * len(pairs) if again else 0)
            saved_rows = self._sent_rows(taker.id) * (1 - match.keeps) / len(taker.pinned)
            read_rows = own.rows / len(own.sites)
            grouped_rows = match.keys * (1 + size.tasks_at_site)
            saved_bytes = self._saved_bytes(taker, match.keeps)
            effect = _Effect(match.keys, key_bytes, saved_bytes, saved_rows, read_rows, grouped_rows)
            taken, why = self._worth(effect, pairs)
            if taken:
                self._apply(candidate, alone)
                self.share[taker.id] *= match.keeps
                place = (taker.id, candidate.column)
                self.values[place] = min(match.keys, self.values.get(place, match.keys))
        if taken or not again:
            self._note(candidate, effect, why, taken=taken)

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
        gain_s = gain_bytes / min(link.bandwidth_bytes_per_s for link in links) + effect.saved_rows / MOVED_PER_S
        round_s = ROUND_S + 2 * max(link.latency.total_seconds() for link in links)
        round_s += effect.read_rows / READ_PER_S + effect.grouped_rows / GROUPED_PER_S
        return gain_s > round_s, f"it saves {gain_s:.2g} s, and one more step takes {round_s:.2g} s"

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
                threshold=threshold_text(candidate.threshold),
            )
        )

    def _apply(self, candidate: _Candidate, alone: _Alone) -> None:
        giver, stage_id = candidate.giver, candidate.taker.id
        if giver.stage == stage_id and candidate.threshold is None:
            read = self.maps[stage_id]
            for filter_ in alone.filters:
                read = _filtered(read, filter_.column, self._keys_of(filter_).id)
            self.alone[giver.stage, giver.where] = read, alone.keeps
        self.applied.add(self._identity(candidate))
        self.maps[stage_id] = _filtered(self.maps[stage_id], candidate.column, self._keys_of(candidate).id)

    def _keys_of(self, candidate: _Candidate) -> Stage:
        """The stage that gives these keys; a new one if there is none."""
        giver = candidate.giver
        read, _ = self.alone.get((giver.stage, giver.where), (self.maps[giver.stage], 1.0))
        place = _place(candidate), read.inputs
        if place not in self.keys:
            number, own = len(self.keys) + 1, self.sizes[giver.stage]
            name = f"{_KEYS}{number}" if number > 1 else _KEYS
            key = Column(candidate.giver_column, _type_of(self.draft, giver.table, candidate.giver_column))
            table = replace(read, pinned=own.sites if own is not None else read.pinned)
            having: tuple[exp.Expr, ...] = ()
            if (threshold := candidate.threshold) is not None:
                summed = _type_of(self.draft, giver.table, threshold.summand or "")
                having = (large_at_a_site(threshold, summed, len(table.pinned)),)
            self.keys[place] = _keys_stage(name, table, giver.where, key, having)
        return self.keys[place]


def _candidates(draft: DraftPlan) -> Iterator[_Candidate]:
    """Filters of tables: those that hold for each scan of the table."""
    for stage in draft.map_stages:
        filters = [_filters(scan, draft) for scan in draft.whole_scans if scan.stage == stage.id]
        for keys, candidate in (filters[0] if filters else {}).items():
            if candidate.giver.stage != stage.id and all(keys in others for others in filters):
                yield candidate


def _candidates_by_own(draft: DraftPlan, own: Sequence[_Candidate]) -> Iterator[_Candidate]:
    """Yield filters of one scan that hold for all of its table: they compare the column by whose keys that scan filters
    the others. They count after the scan's own keys, which are fewer.
    """
    for known in own:
        for candidate in _filters(known.giver, draft).values():
            if candidate.giver.stage != known.taker.id and candidate.column == known.column:
                yield candidate


def _own_candidates(draft: DraftPlan) -> Iterator[_Candidate]:
    """Filters of tables by one of their own scans: those that hold for each other scan, whose rows are all the rest.

    The scan's own rows have its keys, unless these are NULL. Its conditions tell it from the others, or a threshold.
    """
    for stage in draft.map_stages:
        scans = {number: scan for number, scan in enumerate(draft.whole_scans) if scan.stage == stage.id}
        for number, scan in scans.items():
            others = {place: other for place, other in scans.items() if place != number}
            for threshold in scan.thresholds:
                column = threshold.column
                follow = all(_follows(draft, (other, column), (number, column)) for other in others)
                # A row with NULL finds no partner where the column is compared with another.
                compared = any(known.column == column for known in scan.filters) or _is_never_null(scan, column)
                kind = _type_of(draft, scan.table, threshold.summand or "")
                if follow and compared and may_be_missed(threshold, kind):
                    yield _Candidate(stage, column, scan, column, threshold)
            if not others or any(other.where == scan.where for other in others.values()):
                continue
            for column in dict.fromkeys(known.column for known in next(iter(others.values())).filters):
                holds = all(KeyFilter(column, number, column) in other.filters for other in others.values())
                if holds and _is_never_null(scan, column):
                    yield _Candidate(stage, column, scan, column)


def _is_never_null(scan: WholeScan, column: str) -> bool:
    return exp.Not(this=exp.Is(this=_column(column), expression=exp.Null())) in scan.where


def _follows(draft: DraftPlan, taker: tuple[int, str], giver: tuple[int, str]) -> bool:
    """Return whether a column of a scan may be filtered by the keys of a column of another one, if need be in steps.

    Where a is filtered by the keys of b, and b by those of c, a has none but those of c.
    """
    seen, open_ = {taker}, [taker]
    while open_:
        number, column = open_.pop()
        reached = {(f.giver, f.giver_column) for f in draft.whole_scans[number].filters if f.column == column} - seen
        seen |= reached
        open_ += reached
    return giver in seen


def _place(candidate: _Candidate) -> _Place:
    return candidate.giver.stage, candidate.giver.where, candidate.giver_column, candidate.threshold


def _pairs(givers: Sequence[str], taker: Stage) -> list[Pair]:
    return [(site, other) for site in givers for other in taker.pinned if site != other]


def _filters(scan: WholeScan, draft: DraftPlan) -> Mapping[_Keys, _Candidate]:
    """Return filters by the keys that they compare with: scans of a table with the same conditions give the same."""
    found: dict[_Keys, _Candidate] = {}
    for known in scan.filters:
        giver = draft.whole_scans[known.giver]
        keys = (known.column, giver.stage, giver.where, known.giver_column)
        found.setdefault(keys, _Candidate(draft.stage(scan.stage), known.column, giver, known.giver_column))
    return found


def _known(size: _Size) -> Set[str]:
    """Return the columns of which the number of values and their range are known."""
    return size.found.distinct.keys() & size.found.ranges.keys()


def _sorted_bytes(keys: float, values: float) -> float:
    """Return the bytes of different keys, sorted, of a column with so many possible values."""
    return keys * (math.log2(max(1.0, values / max(1.0, keys))) + KEY_BITS) / 8


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


def _keys_stage(
    name: str, table: Stage, where: tuple[exp.Expr, ...], key: Column, having: tuple[exp.Expr, ...]
) -> Stage:
    """The keys of a scan, behind the filters that its table has already.

    They are sorted, and INT is sent as BIGINT: so they compress to half, or better. What they are compared with is
    cast as Spark does it for a comparison.
    """
    rows = kept(_joined(table.body), where)
    column = _column(key.name)
    sent = Column(_KEY, "BIGINT") if key.type == "INT" else Column(_KEY, key.type)
    named = Named(_KEY, column if sent.type == key.type else cast(column, sent.type))
    order = exp.Ordered(this=exp.Column(this=name_node(_KEY)), nulls_first=True)
    return Stage(
        id=name,
        kind=StageKind.TABLE,
        body=Sort(Aggregate(rows, (column,), (named,), having), (order,)),
        pinned=table.pinned,
        relation=table.relation,
        read_columns=tuple(dict.fromkeys((*table.read_columns, key.name, *columns_of(having, INPUT_VIEW)))),
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
