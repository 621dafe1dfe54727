"""The run of all benchmarks keeps the page whole, whatever fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.__main__ import LIMITS_S, _run_and_record
from benchmarks.pages import record_section
from evidence.page import Section, read_page

EARLIER = Section("exchange", "0123456789ab, clean", "## Exchange")


def test_a_benchmark_that_fails_is_on_the_page_and_loses_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "performance.md"
    record_section(page, EARLIER)
    monkeypatch.setitem(LIMITS_S, "no_such", 60)
    assert not _run_and_record("no_such", page)
    head, earlier, failed = read_page(page)
    assert earlier == EARLIER
    assert failed.text.endswith("**Failed**: exit code 1.")
    assert "- **no_such failed**: exit code 1" in head.text


def test_a_benchmark_that_takes_too_long_is_ended_and_its_old_section_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "performance.md"
    record_section(page, EARLIER)
    monkeypatch.setitem(LIMITS_S, "exchange", 0)
    assert not _run_and_record("exchange", page)
    assert read_page(page)[1].text.endswith("**Failed**: not over after 0 s.")
