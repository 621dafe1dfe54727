"""One query goes on with a task of its own: two tasks take one's place, and each query reads one of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest

from site_agent.channels.manifest import Fork
from site_agent.tasks.handover.successor import SuccessorTask, windowed_successor
from site_agent.tasks.spec import HandOver
from tests.unit.site_agent.tasks.handover.world import (
    INPUTS,
    LATE_INPUTS,
    NEW,
    OLD,
    SPEC,
    TAKE_OVER_LATE,
    WINDOW,
    Hub,
    Rows,
    hub_at,
    perhaps_again,
    rows_of,
    until,
)

pytestmark = pytest.mark.timeout(60)

OWN = "q2.m1.g1"
CUT = HandOver(NEW, "hub", cut=True, fork=Fork("q2", OWN, "hub"))


def successor(hub: Hub, task: str, query: str) -> SuccessorTask:
    spec = replace(SPEC, task_id=task, query_id=query, inputs=LATE_INPUTS, take_over=TAKE_OVER_LATE)
    return windowed_successor(hub.context(spec), WINDOW, TAKE_OVER_LATE)


@pytest.mark.parametrize("seed", range(6))
async def test_stopped_at_any_moment_each_query_has_every_row_once(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    sent: Rows = [(w * 10, k, 1 + n) for w in range(12) for n, k in enumerate("abcdefgh")]
    async with hub_at(tmp_path) as hub:
        own = hub.store.open(OWN)
        own.set_consumers(["hub"])
        await hub.router.subscribe(OWN, "hub", "results:q2", keeps=True)
        await hub.router.subscribe(OLD, "hub", OWN)
        for item in INPUTS:
            await hub.router.subscribe(item.channel, "hub", OWN)
        old, heirs = hub.predecessor(), {NEW: successor(hub, NEW, "q"), OWN: successor(hub, OWN, "q2")}
        queries = {NEW: "q", OWN: "q2"}
        running = asyncio.create_task(old.run())
        following = {name: asyncio.create_task(heir.run()) for name, heir in heirs.items()}
        hand_over: HandOver | None = None
        for window in range(12):
            hub.publish([row for row in sent if row[0] == window * 10], watermark_us=window * 10 + 12)
            whole_us = [heir.handover.whole_after_us for heir in heirs.values()]
            standing = hub.old.standing
            out_us = standing.watermark_us if standing is not None else None
            ready = out_us is not None and all(at_us is not None and out_us >= at_us for at_us in whole_us)
            if ready and random.random() < 0.4:
                hand_over = CUT
                await old.set_handover(hand_over, None)
            for _ in range(random.randrange(40)):
                await asyncio.sleep(0.001)
            old, running = await perhaps_again(random, 0.5, old, running, partial(hub.predecessor, hand_over))
            for name, query in queries.items():
                make = partial(successor, hub, name, query)
                heirs[name], following[name] = await perhaps_again(random, 0.5, heirs[name], following[name], make)
        await until(lambda: hub.old.end or (hub.old.standing and hub.old.standing.watermark_us == 122), running)
        await old.set_handover(CUT, None)
        await until(lambda: all(heir.handover.taken_over for heir in heirs.values()), *following.values())
        await running
        for log in hub.inputs:
            log.finish()
        await asyncio.gather(*following.values())
        for log in (hub.new, own):
            assert sorted(rows_of(hub.old) + rows_of(log)) == sorted(sent)
            assert hub.old.end is not None
            assert log.first_epoch == hub.old.end.next_epoch
        for task in (old, *heirs.values()):
            await task.close()
