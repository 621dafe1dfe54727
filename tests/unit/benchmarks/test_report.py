from __future__ import annotations

from pathlib import Path
from statistics import median as known_median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import pages
from benchmarks.__main__ import LIMITS_S
from benchmarks.criteria import CRITERIA
from benchmarks.report import median, publish, quantile, table
from evidence.criteria import Finding
from evidence.page import HEAD, Section, read_page
from evidence.provenance import code_of

numbers = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=30)


def published(page: Path, findings: dict[str, float | Finding] | None = None) -> Section:
    publish("latency", "Latency", ["Some text."], page, findings)
    return next(section for section in read_page(page) if section.name == "latency")


def test_a_section_has_its_run_and_the_verdicts_of_all_its_criteria(tmp_path: Path) -> None:
    section = published(tmp_path / "page.md", {"median": 6.0})
    assert section.commit == str(code_of())
    assert section.text.startswith("## Latency\n\n- Commit: ")
    assert "Command: `python -m benchmarks.latency" in section.text
    assert "| at most 3 s | 6 s | **missed** by 100.0% |" in section.text
    assert "| at most 5 s |  | **no verdict**: not measured |" in section.text


def test_a_figure_without_a_criterion_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no criterion latency\.mean"):
        publish("latency", "Latency", [], None, {"mean": 1.0})


def test_the_head_has_all_criteria_of_its_page_and_each_page_those_of_its_benchmarks(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    published(page, {"median": Finding(2.0), "p95": 3.0})
    head = read_page(page)[0]
    assert head.name == HEAD
    assert head.text.startswith("# Performance")
    assert head.text.count("| reached |") == 2
    assert "All sections are of one commit" in head.text
    others = [criterion for criterion in CRITERIA if criterion.section != "monitor"]
    assert all(f"| {criterion.name} |" in head.text for criterion in others)
    assert head.text.count("not measured") == len(others) - 2
    links = pages.head("wan-monitor.md", [])
    assert links.text.startswith("# The monitor of links")
    assert links.text.count("not measured") == len(CRITERIA) - len(others)


def test_a_benchmark_that_failed_is_reported_and_keeps_what_it_wrote(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    written = published(page, {"median": 2.0})
    pages.record_section(page, pages.failed("latency", "exit code 1", written))
    pages.record_section(page, pages.failed("exchange", "not over after 120 s", None))
    head, latency, exchange = read_page(page)
    assert latency.text == f"{written.text}\n\n**Failed**: exit code 1."
    assert "- **latency failed**: exit code 1\n- **exchange failed**: not over after 120 s" in head.text
    assert "| 2 s | **no verdict**: the benchmark failed |" in head.text
    assert exchange.text.endswith("**Failed**: not over after 120 s.")


def test_sections_of_benchmarks_that_are_gone_are_taken_out(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    for name in ("old", "latency", "exchange"):
        pages.record_section(page, Section(name, "c", f"## {name}"))
    pages.tidy(page, ["exchange", "latency", "regions"])
    assert [section.name for section in read_page(page)] == [HEAD, "exchange", "latency"]


def test_every_criterion_is_of_a_benchmark_and_has_one_place() -> None:
    assert {criterion.section for criterion in CRITERIA} <= LIMITS_S.keys()
    assert len({criterion.key for criterion in CRITERIA}) == len(CRITERIA)


@given(numbers)
def test_the_median_is_the_known_one(values: list[float]) -> None:
    assert median(values) == pytest.approx(known_median(values))


@given(numbers, st.floats(0, 1), st.floats(0, 1))
def test_quantiles_rise_from_least_to_most(values: list[float], one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert min(values) <= quantile(values, low) <= quantile(values, high) + 1e-6
    assert (quantile(values, 0), quantile(values, 1)) == (min(values), max(values))


def test_a_quantile_lies_between_its_neighbours() -> None:
    assert quantile([10, 0, 30], 0.25) == 5
    assert quantile([10, 0, 30], 0.75) == 20


@pytest.mark.parametrize(("values", "fraction"), [([], 0.5), ([1.0], 1.1), ([1.0], -0.1)])
def test_there_is_no_quantile_of_nothing_or_beyond_all(values: list[float], fraction: float) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        quantile(values, fraction)


def test_tables_are_markdown() -> None:
    assert table(["", "n"], [["a", "1"], ["b", "2"]]) == "|  | n |\n| --- | ---: |\n| a | 1 |\n| b | 2 |"
