"""Operators that are placed together, against all placements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import product
from math import inf, isclose
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.adapt.assign import Demand, Sites, flows_of
from planner.adapt.model import Group, Links
from planner.adapt.program import Placeable, one_by_one, place_together, placement_cost_s
from planner.values.links import Pair

SITES = ("a", "b", "c")
PAIRS = [(x, y) for x in SITES for y in SITES if x != y]
MERGE, FINAL = ("q", "merge"), ("q", "final")
World = tuple[list[Placeable], Sites, Links]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    whole = st.integers(1, 12)
    pairs = draw(st.lists(st.sampled_from(PAIRS), min_size=3, unique=True))
    links = Links({p: float(draw(whole)) for p in pairs}, {p: draw(whole) / 100 for p in pairs})
    inputs = draw(st.dictionaries(st.sampled_from(SITES), whole.map(float), min_size=1, max_size=2))
    barred = draw(st.frozensets(st.sampled_from(SITES), max_size=2))
    merge = Placeable(MERGE, draw(st.integers(1, 3)), Demand(inputs), {FINAL: float(draw(whole))}, barred)
    outputs = {draw(st.sampled_from(SITES)): float(draw(whole))}
    final = Placeable(FINAL, draw(st.integers(1, 2)), Demand({}, outputs))
    return [merge, final], {site: draw(st.integers(0, 3)) for site in SITES}, links


def every(world: World) -> Iterator[Mapping[Group, Sites]]:
    """All ways to give the tasks sites."""
    operators, slots, _ = world
    ways = [
        [
            {s: n for s, n in zip(SITES, numbers, strict=True) if n}
            for numbers in product(*(range(slots[site] + 1) for site in SITES))
            if sum(numbers) == one.tasks and not any(n for s, n in zip(SITES, numbers, strict=True) if s in one.barred)
        ]
        for one in operators
    ]
    for chosen in product(*ways):
        if all(sum(sites.get(s, 0) for sites in chosen) <= slots[s] for s in SITES):
            yield {one.name: sites for one, sites in zip(operators, chosen, strict=True)}


def fits(world: World, sites: Mapping[Group, Sites], share: float) -> bool:
    operators, _, links = world
    uses: dict[Pair, float] = defaultdict(float)
    for one in operators:
        ends = flows_of(one.demand, sites[one.name])
        for other, rate in one.feeds.items():
            for (s, n), (t, m) in product(sites[one.name].items(), sites[other].items()):
                if s != t:
                    uses[s, t] += rate * n * m / sum(sites[one.name].values()) / sum(sites[other].values())
        for pair, rate in ends.items():
            uses[pair] += rate
    return all(rate < share * links.capacity.get(pair, 0.0) * (1 - 1e-7) for pair, rate in uses.items())


@settings(max_examples=60, deadline=None)
@given(worlds(), st.sampled_from([0.7, 0.8]))
def test_nothing_costs_less(world: World, share: float) -> None:
    operators, _, links = world
    costs = [placement_cost_s(operators, sites, links) for sites in every(world) if fits(world, sites, share)]
    best = min(costs, default=inf)

    found = place_together(*world, share=share, time_s=60)

    if found is None:
        assert best == inf
        return
    assert found.proven
    assert fits(world, found.sites, share)
    assert isclose(found.cost_s, best, abs_tol=1e-6)


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_when_the_time_is_over_they_are_placed_one_by_one(world: World) -> None:
    found = place_together(*world, share=0.8, time_s=0.0)
    if found is not None:
        assert fits(world, found.sites, 0.8)
        assert not world[0][0].barred & found.sites[MERGE].keys()
    greedy = one_by_one(*world, share=0.8)
    assert greedy is None or (found is not None and fits(world, greedy.sites, 0.8))


def test_two_operators_on_one_link() -> None:
    """Each alone fits on the short link; both do not, and one takes the long way round."""
    links = Links({("a", "b"): 10.0, ("a", "c"): 10.0}, {("a", "b"): 0.01, ("a", "c"): 0.05})
    both = [Placeable(("q", name), 1, Demand({"a": 5.0})) for name in ("x", "y")]
    found = place_together(both, {"b": 2, "c": 2}, links, share=0.8, time_s=10)
    assert found is not None
    assert sorted(site for sites in found.sites.values() for site in sites) == ["b", "c"]


def test_no_operators() -> None:
    found = place_together([], {"a": 1}, Links({}, {}), share=0.8, time_s=1)
    assert found is not None
    assert found.sites == {}


@pytest.mark.parametrize("tasks", [20])
def test_many_sites(tasks: int) -> None:
    """One operator over a thousand sites, one by one: the time is that of sorting them."""
    sites = [f"s{n:04}" for n in range(1000)]
    links = Links({("src", s): 10.0 for s in sites}, {("src", s): n / 1000 for n, s in enumerate(sites)})
    one = Placeable(("q", "m"), tasks, Demand({"src": 50.0}))
    begun = perf_counter()
    found = one_by_one([one], dict.fromkeys(sites, 1), links, share=0.8)
    took_s = perf_counter() - begun
    assert found is not None
    assert sum(found.sites["q", "m"].values()) == tasks
    assert took_s < 5


def test_what_the_program_finds_in_its_time_is_no_worse_than_one_by_one() -> None:
    """A chain of twelve operators over ten sites is not solved in a hundredth of a second."""
    sites = tuple("abcdefghij")
    pairs = [(x, y) for x in sites for y in sites if x != y]
    links = Links(dict.fromkeys(pairs, 1000000.0), {p: (1 + ord(p[0]) * ord(p[1]) % 97) / 1000 for p in pairs})
    names: list[Group] = [("q", f"m{place}") for place in range(12)]
    operators = [
        Placeable(
            name,
            2,
            Demand({"a": 100.0} if place == 0 else {}, {"j": 100.0} if place == 11 else {}),
            {names[place + 1]: 100.0} if place < 11 else {},
        )
        for place, name in enumerate(names)
    ]
    slots = dict.fromkeys(sites, 4)
    alone = one_by_one(operators, slots, links, share=0.7)
    found = place_together(operators, slots, links, share=0.7, time_s=0.01)
    assert alone is not None
    assert found is not None
    assert found.cost_s <= alone.cost_s
