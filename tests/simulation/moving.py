"""Plans in which tasks move all the time, while other things go wrong: the drawn ones seldom have a move that ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from tests.simulation.faults import Combine, Fault, Move, Scale
from tests.simulation.plan import (
    FIRST_FAULT_S,
    SITES,
    SMALL_BUDGET_BYTES,
    Plan,
    drawn_tree,
    faults_begin_until_s,
    trouble,
)
from tests.simulation.workload import AGAIN, ALL_GROUPS, ELSEWHERE

QUERIES = ("by_site", "distinct", "rows", "sliding", "taps", "windows")
"""They have merges of their own."""
BETWEEN = SITES[0]
"""It has no rows of the query over whose groups it combines for the others."""


def moving(seed: int) -> Plan:
    """The plan of a seed."""
    random = Random(f"{seed}/moving")
    parts, derives = random.choice((1, 2)), random.random() < 0.4
    names = ["windows"] if derives else random.sample(QUERIES, random.choice((2, 3)))
    if derives or parts > 1:
        # They are made of the groups of `windows`, and have a FINAL where their merge is in parts.
        names += random.sample(sorted(ALL_GROUPS), 1 + derives)
    plan = Plan(
        seed,
        sites=SITES[: random.choice((2, 3))],
        queries=tuple(names),
        rows=random.choice((120, 240)),
        rest_s=random.choice((0.02, 0.2)),
        sharing="max-share" if derives else random.choice(("max-share", "sana", "no-share")),
        together=not derives and random.random() < 0.5,
        combine=random.random() < 0.3,
        tight=random.random() < 0.3,
        parts=parts,
        budget_bytes=random.choice((1 << 30, 1 << 30, SMALL_BUDGET_BYTES)),
    )
    if "windows" in names and parts == 1 and plan.sharing != "no-share" and random.random() < 0.7:
        plan = replace(plan, queries=(*plan.queries, *AGAIN))
    elif not derives and parts == 1 and random.random() < 0.4:
        tree = ", ".join(f"{site} > {BETWEEN}" for site in plan.sites if site != BETWEEN)
        plan = replace(plan, queries=(*ELSEWHERE, *names[1:]), combine=True, tree=tree)
    faults: list[Fault] = []
    at_s, every_s = FIRST_FAULT_S + 2, random.choice((2.0, 5.0))
    while (at_s := at_s + random.expovariate(1 / every_s)) < faults_begin_until_s(plan):
        faults.append(_order(plan, random, at_s))
    for _ in range(random.choice((0, 0, 1, 2, 4))):
        faults += trouble(plan, random, random.uniform(FIRST_FAULT_S, faults_begin_until_s(plan)))
    return replace(plan, faults=tuple(faults))


def moving_instants(seed: int, queries: Sequence[str]) -> Plan:
    """The plan of a seed in which merges move that let results out at instants; without their state they cannot."""
    random = Random(f"{seed}/sessions")
    plan = Plan(
        seed,
        sites=SITES[: random.choice((2, 3))],
        queries=tuple(random.sample(queries, random.choice((1, 2)))),
        rows=random.choice((120, 240)),
        rest_s=random.choice((0.02, 0.2)),
        sharing=random.choice(("max-share", "sana", "no-share")),
        together=random.random() < 0.5,
        combine=random.random() < 0.3,
        tight=random.random() < 0.3,
        parts=random.choice((1, 1, 2)),
        budget_bytes=random.choice((1 << 30, 1 << 30, SMALL_BUDGET_BYTES)),
    )
    faults: list[Fault] = []
    at_s, every_s = FIRST_FAULT_S + 2, random.choice((2.0, 5.0))
    while (at_s := at_s + random.expovariate(1 / every_s)) < faults_begin_until_s(plan):
        called_off_s = 8 * random.random() if random.random() < 0.2 else None
        query, place, site = random.choice(plan.queries), random.random(), random.choice(plan.sites)
        faults.append(Move(at_s, query, place, site, called_off_s, random.random() < 0.1))
    for _ in range(random.choice((0, 0, 1, 2, 4))):
        faults += trouble(plan, random, random.uniform(FIRST_FAULT_S, faults_begin_until_s(plan)))
    return replace(plan, faults=tuple(faults))


def _order(plan: Plan, random: Random, at_s: float) -> Fault:
    called_off_s = random.choice((None, None, None, None, 8 * random.random()))
    query, place = random.choice(plan.queries), random.random()
    if plan.parts > 1 and random.random() < 0.2:
        sites = tuple(random.choices(plan.sites, k=random.randrange(3)))
        return Scale(at_s, plan.queries[-1], place, random.randrange(1, 5), sites, called_off_s)
    late, drawn = random.random() < 0.4, random.random() if query in AGAIN else 0.0
    alone, together = 0.0 < drawn < 0.6, drawn > 0.7
    return Move(at_s, query, place, random.choice(plan.sites), called_off_s, late, alone, together)


def recombined(seed: int) -> Plan:
    """The plan of a seed in which sites combine in other ways again and again, and merges move between."""
    random = Random(f"{seed}/recombined")
    sites = SITES[: random.choice((2, 3, 3))]
    plan = Plan(
        seed,
        sites=sites,
        queries=tuple(random.sample(("by_site", "elsewhere", "sliding", "taps", "windows"), random.choice((1, 2)))),
        rows=random.choice((120, 240)),
        rest_s=random.choice((0.02, 0.2)),
        combine=random.random() < 0.5,
        tight=random.random() < 0.3,
        budget_bytes=random.choice((1 << 30, 1 << 30, SMALL_BUDGET_BYTES)),
    )
    faults: list[Fault] = []
    at_s, every_s = FIRST_FAULT_S + 2, random.choice((4.0, 10.0))
    while (at_s := at_s + random.expovariate(1 / every_s)) < faults_begin_until_s(plan):
        called_off_s = 8 * random.random() if random.random() < 0.1 else None
        query = random.choice(plan.queries)
        if random.random() < 0.7:
            faults.append(Combine(at_s, query, drawn_tree(random, sites), called_off_s))
        else:
            faults.append(Move(at_s, query, random.random(), random.choice(sites), called_off_s, random.random() < 0.4))
    for _ in range(random.choice((0, 0, 1, 2, 4))):
        faults += trouble(plan, random, random.uniform(FIRST_FAULT_S, faults_begin_until_s(plan)))
    return replace(plan, faults=tuple(faults))


def rejoined(seed: int) -> Plan:
    """The plan of a seed in which a query gives up sharing a merge, and shares it again, as often as it can."""
    random = Random(f"{seed}/rejoined")
    plan = Plan(
        seed,
        sites=SITES[: random.choice((2, 3))],
        queries=("windows", *AGAIN, *random.choice(((), ("layer",), ("rows",)))),
        rows=random.choice((120, 240)),
        rest_s=random.choice((0.02, 0.2)),
        sharing=random.choice(("max-share", "sana")),
        combine=random.random() < 0.2,
        tight=random.random() < 0.3,
        budget_bytes=random.choice((1 << 30, 1 << 30, SMALL_BUDGET_BYTES)),
    )
    faults: list[Fault] = []
    at_s, every_s = FIRST_FAULT_S + 2, random.choice((3.0, 6.0))
    while (at_s := at_s + random.expovariate(1 / every_s)) < faults_begin_until_s(plan):
        called_off_s = 8 * random.random() if random.random() < 0.1 else None
        drawn, place, site = random.random(), random.random(), random.choice(plan.sites)
        if drawn < 0.15:
            faults.append(Move(at_s, random.choice(("windows", *AGAIN)), place, site, called_off_s, drawn < 0.06))
        else:
            order = Move(at_s, next(iter(AGAIN)), place, site, called_off_s)
            faults.append(replace(order, alone=drawn < 0.55, together=drawn >= 0.55))
    for _ in range(random.choice((0, 0, 1, 2, 4))):
        faults += trouble(plan, random, random.uniform(FIRST_FAULT_S, faults_begin_until_s(plan)))
    return replace(plan, faults=tuple(faults))
