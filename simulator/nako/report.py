"""Writes the page of what the orders come to in drawn worlds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median

from planner.adapt.model import Settings
from planner.values.adapting import Order
from simulator.nako.figures import sections, verdict
from simulator.nako.run import Outcome, best, played
from simulator.nako.world import drawn
from simulator.pages import write_evaluation
from simulator.progress import say
from simulator.tables import table

PAGE = "nako.md"
WORLDS_OF_ROUND = 70
NEAR = 0.1
WANTED_NEAR = 0.95


def write(directory: Path, rounds: int) -> Path:
    """Play all worlds and figures; the page in `directory`."""
    worlds = rounds * WORLDS_OF_ROUND
    say(f"{worlds} worlds of Nako")
    results = {order: results_of(order, range(worlds)) for order in Order}
    return write_evaluation(directory / PAGE, [_head(worlds), _orders(results), *sections(rounds)])


@dataclass(frozen=True, slots=True)
class Result:
    """One world in which something is slow."""

    found: Outcome
    best: Outcome | None

    @property
    def near(self) -> bool:
        """Return whether all is healed by as few moves, or fewer, at about the same cost."""
        if self.best is None or not self.found.healed:
            return False
        return self.found.moves <= self.best.moves and self.found.cost <= self.best.cost + NEAR * abs(self.best.cost)


def results_of(order: Order, seeds: Sequence[int]) -> list[Result]:
    """Return the worlds of these seeds in which something is slow."""
    settings = replace(Settings(), order=order)
    found = []
    for seed in seeds:
        world = drawn(seed)
        one = played(world, settings)
        if one is not None:
            found.append(Result(one, best(world, settings)))
    return found


def _head(worlds: int) -> str:
    return f"""# Which queries are adapted

Nako (chapter 5 of the source) moves the cheapest of several queries behind a slow link first, and looks at the others
again. Here `planner.adapt` decides [as it does](../adaptation.md#actions) in {worlds} drawn worlds: a, b, a hub and a
site far away; two to four queries of sources at a and b, whose merges are at the hub; links of 0.1, 0.3 or 1 MB/s, or
none; up to four free slots at a site; states of 0 to 20 MB. The link from a to the hub carries 0.3 to 0.9 of what the
queries need of it. One round of decisions, by each order, beside the best of all placements: the fewest moves that
leave room on all links, and of these the cheapest. Below, figures 5.6 to 5.9 of the source: queries that run on under
these decisions, in the [simulator](../simulator.md). Written by `python -m simulator nako`."""


def _orders(results: dict[Order, list[Result]]) -> str:
    rows = []
    for order, found in results.items():
        able = [one for one in found if one.best is not None]
        healed = [one for one in able if one.found.healed]
        more = sum(one.found.healed for one in found if one.best is None)
        rows.append(
            [
                order.value,
                str(len(found)),
                str(len(able)),
                f"{len(healed)} ({len(healed) / len(able):.1%})",
                f"{sum(one.near for one in able) / len(able):.1%}",
                f"{mean(one.found.moves for one in healed):.2f}",
                f"{mean(one.best.moves for one in healed if one.best is not None):.2f}",
                f"{median(one.found.cost for one in healed):.3f}",
                f"{median(one.best.cost for one in healed if one.best is not None):.3f}",
                str(more),
            ]
        )
    head = [
        "order",
        "slow",
        "can be healed",
        "healed",
        "near the best",
        "moves, mean",
        "of the best",
        "cost, median",
        "of the best",
        "healed all the same",
    ]
    nako = [one for one in results[Order.NAKO] if one.best is not None]
    missed = sum(not one.found.healed for one in nako)
    near = sum(one.near for one in nako) / len(nako)
    all_healed = verdict(not missed, f"{missed} of {len(nako)} are not")
    often_near = verdict(near >= WANTED_NEAR, f"it is {near:.1%}")
    return f"""## Drawn worlds

{table(head, rows)}

*Near the best*: healed by no more moves, at a cost that is at most 10 % higher. *Healed all the same*: worlds in which
no placement has room for queries that catch up on all links, and the cut one has room after the round nevertheless.

Wanted: always healed where it can be. {all_healed} While a task moves, its old and its new way are both counted, so
moves that only fit together are not made.

Wanted: near the best in {WANTED_NEAR:.0%} of the cases. {often_near} WASP says where an operator would go (least
latency), Nako only which operator goes."""
