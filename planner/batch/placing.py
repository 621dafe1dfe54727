"""Tasks to slots. Each scheduler takes the tasks that wait and the slots as it sees them, and says what to do now.

Three of them place by the network, greedily: always the task and slot next that would end first of all. They differ in
the slots they look at: `first_come` at free ones, `lease_aware` also at those that will be free, so that it waits for a
busy slot near the input when `time until it is free + run time there` beats the best free slot's run time; `local` at
those of the sites of the task's input alone, so that no input crosses a link.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, MutableSequence, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from planner.batch.model import Assigned, Placement, SlotView, Task, Waits
from planner.leases import Slot


class Randomness(Protocol):
    """Where chance comes from: `random.Random` does."""

    def shuffle(self, x: MutableSequence[Slot]) -> None:
        """Bring the items into an order of chance, in place."""


RunTime = Callable[[Task, str], float]
"""Seconds for which a task would hold a slot of a site, by estimate."""


def lease_aware(tasks: Sequence[Task], slots: Sequence[SlotView], run_time: RunTime, now: datetime) -> list[Placement]:
    """Every task on the slot where it ends first, be it after others; only those whose turn is now are assigned.

    A task that is to follow another one of these on its slot is left out: it is placed again when something changes.
    Slots of which nobody says when they are free are not waited for. Each other that waits for one already is taken to
    need it for as long as these tasks do on average.
    """
    known = [view for view in slots if view.free_at is not None]
    return _greedy(tasks, known, run_time, now, follows=True)


def first_come(tasks: Sequence[Task], slots: Sequence[SlotView], run_time: RunTime, now: datetime) -> list[Placement]:
    """Free slots only, one task each; never waits for a better one."""
    return _greedy(tasks, _free(slots, now), run_time, now, follows=False)


def local(tasks: Sequence[Task], slots: Sequence[SlotView], run_time: RunTime, now: datetime) -> list[Placement]:
    """Place as `lease_aware` does, but each task only on slots of the sites of its input, whatever it waits for.

    Where no slot of these sites will be free, as far as anybody says, a task takes what the others leave.
    """
    known = [view for view in slots if view.free_at is not None]
    sites = {view.slot.site for view in known}
    groups: dict[frozenset[str], list[Task]] = {}
    for task in tasks:
        groups.setdefault(frozenset(shard.site for shard in task.shards) & sites, []).append(task)
    placed: list[Placement] = []
    for homes in sorted(groups, key=len, reverse=True):
        taken = {placement.slot for placement in placed}
        at_home = [view for view in known if view.slot not in taken and (view.slot.site in homes or not homes)]
        placed += _greedy(groups[homes], at_home, run_time, now, follows=True)
    return placed


def random_slots(
    tasks: Sequence[Task], slots: Sequence[SlotView], run_time: RunTime, now: datetime, rng: Randomness
) -> list[Placement]:
    """Each task, in order, on some free slot."""
    free = [view.slot for view in _free(slots, now)]
    rng.shuffle(free)
    return [
        Assigned(task, slot, timedelta(seconds=run_time(task, slot.site)))
        for task, slot in zip(tasks, free, strict=False)
    ]


def _free(slots: Sequence[SlotView], now: datetime) -> list[SlotView]:
    return [view for view in slots if view.free_at is not None and view.free_at <= now]


def _greedy(
    tasks: Sequence[Task], slots: Sequence[SlotView], run_time: RunTime, now: datetime, *, follows: bool
) -> list[Placement]:
    """Repeatedly the placement that ends first; `follows`: a slot may be planned for several tasks, one after another.

    An end that was computed before another task took the slot is too early, never too late: it is computed again when
    it comes up, and needs no look at the others.
    """
    sites = {view.slot.site for view in slots}
    needs_s = [{site: run_time(task, site) for site in sites} for task in tasks]
    if not tasks:
        return []
    mean_s = {site: sum(own_s[site] for own_s in needs_s) / len(needs_s) for site in sites}
    free_s = {view.slot: _free_in_s(view, mean_s[view.slot.site], now) for view in slots}
    placed: list[Placement] = []
    taken: set[Slot] = set()

    def best(number: int) -> tuple[float, Slot]:
        """When the task ends at the earliest, in seconds from now, and where."""
        own_s = needs_s[number]
        return min((at_s + own_s[slot.site], slot) for slot, at_s in free_s.items())

    queue = [(*best(number), number) for number in range(len(tasks))] if slots else []
    heapq.heapify(queue)
    while queue and free_s:
        end_s, _, number = heapq.heappop(queue)
        best_s, slot = best(number)
        if best_s > end_s:
            heapq.heappush(queue, (best_s, slot, number))
            continue
        if slot not in taken:
            placed.append(_placement(tasks[number], slot, free_s[slot], needs_s[number][slot.site], now))
        taken.add(slot)
        if follows:
            free_s[slot] = best_s
        else:
            del free_s[slot]
    return placed


def _free_in_s(view: SlotView, mean_s: float, now: datetime) -> float:
    """When those that have it and those that wait for it are through."""
    return max(0.0, ((view.free_at or now) - now).total_seconds()) + view.ahead * mean_s


def _placement(task: Task, slot: Slot, free_s: float, needs_s: float, now: datetime) -> Placement:
    if free_s > 0:
        return Waits(task, slot, now + timedelta(seconds=free_s))
    return Assigned(task, slot, timedelta(seconds=needs_s))
