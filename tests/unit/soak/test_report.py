from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from evidence.page import PageError, Section, read_page
from tests.soak.report import Round, record, run_section, summary

ROUNDS = (
    Round(7, {"sharing=sana": 2, "pause": 1, "rows late": 0}, ("kill master", "freeze agent-us 3 s"), 41.4, 120, ""),
    Round(8, {"sharing=sana": 1}, ("kill agent-eu",), 30.0, 0, "q-0001: 3 rows | 4\nof them -->"),
)


BEGAN = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


def run(*rounds: Round) -> Section:
    return run_section(BEGAN, "abc123, clean", "- Command: `python -m tests.soak`", rounds, 90.0)


def test_the_summary_counts_faults_and_differences() -> None:
    assert summary(ROUNDS) == "2 rounds, 120 result rows, 3 faults (1 freeze, 2 kill): 1 rounds with a difference"


def test_a_run_has_a_line_per_round() -> None:
    lines = run(*ROUNDS).text.splitlines()

    assert "- Command: `python -m tests.soak`" in lines
    assert lines[-2:] == [
        "| 7 | sharing=sana 2, pause | kill master; freeze agent-us 3 s | 41 | 120 | equal |",
        "| 8 | sharing=sana | kill agent-eu | 30 | 0 | q-0001: 3 rows / 4 of them --> |",
    ]


def test_the_head_sums_up_the_runs_and_what_they_covered(tmp_path: Path) -> None:
    page = tmp_path / "soak.md"
    record(page, run(ROUNDS[0]))
    record(page, run(ROUNDS[1]))
    record(page, run(ROUNDS[1]))

    head, *runs = read_page(page)
    assert [section.name for section in runs] == ["run-20260301-123000-7", "run-20260301-123000-8"]
    assert f"**3 minutes in 2 runs: {summary(ROUNDS)}.**" in head.text
    assert "All sections are of one commit: abc123, clean." in head.text
    assert {"| pause | 1 | 1 |", "| sharing=sana | 2 | 3 |"} <= set(head.text.splitlines())
    assert "| rows late" not in head.text


def test_nothing_is_added_to_a_page_that_was_edited(tmp_path: Path) -> None:
    page = tmp_path / "soak.md"
    record(page, run(*ROUNDS))
    page.write_text(page.read_text().replace("| 120 |", "| 121 |"))
    with pytest.raises(PageError):
        record(page, run(*ROUNDS))
