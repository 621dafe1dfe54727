"""Looks are taken one after the other, and nothing waits for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from contract.tasks import TaskState
from master.adaptation.acting import Acting
from master.adaptation.advisor import Advisor, AdvisorParts
from master.adaptation.journal import Journal
from planner.adapt.decide import Round
from planner.adapt.memory import Memory
from planner.adapt.model import Settings
from planner.adapt.situation import Situation
from planner.values.adapting import Adapting
from planner.wan.snapshot import snapshot
from tests.unit.master.adaptation.test_acting import unasked
from tests.unit.master.build import PLAN, TOPOLOGY
from tests.unit.master.world import World

pytestmark = pytest.mark.timeout(30)


@dataclass
class Deciding:
    """Takes as long as a test lets it, and decides nothing; or fails."""

    going_on: threading.Event = field(default_factory=threading.Event)
    fails: bool = False
    begun: int = 0

    def __call__(self, situation: Situation, memory: Memory, settings: Settings) -> Round:
        self.begun += 1
        self.going_on.wait(10)
        if self.fails:
            raise ValueError("a defect")
        return Round((), memory, {})


class Scene:
    """A query that runs, about which it is decided."""

    def __init__(self, deciding: Deciding) -> None:
        self.world = World()
        plan = replace(PLAN, adapting=Adapting.ADVISE)
        self.world.jobs.submit(plan, sql="SELECT ...", name="")
        self.world.report("us", ("pages", TaskState.ENDED), ("clicks", TaskState.RUNNING))
        self.world.report("eu", ("clicks", TaskState.RUNNING), ("merge", TaskState.RUNNING))
        parts = AdvisorParts(
            self.world.queries,
            self.world.sites,
            self.world.leases,
            Journal.in_memory(),
            lambda: snapshot(TOPOLOGY, self.world.links, self.world.clock.now()),
            Acting(self.world.jobs.handovers, self.world.lineages, self.world.queries, unasked),
        )
        self.advisor = Advisor(parts, clock=self.world.clock, settings=Settings(), decide=deciding)

    async def first(self) -> None:
        """Take the first picture, which is only compared with the next."""
        self.later()
        await until(lambda: self.advisor.looks == 1)

    def later(self) -> None:
        self.world.clock.advance(timedelta(seconds=20))
        self.advisor.tick()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_look_that_takes_long_is_waited_for_by_the_next_alone() -> None:
    deciding = Deciding()
    scene = Scene(deciding)
    await scene.first()
    for _ in range(3):
        scene.later()
        await until(lambda: deciding.begun == 1)
    assert scene.advisor.looks == 1
    deciding.going_on.set()
    await until(lambda: scene.advisor.looks == 2)
    scene.later()
    await until(lambda: scene.advisor.looks == 3)
    assert deciding.begun == 2
    await scene.advisor.close()


async def test_a_look_that_fails_is_logged_and_taken_again(caplog: pytest.LogCaptureFixture) -> None:
    deciding = Deciding(fails=True)
    deciding.going_on.set()
    scene = Scene(deciding)
    await scene.first()
    for looks in (2, 3):
        scene.later()
        await until(lambda looks=looks: scene.advisor.looks == looks)  # type: ignore[misc]
    assert deciding.begun == 2
    assert "adaptation failed" in caplog.text
    await scene.advisor.close()


async def test_it_is_closed_in_the_middle_of_a_look() -> None:
    deciding = Deciding()
    scene = Scene(deciding)
    await scene.first()
    scene.later()
    await until(lambda: deciding.begun == 1)
    await asyncio.wait_for(scene.advisor.close(), 5)
    deciding.going_on.set()
    assert scene.advisor.looks == 1
