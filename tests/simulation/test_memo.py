"""Tests that engines' outputs are found again, by other worlds and processes, only for the same statement and rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from tests.simulation.memo import Memo, Views

ROWS = pa.table({"n": pa.array(range(20), pa.int64())})


def _doubled(sql: str, views: Views) -> pa.Table:
    return pa.table({"n": pa.array([2 * n for n in views["input"]["n"].to_pylist()], pa.int64())})


def test_what_was_computed_is_not_computed_again() -> None:
    memo = Memo(_doubled)
    first = memo.output("a", {"input": ROWS})
    assert memo.output("a", {"input": ROWS}).equals(first)
    assert (memo.runs, memo.computed) == (2, 1)
    memo.output("b", {"input": ROWS})
    assert memo.computed == 2


def test_slices_of_one_table_are_different_rows() -> None:
    memo = Memo(_doubled)
    outputs = [memo.output("a", {"input": ROWS.slice(first, 5)})["n"].to_pylist() for first in (0, 5, 10)]
    assert outputs == [[0, 2, 4, 6, 8], [10, 12, 14, 16, 18], [20, 22, 24, 26, 28]]


def test_processes_of_a_run_share_what_they_have_computed(tmp_path: Path) -> None:
    one = Memo(_doubled, tmp_path)
    first = one.output("a", {"input": ROWS})
    assert list(tmp_path.iterdir()) == []
    one.share()
    other = Memo(_doubled, tmp_path)
    assert other.output("a", {"input": ROWS}).equals(first)
    assert other.computed == 0
