"""A task that takes another one's place without its state: it begins in the middle, and waits for what it lacks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest

from site_agent.base.errors import SiteAgentError
from site_agent.tasks.checkpoint import CheckpointStore
from site_agent.tasks.handover.successor import SuccessorTask, windowed_successor
from site_agent.tasks.merge import MergeTask
from site_agent.tasks.spec import HandOver
from tests.unit.site_agent.tasks.handover.world import (
    LATE_INPUTS,
    NEW,
    SPEC,
    TAKE_OVER_LATE,
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

CUT = HandOver(NEW, "hub", cut=True)


def successor(hub: Hub) -> SuccessorTask:
    return windowed_successor(
        hub.context(replace(SPEC, task_id=NEW, inputs=LATE_INPUTS, take_over=TAKE_OVER_LATE)), WINDOW, TAKE_OVER_LATE
    )


@pytest.mark.parametrize("restarted", [False, True])
async def test_it_takes_over_once_all_windows_are_out_that_it_lacks_rows_of(tmp_path: Path, restarted: bool) -> None:
    async with hub_at(tmp_path) as hub:
        old = hub.predecessor()
        running = asyncio.create_task(old.run())
        hub.publish([(0, "a", 1), (0, "h", 1), (10, "a", 2), (10, "h", 2)], watermark_us=12)
        await until(lambda: hub.old.standing and hub.old.standing.watermark_us == 12, running)
        await until(lambda: all(log.next_epoch == 1 for log in hub.inputs), running)
        for log in hub.inputs:
            hub.router.acknowledge(log.id, NEW, 0)
        await until(lambda: all(log.first_epoch == 1 for log in hub.inputs), running)
        new = successor(hub)
        following = asyncio.create_task(new.run())
        # Rows with event times up to the watermark of the first epoch that it takes, and 3 more, may be gone.
        hub.publish([(10, "a", 4), (10, "h", 4), (20, "a", 8), (20, "h", 8)], watermark_us=18)
        await until(lambda: new.handover.whole_after_us is not None, running, following)
        assert new.handover.whole_after_us == 39
        if restarted:
            await stop(following)
            await new.close()
            new = successor(hub)
            following = asyncio.create_task(new.run())
        hub.publish([(30, "a", 16), (40, "h", 16), (40, "a", 1)], watermark_us=42)
        await until(lambda: hub.old.standing and hub.old.standing.watermark_us == 42, running, following)
        await until(lambda: new.handover.caught_up, running, following)
        assert hub.new.next_epoch == 0
        await old.set_handover(CUT, None)
        await running
        await until(lambda: new.handover.taken_over, following)
        hub.publish([(20, "a", 64), (40, "a", 32)], watermark_us=70)
        for log in hub.inputs:
            log.finish()
        await following
        assert rows_of(hub.new) == [(40, "a", 33), (40, "h", 16)]
        assert [row for row in rows_of(hub.old) if row[0] == 10] == [(10, "a", 6), (10, "h", 6)]
        # From its take-over on, a row of a window that is out is late.
        assert CheckpointStore(hub.directory / NEW).load_state().checkpoint.totals.rows_late == 1
        await new.close()
        await old.close()


async def test_a_merge_that_is_paused_before_its_first_checkpoint_leaves_the_same_windows_out_again(
    tmp_path: Path,
) -> None:
    async with hub_at(tmp_path) as hub:
        hub.publish([(10, "a", 1), (10, "h", 1)], watermark_us=12)
        for log in hub.inputs:
            hub.router.acknowledge(log.id, NEW, 0)
        await until(lambda: all(log.first_epoch == 1 for log in hub.inputs))
        # Its progress lives on while it is paused.
        context = hub.context(replace(SPEC, task_id=NEW, inputs=LATE_INPUTS))
        task = MergeTask(context, WINDOW)
        running = asyncio.create_task(task.run())
        hub.publish([(20, "a", 2), (20, "h", 2)], watermark_us=18)
        await until(lambda: context.progress.starts_at_us == 30, running)
        await stop(running)
        await task.close()
        task = MergeTask(context, WINDOW)
        running = asyncio.create_task(task.run())
        hub.publish([(20, "a", 4), (20, "h", 4), (30, "a", 8), (30, "h", 8)], watermark_us=50)
        for log in hub.inputs:
            log.finish()
        await running
        assert sorted(rows_of(hub.new)) == [(30, "a", 8), (30, "h", 8)]
        await task.close()


async def test_it_does_not_take_over_windows_of_which_it_lacks_rows(tmp_path: Path) -> None:
    """The master waits before it orders the cut; this is what holds if it does not."""
    async with hub_at(tmp_path) as hub:
        old = hub.predecessor()
        running = asyncio.create_task(old.run())
        hub.publish([(0, "a", 1), (0, "h", 1)], watermark_us=12)
        await until(lambda: hub.old.standing and hub.old.standing.watermark_us == 12, running)
        for log in hub.inputs:
            hub.router.acknowledge(log.id, NEW, 0)
        await until(lambda: all(log.first_epoch == 1 for log in hub.inputs), running)
        new = successor(hub)
        following = asyncio.create_task(new.run())
        hub.publish([(10, "a", 4), (20, "h", 8)], watermark_us=18)
        await until(lambda: new.handover.whole_after_us is not None, running, following)
        await old.set_handover(CUT, None)
        await running
        with pytest.raises(SiteAgentError, match="before the windows were out that are not whole here"):
            await following
        await new.close()
        await old.close()


@pytest.mark.parametrize("seed", range(6))
async def test_stopped_at_any_moment_every_row_comes_once(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    sent: Rows = [(w * 10, k, 1 + n) for w in range(12) for n, k in enumerate("abcdefgh")]
    async with hub_at(tmp_path) as hub:
        old, new = hub.predecessor(), successor(hub)
        running, following = asyncio.create_task(old.run()), asyncio.create_task(new.run())
        hand_over: HandOver | None = None
        for window in range(12):
            hub.publish([row for row in sent if row[0] == window * 10], watermark_us=window * 10 + 12)
            whole_us, standing = new.handover.whole_after_us, hub.old.standing
            out_us = standing.watermark_us if standing is not None else None
            if whole_us is not None and out_us is not None and out_us >= whole_us and random.random() < 0.4:
                hand_over = CUT
                await old.set_handover(hand_over, None)
            for _ in range(random.randrange(40)):
                await asyncio.sleep(0.001)
            old, running = await perhaps_again(random, 0.5, old, running, partial(hub.predecessor, hand_over))
            new, following = await perhaps_again(random, 0.5, new, following, partial(successor, hub))
        await until(lambda: hub.old.end or (hub.old.standing and hub.old.standing.watermark_us == 122), running)
        await old.set_handover(CUT, None)
        await until(lambda: new.handover.taken_over, following)
        await running
        for log in hub.inputs:
            log.finish()
        await following
        assert hub.results() == sorted(sent)
        await new.close()
        await old.close()
