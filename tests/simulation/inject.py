"""Has the faults of a plan happen at their times."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from tests.simulation.client import Client
from tests.simulation.faults import (
    Break,
    Cancel,
    Combine,
    Cut,
    Damage,
    Declare,
    Failing,
    Fault,
    Full,
    Kill,
    KillAtPoint,
    Lease,
    Leave,
    Move,
    Order,
    Pause,
    Scale,
    SetClock,
    Silence,
    Slow,
)
from tests.simulation.leases import Frameworks
from tests.simulation.world import World


def schedule(world: World, client: Client, frameworks: Frameworks) -> None:
    """Those at points and messages are the world's own."""
    nowhere = world.loop.world.context()
    world.network.breaks = frozenset(
        (fault.source, fault.target, fault.message) for fault in world.plan.faults if isinstance(fault, Break)
    )
    for fault in world.plan.faults:
        if not isinstance(fault, KillAtPoint | Break):
            world.loop.call_at(fault.at_s, _happen, world, client, frameworks, fault, context=nowhere)


def _happen(world: World, client: Client, frameworks: Frameworks, fault: Fault) -> None:
    if isinstance(fault, Leave):
        client.leave()
    elif isinstance(fault, Kill):
        world.kill(fault.name, power=fault.power, away_s=fault.away_s)
    elif isinstance(fault, Order):
        world.orders.append(world.loop.spawn(client.process, _ordered(client, frameworks, fault)))
    else:
        world.faults += 1
        happen: Callable[[World, Any], None] = _OF_MACHINES[type(fault)]
        world.tell("fault", what=fault)
        happen(world, fault)


def _ordered(client: Client, frameworks: Frameworks, order: Order) -> Coroutine[Any, Any, None]:
    match order:
        case Pause():
            return client.pause(order.query, order.seconds)
        case Cancel():
            return client.cancel(order.query)
        case Declare():
            return client.declare(order.name, order.seconds)
        case Move():
            return client.move(order)
        case Scale():
            return client.scale(order)
        case Combine():
            return client.combine(order)
        case Lease():
            return frameworks.lease(order)


def _cut(world: World, fault: Cut) -> None:
    world.network.cut(fault.one, fault.other)


def _silence(world: World, fault: Silence) -> None:
    world.network.silence(fault.source, fault.target, fault.seconds)


def _fill(world: World, fault: Full) -> None:
    world.disks[fault.name].fill(fault.seconds)


def _fail(world: World, fault: Failing) -> None:
    world.disks[fault.name].fail(fault.seconds, fault.share)


def _damage(world: World, fault: Damage) -> None:
    path = world.disks[fault.name].damage(lambda path: path.endswith(".epoch"))
    world.tell("damaged", path=path)


def _slow(world: World, fault: Slow) -> None:
    process = world.running.get(fault.name)
    if process is not None:
        process.drag_s = fault.most_s
        world.loop.call_later(fault.seconds, setattr, process, "drag_s", 0.0, context=world.loop.world.context())


def _set_clock(world: World, fault: SetClock) -> None:
    world.skews_s[fault.name] = fault.ahead_s


_OF_MACHINES: dict[type, Callable[[World, Any], None]] = {
    Cut: _cut,
    Silence: _silence,
    Full: _fill,
    Failing: _fail,
    Damage: _damage,
    Slow: _slow,
    SetClock: _set_clock,
}
