"""A COMBINE hands over to a successor: it publishes what it holds, and each row comes once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random

import pytest

from contract.handover import HandoverReport
from contract.tasks import ReadFrom
from planner.values.stages import StageKind
from site_agent.base.errors import SiteAgentError
from site_agent.tasks.checkpoint import CheckpointStore
from site_agent.tasks.combine import CombineTask
from site_agent.tasks.context import TaskLimits
from site_agent.tasks.handover.successor import SuccessorTask, combining_successor
from site_agent.tasks.spec import HandOver, InputSpec, TakeOver, TaskSpec
from site_agent.tasks.task import Task
from tests.unit.site_agent.fakes import TableEngine
from tests.unit.site_agent.tasks.handover.world import perhaps_again, rows_of, stop, until
from tests.unit.site_agent.tasks.place import Place
from tests.unit.site_agent.tasks.test_combine import Row, numbered, summed_up
from tests.unit.site_agent.tasks.test_merge import WINDOW, partials, summed

pytestmark = pytest.mark.timeout(60)

OLD, NEW = "q.s1-c2.p0", "q.s1-c2.p0.g1"
INPUTS = (InputSpec("q.s1-c1.p0", "hub", "input"), InputSpec("q.s1-c1.p1", "hub", "input"))
SPEC = TaskSpec(OLD, "q", "s1-c2", StageKind.COMBINE, "merge", timedelta(0), inputs=INPUTS, window=WINDOW)
WAITING, CUTTING = HandOver(NEW, "hub"), HandOver(NEW, "hub", cut=True)
ALL_OUT_US = 10_000


class Hub(Place):
    """A site with two inputs, a task that combines them, and the task that takes its place."""

    def __init__(self, directory: Path, *, numbers: bool = True, limits: TaskLimits | None = None) -> None:
        super().__init__(directory, TableEngine({"merge": numbered if numbers else summed}), limits)
        self.inputs = [self.store.open(item.channel) for item in INPUTS]
        self.old, self.new = self.store.open(OLD), self.store.open(NEW)
        for log in self.inputs:
            log.set_consumers(["hub"])
        for log in (self.old, self.new):
            log.set_consumers(["hub", log.id])

    def predecessor(self, hand_over: HandOver | None = None) -> CombineTask:
        return CombineTask(self.context(replace(SPEC, hand_over=hand_over)), WINDOW)

    def successor(self, task: str = NEW, before: str = OLD) -> SuccessorTask:
        take_over = TakeOver(before, "hub", "")
        return combining_successor(self.context(replace(SPEC, task_id=task, take_over=take_over)), WINDOW, take_over)

    def publish(self, place: int, *rows: Row, watermark_us: int, idle: bool = False) -> None:
        log = self.inputs[place]
        log.publish(log.next_epoch, partials(*rows) if rows else None, watermark_us=watermark_us, idle=idle)

    def finish(self) -> None:
        for log in self.inputs:
            log.finish()

    def results(self) -> list[Row]:
        return [row for log in (self.old, self.new) for row in rows_of(log)]


@asynccontextmanager
async def hub_at(directory: Path, *, numbers: bool = True, limits: TaskLimits | None = None) -> AsyncIterator[Hub]:
    hub = Hub(directory, numbers=numbers, limits=limits)
    async with hub.handing_over([item.channel for item in INPUTS], OLD, NEW):
        yield hub


async def test_what_is_held_is_out_before_the_channel_ends(tmp_path: Path) -> None:
    async with hub_at(tmp_path, limits=TaskLimits(checkpoint_bytes=0)) as hub:
        hub.publish(0, (0, "a", 1), (10, "a", 2), watermark_us=5)
        hub.publish(1, (0, "a", 4), watermark_us=5)
        old, new = hub.predecessor(WAITING), hub.successor()
        running, following = asyncio.create_task(old.run()), asyncio.create_task(new.run())
        await until(lambda: new.handover.caught_up and has_taken(old, 1), running, following)
        assert (new.endures, hub.new.next_epoch) == (True, 0)

        await old.set_handover(CUTTING, None)
        await running
        end = hub.old.end
        assert end is not None
        assert end.successor_channel == NEW
        assert end.cursors == {item.channel: 1 for item in INPUTS}
        assert summed_up(hub.results()) == {(0, "a"): 5, (10, "a"): 2}
        assert old.handover is not None
        assert (old.handover.cut, old.handover.last_epoch) == (True, end.last_epoch)
        # The task needs nothing of its own channel.
        assert hub.old.readers.acknowledged(OLD) == end.last_epoch
        assert hub.router.subscriptions(OLD) == {}

        await until(lambda: new.handover.taken_over and is_drained(old), following)
        hub.publish(0, (10, "a", 8), watermark_us=15)
        hub.publish(1, (10, "b", 1), watermark_us=25)
        hub.finish()
        await following
        assert summed_up(hub.results()) == {(0, "a"): 5, (10, "a"): 10, (10, "b"): 1}
        assert hub.new.first_epoch == end.next_epoch


async def test_a_cut_that_is_taken_back_leaves_the_task_as_it_was(tmp_path: Path) -> None:
    async with hub_at(tmp_path) as hub:
        old = hub.predecessor(WAITING)
        running = asyncio.create_task(old.run())
        await old.set_handover(None, None)
        hub.publish(0, (0, "a", 1), watermark_us=5)
        hub.publish(1, (0, "a", 4), watermark_us=25)
        hub.finish()
        await running
        assert rows_of(hub.old) == [(0, "a", 5)]
        assert hub.old.end is not None
        assert (hub.old.end.successor_channel, old.handover) == ("", None)


async def test_a_task_whose_groups_have_no_numbers_does_not_end_while_it_holds_some(tmp_path: Path) -> None:
    """After a crash nobody would know which of them have left."""
    async with hub_at(tmp_path, numbers=False) as hub:
        hub.publish(0, (0, "a", 1), watermark_us=5)
        hub.publish(1, (0, "a", 4), watermark_us=5)
        old = hub.predecessor(WAITING)
        running = asyncio.create_task(old.run())
        await until(lambda: has_taken(old, 1), running)
        await old.set_handover(CUTTING, None)
        await asyncio.sleep(0.05)
        assert (hub.old.end, rows_of(hub.old)) == (None, [])

        hub.publish(0, watermark_us=10)
        hub.publish(1, watermark_us=10)
        await running
        assert rows_of(hub.old) == [(0, "a", 5)]
        assert hub.old.end is not None
        assert hub.old.end.successor_channel == NEW


async def test_a_successor_that_lacks_an_epoch_does_not_take_over(tmp_path: Path) -> None:
    async with hub_at(tmp_path, limits=TaskLimits(checkpoint_bytes=0)) as hub:
        hub.publish(0, (0, "a", 1), watermark_us=5)
        hub.publish(0, (0, "a", 1), watermark_us=6)
        old = hub.predecessor(CUTTING)
        await old.run()
        for channel in (item.channel for item in INPUTS):
            log = hub.store.open(channel)
            log.publish(log.next_epoch, None, watermark_us=7)
        hub.router.acknowledge(INPUTS[0].channel, NEW, 2)
        assert hub.inputs[0].first_epoch > 2
        with pytest.raises(SiteAgentError, match="the oldest one here is 3"):
            await hub.successor().run()


@pytest.mark.parametrize("seed", range(40))
async def test_random_kills_during_a_handover(tmp_path: Path, seed: int) -> None:
    """Rows come all the time, both tasks are killed at any place, and the cut is asked for at any time."""
    random = Random(seed)
    limits = TaskLimits(checkpoint_bytes=random.choice([0, 100, 10**9]), port_batch_bytes=random.choice([1, 10**9]))
    async with hub_at(tmp_path, limits=limits) as hub:
        old, new = hub.predecessor(WAITING), hub.successor()
        running, following = asyncio.create_task(old.run()), asyncio.create_task(new.run())
        came: Counter[tuple[int, str]] = Counter()
        watermarks_us, cut = [0, 0], False
        for step in range(30):
            place = random.randrange(2)
            starts = [watermarks_us[place] // 10 * 10 + 10 * random.randrange(3) for _ in range(random.randrange(4))]
            rows = [(start, random.choice("abcdefgh"), random.randrange(1, 9)) for start in starts]
            watermarks_us[place] += random.randrange(9)
            hub.publish(place, *rows, watermark_us=watermarks_us[place])
            came += summed_up(rows)
            if not cut and (step > 20 or random.random() < 0.1):
                await caught_up(new, running, following)
                cut = True
                await old.set_handover(CUTTING, None)
            await asyncio.sleep(random.choice([0, 0, 0.005]))
            make = partial(hub.predecessor, CUTTING if cut else WAITING)
            old, running = await perhaps_again(random, 0.2, old, running, make)
            new, following = await perhaps_again(random, 0.2, new, following, hub.successor)
        hub.finish()
        await running
        await following
        assert hub.old.end is not None
        assert (hub.old.end.successor_channel, hub.new.first_epoch) == (NEW, hub.old.end.next_epoch)
        assert summed_up(hub.results()) == came
        assert hub.new.readers.acknowledged(NEW) == hub.new.next_epoch - 1
        totals = hub.context(replace(SPEC, task_id=NEW)).progress.totals
        assert totals.rows_late == 0
        await close(old, new)


async def test_a_second_handover_goes_on_from_the_first(tmp_path: Path) -> None:
    async with hub_at(tmp_path) as hub:
        third = f"{OLD}.g2"
        for channel in (*(item.channel for item in INPUTS), NEW):
            await hub.router.subscribe(channel, "hub", third)
        last = hub.store.open(third)
        last.set_consumers(["hub", third])
        hub.publish(0, (0, "a", 1), watermark_us=1)
        hub.publish(1, (0, "b", 1), watermark_us=1)
        await hub.predecessor(CUTTING).run()
        new = hub.successor()
        following = asyncio.create_task(new.run())
        await until(lambda: new.handover.taken_over, following)
        hub.publish(0, (0, "a", 1), watermark_us=2)
        await new.set_handover(HandOver(third, "hub", cut=True), None)
        await following
        heir = hub.successor(third, NEW)
        ending = asyncio.create_task(heir.run())
        hub.publish(1, (0, "b", 1), watermark_us=ALL_OUT_US)
        hub.publish(0, watermark_us=ALL_OUT_US)
        hub.finish()
        await ending
        assert summed_up([*hub.results(), *rows_of(last)]) == {(0, "a"): 2, (0, "b"): 2}
        await stop(ending)


async def caught_up(successor: SuccessorTask, *tasks: asyncio.Task[None]) -> None:
    await until(lambda: successor.handover.caught_up, *tasks)


def is_drained(task: CombineTask) -> bool:
    return task.handover is not None and task.handover.drained


def has_taken(task: Task, epochs: int) -> bool:
    return len(task.reads) == len(INPUTS) and all(read.next_epoch == epochs for read in task.reads)


async def close(*tasks: Task) -> None:
    for task in tasks:
        await task.close()


@pytest.mark.parametrize("restarted", [False, True])
async def test_one_that_begins_in_the_middle_says_from_when_on_it_has_windows_whole(
    tmp_path: Path, restarted: bool
) -> None:
    async with hub_at(tmp_path) as hub:
        late = tuple(replace(item, read_from=ReadFrom.OLDEST, event_delay_us=3) for item in INPUTS)
        hub.publish(0, (0, "a", 1), (10, "a", 2), watermark_us=12)
        hub.publish(1, (10, "a", 4), watermark_us=12)
        for log in hub.inputs:
            hub.router.acknowledge(log.id, NEW, 0)
        await until(lambda: all(log.first_epoch == 1 for log in hub.inputs))

        def begun() -> CombineTask:
            return CombineTask(hub.context(replace(SPEC, task_id=NEW, inputs=late)), WINDOW)

        task = begun()
        running = asyncio.create_task(task.run())
        assert task.handover is None
        # Rows with event times up to the watermark of the first epoch that it takes, and 3 more, may be gone.
        hub.publish(0, (10, "a", 8), (20, "a", 16), watermark_us=18)
        hub.publish(1, (30, "a", 32), watermark_us=18)
        await until(lambda: (task.handover or HandoverReport()).whole_after_us is not None, running)
        assert task.handover == HandoverReport(whole_after_us=39)
        if restarted:
            await stop(running)
            await task.close()
            task = begun()
            running = asyncio.create_task(task.run())
        hub.publish(0, (30, "a", 64), (40, "a", 128), watermark_us=70)
        hub.publish(1, (40, "a", 1), watermark_us=70)
        hub.finish()
        await running
        assert rows_of(hub.new) == [(30, "a", 96), (40, "a", 129)]
        await task.close()


async def test_one_that_is_paused_before_its_first_checkpoint_leaves_the_same_windows_out_again(tmp_path: Path) -> None:
    async with hub_at(tmp_path) as hub:
        late = tuple(replace(item, read_from=ReadFrom.OLDEST, event_delay_us=3) for item in INPUTS)
        for place in (0, 1):
            hub.publish(place, (10, "a", 1), watermark_us=12)
        for log in hub.inputs:
            hub.router.acknowledge(log.id, NEW, 0)
        await until(lambda: all(log.first_epoch == 1 for log in hub.inputs))
        # Its progress lives on while it is paused.
        context = hub.context(replace(SPEC, task_id=NEW, inputs=late))
        task = CombineTask(context, WINDOW)
        running = asyncio.create_task(task.run())
        # It has not heard of the other input: there is no watermark, and so no checkpoint.
        hub.publish(0, (20, "a", 2), watermark_us=18)
        await until(lambda: context.progress.starts_at_us == 30, running)
        await stop(running)
        await task.close()
        task = CombineTask(context, WINDOW)
        running = asyncio.create_task(task.run())
        hub.publish(1, (20, "a", 2), watermark_us=18)
        for place in (0, 1):
            hub.publish(place, (20, "a", 4), (30, "a", 8), watermark_us=50)
        hub.finish()
        await running
        assert rows_of(hub.new) == [(30, "a", 16)]
        await task.close()


async def test_one_that_begins_beside_others_counts_late_rows_when_these_are_gone(tmp_path: Path) -> None:
    async with hub_at(tmp_path) as hub:
        task = CombineTask(hub.context(replace(SPEC, task_id=NEW, beside=True)), WINDOW)
        running = asyncio.create_task(task.run())
        for number, watermark_us in enumerate((12, 22, 32)):
            # The rows are of a window that is out.
            late = [(0, "a", 1)] if number else []
            hub.publish(0, *late, watermark_us=watermark_us)
            hub.publish(1, watermark_us=watermark_us)
            await until(lambda: hub.new.standing and hub.new.standing.watermark_us == watermark_us, running)  # noqa: B023
            if number == 1:
                task.count_late()
        hub.finish()
        await running
        assert CheckpointStore(hub.directory / NEW).load_state().checkpoint.totals.rows_late == 1
        await task.close()
