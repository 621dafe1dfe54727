from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.fairness import max_min_rates

Case = tuple[dict[int, tuple[str, ...]], dict[str, float]]


def test_flows_of_one_link_share_it() -> None:
    assert max_min_rates({1: ["a"], 2: ["a"]}, {"a": 10.0}) == {1: 5.0, 2: 5.0}


def test_what_one_flow_cannot_use_is_the_others() -> None:
    rates = max_min_rates({"long": ["a", "b"], "short": ["a"]}, {"a": 10.0, "b": 2.0})
    assert rates == {"long": 2.0, "short": 8.0}


def test_a_flow_over_no_link_is_not_limited() -> None:
    assert max_min_rates({1: []}, {}) == {1: float("inf")}


@st.composite
def networks(draw: st.DrawFn) -> Case:
    capacities = {link: float(draw(st.integers(1, 100))) for link in "abcd"}
    path = st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True).map(tuple)
    return dict(enumerate(draw(st.lists(path, max_size=8)))), capacities


@given(networks())
def test_every_flow_has_a_link_that_is_full_and_on_which_nobody_gets_more(case: Case) -> None:
    """That is what max-min fair means."""
    paths, capacities = case
    rates = max_min_rates(paths, capacities)
    used = {link: sum(rates[f] for f, path in paths.items() if link in path) for link in capacities}
    assert all(used[link] <= capacities[link] + 1e-9 for link in capacities)
    for flow, path in paths.items():
        full = [link for link in path if used[link] == pytest.approx(capacities[link])]
        most = [max(rates[f] for f, other in paths.items() if link in other) for link in full]
        assert any(rates[flow] == pytest.approx(rate) for rate in most)
