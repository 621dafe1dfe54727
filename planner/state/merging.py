"""Which runs of a merge's state become one run, so that there are few of them and little is written twice.

Runs of a like size are combined when that leaves at most a third of their rows: then all that is ever written again is
less than half of what was written first (1/3 + 1/9 + ... = 1/2). Where groups seldom come again, combining leaves more,
and the runs stay as they are. Only when there are very many of them, the smallest become one all the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WORTH = 1 / 3
"""Runs become one when no larger share of their rows is left."""
SIZE_RATIO = 4
"""Runs whose rows differ by less than that are of a like size."""


@dataclass(frozen=True, slots=True)
class MergingLimits:
    """How many runs a view of a merge may have."""

    alike: int = 8
    """So many of a like size are worth a try."""
    most: int = 256


@dataclass(frozen=True, slots=True)
class Merging:
    """Runs that are to become one, by their places."""

    places: tuple[int, ...]
    size_class: int
    always: bool = False
    """Whether they become one however many rows are left."""


def size_class(rows: int) -> int:
    """Runs of one class are of a like size."""
    return int(math.log(max(1, rows), SIZE_RATIO))


def runs_to_merge(
    rows: Sequence[int], limits: MergingLimits, *, tried: Mapping[int, int] | None = None, into_one: bool = False
) -> Merging | None:
    """What to merge now; None: nothing.

    Args:
        rows: of each run.
        limits: how many there may be.
        tried: by size class, how many runs there were when combining them left too many rows. They are tried again when
            there are twice as many.
        into_one: all runs are to become one.
    """
    if into_one:
        return Merging(tuple(range(len(rows))), size_class(sum(rows)), always=True) if len(rows) > 1 else None
    if len(rows) > limits.most:
        smallest = sorted(range(len(rows)), key=lambda place: (rows[place], place))[: len(rows) // 2 + 1]
        return Merging(tuple(sorted(smallest)), size_class(rows[smallest[-1]]), always=True)
    classes: dict[int, list[int]] = {}
    for place, count in enumerate(rows):
        classes.setdefault(size_class(count), []).append(place)
    for found, places in sorted(classes.items()):
        if len(places) >= max(limits.alike, 2 * (tried or {}).get(found, 0)):
            return Merging(tuple(places), found)
    return None
