"""Workloads are what they are said to be."""

from __future__ import annotations

import pytest

from simulator.nako.many import Play
from simulator.nako.scenes import NAMED, OVERLOAD, ROW_BYTES, STATES_S, STEP, drifting, stepped
from simulator.wasp.world import CENTRES, EDGES


def used(play: Play) -> dict[tuple[str, str], list[float]]:
    """Return the bytes per second that each query sends over each link out of an edge, before any change."""
    found: dict[tuple[str, str], list[float]] = {}
    for query in play.queries:
        for edge in query.graph.edges:
            link = query.graph.link(edge)
            if link is not None and link[0] in EDGES:
                found.setdefault(link, []).append(query.rates[link[0]] * query.load.row_bytes)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_two_links_are_too_narrow_for_three_queries_each(seed: int) -> None:
    play = stepped(seed, None, shadow=True)
    narrow = {link: each for link, each in used(play).items() if sum(each) * STEP > play.world.capacity[link]}
    assert [len(each) for each in narrow.values()] == [3, 3]
    for link, each in narrow.items():
        assert sum(each) * STEP == pytest.approx(OVERLOAD * play.world.capacity[link])
        assert sum(each) < play.world.capacity[link]
        behind = {q.graph.query for q in play.queries if link in {q.graph.link(edge) for edge in q.graph.edges}}
        assert behind & set(NAMED)


def test_all_eight_are_there_with_four_sources_each() -> None:
    for play in (stepped(0, None, shadow=True), drifting(0, None, shadow=True)):
        assert [query.graph.query for query in play.queries] == sorted(STATES_S)
        assert all(len(query.rates) == 4 for query in play.queries)
        at = {node.site for query in play.queries for node in query.graph.nodes if node.inputs}
        assert at <= set(CENTRES)
        assert sum(rate for query in play.queries for rate in query.rates.values()) == pytest.approx(48_000, rel=0.05)


def test_states_are_a_factor_larger() -> None:
    plays = [stepped(0, None, shadow=True, state_factor=factor) for factor in (1.0, 4.0)]
    small, large = ([query.load.state_bytes for query in play.queries] for play in plays)
    assert [4 * one for one in small] == large
    assert stepped(0, None, shadow=True).queries[0].load.row_bytes == ROW_BYTES


def test_links_and_rates_drift_once_it_is_no_longer_calm() -> None:
    play = drifting(0, None, shadow=True)
    for factor, low, high in ((next(iter(play.links.values())), 0.7, 0.9), (play.rates["e1"], 1.0, 1.2)):
        assert factor(0.0) == factor(119.0) == 1.0
        later = [factor(at_s) for at_s in range(120, 1800, 10)]
        assert all(low <= value <= high for value in later)
        assert 5 <= len(set(later)) <= 15
