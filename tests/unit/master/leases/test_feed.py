"""Whoever watches ends up with what is in the table, however slow."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any

from master.leases.feed import CHUNK_SLOTS, FeedPart, SlotFeed, SlotFeeds
from planner.leases import Decision, Framework, LeaseTable, SiteSlots, Slot, SlotRecord, Wish, acquire, set_site

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class World:
    def __init__(self, slots: int, journal_slots: int = 20_000) -> None:
        self.table = LeaseTable()
        self.table.frameworks.put(Framework("batch", NOW))
        self.encoded = 0
        self.feed = SlotFeed(self.table, self.encode, journal_slots=journal_slots)
        self.done(set_site(self.table, "us", SiteSlots(slots), now=NOW))

    def encode(self, part: FeedPart) -> FeedPart:
        self.encoded += 1
        return part

    def done(self, decision: Decision[Any]) -> None:
        self.table.apply(decision)
        self.feed.publish(decision.changes)

    def take(self, *indices: int) -> None:
        wishes = [Wish(Slot("us", index), timedelta(minutes=1)) for index in indices]
        self.done(acquire(self.table, "batch", wishes, now=NOW))


class Watcher:
    """Keeps what it is told."""

    def __init__(self, feed: SlotFeed[FeedPart]) -> None:
        self.parts: AsyncGenerator[FeedPart, None] = feed.watch()
        self.known: dict[Slot, SlotRecord] = {}
        self.snapshots = 0

    async def hear(self) -> FeedPart:
        part = await anext(self.parts)
        if part.begins:
            self.known.clear()
            self.snapshots += 1
        self.known |= {record.slot: record for record in part.records}
        for slot in part.gone:
            self.known.pop(slot, None)
        return part

    async def whole(self) -> list[FeedPart]:
        """All of a snapshot."""
        parts = [await self.hear()]
        while not parts[-1].ends:
            parts.append(await self.hear())
        return parts

    async def until_equal(self, table: LeaseTable) -> None:
        while {record.slot: record for record in table.records()} != self.known:
            await self.hear()


async def test_a_snapshot_comes_in_pieces_and_then_what_changes() -> None:
    world = World(2 * CHUNK_SLOTS + 1)
    watcher = Watcher(world.feed)
    parts = await watcher.whole()
    assert [part.begins for part in parts[:3]] == [True, False, False]
    assert len(watcher.known) == 2 * CHUNK_SLOTS + 1
    world.take(0, 5)
    await watcher.until_equal(world.table)
    world.done(set_site(world.table, "us", SiteSlots(3, reachable=False), now=NOW))
    await watcher.until_equal(world.table)
    assert len(watcher.known) == 3


async def test_all_watchers_share_what_is_encoded_once() -> None:
    world = World(10)
    watchers = [Watcher(world.feed) for _ in range(5)]
    for watcher in watchers:
        await watcher.whole()
    # The slots, and an end for each watcher.
    assert world.encoded == 1 + len(watchers)
    world.take(1)
    for watcher in watchers:
        await watcher.until_equal(world.table)
    assert world.encoded == 2 + len(watchers)


async def test_a_snapshot_is_complete_although_nobody_watched_what_changed_since_the_last_one() -> None:
    world = World(10)
    first = Watcher(world.feed)
    await first.whole()
    await first.parts.aclose()
    world.take(3)
    second = Watcher(world.feed)
    await second.whole()
    assert second.known == {record.slot: record for record in world.table.records()}


async def test_one_that_is_too_slow_for_the_journal_gets_a_snapshot_again() -> None:
    world = World(50, journal_slots=10)
    slow, quick = Watcher(world.feed), Watcher(world.feed)
    await slow.whole()
    await quick.whole()
    for index in range(30):
        world.take(index)
        await quick.until_equal(world.table)
    await slow.until_equal(world.table)
    assert slow.snapshots == 2


async def test_a_change_larger_than_the_journal_sends_everybody_back_to_a_snapshot() -> None:
    world = World(50, journal_slots=10)
    watcher = Watcher(world.feed)
    await watcher.whole()
    world.take(*range(40))
    await watcher.until_equal(world.table)
    assert watcher.snapshots == 2


async def test_one_site_can_be_watched_by_itself_and_a_number_is_told_when_all_up_to_it_is() -> None:
    world = World(5)
    world.done(set_site(world.table, "eu", SiteSlots(2), now=NOW))
    feeds = SlotFeeds(world.table, world.encode)
    watcher = Watcher(feeds.of("eu"))
    assert (await watcher.whole())[-1].fencing == 0
    for site in ("us", "eu"):
        decision = acquire(world.table, "batch", [Wish(Slot(site, 0), timedelta(minutes=1))], now=NOW)
        world.table.apply(decision)
        feeds.publish(decision.changes)
    part = await watcher.hear()
    assert [record.slot for record in part.records] == [Slot("eu", 0)]
    assert part.fencing == 2
    assert sorted(watcher.known) == [Slot("eu", 0), Slot("eu", 1)]
    assert feeds.of("eu") is feeds.of("eu")


async def test_a_number_is_not_told_before_what_came_with_it() -> None:
    world = World(2)
    watcher = Watcher(world.feed)
    (first,) = [await watcher.hear()]
    assert first.begins
    world.take(0)
    parts = await watcher.whole()
    assert parts[-1].fencing == 1
    assert watcher.known[Slot("us", 0)].holder == "batch"
