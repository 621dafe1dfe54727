"""Seeds decide about handovers with faults; a page tells what came of them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from evidence.page import read_page
from tests.handovers.plan import FAULTS, PAIRS, SHORTAGES, Kind, Rows, draw
from tests.handovers.report import Run, record, run_section, summary

RUNS = (
    Run(3, "late", "none", "all the time", False, "moved", 7.2, 12.0, ()),
    Run(4, "alone", "freeze new", "all the time", True, "rolled_back", 9.0, 15.0, ("q-1: 3 rows | 4 -->",)),
)


def test_each_pair_that_can_come_together_is_drawn_once() -> None:
    drawn = [(plan.kind, plan.fault) for plan in map(draw, range(len(PAIRS)))]
    assert len(set(drawn)) == len(drawn) >= 120
    assert {kind for kind, _ in drawn} == set(Kind)
    assert {fault for _, fault in drawn} == {*FAULTS, *SHORTAGES}
    assert all(kind.has_seed or not fault.of_seeds for kind, fault in drawn)


def test_what_waits_for_windows_gets_rows() -> None:
    assert not any(plan.kind.needs_rows and plan.rows is Rows.NONE for plan in map(draw, range(len(PAIRS))))


def test_the_summary_counts_ends_faults_and_differences() -> None:
    assert summary(RUNS) == "2 handovers (1 moved, 1 rolled back), 1 faults: 1 with a difference"


def test_a_page_adds_runs_of_the_command_up(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for minute, runs in enumerate((RUNS[:1], RUNS[1:])):
        began = datetime(2026, 3, 1, 12, minute, tzinfo=UTC)
        record(page, run_section(began, "abc, clean", "- Command: `python -m tests.handovers`", runs, 60.0))
    head = read_page(page)[0].text
    assert f"**2 minutes: {summary(RUNS)}.**" in head
    assert "| alone | 1 | 1 | 0 | 1 | 1 |" in head
    assert "| rolled back | 9 s | 15 s | q-1: 3 rows / 4 --> |" in RUNS[1].line()
