"""A query gives up a merge of its own: its epochs are made of those of another one, from where the two meet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest

from planner.values.stages import StageKind
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import Standing
from site_agent.tasks.handover.successor import SuccessorTask, derived_successor
from site_agent.tasks.merge import MergeTask
from site_agent.tasks.spec import HandOver, InputSpec, JoinSpec, TakeOver
from site_agent.tasks.task import Task
from tests.unit.site_agent.tasks.handover.world import (
    INPUTS,
    NEW,
    OLD,
    SPEC,
    WINDOW,
    Hub,
    Rows,
    hub_of,
    partials,
    perhaps_again,
    rows_of,
    stop,
    summed,
    until,
)

pytestmark = pytest.mark.timeout(60)

SHARED = "q1.m1"
TAKE_OVER = TakeOver(OLD, "hub", "", renumbers=True)
MEETING = HandOver(NEW, "hub", join=JoinSpec(SHARED, "hub", 0))
CUT = replace(MEETING, cut=True)


class Joining(Hub):
    """The site has a merge that does the same for another query."""

    def shared(self) -> MergeTask:
        return MergeTask(self.context(replace(SPEC, task_id=SHARED, query_id="q1")), WINDOW)

    def heir(
        self, task: str = NEW, take_over: TakeOver = TAKE_OVER, hand_over: HandOver | None = None
    ) -> SuccessorTask:
        item = InputSpec(SHARED, "hub", "input")
        spec = replace(SPEC, task_id=task, kind=StageKind.DERIVE, sql="as it is", inputs=(item,), window=None)
        return derived_successor(self.context(replace(spec, take_over=take_over, hand_over=hand_over)), take_over)

    async def begin(self) -> ChannelLog:
        """Have the site keep the shared channel for the successor, and the rows of inputs for the shared merge."""
        log = self.store.open(SHARED)
        log.set_consumers(["hub"])
        await self.router.subscribe(SHARED, "hub", "results:q1", keeps=True)
        await self.router.subscribe(SHARED, "hub", NEW)
        for item in INPUTS:
            await self.router.subscribe(item.channel, "hub", SHARED)
            await self.router.subscribe(item.channel, "hub", OLD)
            await self.router.unsubscribe(item.channel, NEW)
        return log


def windows(log: ChannelLog) -> list[tuple[int, int | None]]:
    """Return of each epoch of a channel its number and watermark."""
    return [(e, log.epochs.manifest(e).watermark_us) for e in range(log.first_epoch, log.next_epoch)]


@pytest.mark.parametrize("seed", range(12))
async def test_stopped_at_any_moment_the_query_has_every_row_once(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    sent: Rows = [(w * 10, k, 1 + n) for w in range(24) for n, k in enumerate("abcdefgh")]
    async with hub_of(Joining, tmp_path, rows_at_once=random.choice((4, 500_000))) as hub:
        log = await hub.begin()
        tasks: dict[str, Task] = {OLD: hub.predecessor(), NEW: hub.heir(), SHARED: hub.shared()}
        hand_over: HandOver | None = None
        running = {name: asyncio.create_task(task.run()) for name, task in tasks.items()}
        window, asked = 0, False
        while window < 24:
            some = random.choice((1, 1, 2, 5))
            hub.publish(
                [r for r in sent if window * 10 <= r[0] < (window + some) * 10], watermark_us=(window + some) * 10
            )
            window += some
            if not asked and window > 4:
                hand_over, asked = random.choice((MEETING, CUT)), True
                await tasks[OLD].set_handover(hand_over, None)
            elif hand_over is MEETING:
                hand_over = CUT
                await tasks[OLD].set_handover(CUT, None)
            for _ in range(random.randrange(40)):
                await asyncio.sleep(0.001)
            again: dict[str, Callable[[], Task]] = {
                OLD: partial(hub.predecessor, hand_over),
                NEW: hub.heir,
                SHARED: hub.shared,
            }
            for name, make in again.items():
                tasks[name], running[name] = await perhaps_again(random, 0.3, tasks[name], running[name], make)
        await tasks[OLD].set_handover(CUT, None)
        await until(lambda: hub.old.end is not None, *running.values())
        for source in hub.inputs:
            source.finish()
        await asyncio.gather(*running.values())
        assert hub.old.end is not None
        assert hub.old.end.successor_channel == NEW
        assert (hub.new.first_epoch, hub.new.end is not None) == (hub.old.end.next_epoch, True)
        assert sorted(rows_of(log)) == sorted(sent)
        assert hub.results() == sorted(sent)
        assert hub.router.subscriptions(OLD) == {}
        for task in tasks.values():
            await task.close()


async def test_epochs_that_end_other_windows_than_the_shared_ones_are_made_to_meet(tmp_path: Path) -> None:
    async with hub_of(Joining, tmp_path) as hub:
        log = await hub.begin()
        # The shared merge has published windows two at a time, and is ahead.
        for epoch in range(4):
            log.publish(epoch, None, watermark_us=20 * (epoch + 1), whole=True)
        old, new = hub.predecessor(CUT), hub.heir()
        running, following = asyncio.create_task(old.run()), asyncio.create_task(new.run())
        hub.publish([(0, "a", 1), (0, "a", 1)], watermark_us=12)
        await until(lambda: hub.old.next_epoch == 1, running, following)
        assert hub.old.end is None
        hub.publish([(10, "b", 1), (40, "b", 1)], watermark_us=57)
        await until(lambda: hub.old.end is not None, running, following)
        # It had all windows up to 50, and ends with those up to 40: the shared one has the others together.
        assert windows(hub.old) == [(0, 12), (1, 40)]
        assert hub.old.end is not None
        assert hub.old.end.cursors == {SHARED: 2}
        await until(lambda: hub.new.next_epoch == 4, following)
        assert windows(hub.new) == [(2, 60), (3, 80)]
        await stop(following)
        for task in (old, new):
            await task.close()


async def test_a_merge_stands_still_for_a_channel_that_is_behind_but_not_for_ever(tmp_path: Path) -> None:
    async with hub_of(Joining, tmp_path) as hub:
        log = await hub.begin()
        log.publish(0, None, watermark_us=10, whole=True)
        old = hub.predecessor(MEETING)
        hub.publish([(0, "a", 1), (10, "a", 1)], watermark_us=22)
        running = asyncio.create_task(old.run())
        await until(lambda: hub.old.next_epoch == 1, running)
        await old.set_handover(CUT, None)
        await until(lambda: old._handing.stands_still_s > 0, running)
        hub.publish([(20, "a", 1), (20, "a", 1)], watermark_us=32)
        log.publish(1, None, watermark_us=23, whole=True)
        await running
        assert hub.old.end is not None
        assert (windows(hub.old), hub.old.end.cursors) == ([(0, 22)], {SHARED: 2})
        await old.close()


async def test_taken_back_the_merge_goes_on_and_keeps_nothing(tmp_path: Path) -> None:
    async with hub_of(Joining, tmp_path) as hub:
        await hub.begin()
        old = hub.predecessor(MEETING)
        running = asyncio.create_task(old.run())
        await until(lambda: SHARED in hub.router.subscriptions(OLD), running)
        await old.set_handover(None, None)
        assert SHARED not in hub.router.subscriptions(OLD)
        hub.publish([(0, "a", 1), (0, "b", 1)], watermark_us=12)
        await until(lambda: hub.old.next_epoch == 1, running)
        assert hub.old.end is None
        await stop(running)
        await old.close()


async def test_a_channel_of_which_nothing_is_kept_is_met_where_it_stands(tmp_path: Path) -> None:
    async with hub_of(Joining, tmp_path) as hub:
        log = await hub.begin()
        log.begin_at(7, standing=Standing(7, 20, whole=True))
        old = hub.predecessor(CUT)
        hub.publish([(0, "a", 1), (10, "a", 1)], watermark_us=22)
        await old.run()
        assert hub.old.end is not None
        assert hub.old.end.cursors == {SHARED: 7}
        await old.close()


@pytest.mark.parametrize("seed", range(4))
async def test_what_is_made_of_the_shared_task_can_move(tmp_path: Path, seed: int) -> None:
    """Its epochs have other numbers than those of its input, whoever makes them."""
    random, third = Random(seed), "q.m1.g2"
    async with hub_of(Joining, tmp_path) as hub:
        log = await hub.begin()
        for epoch in range(3):
            log.publish(epoch, None, watermark_us=10 * (epoch + 1), whole=True)
        third_log = hub.store.open(third)
        third_log.set_consumers(["hub"])
        await hub.router.subscribe(third, "hub", "results:q", keeps=True)
        await hub.router.subscribe(SHARED, "hub", third)
        await hub.router.subscribe(NEW, "hub", third)
        hub.publish([(0, "a", 1), (0, "b", 1)], watermark_us=32)
        old, new = hub.predecessor(CUT), hub.heir()
        running, following = asyncio.create_task(old.run()), asyncio.create_task(new.run())
        await running
        await until(lambda: new.handover.taken_over, following)
        taking = TakeOver(NEW, "hub", "", renumbers=True)
        last = hub.heir(third, taking)
        ending = asyncio.create_task(last.run())
        hand_over: HandOver | None = None
        for epoch in range(3, 12):
            log.publish(epoch, summed(partials([(epoch * 10, "a", epoch)])), watermark_us=10 * (epoch + 1))
            if epoch == 6:
                hand_over = HandOver(third, "hub", cut=True)
                await new.set_handover(hand_over, None)
            await asyncio.sleep(0.003 * random.random())
            new, following = await perhaps_again(random, 0.3, new, following, partial(hub.heir, hand_over=hand_over))
            last, ending = await perhaps_again(random, 0.3, last, ending, partial(hub.heir, third, taking))
        log.finish()
        await asyncio.gather(following, ending)
        made = [row for one in (hub.new, third_log) for row in rows_of(one)]
        assert made == [(epoch * 10, "a", epoch) for epoch in range(3, 12)]
        assert [e for one in (hub.new, third_log) for e, _ in windows(one)] == list(range(1, 10))
        for task in (old, new, last):
            await task.close()
