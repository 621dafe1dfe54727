"""Rows of two views that match where the event time of one is between bounds that the other one sets.

The first row of a pair sets the bounds: `first + lower <= second <= until(first)`. A pair is out once the watermark has
passed the later event time of its two rows, so both are there. A row without a match is out once no match can come any
more. Which pairs and rows those are at a step of the watermark follows from the rows and the watermark before and after
it, so nothing is marked as out, and nothing has to be remembered of a row but the row.

A step hands the rows that it may let out to Spark, each with two flags: whether it came since the step before, and
whether it is due if nothing matches it. The stage's SQL joins them. A row goes when nothing that is still to come out
can be made of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.values.names import DUE_COLUMN, NEW_COLUMN
from planner.values.pairs import PairSide
from site_agent.state.runs import RunFile
from site_agent.state.segments import ALL_BINS, of_bins, without_bins
from site_agent.tasks.instants import Mask
from site_agent.tasks.pairrows import AFTER_ALL_US, BEFORE_ALL_US, Needed, OpenRows, pairs_of, those_of
from site_agent.tasks.spec import PairSpec, WindowSpec
from site_agent.tasks.views import OpenViews, Rows

LET_GO_EVERY_US = 10_000_000
"""Rows that nothing is made of any more go when the watermark has moved on by so much."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """The rows of a view at a step, and which of them may be of something that comes out."""

    side: PairSide
    rows: pa.Table
    new: Mask
    due: Mask

    def asks(self, pairs: PairSpec) -> Mask:
        """Return the rows for whose sake others are looked up."""
        due = self.due if self.side.unmatched else np.zeros_like(self.due)
        return due if not pairs.emits_pairs else self.new | due

    def flagged(self, mask: Mask) -> pa.Table:
        """The rows of a mask, with their flags."""
        rows = those_of(self.rows, mask)
        for name, flags in ((NEW_COLUMN, self.new), (DUE_COLUMN, self.due)):
            rows = rows.append_column(name, pa.array(flags[mask]))
        return rows


class OpenPairs(OpenViews):
    """The state of a merge that pairs the rows of two views."""

    def __init__(
        self,
        spec: WindowSpec,
        *,
        closed_us: int | None = None,
        runs: Mapping[str, Sequence[RunFile]] | None = None,
    ) -> None:
        super().__init__(spec, closed_us=closed_us, runs=runs)
        self._pairs = pairs_of(spec)
        self._rows(self._pairs.second).is_second = True
        self._let_go_us = closed_us
        self._step: tuple[int | None, Rows] | None = None

    def add(self, view: str, table: pa.Table, *, late_us: int | None = None) -> int:
        self._step = None
        return super().add(view, table, late_us=late_us)

    def ends_by(self, watermark_us: int | None) -> int:
        """Return how many rows a step to this watermark hands out; 0: nothing comes out."""
        return sum(rows.num_rows for rows in self._handed_out(watermark_us).values())

    def closing(self, watermark_us: int | None, bins: range = ALL_BINS) -> Rows:
        """The rows of these bins of what a step to this watermark lets out, with their flags.

        Raises:
            DamagedStateError: a run is not as it was written.
        """
        found = {view: without_bins(of_bins(rows, bins)) for view, rows in self._handed_out(watermark_us).items()}
        return {view: rows for view, rows in found.items() if rows.num_rows}

    def advance(self, watermark_us: int | None) -> None:
        """All that comes out before the watermark is out; now and then, the rows that nothing needs any more go."""
        self._step = None
        super().advance(watermark_us)
        closed_us = self.closed_us
        if closed_us is None:
            return
        if self._let_go_us is None or closed_us - self._let_go_us >= LET_GO_EVERY_US:
            self._let_go_us = closed_us
            self._let_go(closed_us)

    def _handed_out(self, watermark_us: int | None) -> Rows:
        if self._step is None or self._step[0] != watermark_us:
            self._step = (watermark_us, self._found(watermark_us))
        return self._step[1]

    def _found(self, watermark_us: int | None) -> Rows:
        before_us = BEFORE_ALL_US if self.closed_us is None else self.closed_us
        if watermark_us is None or watermark_us <= before_us:
            return {}
        pairs = self._pairs
        first, second = (self._asked(side, before_us, watermark_us) for side in (pairs.first, pairs.second))
        asking, asked = first.asks(pairs), second.asks(pairs)
        if not (asking.any() or asked.any()):
            return {}
        of_first = asking | _matching(first, second, asked)
        of_second = asked | _matching(second, first, asking)
        # A row that comes out with its first match alone needs all its matches, so that Spark sees the earlier ones.
        if pairs.first.once:
            of_second |= _matching(second, second, asked)
        if pairs.second.once:
            of_first |= _matching(first, first, asking)
        found = {pairs.first.view: first.flagged(of_first), pairs.second.view: second.flagged(of_second)}
        return {view: rows for view, rows in found.items() if rows.num_rows}

    def _asked(self, side: PairSide, before_us: int, watermark_us: int) -> _Asked:
        """The rows of a view with an event time before the watermark."""
        view = self._rows(side)
        rows = view.held()
        if rows is None:
            nothing = np.zeros(0, np.bool_)
            return _Asked(side, pa.table({}), nothing, nothing)
        times = view.times(rows)
        there = times.begins < watermark_us
        rows = those_of(rows, there)
        begins, ends = times.begins[there], times.ends[there]
        return _Asked(side, rows, begins >= before_us, (ends >= before_us) & (ends < watermark_us))

    def _let_go(self, closed_us: int) -> None:
        """A row is needed while a match can come. Where it says of another row that this one is not without a match,
        it is needed for as long as that one waits."""
        pairs = self._pairs
        first, second = self._rows(pairs.first), self._rows(pairs.second)
        ends_us, begins_us = closed_us, AFTER_ALL_US
        if pairs.second.keeps_matches:
            ends_us = min(ends_us, self._oldest(second, closed_us))
        if pairs.first.keeps_matches:
            begins_us = self._oldest(first, closed_us) + pairs.lower_us
        first.let_go(Needed(ends_us, AFTER_ALL_US))
        second.let_go(Needed(closed_us, begins_us))

    def _oldest(self, view: OpenRows, closed_us: int) -> int:
        """The least event time of the rows that wait for a match."""
        rows = view.held()
        if rows is None:
            return closed_us
        times = view.times(rows)
        waiting = times.begins[times.ends >= closed_us]
        return int(waiting.min()) if len(waiting) else closed_us

    def _rows(self, side: PairSide) -> OpenRows:
        found = self.windows[side.view]
        assert isinstance(found, OpenRows)
        return found


def _matching(own: _Asked, other: _Asked, asking: Mask) -> Mask:
    """Return which rows may match one of the other view that asks: for certain those that do."""
    if not (asking.any() and own.rows.num_rows):
        return np.zeros(own.rows.num_rows, np.bool_)
    for key, same in zip(own.side.keys, other.side.keys, strict=True):
        values, wanted = own.rows.column(key), other.rows.column(same)
        type_ = _common(values.type, wanted.type)
        if type_ is not None:
            among = wanted.filter(pa.array(asking)).cast(type_).combine_chunks()
            found = pc.is_in(values.cast(type_), value_set=among)
            return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)
    return np.ones(own.rows.num_rows, np.bool_)


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the type in which equal values of both are equal, as Spark compares them; None: none is known."""
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        return pa.int64()
    texts = (pa.types.is_string, pa.types.is_large_string)
    if any(is_text(one) for is_text in texts) and any(is_text(other) for is_text in texts):
        return pa.large_string()
    return None
