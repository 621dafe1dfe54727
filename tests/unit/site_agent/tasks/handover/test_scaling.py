"""A task that takes another one's place and reads other channels: it begins with nothing, and takes over as any."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from contract.handover import HandoverReport
from contract.tasks import ReadFrom
from site_agent.channels.log import ChannelLog
from site_agent.tasks.checkpoint import CheckpointStore
from site_agent.tasks.handover.successor import SuccessorTask, windowed_successor
from site_agent.tasks.merge import MergeTask
from site_agent.tasks.spec import HandOver, InputSpec, TakeOver
from tests.unit.site_agent.tasks.handover.world import (
    INPUTS,
    NEW,
    OLD,
    SPEC,
    WINDOW,
    Hub,
    Rows,
    hub_at,
    partials,
    rows_of,
    stop,
    until,
)

pytestmark = pytest.mark.timeout(30)

OTHERS = (InputSpec("q.m1.p0.g1", "hub", "input"), InputSpec("q.m1.p1.g1", "hub", "input"))
TAKE_OVER = TakeOver(OLD, "hub", "")
CUT = HandOver(NEW, "hub", cut=True)


def successor(hub: Hub) -> SuccessorTask:
    context = hub.context(replace(SPEC, task_id=NEW, inputs=OTHERS, take_over=TAKE_OVER))
    return windowed_successor(context, WINDOW, TAKE_OVER)


def publish(log: ChannelLog, rows: Rows, *, watermark_us: int) -> None:
    log.publish(log.next_epoch, partials(rows), watermark_us=watermark_us)


@pytest.mark.parametrize("restarted", [False, True])
async def test_it_emits_the_windows_behind_the_last_one_of_the_other_task(tmp_path: Path, restarted: bool) -> None:
    async with hub_at(tmp_path) as hub:
        others = [hub.store.open(item.channel) for item in OTHERS]
        for log in others:
            log.set_consumers(["hub"])
        old, new = hub.predecessor(), successor(hub)
        running, following = asyncio.create_task(old.run()), asyncio.create_task(new.run())
        hub.publish([(0, "a", 1), (10, "a", 2), (10, "h", 4), (20, "a", 8)], watermark_us=12)
        # The new parts miss the first window, and a part of the second one.
        publish(others[0], [(10, "a", 2), (20, "a", 8)], watermark_us=31)
        publish(others[1], [], watermark_us=20)
        await until(lambda: new.handover.caught_up, running, following)
        assert hub.new.next_epoch == 0
        hub.publish([], watermark_us=22)
        await until(lambda: hub.old.standing and hub.old.standing.watermark_us == 22, running, following)
        if restarted:
            await stop(following)
            await new.close()
            new = successor(hub)
            following = asyncio.create_task(new.run())
        await old.set_handover(CUT, None)
        await running
        publish(others[1], [(20, "h", 16), (30, "h", 32)], watermark_us=40)
        # What comes late of a window that is out is no late row of the query.
        publish(others[0], [(10, "b", 64), (30, "a", 128)], watermark_us=40)
        for log in others:
            log.finish()
        await following
        assert sorted(rows_of(hub.old)) == [(0, "a", 1), (10, "a", 2), (10, "h", 4)]
        assert sorted(rows_of(hub.new)) == [(20, "a", 8), (20, "h", 16), (30, "a", 128), (30, "h", 32)]
        assert hub.new.first_epoch == hub.old.next_epoch
        assert CheckpointStore(hub.directory / NEW).load_state().checkpoint.totals.rows_late == 0
        await new.close()
        await old.close()


async def test_a_part_that_begins_in_the_middle_says_which_windows_it_has_whole(tmp_path: Path) -> None:
    async with hub_at(tmp_path) as hub:
        late = tuple(replace(item, read_from=ReadFrom.OLDEST, event_delay_us=3) for item in INPUTS)
        for epoch, watermark_us in enumerate((12, 14, 16)):
            hub.publish([(10, "a", 1), (20, "h", 1)], watermark_us=watermark_us)
            for log in hub.inputs:
                hub.router.acknowledge(log.id, NEW, epoch)
        spec = replace(SPEC, task_id="q.m1.p0.g1", inputs=late)
        hub.store.open(spec.task_id).set_consumers(["hub"])
        part = MergeTask(hub.context(spec), WINDOW)
        running = asyncio.create_task(part.run())
        hub.publish([(20, "a", 1), (30, "h", 1)], watermark_us=18)
        await until(lambda: part.handover is not None, running)
        # Rows with event times up to the watermark of the first epoch that was taken, and 3 more, may be missing.
        first = hub.inputs[0].epochs.manifest(hub.inputs[0].first_epoch).watermark_us
        assert (hub.inputs[0].first_epoch, first) == (3, 18)
        assert part.handover == HandoverReport(whole_after_us=39)
        assert sorted(rows_of(hub.store.open(spec.task_id))) == []
        await stop(running)
        await part.close()
