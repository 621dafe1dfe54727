"""Which task moves to which new site: so that the slowest transfer of state is as fast as can be.

Tasks that stay do not move. A bottleneck assignment: the least time for which every mover can be matched with a site
that it reaches within that time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.adapt.model import Links


@dataclass(frozen=True, slots=True)
class Held:
    """A task's state, where it is."""

    task: str
    site: str
    state_bytes: float


@dataclass(frozen=True, slots=True)
class Mapped:
    """Where tasks go; those that stay are left out."""

    moves: Mapping[str, str]
    longest_s: float
    """Of the transfers of their states."""


def map_state(held: Sequence[Held], target: Mapping[str, int], links: Links) -> Mapped:
    """The moves from where tasks are to so many at each site.

    The tasks with the most state stay, where more are at a site than are to be. Of new tasks beyond those that are
    there, nothing is said; each of the old ones goes somewhere, if there is a place.
    """
    places = dict(target)
    movers = []
    for one in sorted(held, key=lambda h: (-h.state_bytes, h.task)):
        if places.get(one.site, 0) > 0:
            places[one.site] -= 1
        else:
            movers.append(one)
    free = [site for site in sorted(places) for _ in range(places[site])]
    movers = movers[: len(free)]
    times = [[_transfer_s(one, site, links) for site in free] for one in movers]
    for longest_s in sorted({t for row in times for t in row}):
        found = _matched([[t <= longest_s for t in row] for row in times])
        if found is not None:
            moves = {one.task: free[place] for one, place in zip(movers, found, strict=True)}
            return Mapped(moves, longest_s)
    return Mapped({}, 0.0)


def _transfer_s(held: Held, site: str, links: Links) -> float:
    if held.state_bytes <= 0:
        return 0.0
    room = links.capacity.get((held.site, site), 0.0)
    return held.state_bytes / room if room > 0 else math.inf


def _matched(allowed: Sequence[Sequence[bool]]) -> list[int] | None:
    """A place for every row, each once, by augmenting paths; None: there is none."""
    taken: dict[int, int] = {}

    def place(row: int, seen: set[int]) -> bool:
        for column, fits in enumerate(allowed[row]):
            if fits and column not in seen:
                seen.add(column)
                if column not in taken or place(taken[column], seen):
                    taken[column] = row
                    return True
        return False

    if not all(place(row, set()) for row in range(len(allowed))):
        return None
    by_row = {row: column for column, row in taken.items()}
    return [by_row[row] for row in range(len(allowed))]
