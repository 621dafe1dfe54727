"""A DERIVE hands over to a successor: its epochs keep their numbers, and each row comes once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from contract.tasks import ReadFrom
from planner.values.stages import StageKind
from site_agent.base.errors import TrimmedEpochError
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import EndMark
from site_agent.tasks.context import TaskLimits
from site_agent.tasks.derive import DeriveTask
from site_agent.tasks.handover.successor import SuccessorTask, derived_successor
from site_agent.tasks.spec import HandOver, InputSpec, TakeOver, TaskSpec
from tests.unit.site_agent.fakes import TableEngine
from tests.unit.site_agent.tasks.handover.world import perhaps_again, stop, until
from tests.unit.site_agent.tasks.place import Place

pytestmark = pytest.mark.timeout(60)

CHANNEL, OLD, NEW = "p.s1.p0", "q.s1.d0", "q.s1.d0.g1"
INPUT = InputSpec(CHANNEL, "hub", "input", read_from=ReadFrom.FIRST)
LATE = replace(INPUT, read_from=ReadFrom.OLDEST)
SPEC = TaskSpec(OLD, "q", "s1", StageKind.DERIVE, "kept", timedelta(0), inputs=(INPUT,))
WAITING, CUTTING = HandOver(NEW, "hub"), HandOver(NEW, "hub", cut=True)


def kept(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.equal(pc.bit_wise_and(rows.column("v"), 1), 0))


class Hub(Place):
    """A site with an input, a task that is derived of it, and the task that takes its place."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, TableEngine({"kept": kept}), TaskLimits(port_batch_bytes=1))
        self.source, self.old, self.new = map(self.store.open, (CHANNEL, OLD, NEW))
        for log in (self.source, self.old, self.new):
            log.set_consumers(["hub"])

    def predecessor(self, hand_over: HandOver | None = None, item: InputSpec = INPUT) -> DeriveTask:
        return DeriveTask(self.context(replace(SPEC, hand_over=hand_over, inputs=(item,))))

    def successor(self, task: str = NEW, before: str = OLD) -> SuccessorTask:
        take_over = TakeOver(before, "hub", "")
        return derived_successor(self.context(replace(SPEC, task_id=task, take_over=take_over)), take_over)

    def publish(self, *epochs: Sequence[int]) -> None:
        for values in epochs:
            epoch = self.source.next_epoch
            rows = pa.table({"v": pa.array(values, pa.int64())}) if values else None
            self.source.publish(epoch, rows, watermark_us=epoch * 10)

    def results(self) -> list[tuple[int, list[int], int | None]]:
        """Return number, rows and watermark of each epoch of both channels."""
        return [*_epochs(self.old), *_epochs(self.new)]


def _epochs(log: ChannelLog) -> list[tuple[int, list[int], int | None]]:
    found = []
    for epoch in range(log.first_epoch, log.next_epoch):
        table = log.epochs.read(epoch)
        rows = [] if table is None else table.column("v").to_pylist()
        found.append((epoch, rows, log.epochs.manifest(epoch).watermark_us))
    return found


@asynccontextmanager
async def hub_at(directory: Path) -> AsyncIterator[Hub]:
    hub = Hub(directory)
    async with hub.handing_over([CHANNEL], OLD, NEW):
        yield hub


async def test_the_successor_makes_the_epochs_behind_the_last_one(tmp_path: Path) -> None:
    async with hub_at(tmp_path) as hub:
        hub.publish((1, 2), (3, 4))
        old, new = hub.predecessor(WAITING), hub.successor()
        running, following = asyncio.create_task(old.run()), asyncio.create_task(new.run())
        await until(lambda: hub.old.next_epoch == 2, running, following)
        await until(lambda: new.handover.caught_up, running, following)
        assert (new.endures, hub.new.next_epoch) == (True, 0)
        # The input does not keep the epochs that the old channel has.
        await until(lambda: hub.source.first_epoch == 2, running, following)

        await old.set_handover(CUTTING, None)
        await running
        end = hub.old.end
        assert end is not None
        assert replace(end, totals={}) == EndMark(1, NEW, "hub", 10, {CHANNEL: 2})
        assert (end.totals["rows_in"], end.totals["rows_out"]) == (4, 2)
        assert old.handover is not None
        assert (old.handover.cut, old.handover.last_epoch) == (True, 1)
        assert hub.router.subscriptions(OLD) == {}
        await until(lambda: new.handover.taken_over, following)
        hub.publish((5, 6))
        hub.source.finish()
        await following
        assert hub.results() == [(0, [2], 0), (1, [4], 10), (2, [6], 20)]
        assert hub.new.end == EndMark(2)
        assert hub.router.subscriptions(NEW).keys() == {CHANNEL}


async def test_its_counts_go_on(tmp_path: Path) -> None:
    async with hub_at(tmp_path) as hub:
        hub.publish((1, 2), (3, 4))
        old, context = hub.predecessor(), hub.context(replace(SPEC, task_id=NEW, take_over=TakeOver(OLD, "hub", "")))
        running = asyncio.create_task(old.run())
        await until(lambda: hub.old.next_epoch == 2, running)
        await old.set_handover(CUTTING, None)
        await running
        hub.publish((5, 6))
        hub.source.finish()
        await derived_successor(context, TakeOver(OLD, "hub", "")).run()
        assert (context.progress.totals.rows_in, context.progress.totals.rows_out) == (6, 3)


@pytest.mark.parametrize("seed", range(8))
async def test_stopped_at_any_moment_every_row_comes_once(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    async with hub_at(tmp_path) as hub:
        hand_over: HandOver | None = None
        old, new = hub.predecessor(), hub.successor()
        running, following = asyncio.create_task(old.run()), asyncio.create_task(new.run())
        sent = [2 * epoch for epoch in range(12) if random.random() < 0.8]
        for epoch in range(12):
            hub.publish((2 * epoch, 2 * epoch + 1) if 2 * epoch in sent else ())
            if random.random() < 0.2:
                hand_over = CUTTING
                await old.set_handover(hand_over, None)
            for _ in range(random.randrange(30)):
                await asyncio.sleep(0.001)
            old, running = await perhaps_again(random, 0.5, old, running, partial(hub.predecessor, hand_over))
            new, following = await perhaps_again(random, 0.5, new, following, hub.successor)
        await old.set_handover(CUTTING, None)
        await until(lambda: new.handover.taken_over, following)
        await running
        hub.source.finish()
        await following
        found = hub.results()
        assert [(number, mark) for number, _, mark in found] == [(epoch, epoch * 10) for epoch in range(12)]
        assert [value for _, rows, _ in found for value in rows] == sent


async def test_a_cut_waits_until_it_is_known_with_which_rows_the_channel_begins(tmp_path: Path) -> None:
    async with hub_at(tmp_path) as hub:
        hub.publish((2,), (4,))
        await hub.router.unsubscribe(CHANNEL, NEW)
        hub.source.acknowledge("hub", 1)
        old = hub.predecessor(CUTTING, LATE)
        running = asyncio.create_task(old.run())
        await until(lambda: hub.old.next_epoch == 2, running)
        await asyncio.sleep(0.02)
        assert hub.old.end is None
        hub.publish((6,))
        await running
        assert hub.old.end is not None
        assert hub.old.end.last_epoch == 2


async def test_a_cut_that_is_taken_back_in_time_never_comes(tmp_path: Path) -> None:
    async with hub_at(tmp_path) as hub:
        hub.publish((2,))
        old = hub.predecessor(WAITING)
        running = asyncio.create_task(old.run())
        await until(lambda: hub.old.next_epoch == 1, running)
        await old.set_handover(None, None)
        hub.publish((4,))
        hub.source.finish()
        await running
        assert (hub.old.end, old.handover) == (EndMark(1), None)


async def test_a_successor_hands_over_in_turn(tmp_path: Path) -> None:
    third = "q.s1.d0.g2"
    async with hub_at(tmp_path) as hub:
        await hub.router.subscribe(CHANNEL, "hub", third)
        hub.store.open(third).set_consumers(["hub"])
        hub.publish((2,))
        old, new = hub.predecessor(CUTTING), hub.successor()
        following = asyncio.create_task(new.run())
        await old.run()
        await until(lambda: new.handover.taken_over, following)
        hub.publish((4,))
        await until(lambda: hub.new.next_epoch == 2, following)
        await new.set_handover(HandOver(third, "hub", cut=True), None)
        await following
        last = hub.successor(third, NEW)
        ending = asyncio.create_task(last.run())
        hub.publish((6,))
        hub.source.finish()
        await ending
        assert [*hub.results(), *_epochs(hub.store.open(third))] == [(0, [2], 0), (1, [4], 10), (2, [6], 20)]


async def test_where_the_old_task_ends_for_good_the_shadow_waits_to_be_taken_away(tmp_path: Path) -> None:
    async with hub_at(tmp_path) as hub:
        hub.publish((2,))
        hub.source.finish()
        new = hub.successor()
        following = asyncio.create_task(new.run())
        await hub.predecessor(WAITING).run()
        await asyncio.sleep(0.02)
        assert (following.done(), hub.new.next_epoch, hub.new.end) == (False, 0, None)
        await stop(following)


async def test_it_never_begins_in_the_middle_of_its_input(tmp_path: Path) -> None:
    """After it has taken over, rows that are gone are an error, and not left out."""
    async with hub_at(tmp_path) as hub:
        hub.publish((2,))
        old, new = hub.predecessor(CUTTING, LATE), hub.successor()
        following = asyncio.create_task(new.run())
        await old.run()
        await until(lambda: new.handover.taken_over, following)
        await stop(following)
        await hub.router.unsubscribe(CHANNEL, NEW)
        hub.publish((4,), (6,))
        hub.source.acknowledge("hub", 1)
        with pytest.raises(TrimmedEpochError, match="which was not read yet"):
            await hub.successor().run()
