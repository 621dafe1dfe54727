"""Looks are taken one after the other, and nothing waits for them."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from master.adaptation.acting import Acting
from master.adaptation.advisor import Advisor, AdvisorParts
from master.adaptation.journal import Journal
from planner.adapt.model import Settings
from planner.wan.snapshot import snapshot
from tests.unit.master.build import TOPOLOGY
from tests.unit.master.world import World


def advisor_of(world: World) -> Advisor:
    parts = AdvisorParts(
        world.queries,
        world.sites,
        world.leases,
        Journal.in_memory(),
        lambda: snapshot(TOPOLOGY, world.links, world.clock.now()),
        Acting(world.jobs.handovers, world.lineages),
    )
    return Advisor(parts, clock=world.clock, settings=Settings())


async def test_a_look_that_takes_long_is_waited_for_by_the_next_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    advisor, going_on, begun = advisor_of(world), asyncio.Event(), 0

    async def look(now: object) -> None:
        nonlocal begun
        begun += 1
        await going_on.wait()

    monkeypatch.setattr(advisor, "look", look)
    for _ in range(3):
        world.clock.advance(timedelta(seconds=20))
        advisor.tick()
        await asyncio.sleep(0)
    assert (begun, advisor.looks) == (1, 0)
    going_on.set()
    await asyncio.sleep(0.01)
    assert advisor.looks == 1
    world.clock.advance(timedelta(seconds=20))
    advisor.tick()
    await asyncio.sleep(0.01)
    assert (begun, advisor.looks) == (2, 2)
    await advisor.close()


async def test_a_look_that_fails_is_logged_and_taken_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    advisor = advisor_of(world)

    async def look(now: object) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(advisor, "look", look)
    for number in (1, 2):
        world.clock.advance(timedelta(seconds=20))
        advisor.tick()
        await asyncio.sleep(0.01)
        assert advisor.looks == number
    assert "adaptation failed" in caplog.text
    await advisor.close()


async def test_it_is_closed_in_the_middle_of_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    advisor = advisor_of(world)

    async def look(now: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(advisor, "look", look)
    world.clock.advance(timedelta(seconds=20))
    advisor.tick()
    await asyncio.sleep(0)
    await asyncio.wait_for(advisor.close(), 5)
    assert advisor.looks == 0
