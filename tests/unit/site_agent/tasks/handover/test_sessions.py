"""A merge of sessions hands over with its state, stopped at any moment; what was late stays so."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest

from site_agent.channels.log import ChannelLog
from site_agent.tasks.checkpoint import CheckpointStore
from site_agent.tasks.context import TaskLimits
from site_agent.tasks.handover.successor import SuccessorTask, windowed_successor
from site_agent.tasks.merge import MergeTask
from site_agent.tasks.spec import HandOver, TakeOver
from tests.unit.site_agent.fakes import TableEngine
from tests.unit.site_agent.tasks.handover.world import (
    CUTTING,
    NEW,
    SEEDING,
    SPEC,
    TAKE_OVER,
    Hub,
    hub_of,
    perhaps_again,
    until,
)
from tests.unit.site_agent.tasks.sessions import WINDOW, Partial, partials_of, sessions_of, summed, table_of
from tests.unit.site_agent.tasks.test_merge_sessions import Outcome, Source, check

pytestmark = pytest.mark.timeout(60)

SESSIONS = replace(SPEC, window=WINDOW)


class SessionsHub(Hub):
    def __init__(self, directory: Path, *, limits: TaskLimits, memory_bytes: int) -> None:
        super().__init__(directory, limits=replace(limits, compact_rows=2, runs_alike=2), memory_bytes=memory_bytes)
        self.engine = TableEngine({"merge": summed, "combine": summed})

    def predecessor(self, hand_over: HandOver | None = None) -> MergeTask:
        return MergeTask(self.context(replace(SESSIONS, hand_over=hand_over)), WINDOW)

    def successor(self, task: str = NEW, take_over: TakeOver = TAKE_OVER) -> SuccessorTask:
        spec = replace(SESSIONS, task_id=task, take_over=take_over)
        return windowed_successor(self.context(spec), WINDOW, take_over)

    def send(self, place: int, rows: list[Partial], watermark_us: int, *, idle: bool = False) -> None:
        log = self.inputs[place]
        log.publish(log.next_epoch, table_of(rows) if rows else None, watermark_us=watermark_us, idle=idle)

    def sessions(self) -> list[Partial]:
        return sorted(sessions_in(self.old) + sessions_in(self.new), key=repr)


def sessions_in(log: ChannelLog) -> list[Partial]:
    return [row for epoch in range(log.first_epoch, log.next_epoch) for row in partials_of(log.epochs.read(epoch))]


@pytest.mark.parametrize("idles", [False, True])
@pytest.mark.parametrize("seed", range(10))
async def test_stopped_at_any_moment_each_session_comes_once(tmp_path: Path, seed: int, *, idles: bool) -> None:
    random = Random(seed)
    sources = [Source(random, idles), Source(random, idles)]
    async with hub_of(SessionsHub, tmp_path, checkpoint_bytes=random.choice((0, 300, 10**9))) as hub:
        old, new = hub.predecessor(), hub.successor()
        running, following = asyncio.create_task(old.run()), asyncio.create_task(new.run())
        wanted = [SEEDING, CUTTING]
        hand_over: HandOver | None = None
        for number in range(14):
            place = random.randrange(2)
            epoch = sources[place].epoch(number)
            hub.send(place, list(epoch.rows), epoch.watermark_us, idle=epoch.idle)
            if wanted and number > 2 and random.random() < 0.4:
                hand_over = wanted.pop(0)
                await old.set_handover(hand_over, None)
            for _ in range(random.randrange(40)):
                await asyncio.sleep(0.001)
            old, running = await perhaps_again(random, 0.5, old, running, partial(hub.predecessor, hand_over))
            new, following = await perhaps_again(random, 0.5, new, following, hub.successor)
        for place in range(2):
            # The seed needs an epoch of each input.
            hub.send(place, [], sources[place].now_us)
        await old.set_handover(CUTTING, None)
        await until(lambda: new.handover.taken_over, following)
        await running
        for log in hub.inputs:
            log.finish()
        await following
        taken = [row for source in sources for epoch in source.made for row in epoch.rows]
        totals = CheckpointStore(hub.directory / NEW).load_state().checkpoint.totals
        late = check(Outcome(hub.sessions(), totals, taken, 0))
        assert idles or not late
        await old.close()
        await new.close()


async def test_what_was_late_before_the_cut_is_late_for_the_successor(tmp_path: Path) -> None:
    """The seed is older than the row that was late; that reaches beyond the cut."""
    async with hub_of(SessionsHub, tmp_path, checkpoint_bytes=10**9) as hub:
        first, late, last = (0, 900_000, "a", 1), (1_000_000, 9_000_000, "a", 2), (8_000_000, 9_500_000, "a", 4)
        hub.send(0, [first], 3_000_000)
        hub.send(1, [], 0, idle=True)
        old, new = hub.predecessor(SEEDING), hub.successor()
        running, following = asyncio.create_task(old.run()), asyncio.create_task(new.run())
        await until(lambda: new.handover.caught_up, running, following)
        hub.send(1, [late], 6_000_000)
        hub.send(0, [], 6_000_000)
        await until(lambda: hub.old.standing and hub.old.standing.watermark_us == 6_000_000, running, following)
        await old.set_handover(CUTTING, None)
        await until(lambda: new.handover.taken_over, running, following)
        hub.send(0, [last], 7_000_000)
        for log in hub.inputs:
            log.finish()
        await following
        assert hub.sessions() == sessions_of([first, last])
        totals = CheckpointStore(hub.directory / NEW).load_state().checkpoint.totals
        assert (totals.rows_in, totals.rows_late) == (3, 1)
        await old.close()
        await new.close()
