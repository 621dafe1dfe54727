"""Fair sharing of the event loop between a site's Pull calls, by bytes.

Start-time fair queueing (Goyal, Vin, Cheng 1996): each call has a tag, the work it has been given so far, and the call
with the least tag is next. A call that comes later, or that had nothing to send, begins a little behind the others: it
may catch up with those that were accepted just before it, and keeps nobody waiting for longer than that.

Work is handed out in rounds of the event loop, so little in each that a new call is accepted in between.
"""

from __future__ import annotations

import asyncio
import heapq

ROUND_BYTES = 64 * 1024
"""Work of one round; a larger epoch makes a round of its own. gRPC accepts one call in every few rounds."""
ACCEPTING_ROUNDS = 8
"""After a new call so many rounds hand out nothing: calls come together, and gRPC accepts the next in one of them."""
MOST_ACCEPTING_ROUNDS = 64
"""At most this many between two rounds that hand out work, however many calls come."""
CATCH_UP_BYTES = 2 * 1024 * 1024
"""How far behind the others a call may begin."""
EPOCH_COST_BYTES = 4 * 1024
"""The cost of sending an epoch in addition to its bytes."""


class Flow:
    """The work that one call has been given so far."""

    __slots__ = ("tag_bytes",)

    def __init__(self) -> None:
        self.tag_bytes = 0

    def charge(self, size_bytes: int) -> None:
        """Charge it for more work than it was handed out."""
        self.tag_bytes += size_bytes


class FairQueue:
    """The order of waiting calls; a call waits once at a time."""

    def __init__(self, catch_up_bytes: int = CATCH_UP_BYTES) -> None:
        self._catch_up_bytes = catch_up_bytes
        self._now_bytes = 0
        self._waiting: list[tuple[int, int, Flow, int]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, flow: Flow, cost_bytes: int) -> None:
        """Queue a flow for this much work."""
        start_bytes = max(flow.tag_bytes, self._now_bytes - self._catch_up_bytes)
        self._number += 1
        heapq.heappush(self._waiting, (start_bytes, self._number, flow, cost_bytes))

    @property
    def first(self) -> Flow:
        """The next flow; the queue must not be empty."""
        return self._waiting[0][2]

    def pop(self) -> tuple[Flow, int]:
        """Remove the next flow, and charge it with its work; of equal flows the one that waited longest."""
        start_bytes, _, flow, cost_bytes = heapq.heappop(self._waiting)
        self._now_bytes = max(self._now_bytes, start_bytes)
        flow.tag_bytes = start_bytes + cost_bytes
        return flow, cost_bytes


class Turns:
    """Hands out work to the calls of one server. Belongs to one event loop."""

    def __init__(self, round_bytes: int = ROUND_BYTES, *, queue: FairQueue | None = None) -> None:
        self._round_bytes = round_bytes
        self._left_bytes = round_bytes
        self._queue = queue or FairQueue()
        self._futures: dict[Flow, asyncio.Future[None]] = {}
        self._round_ends = False
        self._accepting = 0
        self._accepted = 0

    def accepted(self) -> None:
        """A new call was accepted."""
        self._accepting = ACCEPTING_ROUNDS

    def take(self, flow: Flow, size_bytes: int) -> asyncio.Future[None] | None:
        """Ask for work for an epoch of this size: None when it may begin now, else the future to wait for.

        Cancelling the future gives up the turn.
        """
        self._queue.push(flow, size_bytes + EPOCH_COST_BYTES)
        if len(self._queue) == 1 and self._left_bytes > 0 and not self._accepting:
            self._give()
            return None
        self._end_round_later()
        future = self._futures[flow] = asyncio.get_running_loop().create_future()
        return future

    def _give(self) -> Flow:
        flow, cost_bytes = self._queue.pop()
        self._left_bytes -= cost_bytes
        self._end_round_later()
        return flow

    def _end_round_later(self) -> None:
        if not self._round_ends:
            self._round_ends = True
            asyncio.get_running_loop().call_soon(self._next_round)

    def _next_round(self) -> None:
        self._round_ends = False
        if self._accepting and self._accepted < MOST_ACCEPTING_ROUNDS:
            self._accepting -= 1
            self._accepted += 1
            self._end_round_later()
            return
        self._accepted = 0
        self._left_bytes = self._round_bytes
        while self._queue and self._left_bytes > 0:
            before_bytes = self._left_bytes
            future = self._futures.pop(self._give())
            if future.done():
                # Its call ended while it waited.
                self._left_bytes = before_bytes
            else:
                future.set_result(None)
