"""What other sites have stored of what is sent to them, and how fast it got there, by the credit that they give back.

A reader gives credit for an epoch once it has stored it. So what was sent and has no credit is on its way, and while
anything is, the link is busy. The rate is that of all calls of a site together. Every transfer takes some time, however
small, for the way and for storing; that time is found from transfers of different sizes, and the rate is of the rest.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from site_agent.base.waiters import Waiters

LEAST_BYTES = 16 * 1024
"""Less says nothing about the rate."""
STRETCH_S = 2.0
"""A link that stays busy is measured anew after so long."""
MOSTLY = 2.0
"""A transfer that took so many times what every transfer takes was limited by the link."""
OVERDUE = 2.0
OVERDUE_S = 1.0
"""What takes so many times what it should, and so much longer, is stuck."""
TRANSFERS = 16
"""So many transfers tell what every transfer takes."""
SPREAD = 0.25
"""The sizes of two differ by this part at least, if they are to tell it."""
LITTLE_BYTES = 64 * 1024
"""So much data on its way keeps no link busy: most of its time it waits for the answer that it is stored."""
DATA_SHARE = 4
"""While data is on its way, a call that yields sends one byte for so many bytes of data that were stored."""
YIELDING_BYTES = 512 * 1024
YIELDING_S = 0.4
"""A call that yields has so many bytes under way, or what the link carries in so long: data that comes later waits for
them."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What a link carried while it was busy."""

    bytes_per_s: float
    age_s: float


class OutboundLink:
    """All calls of one reading site."""

    def __init__(self) -> None:
        self._under_way_bytes = 0
        self._yielding_bytes = 0
        """Of these, what calls that yield have sent."""
        self._data_stored_bytes = 0
        """All that other calls than these ever had stored."""
        self._moves = Waiters()
        self._since_s = 0.0
        self._moved_s = 0.0
        """When it began to be busy, or something arrived last."""
        self._stored_bytes = 0
        """Since then."""
        self._begins = True
        """The link was idle before."""
        self._transfers: deque[tuple[int, float]] = deque(maxlen=TRANSFERS)
        """Size and time of those that found the link idle and left it idle."""
        self._rate: float | None = None
        self._measured_s = 0.0

    def rate(self, now_s: float) -> Rate | None:
        """The last that was measured; None: none was."""
        return None if self._rate is None else Rate(self._rate, now_s - self._measured_s)

    def crossed_bytes(self, now_s: float) -> float:
        """Of what has no credit, so much should have crossed the link by now; of what is long overdue, nothing."""
        should = (self._rate or 0.0) * (now_s - self._moved_s)
        if should > OVERDUE * self._under_way_bytes + (self._rate or 0.0) * OVERDUE_S:
            return 0.0
        return min(should, self._under_way_bytes)

    @property
    def data_under_way(self) -> bool:
        """Return whether more than a little of anything but what yields is on its way."""
        return self._under_way_bytes - self._yielding_bytes > LITTLE_BYTES

    @property
    def data_stored_bytes(self) -> int:
        """All that calls which do not yield ever had stored."""
        return self._data_stored_bytes

    @property
    def yielding_room_bytes(self) -> int:
        """What a call that yields may have under way."""
        return max(YIELDING_BYTES, int((self._rate or 0.0) * YIELDING_S))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once this holds, which can change when something is stored or a call ends."""
        await self._moves.until(condition)

    def sent(self, size_bytes: int, now_s: float, *, yields: bool) -> None:
        """An epoch was handed to a connection."""
        if not self._under_way_bytes:
            self._begin(now_s, begins=True)
        self._under_way_bytes += size_bytes
        self._yielding_bytes += size_bytes if yields else 0

    def stored(self, size_bytes: int, now_s: float, *, yields: bool) -> None:
        """The reader has stored so much more."""
        self._under_way_bytes -= size_bytes
        if yields:
            self._yielding_bytes -= size_bytes
        else:
            self._data_stored_bytes += size_bytes
        self._stored_bytes += size_bytes
        self._moved_s = now_s
        took_s = now_s - self._since_s
        if self._begins and not self._under_way_bytes:
            self._transfers.append((self._stored_bytes, took_s))
        if self._stored_bytes >= LEAST_BYTES:
            self._measure(took_s, now_s)
        if took_s >= STRETCH_S:
            self._begin(now_s, begins=False)
        self._moves.wake()

    def lost(self, size_bytes: int, *, yields: bool) -> None:
        """So much will have no credit: its call has ended."""
        self._under_way_bytes -= size_bytes
        self._yielding_bytes -= size_bytes if yields else 0
        self._moves.wake()

    def _begin(self, now_s: float, *, begins: bool) -> None:
        self._since_s, self._stored_bytes, self._begins = now_s, 0, begins
        self._moved_s = now_s

    def _measure(self, took_s: float, now_s: float) -> None:
        once_s = _least_s(tuple(self._transfers)) if self._begins else 0.0
        if took_s >= MOSTLY * once_s:
            rate = self._stored_bytes / max(1e-3, took_s - once_s)
        else:
            # At least so much.
            rate = max(self._rate or 0.0, self._stored_bytes / took_s)
        self._rate, self._measured_s = rate, now_s


def _least_s(transfers: Sequence[tuple[int, float]]) -> float:
    """What a transfer takes however small it is; 0: they do not tell.

    Of two that follow each other the line through sizes and times tells it, as long as the link did not change.
    """
    found = []
    for (size, took_s), (next_size, next_s) in pairwise(transfers):
        slope = (next_s - took_s) / (next_size - size) if next_size != size else 0.0
        if abs(next_size - size) >= SPREAD * max(size, next_size) and slope > 0:
            found.append(max(0.0, took_s - slope * size))
    return min(median(found), *(took_s for _, took_s in transfers)) if found else 0.0


class OutboundCall:
    """One Pull call of a site, which has stored all before the epoch it asked for first."""

    def __init__(self, link: OutboundLink, first_epoch: int, now_s: Callable[[], float], *, yields: bool) -> None:
        self._link = link
        self._now_s = now_s
        self._yields = yields
        self._data_stored_bytes = link.data_stored_bytes
        """What other calls had stored when this one sent last."""
        self._pending: deque[tuple[int, int]] = deque()
        self._under_way_bytes = 0
        self._credit_bytes = 0
        """Of the first pending epoch."""
        self.next_epoch = first_epoch
        """The first epoch that is not known to be stored."""

    def may_send(self, size_bytes: int) -> bool:
        """Return whether an epoch of this size may be sent now: always, unless the call yields.

        Such a call sends while hardly any data is on its way to the site, and else a byte for every `DATA_SHARE` bytes
        of data that the site has stored. So it takes a fifth of a link that is full of data, and it is never stuck.
        """
        link = self._link
        if not self._yields:
            return True
        if self._under_way_bytes and self._under_way_bytes + size_bytes > link.yielding_room_bytes:
            return False
        return not link.data_under_way or (link.data_stored_bytes - self._data_stored_bytes >= DATA_SHARE * size_bytes)

    async def turn(self, size_bytes: int) -> None:
        """Return once an epoch of this size may be sent."""
        await self._link.until(lambda: self.may_send(size_bytes))

    def sent(self, epoch: int, size_bytes: int) -> None:
        """This epoch was handed to the connection."""
        self._pending.append((epoch, size_bytes))
        self._under_way_bytes += size_bytes
        self._data_stored_bytes = self._link.data_stored_bytes
        if size_bytes:
            self._link.sent(size_bytes, self._now_s(), yields=self._yields)
        self._advance()

    def stored(self, size_bytes: int) -> None:
        """The reader has given credit for so much."""
        # A reader that gives credit for what was not sent changes nothing here.
        size_bytes = min(size_bytes, self._under_way_bytes)
        if size_bytes:
            self._under_way_bytes -= size_bytes
            self._link.stored(size_bytes, self._now_s(), yields=self._yields)
            self._credit_bytes += size_bytes
            self._advance()

    def end(self) -> None:
        """The call is over."""
        self._link.lost(self._under_way_bytes, yields=self._yields)
        self._under_way_bytes = 0

    def _advance(self) -> None:
        while self._pending and self._pending[0][1] <= self._credit_bytes:
            epoch, size_bytes = self._pending.popleft()
            self._credit_bytes -= size_bytes
            self.next_epoch = epoch + 1


class Outbound:
    """All calls to a site's exchange, by the site that reads. Belongs to one event loop."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._links: dict[str, OutboundLink] = {}
        self._calls: dict[tuple[str, str], OutboundCall] = {}
        self._onward_s: dict[tuple[str, str], float] = {}

    def call(self, reader: str, channel: str, first_epoch: int, *, yields: bool = False) -> OutboundCall:
        """A new call, which may yield to those of other channels; of several for a channel the last one counts."""
        call = OutboundCall(self._links.setdefault(reader, OutboundLink()), first_epoch, self._now_s, yields=yields)
        self._calls[reader, channel] = call
        return call

    def end(self, reader: str, channel: str, call: OutboundCall) -> None:
        """The call is over."""
        call.end()
        if self._calls.get((reader, channel)) is call:
            del self._calls[reader, channel]

    def goes_on(self, reader: str, channel: str, onward_s: float) -> None:
        """The site has said how long what it reads of a channel takes to go on from there."""
        self._onward_s[reader, channel] = onward_s

    def onward_s(self, reader: str, channel: str) -> float:
        """What the site said last of it; 0: it stays there, or nothing is known."""
        return self._onward_s.get((reader, channel), 0.0)

    def forget(self, channel: str) -> None:
        """The channel is sent no more."""
        self._onward_s = {key: value for key, value in self._onward_s.items() if key[1] != channel}

    def rate(self, reader: str) -> Rate | None:
        """What the link to that site carried last; None: it was not measured."""
        link = self._links.get(reader)
        return link.rate(self._now_s()) if link is not None else None

    def crossed_bytes(self, reader: str) -> float:
        """Of what the site has not stored, so much should have crossed the link by now."""
        link = self._links.get(reader)
        return link.crossed_bytes(self._now_s()) if link is not None else 0.0

    def stored_before(self, reader: str, channel: str) -> int | None:
        """The first epoch of a channel that the site is not known to have stored; None: it does not read just now."""
        call = self._calls.get((reader, channel))
        return call.next_epoch if call is not None else None
