"""Measures links by our own transfers: finds stretches of time in which data arrived at a steady rate.

A link that was full all the while limited that rate. It was full between two messages of a transfer when the sender had
the second one waiting, which it says with each message, and the reader was waiting for it. Small pauses count as full,
for the sockets' buffers bridge them; but the sender must have waited for the link for half of the time at least.
Otherwise the link carries so much at least.

The rate is that of all transfers over the link together. The first half of a stretch does not count when the link was
idle before it, and none does whose rate changes: TCP finds out how fast it may go, or makes up for a loss.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

BRIDGED_BY_SENDER_S = 0.005
"""A pause of the sender that the data in its socket bridge."""
BRIDGED_BY_READER_S = 0.02
MOST_IDLE = 0.1
"""A share of the time between two messages; a sender that paused for longer may have left the link idle."""
PAUSE_S = 0.25
"""A pause of the sender that ends a stretch."""
LEAST_WAITED = 0.5
GAP_S = 0.02
"""Stretches that are this close are joined."""
LEAST_FULL = 0.9
"""The share of a stretch in which the link must have been full to have limited it."""

LEAST_S = 0.5
LEAST_BYTES = 256 * 1024
LEAST_MESSAGES = 4
PARTS = 3
STEADY = 0.25
"""The rates of the parts of a steady stretch differ by this share at most."""

SETTLE_S = 1.0
"""Messages this recent are not evaluated yet: a message of another transfer may still be on its way, and counts with
them."""
KEEP_S = 30.0
MOST_ARRIVALS = 20_000


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message of one transfer. Times are seconds on a clock that only goes forward."""

    after_s: float
    """When the previous message arrived, or the transfer began."""
    at_s: float
    size_bytes: int
    waited_s: float
    """The time since then that the reader waited; the rest it was busy with the previous message."""
    idle_s: float | None
    """The time since then that the sender had nothing to send or no credit; None: not known."""

    @property
    def span_s(self) -> float:
        return self.at_s - self.after_s

    @property
    def paused_s(self) -> float:
        """How long nothing arrived because the sender paused; a pause before the previous message arrived was bridged
        by the socket."""
        return self.idle_s if self.idle_s is not None and PAUSE_S <= self.idle_s <= self.span_s else 0.0

    @property
    def awaited(self) -> bool:
        """Whether the reader was waiting for the message while the sender was sending."""
        if self.idle_s is None or self.paused_s:
            return False
        return self.span_s - self.waited_s <= max(BRIDGED_BY_READER_S, (1 - LEAST_WAITED) * self.span_s)

    @property
    def full(self) -> bool:
        """Whether the link was full since the previous message, as far as this transfer can tell."""
        bridged_s = max(BRIDGED_BY_SENDER_S, MOST_IDLE * self.span_s)
        return self.awaited and self.idle_s is not None and self.idle_s <= bridged_s

    def bytes_between(self, begin_s: float, end_s: float) -> float:
        """The bytes of the message that arrived between two times, if they arrived evenly."""
        begun_s = self.after_s + self.paused_s
        if self.at_s <= begun_s:
            return float(self.size_bytes) if begin_s < self.at_s <= end_s else 0.0
        share = (min(end_s, self.at_s) - max(begin_s, begun_s)) / (self.at_s - begun_s)
        return self.size_bytes * max(0.0, share)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in which data arrived over a link at a steady rate."""

    size_bytes: int
    duration_s: float
    ended_s: float
    link_bound: bool
    """The link was full. Otherwise its capacity is at least this rate."""


@dataclass(frozen=True, slots=True)
class LinkTransfer:
    """What transfers from one site to this one showed about the link."""

    from_site: str
    size_bytes: int
    duration_s: float
    age_s: float
    """Since its end."""
    link_bound: bool


class LinkMeter:
    """The arrivals over one link, and the stretches among them that were not reported yet."""

    def __init__(self) -> None:
        self._arrivals: deque[Arrival] = deque()
        self._in_epoch: dict[int, float] = {}
        """For each transfer in the middle of an epoch: when its last message arrived."""
        self._from_s = float("-inf")
        """Arrivals before this time are not evaluated any more."""
        self._begun_until_s: float | None = None
        """Transfers were under way until this time, and had begun well before."""

    def add(self, transfer: int, arrival: Arrival, *, in_epoch: bool) -> None:
        """Record a message, in the order of `at_s`; `in_epoch`: the next message of the transfer follows at once."""
        self._arrivals.append(arrival)
        if in_epoch:
            self._in_epoch[transfer] = arrival.at_s
        else:
            self._in_epoch.pop(transfer, None)
        if len(self._arrivals) > MOST_ARRIVALS:
            self._forget_until(self._arrivals[0].at_s)

    def end(self, transfer: int) -> None:
        """The transfer has ended."""
        self._in_epoch.pop(transfer, None)

    def take(self, now_s: float) -> tuple[Stretch, ...]:
        """The stretches that ended, and the known part of one that goes on; each part is returned once."""
        if self._from_s < now_s - KEEP_S:
            self._forget_until(now_s - KEEP_S)
        horizon_s = min((now_s - SETTLE_S, *(at_s for at_s in self._in_epoch.values() if at_s > now_s - KEEP_S)))
        taken = []
        # The last interval may go on, so it may still become long enough for a stretch.
        next_s = max((a.at_s for a in self._arrivals if a.at_s <= horizon_s), default=self._from_s)
        for begin_s, end_s in times_of(self._arrivals, self._from_s, horizon_s):
            begun = self._begun_until_s is not None and begin_s <= self._begun_until_s + GAP_S
            from_s = begin_s if begun else (begin_s + end_s) / 2
            inside = [a for a in self._arrivals if a.at_s > from_s and a.after_s < end_s]
            next_s = begin_s
            if tells_enough(inside, from_s, end_s):
                self._begun_until_s = next_s = end_s
                taken += steady_stretch(inside, from_s, end_s)
        self._forget_until(next_s)
        return tuple(taken)

    def _forget_until(self, time_s: float) -> None:
        self._from_s = time_s
        if self._begun_until_s is not None and self._begun_until_s < time_s - GAP_S:
            self._begun_until_s = None
        while self._arrivals and self._arrivals[0].at_s <= time_s:
            self._arrivals.popleft()


def times_of(arrivals: Iterable[Arrival], begin_s: float, end_s: float) -> Iterator[tuple[float, float]]:
    """The times in which messages were awaited one after the other, as (begin, end) in order, with small
    gaps bridged."""
    time_begin_s, time_end_s = 0.0, float("-inf")
    for arrival in sorted((a for a in arrivals if a.awaited), key=lambda a: a.after_s):
        from_s, to_s = max(begin_s, arrival.after_s), min(end_s, arrival.at_s)
        if to_s <= from_s:
            continue
        if from_s > time_end_s + GAP_S:
            if time_end_s > time_begin_s:
                yield time_begin_s, time_end_s
            time_begin_s = time_end_s = from_s
        time_end_s = max(time_end_s, to_s)
    if time_end_s > time_begin_s:
        yield time_begin_s, time_end_s


def tells_enough(inside: Sequence[Arrival], begin_s: float, end_s: float) -> bool:
    """Whether the messages of that time are worth evaluating."""
    came = sum(a.awaited and begin_s < a.at_s <= end_s for a in inside)
    size_bytes = _bytes_between(inside, begin_s, end_s)
    return end_s - begin_s >= LEAST_S and size_bytes >= LEAST_BYTES and came >= LEAST_MESSAGES


def steady_stretch(inside: Sequence[Arrival], begin_s: float, end_s: float) -> list[Stretch]:
    """The stretch of that time; None when its rate changed, or the reader waited too little."""
    edges = [begin_s + (end_s - begin_s) * part / PARTS for part in range(PARTS + 1)]
    parts = [_bytes_between(inside, a, b) for a, b in pairwise(edges)]
    awaited = [a for a in inside if a.awaited]
    span_s = sum(a.span_s for a in awaited)
    if max(parts) > (1 + STEADY) * min(parts) or sum(a.waited_s for a in awaited) < LEAST_WAITED * span_s:
        return []
    full = [a for a in awaited if a.full]
    full_s = sum(b - a for a, b in _union((max(begin_s, a.after_s), min(end_s, a.at_s)) for a in full))
    idle_s = sum(a.idle_s or 0.0 for a in full)
    link_bound = full_s >= LEAST_FULL * (end_s - begin_s) and idle_s <= LEAST_WAITED * span_s
    size_bytes = round(_bytes_between(inside, begin_s, end_s))
    return [Stretch(size_bytes, end_s - begin_s, end_s, link_bound)]


def _union(times: Iterable[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """The same moments as intervals that do not overlap."""
    covered_s = float("-inf")
    for begin_s, end_s in sorted(times):
        if end_s > covered_s:
            yield max(begin_s, covered_s), end_s
            covered_s = end_s


def _bytes_between(arrivals: Iterable[Arrival], begin_s: float, end_s: float) -> float:
    return sum(a.bytes_between(begin_s, end_s) for a in arrivals)


class TransferMeter:
    """All links that end at a site, by a clock. Belongs to one event loop."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._links: dict[str, LinkMeter] = {}
        self._clocks: dict[str, Callable[[], float]] = {}
        self._transfers = 0

    def set_clocks(self, clocks: Mapping[str, Callable[[], float]]) -> None:
        """Set the clocks of links that are slowed down on a clock of their own, by the site where they begin."""
        self._clocks.update(clocks)

    @contextmanager
    def transfer(self, from_site: str) -> Iterator[MeteredTransfer]:
        """Within the block: one call that receives messages from that site."""
        link = self._links.setdefault(from_site, LinkMeter())
        self._transfers += 1
        number = self._transfers
        try:
            yield MeteredTransfer(link, number, self._clock(from_site))
        finally:
            link.end(number)

    def take(self) -> tuple[LinkTransfer, ...]:
        """What was measured since the last call."""
        taken = []
        for site, link in sorted(self._links.items()):
            now_s = self._clock(site)()
            taken += [
                LinkTransfer(site, s.size_bytes, s.duration_s, now_s - s.ended_s, s.link_bound)
                for s in link.take(now_s)
            ]
        return tuple(taken)

    def _clock(self, site: str) -> Callable[[], float]:
        return self._clocks.get(site, self._now_s)


class MeteredTransfer:
    """The messages of one call: iterate over `timed`, and `count` each message."""

    def __init__(self, link: LinkMeter, number: int, now_s: Callable[[], float]) -> None:
        self._link = link
        self._number = number
        self._now_s = now_s
        self._came_s: float | None = None
        """None: before the first message, nobody knows when it was sent."""
        self._waited_s = 0.0
        self._before_s: float | None = None

    async def timed(self, messages: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
        """The messages, with their arrival times recorded."""
        waits_from_s = self._now_s()
        async for message in messages:
            self._before_s, self._came_s = self._came_s, self._now_s()
            self._waited_s = self._came_s - waits_from_s
            yield message
            waits_from_s = self._now_s()

    def count(self, size_bytes: int, *, idle_s: float | None, in_epoch: bool) -> None:
        """Record the last message: its size, and what its sender says (`Arrival.idle_s`, `LinkMeter.add`)."""
        at_s = self._came_s if self._came_s is not None else self._now_s()
        if self._before_s is None:
            arrival = Arrival(at_s, at_s, size_bytes, 0.0, None)
        else:
            arrival = Arrival(self._before_s, at_s, size_bytes, self._waited_s, idle_s)
        self._link.add(self._number, arrival, in_epoch=in_epoch)
