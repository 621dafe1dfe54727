"""Rows beside those before them, against a list of all rows: in memory and on disk, checkpoints, crashes, ranges."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from planner.values.names import BIN_COLUMN
from site_agent.tasks import neighbours as module
from site_agent.tasks.neighbours import OpenNeighbours
from site_agent.tasks.spec import NeighbourSpec, ViewSpec, WindowSpec
from tests.seeds import several
from tests.unit.site_agent.fakes import TIMESTAMP
from tests.unit.site_agent.tasks.kept import KEYS, KeptRows, Partial, with_bins


def window_of(neighbours: NeighbourSpec) -> WindowSpec:
    return WindowSpec("_window_start", 1, 1, (ViewSpec("input"),), by_bins=True, neighbours=neighbours)


def table_of(rows: list[Partial]) -> pa.Table:
    times, keys, numbers = zip(*rows, strict=True) if rows else ((), (), ())
    columns = {"_window_start": pa.array(times, TIMESTAMP), "k": pa.array(keys, pa.string())}
    return pa.table({**columns, "n": pa.array(numbers, pa.int64())})


def rows_of(table: pa.Table) -> list[tuple[int, str, int, bool]]:
    times = table.column("_window_start").cast(pa.int64()).to_pylist()
    return sorted(zip(times, *(table.column(name).to_pylist() for name in ("k", "n", "_new")), strict=True))


def wanted(rows: list[Partial], before_us: int, watermark_us: int, spec: NeighbourSpec) -> list[tuple[object, ...]]:
    """The rows that a step hands out."""
    found: list[tuple[object, ...]] = []
    for key in {row[1] for row in rows} if spec.keys else {None}:
        own = sorted(row for row in rows if (key is None or row[1] == key) and row[0] < watermark_us)
        old = [row for row in own if row[0] < before_us]
        if len(old) == len(own):
            continue
        nth = old[-spec.rows :][0][0] if old and spec.rows else None
        for row in own:
            near = spec.within_us is not None and row[0] >= before_us - spec.within_us
            if row[0] >= before_us or near or (nth is not None and row[0] >= nth):
                found.append((*row, row[0] >= before_us))
    return sorted(found, key=repr)


class StateMachine(KeptRows):
    """It hands rows out beside those before them."""

    spec = NeighbourSpec(("k",), 2)

    @rule(
        rows=st.lists(st.tuples(st.integers(0, 20), st.sampled_from(KEYS[:3]), st.integers(1, 9)), max_size=8),
        behind=st.booleans(),
    )
    def take(self, rows: list[Partial], *, behind: bool) -> None:
        first_us = 0 if behind or self.closed_us is None else self.closed_us
        found = [(first_us + after_us, key, number) for after_us, key, number in rows]
        late = self.state.open.add("input", with_bins(table_of(found)), late_us=self.closed_us)
        kept = [row for row in found if self.closed_us is None or row[0] >= self.closed_us]
        assert late == len(found) - len(kept)
        self.rows += kept

    @rule(ahead=st.integers(0, 30))
    def close(self, ahead: int) -> None:
        before_us = self.closed_us or 0
        watermark_us = before_us + ahead
        found: list[tuple[int, str, int, bool]] = []
        for bins in self.state.ranges(watermark_us) if self.spec.keys else (range(64),):
            for closed in self.state.open.closing(watermark_us, bins).values():
                assert BIN_COLUMN not in closed.column_names
                found += rows_of(closed)
        assert sorted(found, key=repr) == wanted(self.rows, before_us, watermark_us, self.spec)
        self.state.open.advance(watermark_us)


@pytest.mark.parametrize(
    "spec",
    [
        NeighbourSpec(("k",), 1),
        NeighbourSpec(("k",), 3),
        NeighbourSpec(("k",), 0, 5),
        NeighbourSpec(("k",), 2, 9),
        NeighbourSpec((), 2),
    ],
    ids=str,
)
def test_rows_come_out_beside_those_that_they_need(spec: NeighbourSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LET_GO_EVERY_US", 7)
    machine = type("Machine", (StateMachine,), {"spec": spec, "window": window_of(spec)})
    run_state_machine_as_test(machine, settings=settings(max_examples=several(12, 40), stateful_step_count=20))


def test_rows_that_nothing_needs_go() -> None:
    state = OpenNeighbours(window_of(NeighbourSpec(("k",), 1, 3)))
    state.add([with_bins(table_of([(at, key, at) for at in range(10) for key in "ab"]))])
    state.advance(20)
    assert state.rows == 2
    state = OpenNeighbours(window_of(NeighbourSpec(("k",), 0, 3)))
    state.add([with_bins(table_of([(at, "a", at) for at in range(10)]))])
    state.advance(10)
    assert state.rows == 3


def test_a_step_without_rows_hands_nothing_out() -> None:
    state = OpenNeighbours(window_of(NeighbourSpec(("k",), 1)))
    state.add([with_bins(table_of([(1, "a", 1)]))])
    state.advance(2)
    assert state.ends_by(9) == 0
    assert state.closing(9) is None
