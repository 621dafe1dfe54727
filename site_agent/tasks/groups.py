"""The groups of one open window: how often each was updated, and which have rows that were not sent.

A group is known by a number, the hash of its window and keys. Two groups with the same number are treated as one: they
leave together. Of this, only which groups have left is stored; after a restart the groups begin anew, with one update
each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planner.combining.early import UpdateClass

Numbers = npt.NDArray[np.int64]

CLASSES = 20
"""Of updates: from 2^c to 2^(c+1), and in the last one all above."""
FADING = 0.8
"""What earlier epochs count for hazards, with each epoch."""
WEIGHT = 0.3
"""Of the newest epoch in other averages."""


@dataclass(frozen=True, slots=True)
class Curve:
    """How the groups of a window came: at which time before its end how many had been there."""

    at_us: tuple[int, ...] = ()
    seen: tuple[int, ...] = ()

    @property
    def groups(self) -> int:
        """How many there were in all."""
        return self.seen[-1] if self.seen else 0

    def share(self, at_us: int) -> float | None:
        """The share of all its groups that had been there by that time; None: there were none."""
        if not self.seen or not self.seen[-1]:
            return None
        return float(np.interp(at_us, self.at_us, self.seen)) / self.seen[-1]


class WindowGroups:
    """Arrays by number, in their order."""

    def __init__(self) -> None:
        self._numbers: Numbers = np.empty(0, np.int64)
        self._updates = np.empty(0, np.int32)
        self._classes = np.empty(0, np.uint8)
        self._held = np.empty(0, np.bool_)
        self._before = np.empty(0, np.int32)
        """The checkpoint that was next when the group left last; 0: it has not left while it had stored rows."""
        self.any_gone = False
        """It is true when some group has left while it had stored rows."""
        self._updated = np.zeros(CLASSES)
        self._there = np.zeros(CLASSES)
        self._curve: list[tuple[int, int]] = []
        self.new_per_epoch = 0.0
        self.again_per_epoch = 0.0

    @property
    def seen(self) -> int:
        """Groups that had a row, sent or not."""
        return len(self._numbers)

    @property
    def held(self) -> int:
        """Groups with rows that were not sent."""
        return int(np.count_nonzero(self._held))

    def update(self, numbers: Numbers) -> None:
        """Note an epoch, in which these groups had rows; each once, in order."""
        places, known = self._places(numbers)
        at = places[known]
        self._updated = FADING * self._updated + _counts(self._classes[at])
        self._there = FADING * self._there + _counts(self._classes)
        again = len(at) - int(np.count_nonzero(self._held[at]))
        self._updates[at] += 1
        self._classes[at] = _classes(self._updates[at])
        self._held[at] = True
        self._insert(places[~known], numbers[~known])
        first = len(numbers) - len(at)
        self.new_per_epoch = self._average(self.new_per_epoch, first)
        self.again_per_epoch = self._average(self.again_per_epoch, again)

    def mark(self, at_us: int) -> None:
        """Note how many groups there are at a time from the window's end on, which is negative before it."""
        self._curve.append((at_us, self.seen))

    def curve(self) -> Curve:
        """How the groups came so far."""
        return Curve(tuple(at for at, _ in self._curve), tuple(seen for _, seen in self._curve))

    def classes(self) -> tuple[UpdateClass, ...]:
        """Those that have groups, and all below them."""
        held = _counts(self._classes[self._held])
        hazards = self._updated / (self._there + 1)
        most = int(self._classes.max(initial=0)) + 1
        return tuple(UpdateClass(int(held[c]), float(min(1.0, hazards[c]))) for c in range(most))

    def of_class(self, place: int) -> Numbers:
        """The groups of a class that have rows that were not sent, in order."""
        found: Numbers = self._numbers[self._held & (self._classes == place)]
        return found

    def sent(self, numbers: Numbers) -> None:
        """None of these groups has rows any more; those that are not known change nothing. In order."""
        places, known = self._places(numbers)
        self._held[places[known]] = False

    def sent_all(self) -> None:
        """No group has rows any more."""
        self._held[:] = False

    def leave(self, numbers: Numbers, before: int) -> Numbers:
        """Rows of these groups do not count in runs of checkpoints below that number.

        Returns:
            Those that are known. In order.
        """
        places, known = self._places(numbers)
        at = places[known]
        self._before[at] = np.maximum(self._before[at], before)
        self.any_gone = self.any_gone or bool(len(at))
        return numbers[known]

    def is_gone(self, numbers: Numbers, checkpoint: int) -> npt.NDArray[np.bool_]:
        """Return, for each of these groups, whether its rows do not count in a run of that checkpoint."""
        places, known = self._places(numbers)
        gone = np.zeros(len(numbers), np.bool_)
        gone[known] = self._before[places[known]] > checkpoint
        return gone

    def know(self, numbers: Numbers, *, before: int | None = None) -> None:
        """These groups have been there, and have rows; or they have left, see `leave`. In order."""
        places, known = self._places(numbers)
        self._insert(places[~known], numbers[~known])
        if before is None:
            self._held[self._places(numbers)[0]] = True
        else:
            self._held[self._places(numbers[~known])[0]] = False
            self.leave(numbers, before)

    def _places(self, numbers: Numbers) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """Return where these numbers are, or would be inserted, and which of them are known."""
        places = np.searchsorted(self._numbers, numbers)
        known = np.zeros(len(numbers), np.bool_)
        inside = places < self.seen
        known[inside] = self._numbers[places[inside]] == numbers[inside]
        return places, known

    def _insert(self, places: npt.NDArray[np.intp], numbers: Numbers) -> None:
        self._numbers = np.insert(self._numbers, places, numbers)
        self._updates = np.insert(self._updates, places, 1)
        self._classes = np.insert(self._classes, places, 0)
        self._held = np.insert(self._held, places, True)
        self._before = np.insert(self._before, places, 0)

    def _average(self, before: float, newest: int) -> float:
        return (1 - WEIGHT) * before + WEIGHT * newest if self._curve else float(newest)


def is_among(numbers: Numbers, among: Numbers) -> npt.NDArray[np.bool_]:
    """Whether each number is one of those, which are in order."""
    if not len(among):
        return np.zeros(len(numbers), np.bool_)
    places = np.minimum(np.searchsorted(among, numbers), len(among) - 1)
    found: npt.NDArray[np.bool_] = among[places] == numbers
    return found


def _counts(classes: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    return np.bincount(classes, minlength=CLASSES).astype(np.float64)


def _classes(updates: npt.NDArray[np.int32]) -> npt.NDArray[np.uint8]:
    """The binary logarithm, rounded down."""
    found: npt.NDArray[np.uint8] = np.minimum(np.frexp(updates)[1] - 1, CLASSES - 1).astype(np.uint8)
    return found
