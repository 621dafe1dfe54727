"""A merge hands over to a successor: what each of the two does, one step at a time, and stopped at any moment."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest

from site_agent.base.errors import SiteAgentError
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import EndMark
from site_agent.tasks.checkpoint import CheckpointStore
from site_agent.tasks.handover.predecessor import HandingOver
from site_agent.tasks.merge import MergeTask
from site_agent.tasks.spec import HandOver, SeedSpec, TakeOver
from tests.unit.site_agent.tasks.handover.world import (
    CUTTING,
    INPUTS,
    NEW,
    OLD,
    SEED,
    SEEDING,
    SPEC,
    TAKE_OVER,
    WINDOW,
    Hub,
    Rows,
    hub_at,
    perhaps_again,
    rows_of,
    stop,
    until,
)

pytestmark = pytest.mark.timeout(60)

AT_ONCE = replace(CUTTING, seed=None)
FIRST: Rows = [(0, "a", 1), (0, "b", 2), (10, "a", 3), (10, "h", 4)]
SECOND: Rows = [(10, "a", 5), (20, "c", 6), (20, "d", 7), (10, "h", 8)]
LAST: Rows = [(20, "c", 9), (30, "e", 10)]
RESULTS: Rows = [(0, "a", 1), (0, "b", 2), (10, "a", 8), (10, "h", 12), (20, "c", 15), (20, "d", 7), (30, "e", 10)]


async def seeded(hub: Hub) -> tuple[MergeTask, asyncio.Task[None]]:
    """The old task, with one window out, and a seed published."""
    hub.publish(FIRST, watermark_us=12)
    old = hub.predecessor(SEEDING)
    running = asyncio.create_task(old.run())
    await until(lambda: hub.old.next_epoch > 0 and old.handover is not None and old.handover.seeded, running)
    return old, running


async def test_a_successor_goes_on_exactly_where_the_old_channel_ends(tmp_path: Path) -> None:
    async with hub_at(tmp_path) as hub:
        new = hub.successor()
        following = asyncio.create_task(new.run())
        await until(lambda: new.handover.first_epochs == {"q.s1.us": 0, "q.s1.eu": 0}, following)
        assert not new.handover.restored
        old, running = await seeded(hub)
        await until(lambda: new.handover.caught_up, running, following)
        hub.publish(SECOND, watermark_us=22)
        await until(lambda: hub.old.standing and hub.old.standing.watermark_us == 22, running, following)
        assert hub.new.next_epoch == 0

        await old.set_handover(CUTTING, None)
        await running
        last = hub.old.next_epoch - 1
        assert hub.old.end == EndMark(last, NEW, "hub", 22, {"q.s1.eu": 2, "q.s1.us": 2})
        await until(lambda: new.handover.taken_over, following)
        assert (hub.new.first_epoch, new.handover.restored) == (last + 1, True)
        assert hub.router.subscriptions(OLD) == {}

        hub.publish(LAST, watermark_us=40)
        for log in hub.inputs:
            log.finish()
        await following
        assert hub.results() == RESULTS
        assert CheckpointStore(hub.directory / NEW).load_state().checkpoint.totals.rows_late == 0
        await new.close()
        await old.close()


def marks_of(log: ChannelLog) -> list[int]:
    marks = (log.epochs.manifest(epoch).watermark_us for epoch in range(log.first_epoch, log.next_epoch))
    return [mark for mark in marks if mark is not None]


@pytest.mark.parametrize("seed", range(8))
async def test_stopped_at_any_moment_every_row_comes_once(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    sent: Rows = [(w * 10, k, 1 + n) for w in range(8) for n, k in enumerate("abcdefgh")]
    expected = sorted(sent)
    async with hub_at(tmp_path, rows_at_once=3) as hub:
        old, new = hub.predecessor(), hub.successor()
        running, following = asyncio.create_task(old.run()), asyncio.create_task(new.run())
        wanted = [SEEDING, CUTTING]
        hand_over: HandOver | None = None
        for window in range(8):
            hub.publish([row for row in sent if row[0] == window * 10], watermark_us=window * 10 + 12)
            if wanted and random.random() < 0.4:
                hand_over = wanted.pop(0)
                await old.set_handover(hand_over, None)
            for _ in range(random.randrange(60)):
                await asyncio.sleep(0.001)
            old, running = await perhaps_again(random, 0.6, old, running, partial(hub.predecessor, hand_over))
            new, following = await perhaps_again(random, 0.6, new, following, hub.successor)
        await old.set_handover(CUTTING, None)
        await until(lambda: new.handover.taken_over, following)
        await running
        for log in hub.inputs:
            log.finish()
        await following
        assert hub.results() == expected
        assert hub.old.end is not None
        assert hub.new.first_epoch == hub.old.end.next_epoch
        marks = [*marks_of(hub.old), *marks_of(hub.new)]
        assert marks == sorted(marks)
        await old.close()
        await new.close()


async def test_state_beyond_memory_is_written_as_it_comes(tmp_path: Path) -> None:
    rows: Rows = [(w * 10, k, 1) for w in range(1, 40) for k in "abcdefgh"]
    async with hub_at(tmp_path, memory_bytes=64) as hub:
        hub.publish(rows, watermark_us=5)
        old = hub.predecessor(SEEDING)
        running = asyncio.create_task(old.run())
        new = hub.successor()
        following = asyncio.create_task(new.run())
        await until(lambda: new.handover.restored, running, following)
        names = {path.name for path in (hub.directory / NEW).glob("run-0-*")}
        assert names
        await old.set_handover(CUTTING, None)
        for log in hub.inputs:
            log.finish()
        await running
        await following
        assert hub.results() == sorted(rows)
        await old.close()
        await new.close()


async def test_a_cut_that_is_taken_back_in_time_never_comes(tmp_path: Path) -> None:
    async with hub_at(tmp_path) as hub:
        handing = HandingOver(hub.context(replace(SPEC, hand_over=AT_ONCE)), WINDOW)
        assert handing.wants_cut
        await handing.want(None)
        await handing.cut({}, 0)
        assert (hub.old.end, handing.wants_cut, handing.report()) == (None, False, None)


async def test_a_cut_that_is_being_stored_is_waited_for(tmp_path: Path) -> None:
    async with hub_at(tmp_path) as hub:
        began, may_end = threading.Event(), threading.Event()
        context = hub.context(replace(SPEC, hand_over=AT_ONCE))
        finish_as = context.log.finish_as

        def slowly(end: EndMark) -> None:
            began.set()
            may_end.wait(20)
            finish_as(end)

        vars(context.log)["finish_as"] = slowly
        handing = HandingOver(context, WINDOW)
        cutting = asyncio.create_task(handing.cut({}, 0))
        await asyncio.to_thread(began.wait, 20)
        taking_back = asyncio.create_task(handing.want(None))
        await asyncio.sleep(0.01)
        assert not taking_back.done()
        may_end.set()
        await asyncio.gather(cutting, taking_back)
        report = handing.report()
        assert report is not None
        assert (report.cut, report.last_epoch, report.next_epoch) == (True, None, 0)


async def test_a_seed_waits_until_the_state_needs_nothing_that_the_other_site_lacks(tmp_path: Path) -> None:
    async with hub_at(tmp_path) as hub:
        hub.publish(FIRST, watermark_us=12)
        later = replace(SEEDING, seed=SeedSpec(SEED, {"q.s1.us": 2}))
        old = hub.predecessor(later)
        running = asyncio.create_task(old.run())
        await until(lambda: hub.old.next_epoch, running)
        assert old.handover is not None
        assert not old.handover.seeded
        hub.publish(SECOND, watermark_us=22)
        await until(lambda: old.handover is not None and old.handover.seeded, running)
        await stop(running)
        await old.close()


async def test_a_seed_that_is_not_wanted_any_more_is_left_out(tmp_path: Path) -> None:
    async with hub_at(tmp_path) as hub:
        old, running = await seeded(hub)
        await old.set_handover(None, None)
        assert old.handover is None
        hub.publish([*SECOND, *LAST], watermark_us=40)
        for log in hub.inputs:
            log.finish()
        await running
        assert (hub.results(), hub.old.end) == (RESULTS, EndMark(hub.old.next_epoch - 1))
        await old.close()


async def test_a_shadow_without_the_epochs_that_its_state_needs_says_so(tmp_path: Path) -> None:
    async with hub_at(tmp_path) as hub:
        _, running = await seeded(hub)
        await stop(running)
        for item, log in zip(INPUTS, hub.inputs, strict=True):
            for reader in (OLD, NEW):
                await hub.router.unsubscribe(item.channel, reader)
            for _ in range(2):
                log.publish(log.next_epoch, None, watermark_us=12)
            log.acknowledge("hub", 2)
        new = hub.successor()
        with pytest.raises(SiteAgentError, match=r"needs epoch 1 of q\.s1\.us, and the oldest one here is 3"):
            await asyncio.wait_for(new.run(), 20)
        assert new.endures
        await new.close()


async def test_a_shadow_never_publishes_when_nothing_says_that_it_is_one(tmp_path: Path) -> None:
    async with hub_at(tmp_path) as hub:
        _, running = await seeded(hub)
        new = hub.successor()
        following = asyncio.create_task(new.run())
        await until(lambda: new.handover.restored, running, following)
        await stop(running, following)
        await new.close()
        plain = MergeTask(hub.context(replace(SPEC, task_id=NEW)), WINDOW)
        with pytest.raises(SiteAgentError, match=r"q\.m1\.g1 has not taken over from q\.m1"):
            await plain.run()
        await plain.close()


async def test_once_it_has_taken_over_it_is_a_merge_like_any_other(tmp_path: Path) -> None:
    """Also when its spec says nothing of a predecessor any more, and its channel had not begun."""
    async with hub_at(tmp_path) as hub:
        old, running = await seeded(hub)
        new = hub.successor()
        following = asyncio.create_task(new.run())
        await until(lambda: new.handover.caught_up, running, following)
        await old.set_handover(CUTTING, None)
        await running
        await until(lambda: new.handover.taken_over, following)
        await stop(following)
        await new.close()
        hub.store.remove(NEW)
        hub.new = hub.store.open(NEW)
        hub.publish([*SECOND, *LAST], watermark_us=40)
        for log in hub.inputs:
            log.finish()
        plain = MergeTask(hub.context(replace(SPEC, task_id=NEW)), WINDOW)
        await asyncio.wait_for(plain.run(), 20)
        assert hub.results() == RESULTS
        assert hub.old.end is not None
        assert (hub.new.first_epoch, plain.goes_on) == (hub.old.end.next_epoch, True)
        await plain.close()


async def test_a_successor_hands_over_in_turn(tmp_path: Path) -> None:
    next_channel = "q.m1.g2"
    async with hub_at(tmp_path) as hub:
        for channel in (*(item.channel for item in INPUTS), NEW):
            await hub.router.subscribe(channel, "hub", next_channel)
        old, running = await seeded(hub)
        new, last = hub.successor(), hub.successor(next_channel, TakeOver(NEW, "hub", f"{next_channel}.seed"))
        await new.set_handover(HandOver(next_channel, "hub", SeedSpec(f"{next_channel}.seed"), cut=True), TAKE_OVER)
        following, waiting = asyncio.create_task(new.run()), asyncio.create_task(last.run())
        await until(lambda: new.handover.caught_up, running, following, waiting)
        # It does nothing for its own successor before it has taken over itself.
        assert [new.handover.seeded, new.handover.cut, last.handover.restored] == [False] * 3
        await old.set_handover(CUTTING, None)
        await running
        await until(lambda: last.handover.taken_over, following, waiting)
        await following
        assert (new.handover.taken_over, new.handover.cut) == (True, True)
        end = hub.new.end
        assert end is not None
        assert end == EndMark(hub.new.next_epoch - 1, next_channel, "hub", 12, end.cursors)
        hub.publish([*SECOND, *LAST], watermark_us=40)
        for log in hub.inputs:
            log.finish()
        await waiting
        log = hub.store.open(next_channel)
        assert log.first_epoch == hub.new.next_epoch
        assert sorted(hub.results() + rows_of(log)) == RESULTS
        for task in (old, new, last):
            await task.close()


async def test_where_the_old_task_ends_for_good_the_shadow_waits_to_be_taken_away(tmp_path: Path) -> None:
    async with hub_at(tmp_path) as hub:
        old, running = await seeded(hub)
        new = hub.successor()
        following = asyncio.create_task(new.run())
        await until(lambda: new.handover.caught_up, running, following)
        for log in hub.inputs:
            log.finish()
        await running
        # First come counts: a cut that is asked for now changes nothing.
        await old.set_handover(CUTTING, None)
        assert old.handover is not None
        assert not old.handover.cut
        await asyncio.sleep(0.05)
        assert (following.done(), hub.new.next_epoch, new.handover.taken_over) == (False, 0, False)
        await stop(following)
        await new.close()
        await old.close()
