"""The streaming job manager looks at its slots again only when there may be something to do."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from random import Random

import pytest

from master.leases.streaming import STREAMING, StreamingSlots
from master.records.model import SiteRecord
from planner.leases import LeaseRef, Renewal, Slot, release, renew
from planner.values.errors import PlannerError
from tests.unit.master.build import TOPOLOGY
from tests.unit.master.leases.test_manager import World

SITES = sorted(TOPOLOGY.sites)


class Cluster:
    """A streaming job manager, and another framework beside it; `forgets`: it looks at everything each time."""

    def __init__(self, *, forgets: bool) -> None:
        self.world = World()
        self.slots = StreamingSlots(self.world.manager)
        self._forgets = forgets

    def step(self, random: Random) -> object:
        """Something happens, time passes, and the manager follows; returns what can be seen of it."""
        world, site = self.world, random.choice(SITES)
        slot = Slot(site, random.randrange(2))
        match random.randrange(6):
            case 0:
                asyncio.run(world.acquire("other", slot))
            case 1:
                lease = world.record(slot).lease
                if lease is not None and lease.holder == "other":
                    refs = [LeaseRef(slot, lease.fencing)]
                    world.manager.ask_now(lambda table, now: release(table, "other", refs, now=now))
            case 2:
                world.manager.set_quota(STREAMING, random.choice((None, 0, 1, 3)))
            case 3:
                world.registry.register(SiteRecord(site, f"{site}:1", f"{site}-a", random.choice((2, 3)), "1"))
            case 4:
                lease = world.record(slot).lease
                if lease is not None:
                    wanted = [Renewal(slot, lease.fencing, timedelta(seconds=5))]
                    with suppress(PlannerError):
                        world.manager.ask_now(lambda table, now: renew(table, lease.holder, wanted, now=now))
        world.clock.advance(timedelta(seconds=random.choice((0.25, 0.25, 3.0, 40.0))))
        world.registry.tick()
        world.manager.tick()
        tasks = {name: random.randrange(3) for name in SITES if random.random() < 0.8}
        for _ in range(2):
            if self._forgets:
                self.slots._followed = None
            self.slots.follow(tasks)
        return world.manager.table.records(), self.slots.blocked(SITES), [self.slots.held(name) for name in SITES]


@pytest.mark.parametrize("seed", range(20))
def test_what_it_passes_over_would_have_changed_nothing(seed: int) -> None:
    usual, forgetful = Cluster(forgets=False), Cluster(forgets=True)
    one, other = Random(seed), Random(seed)
    for _ in range(40):
        assert usual.step(one) == forgetful.step(other)


def test_nothing_is_stored_while_nothing_changes_and_leases_are_renewed_in_time() -> None:
    cluster = Cluster(forgets=False)
    world = cluster.world
    cluster.slots.follow({SITES[0]: 1})
    (lease,) = cluster.slots.held(SITES[0])
    puts = world.store.puts
    for _ in range(40):
        cluster.slots.follow({SITES[0]: 1})
    assert world.store.puts == puts
    world.clock.advance((lease.expires_at - world.manager.now()) * 0.9)
    cluster.slots.follow({SITES[0]: 1})
    (renewed,) = cluster.slots.held(SITES[0])
    assert renewed.expires_at > lease.expires_at
    assert world.store.puts == puts + 1
