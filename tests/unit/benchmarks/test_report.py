from __future__ import annotations

from statistics import median as known_median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.report import median, met, quantile, replace_section, table

numbers = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=30)


def test_a_section_is_added_once_and_then_replaced() -> None:
    text = replace_section("# Performance\n\nWhat it is.\n", "a", "first")
    assert text == "# Performance\n\nWhat it is.\n\n<!-- a: begin -->\nfirst\n<!-- a: end -->\n"
    both = replace_section(text, "b", "second\n")
    again = replace_section(both, "a", r"third \1")
    assert again == both.replace("first", r"third \1")
    assert again.count("<!-- a: begin -->") == again.count("<!-- b: begin -->") == 1


def test_an_empty_file_gets_the_section_alone() -> None:
    assert replace_section("", "a", "x") == "<!-- a: begin -->\nx\n<!-- a: end -->\n"


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


def test_a_target_is_met_or_not() -> None:
    assert met(3, at_least=3, at_most=3) == "yes"
    assert met(2.9, at_least=3) == met(3.1, at_most=3) == "**no**"
