from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.soak.report import Round, document, summary

ROUNDS = (
    Round(1, 7, ("kill master", "freeze agent-us 3 s"), 41.4, 120, ""),
    Round(2, 8, ("kill agent-eu",), 30.0, 0, "top_k: 3 rows | 4"),
)


def test_the_summary_counts_faults_and_differences() -> None:
    assert summary(ROUNDS, timedelta(minutes=1.5)) == (
        "2 rounds in 1.5 minutes, 120 result rows, 3 faults (1 freeze, 2 kill): 1 rounds with a difference."
    )


def test_the_document_has_a_line_per_round() -> None:
    started = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    lines = document(ROUNDS, timedelta(minutes=1), started=started, command="make soak").splitlines()

    assert "- Date: 2026-03-01 12:30 UTC" in lines
    assert lines[-2:] == [
        "| 1 | 7 | kill master; freeze agent-us 3 s | 41 | 120 | equal |",
        "| 2 | 8 | kill agent-eu | 30 | 0 | top_k: 3 rows / 4 |",
    ]
