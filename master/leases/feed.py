"""The stream of slots for watchers: a snapshot, then changes; each encoded once for all watchers.

Changes of `PACE_S` go out together, at once after a quiet time. Watchers read a shared journal, each at its own pace;
one for which the journal does not reach back far enough gets a snapshot again, so that slow readers cost no memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from master.base.notify import Notifier
from planner.leases import Change, LeaseTable, Slot, SlotRecord

M = TypeVar("M")

PACE_S = 0.05
"""The least time between two messages to watchers."""

CHUNK_SLOTS = 1000
"""Slots in one message of a snapshot: encoding them takes some milliseconds, between which other calls are answered."""

JOURNAL_SLOTS = 20_000
"""The number of changed slots that the journal holds."""


@dataclass(frozen=True, slots=True)
class FeedPart:
    """The content of one message."""

    version: int
    """The version of the slots up to which it goes."""
    fencing: int
    """The last fencing number that had been given then."""
    records: Sequence[SlotRecord] = ()
    gone: Sequence[Slot] = ()
    begins: bool = False
    """The first message of a snapshot."""
    ends: bool = False
    """The last message of a snapshot or of a change: what follows is newer."""


class SlotFeed(Generic[M]):
    """A journal that any number of watchers read."""

    def __init__(
        self,
        table: LeaseTable,
        encode: Callable[[FeedPart], M],
        *,
        site: str = "",
        journal_slots: int = JOURNAL_SLOTS,
    ) -> None:
        """The feed of the slots of one site, or of all."""
        self._table = table
        self._encode = encode
        self._site = site
        self._fencing = 0
        self._most_journal_slots = journal_slots
        self._version = 0
        self._pending: dict[Slot, SlotRecord | None] = {}
        self._journal: dict[int, tuple[M, int]] = {}
        self._journal_slots = 0
        self._cut_at = float("-inf")
        self._snapshot: _Snapshot[M] | None = None
        self._changes = Notifier()
        self._watchers = 0

    def publish(self, changes: Iterable[Change]) -> None:
        """Record durable changes; without watchers, the next snapshot includes them."""
        if not self._watchers:
            self._snapshot = None
            self._forget_journal()
            return
        for change in changes:
            if self._site in ("", change.slot.site):
                self._pending[change.slot] = change.after
        if self._pending:
            self._changes.notify()

    async def watch(self) -> AsyncGenerator[M, None]:
        """Messages for one watcher, until closed."""
        self._watchers += 1
        try:
            async for message in self._messages():
                yield message
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._pending = {}
                self._snapshot = None
                self._forget_journal()

    async def _messages(self) -> AsyncIterator[M]:
        while True:
            snapshot = self._current_snapshot()
            for number in range(len(snapshot)):
                yield snapshot.message(number)
                await asyncio.sleep(0)
            if self._pending:
                self._cut()
            position, told = snapshot.version, False
            while position >= self._version or position + 1 in self._journal:
                if position < self._version:
                    position += 1
                    yield self._journal[position][0]
                elif not told:
                    told = True
                    # Not the table's present version: pending changes are not sent yet.
                    yield self._encode(FeedPart(position, max(snapshot.fencing, self._fencing), ends=True))
                else:
                    await self._next_change()

    async def _next_change(self) -> None:
        seen = self._changes.version
        if not self._pending:
            await self._changes.wait_beyond(seen)
        loop = asyncio.get_running_loop()
        wait_s = self._cut_at + PACE_S - loop.time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        # The first of the watchers that wake encodes the pending changes for all.
        if self._pending and self._cut_at + PACE_S <= loop.time():
            self._cut_at = loop.time()
            self._cut()

    def _cut(self) -> None:
        """Move pending changes to the journal as messages; too many of them send every watcher back to a snapshot."""
        pending, self._pending = list(self._pending.items()), {}
        before, self._fencing = self._fencing, self._table.fencing
        if len(pending) > self._most_journal_slots:
            self._version += 1
            self._forget_journal()
            return
        for first in range(0, len(pending), CHUNK_SLOTS):
            last = first + CHUNK_SLOTS >= len(pending)
            # Only the last message completes the changes up to that version.
            self._add(pending[first : first + CHUNK_SLOTS], self._fencing if last else before)
        while self._journal_slots > self._most_journal_slots:
            oldest = next(iter(self._journal))
            self._journal_slots -= self._journal.pop(oldest)[1]

    def _forget_journal(self) -> None:
        self._journal.clear()
        self._journal_slots = 0

    def _add(self, changed: Sequence[tuple[Slot, SlotRecord | None]], fencing: int) -> None:
        records = [record for _, record in changed if record is not None]
        gone = [slot for slot, record in changed if record is None]
        self._version += 1
        self._journal[self._version] = self._encode(FeedPart(self._version, fencing, records, gone)), len(changed)
        self._journal_slots += len(changed)

    def _current_snapshot(self) -> _Snapshot[M]:
        """The last snapshot, as long as the journal continues from it: together they describe the present."""
        last = self._snapshot
        if last is None or (last.version < self._version and last.version + 1 not in self._journal):
            # Pending changes are in the table already; sending them twice does no harm.
            records = self._table.of_site(self._site) if self._site else self._table.unordered()
            first = FeedPart(self._version, self._table.fencing, begins=True)
            self._snapshot = last = _Snapshot(first, records, self._encode)
        return last


class _Snapshot(Generic[M]):
    """All slots at one moment, encoded piece by piece by the first watcher that asks."""

    def __init__(self, first: FeedPart, records: Sequence[SlotRecord], encode: Callable[[FeedPart], M]) -> None:
        self.version = first.version
        self.fencing = first.fencing
        self._first = first
        self._records = records
        self._encode = encode
        self._messages: list[M | None] = [None] * max(1, -(-len(records) // CHUNK_SLOTS))

    def __len__(self) -> int:
        return len(self._messages)

    def message(self, number: int) -> M:
        found = self._messages[number]
        if found is None:
            records = self._records[number * CHUNK_SLOTS : (number + 1) * CHUNK_SLOTS]
            self._messages[number] = found = self._encode(replace(self._first, records=records, begins=number == 0))
        return found


class SlotFeeds(Generic[M]):
    """The feed of all slots, and a feed for each site that is watched separately."""

    def __init__(self, table: LeaseTable, encode: Callable[[FeedPart], M]) -> None:
        self._table = table
        self._encode = encode
        self._feeds: dict[str, SlotFeed[M]] = {}

    def of(self, site: str) -> SlotFeed[M]:
        """The feed of a site; empty: that of all slots."""
        if site not in self._feeds:
            self._feeds[site] = SlotFeed(self._table, self._encode, site=site)
        return self._feeds[site]

    def publish(self, changes: Sequence[Change]) -> None:
        for feed in self._feeds.values():
            feed.publish(changes)
