"""Figures 4.14 and 4.15: where the state of tasks goes, and whether it is split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from math import inf
from random import Random
from statistics import median

from planner.adapt.mapping import Held, map_state
from planner.adapt.model import Links, Settings
from simulator.progress import say
from simulator.tables import table
from simulator.wasp.fluid import Load
from simulator.wasp.rounds import mid, outcomes
from simulator.wasp.run import Scene
from simulator.wasp.world import CENTRES, EDGES, SITES, World, alike, phases

_BY_BANDWIDTH = "by bandwidth"
_STATE_MB = (0, 64, 128, 256, 512)


def mapping(rounds: int) -> str:
    """Return the section of figure 4.14."""
    say("figure 4.14")
    pools = (("of all", (*CENTRES[:4], *EDGES), SITES), ("data centres alone", CENTRES, CENTRES))
    rows, reached = [], []
    for name, holders, others in pools:
        found = _longest_s(10 * rounds, holders, others)
        best = median(found[_BY_BANDWIDTH])
        less = {order: 100 * (1 - best / median(times_s)) for order, times_s in found.items()}
        reached.append(min(value for order, value in less.items() if order != _BY_BANDWIDTH) >= 41)
        for order, times_s in found.items():
            cell = "" if order == _BY_BANDWIDTH else f"{less[order]:.0f} % less"
            rows.append([f"{name}, {order}", f"{median(times_s):.1f}", cell])
    verdicts = [f"{name}: {'reached' if met else 'missed'}" for (name, *_), met in zip(pools, reached, strict=True)]
    return f"""## Figure 4.14: where state goes

Four tasks with 60 MB of state in all move to four other sites. The source: 41 to 56 % less overhead than at random
or to distant sites.

{table(["sites, mapping", "longest transfer, s", "by bandwidth takes"], rows)}

{"; ".join(verdicts).capitalize()}. The links of all edges carry 7 to 14 Mbit/s: where one of the eight ends is
an edge, which it almost always is among all sites, no mapping takes much less. Between data centres there is
something to choose."""


def _longest_s(seeds: int, holders: Sequence[str], others: Sequence[str]) -> Mapping[str, list[float]]:
    """Return the longest transfers of four tasks, by mapping."""
    found: dict[str, list[float]] = {_BY_BANDWIDTH: [], "random": [], "distant": []}
    for seed in range(seeds):
        rng = Random(seed)
        world = World.drawn(rng)
        links = Links(world.capacity, world.latency_s)
        held = [Held(str(n), site, 15e6) for n, site in enumerate(rng.sample(holders, 4))]
        targets = rng.sample([site for site in others if site not in {h.site for h in held}], 4)
        times = {
            order: max(h.state_bytes / links.capacity[h.site, to] for h, to in zip(held, order, strict=True))
            for order in permutations(targets)
        }
        far = max(times, key=lambda order: sum(links.latency_s[h.site, to] for h, to in zip(held, order, strict=True)))
        found[_BY_BANDWIDTH].append(map_state(held, dict.fromkeys(targets, 1), links).longest_s)
        found["random"].append(times[tuple(rng.sample(targets, 4))])
        found["distant"].append(times[far])
    return found


def partitioned(rounds: int, source: Settings) -> str:
    """Return the section of figure 4.15, with the settings of the source."""
    say("figure 4.15")
    rows, saved = [], (0.0, 0.0)
    for mbytes in _STATE_MB:
        row = [f"{mbytes} MB"]
        for settings in (source, replace(source, longest_adapt_s=inf)):
            moved, split = (_delays(rounds, mbytes, one) for one in (replace(settings, most_extra=0), settings))
            row += [f"{moved[0]:.0f}", f"{moved[1]:.1f}", f"{split[0]:.0f}", f"{split[1]:.1f}"]
            saved = moved[0] - split[0], moved[1] - split[1]
        rows.append(row)
    head = ["moved: longest, s", "delay, s", "or split: longest, s", "delay, s"]
    times_met, delay_met = ("reached" if met else "missed" for met in (saved[0] > 120, saved[1] >= 42))
    return f"""## Figure 4.15: state that is split

Rate doubled at 300 s, tasks stand still while they move (*stop*), at most 30 s where there is a choice. The source:
at 512 MB splitting saves more than 120 s, and 42 s of mean delay.

{table(["state", *head, *(f"no limit: {one}" for one in head)], rows)}

Where moving takes more than {source.longest_adapt_s:.0f} s nothing is done, so the left half has no such figure at
512 MB; the source has no limit. Without one, splitting saves {saved[0]:.0f} s ({times_met}) and {saved[1]:.1f} s of
delay ({delay_met}): operators stand still for most of the ten minutes either way."""


def _delays(rounds: int, mbytes: int, settings: Settings) -> tuple[float, float]:
    """Return the longest action, and the mean delay, in seconds."""
    rates, links = phases(1, 2, each_s=300), alike(phases(1, each_s=300))
    found = outcomes(Scene(Load("state", mbytes * 1e6), rates, links, 900, settings, shadow=False), rounds)
    longest_s = median(max((act.option.adapt_s for act in one.acts), default=0.0) for one in found)
    return longest_s, mid(found, lambda one: one.mean_s(300))
