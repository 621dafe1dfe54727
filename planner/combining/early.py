"""What leaves now, before its window closes.

All that a window has left when it closes leaves then, and what the link does not carry in a moment makes the result
late. A group that leaves earlier may be updated again, and is sent twice. So as little as possible leaves early, and as
late as the link allows; first the groups with the fewest updates, for those that come up often will come up again. Of
those that are as likely to come again, the first by their keys leave: neighbours are smaller together.
Groups that hardly change may leave while half of the link is free, in case it becomes slower.

All tasks of a site that send over one link plan together: each counts what the others have to send by its deadline.
After Heintz, Chandra, Sitaraman, "Optimizing Grouped Aggregation in Geo-Distributed Streaming Analytics", HPDC 2015.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from planner.combining.clock import AFTER_CLOSE_S
from planner.values.trees import HOP_S

FRESH_SHARE = 0.9
"""Of a link whose rate was measured lately, so much is planned with."""
STALE_SHARE = 0.6
"""Of another link: a first small batch measures it."""
HEDGE_SHARE = 0.45
"""Beyond so much of the link, groups that hardly change leave."""
HEDGE_RISK = 0.1
MOST_RISK = 0.6
"""A group that is updated again with this probability stays until its window closes."""
WASTE = 0.15
"""Of a window's groups, so many may be sent twice on average."""
IN_FLIGHT_S = 1.5
"""So much of the link, in epochs, is under way at most: what closes a window must not wait behind it."""
TURN_S = 0.8
"""Where several queries have groups to send, one of them sends so much of the link at once: small batches are larger
by the group."""
LEAST_BYTES = 16 * 1024
LEAST_S = 0.25
"""No batch leaves early that is smaller than this, or than so much of the link."""
LEAST_WAY_S = 0.7
"""What a link carries in less time than this leaves a site between when a window closes. In the rate of so small
transfers is what the way and storing take."""
WORTH_FILLING = 0.3
"""From this part of the least batch on, a batch is filled up to it, unless more of it would be sent twice than has to
leave."""
ALIKE_RISK = 0.02
"""Classes whose probabilities of another update differ by less leave together, as many of each as it has groups."""
GROWTH_LIMIT = 1.5
"""So much faster than lately groups are expected to come at most, whatever came in the window before."""


@dataclass(frozen=True, slots=True)
class UpdateClass:
    """The groups of a window that had about as many updates: from 2^c to 2^(c+1), for the class at the place c."""

    held: int
    """Groups with rows that have not been sent."""
    hazard: float
    """The share of its groups that an epoch updates."""


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """What is known of a window that is not closed."""

    end_us: int
    ends_in_s: float
    due_in_s: float
    """See `planner.combining.clock.Closing`."""
    seen: int
    """Groups that had a row, sent or not."""
    new_per_s: float
    """Groups that came for the first time, lately."""
    again_per_s: float
    """Groups that had been sent and came again, lately."""
    classes: tuple[UpdateClass, ...]
    share_seen: float | None = None
    """Of all its groups, by the window before; None: there was none."""
    goes_on: bool = False
    """The reader combines its groups with those of other sites, and the deadline leaves it the time to send them on."""

    @property
    def held(self) -> int:
        return sum(c.held for c in self.classes)


@dataclass(frozen=True, slots=True)
class Held:
    """What the task of a query holds."""

    windows: tuple[OpenWindow, ...]
    bytes_per_group: float
    epoch_s: float
    gathers: bool = False
    """Some of the groups come from other sites, at the latest with the epochs that close their windows."""


@dataclass(frozen=True, slots=True)
class Link:
    """The link to the site that reads the groups."""

    bytes_per_s: float
    fresh: bool
    """The rate was measured in the last seconds."""
    queued_bytes: int = 0
    """Published, and not across yet."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a window is expected to have to send by its deadline."""

    due_s: float
    """On a clock that all tasks share."""
    size_bytes: float
    ready_bytes: float
    """Of what is held, that which may leave now."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Groups of a window that are to leave now."""

    end_us: int
    groups: tuple[int, ...]
    """Of each class so many."""


@dataclass(frozen=True, slots=True)
class _Outlook:
    """What is expected of a window."""

    size_bytes: float
    risks: tuple[float, ...]
    """By class: the probability that a group is updated before the window ends."""
    most_risk: float


def demands_of(held: Held, link: Link, *, now_s: float) -> tuple[Demand, ...]:
    """What each window of a task has to send, in the order of its windows."""
    return tuple(_demand(window, _outlook(window, held, link), held, now_s) for window in held.windows)


def early_batches(
    held: Held, link: Link, others: Iterable[Sequence[Demand]] = (), *, now_s: float
) -> tuple[Batch, ...]:
    """What of a task's groups leaves now; nothing is the usual answer.

    Args:
        held: what the task holds.
        link: over which it sends.
        others: what the other tasks have to send over the same link, by task.
        now_s: on the clock of all tasks' deadlines.
    """
    own = demands_of(held, link, now_s=now_s)
    room_bytes = IN_FLIGHT_S * link.bytes_per_s * held.epoch_s - link.queued_bytes
    batches: list[Batch] = []
    sent_bytes = 0.0
    for window, demand in sorted(zip(held.windows, own, strict=True), key=lambda pair: pair[1].due_s):
        rivals = [[d for d in task if d.due_s <= demand.due_s] for task in others]
        mine = [d for d in own if d.due_s <= demand.due_s]
        wanted = _wanted(window, held, link, sum(d.size_bytes for task in (*rivals, mine) for d in task))
        wanted = _Wanted(wanted.must_bytes - sent_bytes, wanted.hedge_bytes - sent_bytes)
        if held.gathers and window.due_in_s < held.epoch_s:
            # The rest of its groups is about to come: what leaves before would leave again.
            continue
        limit_bytes = room_bytes - sent_bytes
        if any(rivals):
            if _ready(mine) < max(map(_ready, rivals)):
                continue
            limit_bytes = min(limit_bytes, TURN_S * link.bytes_per_s - sent_bytes)
        last = window.goes_on and window.due_in_s < held.epoch_s
        least_bytes = 0.0 if last else least_batch(link)
        groups = _chosen(window, _outlook(window, held, link), held, wanted, limit_bytes, least_bytes)
        if groups:
            batches.append(Batch(window.end_us, groups))
            sent_bytes += sum(groups) * held.bytes_per_group
    return tuple(batches)


def leave_in_s(held: Held, link: Link | None) -> float:
    """Return how long it is, in seconds, until groups of the window that ends first leave, if no others come; or less.

    Args:
        held: what the task holds; one window at least.
        link: over which it sends, and no other task; None: nothing is known of it, and all leaves at the end.
    """
    window = min(held.windows, key=lambda window: window.due_in_s)
    way_s = 0.0 if link is None else window.held * held.bytes_per_group / (HEDGE_SHARE * link.bytes_per_s)
    return window.due_in_s - held.epoch_s - way_s


def onward_s(size_bytes: float, link: Link | None, epoch_s: float) -> float:
    """How much earlier than at its reader a window's groups are due at a site between; 0: with what closes the window.

    Args:
        size_bytes: of the groups of a window, of all sites together.
        link: over which they go on; None: nothing is known of it.
        epoch_s: of the site between, which has to begin an epoch earlier.
    """
    way_s = 0.0 if link is None else size_bytes / (FRESH_SHARE * link.bytes_per_s)
    return HOP_S + way_s + epoch_s if way_s >= LEAST_WAY_S else 0.0


def crosses_at_once(size_bytes: float, link: Link, others: Iterable[Sequence[Demand]] = ()) -> bool:
    """Return whether a window's groups cross the link in the moment after its end, with all that others have to send.

    Args:
        size_bytes: of all groups of the window.
        link: over which they go.
        others: what the other tasks have to send over the same link, by task.
    """
    share = FRESH_SHARE if link.fresh else STALE_SHARE
    all_bytes = size_bytes + link.queued_bytes + sum(demand.size_bytes for task in others for demand in task)
    return all_bytes <= share * link.bytes_per_s * AFTER_CLOSE_S


def least_batch(link: Link) -> float:
    """The size in bytes of the smallest batch that leaves early."""
    return max(LEAST_BYTES, LEAST_S * link.bytes_per_s)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What has to leave now for what will be left to cross the link in time; below 0: there is room for more."""

    must_bytes: float
    hedge_bytes: float
    """The same with a slower link, of groups that hardly change."""


def _wanted(window: OpenWindow, held: Held, link: Link, demanded_bytes: float) -> _Wanted:
    later_bytes = link.bytes_per_s * max(0.0, window.due_in_s - held.epoch_s)
    share = FRESH_SHARE if link.fresh else STALE_SHARE
    all_bytes = demanded_bytes + link.queued_bytes
    return _Wanted(all_bytes - share * later_bytes, all_bytes - HEDGE_SHARE * later_bytes)


def _outlook(window: OpenWindow, held: Held, link: Link) -> _Outlook:
    left_s = max(0.0, window.ends_in_s)
    growth = _growth(window, left_s)
    epochs = left_s / held.epoch_s
    risks = tuple(1 - math.exp(-c.hazard * epochs) for c in window.classes)
    size_bytes = (window.held + growth + window.again_per_s * left_s) * held.bytes_per_group
    # All its groups against what the link carries of them after its end.
    whole_s = (window.seen + growth) * held.bytes_per_group / link.bytes_per_s
    after_s = max(0.0, window.due_in_s - window.ends_in_s)
    if whole_s <= after_s:
        return _Outlook(size_bytes, risks, MOST_RISK)
    mean_risk = sum(c.held * risk for c, risk in zip(window.classes, risks, strict=True)) / max(1, window.held)
    size_bytes *= 1 + 0.5 * min(0.5, mean_risk) * (1 - after_s / whole_s)
    return _Outlook(size_bytes, risks, min(MOST_RISK, 2 * WASTE * whole_s / max(0.1, whole_s - after_s)))


def _growth(window: OpenWindow, left_s: float) -> float:
    """Groups that are expected to come for the first time."""
    lately = window.new_per_s * left_s
    if not window.share_seen:
        return lately
    return min(window.seen * (1 / window.share_seen - 1), GROWTH_LIMIT * lately)


def _demand(window: OpenWindow, outlook: _Outlook, held: Held, now_s: float) -> Demand:
    ready = sum(c.held for c, risk in zip(window.classes, outlook.risks, strict=True) if risk <= outlook.most_risk)
    return Demand(now_s + window.due_in_s, outlook.size_bytes, ready * held.bytes_per_group)


def _ready(demands: Iterable[Demand]) -> float:
    return sum(d.ready_bytes for d in demands)


def _chosen(  # noqa: PLR0913 - what a choice depends on
    window: OpenWindow, outlook: _Outlook, held: Held, wanted: _Wanted, limit_bytes: float, least_bytes: float
) -> tuple[int, ...]:
    """By class, so many groups; empty: none."""
    per_group = held.bytes_per_group
    steps = ((outlook.most_risk, wanted.must_bytes), (HEDGE_RISK, wanted.hedge_bytes))
    groups = _of_classes(window, outlook, [(risk, _groups(min(size, limit_bytes), per_group)) for risk, size in steps])
    if sum(groups) * per_group < least_bytes:
        mean_risk = sum(count * risk for count, risk in zip(groups, outlook.risks, strict=True)) / max(1, sum(groups))
        if sum(groups) * per_group < max(WORTH_FILLING, mean_risk) * least_bytes or limit_bytes < least_bytes:
            return ()
        risk = max(risk for risk, size in steps if size > 0)
        groups = _of_classes(window, outlook, [(risk, math.ceil(least_bytes / per_group))])
        if not least_bytes <= sum(groups) * per_group <= limit_bytes:
            return ()
    return groups


def _groups(size_bytes: float, bytes_per_group: float) -> int:
    return max(0, math.floor(size_bytes / bytes_per_group))


def _of_classes(window: OpenWindow, outlook: _Outlook, steps: Iterable[tuple[float, int]]) -> tuple[int, ...]:
    """So many groups by class that in all there are as many as each step says, of classes with at most its risk."""
    groups = [0] * len(window.classes)
    for most_risk, count in steps:
        for pool in _pools(outlook.risks, most_risk):
            left = {place: window.classes[place].held - groups[place] for place in pool}
            room = max(0, min(sum(left.values()), count - sum(groups)))
            for place in pool:
                part = round(room * left[place] / sum(left.values())) if room else 0
                groups[place] += part
                room -= part
                del left[place]
    return tuple(groups)


def _pools(risks: Sequence[float], most_risk: float) -> list[list[int]]:
    """Return the classes with at most that risk, by their places: neighbours of about the same risk are together."""
    pools: list[list[int]] = []
    for place, risk in enumerate(risks):
        if risk <= most_risk:
            if pools and abs(risk - risks[pools[-1][0]]) < ALIKE_RISK:
                pools[-1].append(place)
            else:
                pools.append([place])
    return pools
