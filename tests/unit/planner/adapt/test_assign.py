"""The sites of an operator, against all placements; where state goes, against all mappings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.adapt.assign import Demand, Sites, assign, cost_s, overload
from planner.adapt.mapping import Held, map_state
from planner.adapt.model import Links

SITES = ("a", "b", "c", "d")
PAIRS = [(x, y) for x in SITES for y in SITES if x != y]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Demand, int, Sites, Links]:
    whole = st.integers(1, 20)
    links = Links({pair: float(draw(whole)) for pair in PAIRS}, {pair: draw(whole) / 100 for pair in PAIRS})
    inputs = draw(st.dictionaries(st.sampled_from(SITES), whole.map(float), min_size=1, max_size=3))
    outputs = draw(st.dictionaries(st.sampled_from(SITES), whole.map(float), max_size=2))
    slots = {site: draw(st.integers(0, 3)) for site in SITES}
    return Demand(inputs, outputs), draw(st.integers(1, 4)), slots, links


def every(demand: Demand, tasks: int, slots: Sites, links: Links, share: float) -> Iterator[tuple[float, Sites]]:
    """All placements that fit, with their costs."""
    for numbers in product(*(range(slots[site] + 1) for site in SITES)):
        sites = {site: number for site, number in zip(SITES, numbers, strict=True) if number}
        if sum(numbers) == tasks and by_site(demand, sites, links) < share - 1e-9:
            yield sum(number * cost_s(demand, site, links) for site, number in sites.items()), sites


def by_site(demand: Demand, sites: Sites, links: Links) -> float:
    """The greatest use of a link by the tasks of one site; those of two sites may use one link in turn."""
    tasks = sum(sites.values())
    parts = [replace(links, capacity={p: c * tasks / n for p, c in links.capacity.items()}) for n in sites.values()]
    return max(overload(demand, {site: 1}, part) for site, part in zip(sites, parts, strict=True))


@given(worlds(), st.sampled_from([0.7, 0.8]))
def test_greedy_is_the_optimum(world: tuple[Demand, int, Sites, Links], share: float) -> None:
    demand, tasks, slots, links = world
    best = min((cost for cost, _ in every(*world, share)), default=None)

    found = assign(demand, tasks, slots, links, share=share)

    if found is None:
        assert best is None
        return
    assert sum(found.values()) == tasks
    assert all(number <= slots[site] for site, number in found.items())
    assert by_site(demand, found, links) < share
    assert best is not None
    assert math.isclose(sum(n * cost_s(demand, s, links) for s, n in found.items()), best)


def test_a_link_at_its_share_is_not_used() -> None:
    links = Links({("a", "b"): 10.0, ("b", "a"): 10.0}, {("a", "b"): 0.1, ("b", "a"): 0.1})
    assert assign(Demand({"a": 8.0}), 1, {"b": 1}, links, share=0.8) is None
    assert assign(Demand({"a": 7.99}), 1, {"b": 1}, links, share=0.8) == {"b": 1}


def test_a_site_without_a_link_takes_nothing() -> None:
    assert assign(Demand({"a": 1.0}), 1, {"b": 1}, Links({}, {}), share=0.8) is None


def test_the_slowest_transfer_decides() -> None:
    """60 MB at s1 and 20 MB at s2: 20 s, where the other mapping takes 48 s."""
    mbit = 1e6 / 8
    rates = {("s1", "s5"): 40, ("s1", "s6"): 10, ("s2", "s5"): 20, ("s2", "s6"): 8}
    links = Links({pair: rate * mbit for pair, rate in rates.items()}, {})
    found = map_state([Held("x", "s1", 60e6), Held("y", "s2", 20e6)], {"s5": 1, "s6": 1}, links)
    assert found.moves == {"x": "s5", "y": "s6"}
    assert found.longest_s == pytest.approx(20)


@given(st.lists(st.tuples(st.sampled_from(SITES), st.integers(0, 9)), min_size=1, max_size=3), worlds())
def test_no_mapping_is_faster(held: list[tuple[str, int]], world: tuple[Demand, int, Sites, Links]) -> None:
    links = world[3]
    tasks = [Held(str(n), site, float(size)) for n, (site, size) in enumerate(held)]
    targets = ["e", "f", "g"][: len(tasks)]
    reach = Links({(s, t): links.capacity[p] for s in SITES for t, p in zip(targets, PAIRS, strict=False)}, {})
    found = map_state(tasks, dict.fromkeys(targets, 1), reach)
    assert sorted(found.moves.values()) == targets
    fastest = min(
        max(t.state_bytes / reach.capacity[t.site, to] for t, to in zip(tasks, order, strict=True))
        for order in permutations(targets)
    )
    assert found.longest_s == pytest.approx(fastest)


def test_tasks_stay_where_they_can() -> None:
    links = Links({("a", "b"): 1.0, ("a", "c"): 1.0}, {})
    found = map_state([Held("x", "a", 5), Held("y", "a", 9)], {"a": 1, "c": 1}, links)
    assert found.moves == {"x": "c"}
