"""Rows that are added up against a list of all rows: in memory and on disk, checkpoints, crashes, steps by ranges."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from planner.values.names import BIN_COLUMN
from site_agent.state.segments import without_bins
from site_agent.tasks.checkpoint import Checkpoint
from site_agent.tasks.islands import with_instants
from site_agent.tasks.merge_state import MergeState
from site_agent.tasks.spec import TotalsSpec
from site_agent.tasks.totals import CELLS_AT_ONCE, OpenTotals
from tests.seeds import several
from tests.unit.site_agent.fakes import TableEngine
from tests.unit.site_agent.tasks.kept import KEYS, LIMITS, KeptRows, with_bins
from tests.unit.site_agent.tasks.test_merge import Site
from tests.unit.site_agent.tasks.totals import (
    CELL_US,
    EPOCH_US,
    Partial,
    Total,
    summed,
    table_of,
    told,
    totals_of,
    window_of,
)


async def combine(sql: str, rows: pa.Table) -> pa.Table:
    assert sql == "combine"
    return with_bins(summed(without_bins(rows)))


class StateMachine(KeptRows):
    """It adds rows up."""

    totals = TotalsSpec(("k",))
    combine = staticmethod(combine)

    @rule(
        rows=st.lists(st.tuples(st.integers(0, 6), st.sampled_from(KEYS), st.integers(1, 9)), max_size=8),
        behind=st.booleans(),
    )
    def take(self, rows: list[tuple[int, str, int]], *, behind: bool) -> None:
        """Rows of cells that are out, too, which are late."""
        first = 0 if behind or self.closed_us is None else self.closed_us // CELL_US
        partials = [((first + cell) * CELL_US, key, number) for cell, key, number in rows]
        if self.totals.ends:
            partials = [(start, f"{key}{start // EPOCH_US}", number) for start, key, number in partials]
        late = self.state.open.add("input", with_bins(table_of(partials, self.totals)), late_us=self.closed_us)
        kept = [row for row in partials if self.closed_us is None or row[0] + CELL_US > self.closed_us]
        assert late == len(partials) - len(kept)
        self.rows += kept

    @rule(ahead=st.integers(0, 60))
    def close(self, ahead: int) -> None:
        before_us = self.closed_us or 0
        watermark_us = before_us + ahead
        found: list[Total] = []
        for bins in self.state.ranges(watermark_us):
            for closed in self.state.open.closing(watermark_us, bins).values():
                assert BIN_COLUMN not in closed.column_names
                found += told(closed)
        assert sorted(found) == totals_of(self.rows, before_us, watermark_us, self.totals)
        self.state.open.advance(watermark_us)

    @precondition(lambda self: hasattr(self, "state"))
    @invariant()
    def nothing_is_lost(self) -> None:
        if self.totals.ttl_us is None and not self.totals.ends:
            assert self.state.open.rows >= len({row[1] for row in self.rows})


@pytest.mark.parametrize(
    "totals",
    [
        TotalsSpec(("k",)),
        TotalsSpec(("k",), compares=True),
        TotalsSpec(("k",), compares=True, ttl_us=2 * CELL_US),
        TotalsSpec(("k",), compares=True, ends="e"),
        TotalsSpec(("k",), ttl_us=CELL_US, ends="e"),
    ],
    ids=str,
)
def test_rows_add_up_as_the_list_says(totals: TotalsSpec) -> None:
    machine = type("Machine", (StateMachine,), {"totals": totals, "window": window_of(totals)})
    run_state_machine_as_test(machine, settings=settings(max_examples=several(12, 40), stateful_step_count=20))


def open_of(totals: TotalsSpec, rows: list[Partial]) -> OpenTotals:
    found = OpenTotals(window_of(totals))
    found.add([with_bins(table_of(rows, totals))])
    return found


def test_no_step_ends_too_many_cells() -> None:
    cells = [3 * cell for cell in range(2 * CELLS_AT_ONCE + 5)]
    state = open_of(TotalsSpec(("k",)), [(cell * CELL_US, "a", 1) for cell in cells])
    end_us = (cells[-1] + 7) * CELL_US
    steps = state.steps(end_us)
    assert steps == [(cells[place] + 1) * CELL_US for place in (63, 127)] + [end_us]
    sums = []
    for step in steps:
        closing = state.closing(step)
        assert closing is not None
        sums += [total[3] for total in told(closing)]
        state.advance(step)
    assert sums == list(range(1, len(cells) + 1))
    assert state.steps(end_us + CELL_US) == [end_us + CELL_US]


def test_a_key_that_is_silent_for_long_goes_and_others_stay() -> None:
    state = open_of(TotalsSpec(("k",), ttl_us=20), [(0, "a", 1), (10, "b", 1), (0, "b", 1)])
    state.advance(29)
    assert state.rows == 3
    state.advance(30)
    assert state.rows == 2
    state.advance(40)
    assert state.rows == 0


def test_rows_of_keys_without_columns_are_one_total() -> None:
    state = open_of(TotalsSpec((), compares=True), [(0, "a", 1), (0, "b", 2), (20, "c", 4)])
    state.advance(10)
    closing = state.closing(40)
    assert closing is not None
    assert closing.column("_life").unique().to_pylist() == [0]
    by_cell = closing.group_by(["_window_start", "_new"]).aggregate([("n", "sum")]).to_pylist()
    assert sorted((row["_new"], row["n_sum"]) for row in by_cell) == [(False, 3), (True, 7)]


def test_more_rows_than_bytes_of_memory_for_each_cell_are_not_copied() -> None:
    """A key with rows in many cells is handed out for each of them, other keys once."""
    random = Random(1)
    rows = [(0, f"{random.choice(KEYS)}{number}", 1) for number in range(500)]
    rows += [(cell * CELL_US, "a", 1) for cell in range(20)]
    state = open_of(TotalsSpec(("k",)), rows)
    closing = state.closing(200)
    assert closing is not None
    assert closing.num_rows == 500 + int(np.arange(1, 21).sum())


def test_a_key_that_ends_within_a_cell_stays_until_the_cell_is_out(tmp_path: Path) -> None:
    totals = TotalsSpec(("k",), ends="e")
    rows = with_instants(table_of([(10, "a", 1)], totals), "e", np.array([12]))

    async def run() -> None:
        site = Site(tmp_path, TableEngine({}), LIMITS)
        state, again = (MergeState(site.context, window_of(totals), combine) for _ in range(2))
        await state.restore()
        state.open.add("input", with_bins(rows))
        state.open.advance(15)
        await state.save(Checkpoint(1, closed_us=15))
        await again.restore()
        for found in (state, again):
            (closed,) = found.open.closing(20).values()
            assert told(closed) == [(10, True, "a", 1)]
            found.open.advance(20)
            assert found.open.rows == 0

    asyncio.run(run())
