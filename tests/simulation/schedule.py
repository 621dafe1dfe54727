"""Plays one plan, and says what was wrong."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from enum import Enum

from selat.v1 import query_pb2
from site_agent.engine import Engine
from tests.simulation.client import Client
from tests.simulation.guard import closed
from tests.simulation.loop import Deadlock, Process, SimulatedLoop, run
from tests.simulation.plan import Cancel, Cut, Full, Kill, Leave, Pause, Plan, Silence, faults_end_s
from tests.simulation.trace import Trace
from tests.simulation.workload import expected, last_row_s
from tests.simulation.world import World, in_place

PATIENCE_S = 120.0
"""So long after the last row and the last fault everything is delivered."""
SETTLING_S = 60.0
"""So long after the last query and fault nothing is left that nobody needs."""


class Check(Enum):
    """What must hold of every world."""

    NO_ERROR = "no part of the product raises what it does not expect"
    ENDS_WELL = "no query fails for a fault that it should survive"
    DELIVERS = "everything is delivered once faults have ended"
    RIGHT = "results are DuckDB's over all rows"
    NOTHING_LATE = "no row is dropped as late"
    ALIVE = "no process ends by itself"
    TIDY = "nothing is kept that nobody needs"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a schedule ended."""

    plan: Plan
    digest: str
    lines: int
    faults: int
    virtual_s: float
    failed: Check | None = None
    told: str = ""
    trace: tuple[str, ...] = ()
    """The last lines, when it failed."""


class _Failed(Exception):  # noqa: N818 - a finding, not an error
    def __init__(self, check: Check, told: str) -> None:
        super().__init__(f"{check.value}: {told}")
        self.check, self.told = check, told


def play(plan: Plan, trace: Trace | None = None, engine: Callable[[], Engine] | None = None) -> Outcome:
    """The outcome of a plan: the same for the same plan, always. `engine` makes engines in place of DuckDB's."""
    trace = trace or Trace()
    worlds: list[World] = []

    async def main(loop: SimulatedLoop) -> None:
        world = World(loop, plan, trace, engine)
        worlds.append(world)
        # Spark is a process of its own.
        with in_place(world), closed() if engine is None else nullcontext():
            await _played(world)

    failed, told = None, ""
    try:
        run(main, seed=plan.seed, rest_s=plan.rest_s)
    except _Failed as failure:
        failed, told = failure.check, failure.told
    except Deadlock as error:
        failed, told = Check.DELIVERS, f"nothing happens any more, {error}"
    except Exception:  # noqa: BLE001 - a defect of the simulation, which must not hide other schedules
        failed, told = Check.NO_ERROR, traceback.format_exc()
    (world,) = worlds
    kept = tuple(trace.kept) if failed else ()
    return Outcome(plan, trace.digest, trace.lines, world.faults, world.loop.time(), failed, told, kept)


async def _played(world: World) -> None:
    for name in world.plan.names:
        world.start(name)
    process = Process("client")
    client = process.context().run(Client, world, process)
    _schedule(world, client)
    using = world.loop.spawn(process, client.run())
    limit_s = max(last_row_s(world.plan.rows), faults_end_s(world.plan)) + PATIENCE_S
    await asyncio.wait({using}, timeout=limit_s)
    if not using.done():
        missing = [
            name for name in world.plan.queries if name not in client.followed or not client.followed[name].query
        ]
        raise _Failed(Check.DELIVERS, f"after {limit_s:.0f} s these are not over: {', '.join(missing)}")
    if (error := using.exception()) is not None:
        raise _Failed(Check.ENDS_WELL, repr(error))
    _check(world, client)
    await _check_tidy(world)


def _schedule(world: World, client: Client) -> None:
    """Have the faults happen at their times."""
    nowhere = world.loop.world.context()
    for fault in world.plan.faults:
        match fault:
            case Kill():
                world.loop.call_at(fault.at_s, _kill, world, fault, context=nowhere)
            case Cut():
                world.loop.call_at(fault.at_s, _cut, world, fault, context=nowhere)
            case Silence():
                world.loop.call_at(fault.at_s, _silence, world, fault, context=nowhere)
            case Full():
                world.loop.call_at(fault.at_s, _fill, world, fault, context=nowhere)
            case Leave():
                world.loop.call_at(fault.at_s, client.leave, context=nowhere)
            case Pause():
                world.loop.call_at(fault.at_s, _order, world, client, fault, context=nowhere)
            case Cancel():
                world.loop.call_at(fault.at_s, _order, world, client, fault, context=nowhere)


def _kill(world: World, fault: Kill) -> None:
    world.kill(fault.name, power=fault.power, away_s=fault.away_s)


def _cut(world: World, fault: Cut) -> None:
    world.faults += 1
    world.tell("cut", one=fault.one, other=fault.other)
    world.network.cut(fault.one, fault.other)


def _silence(world: World, fault: Silence) -> None:
    world.faults += 1
    world.tell("silence", source=fault.source, target=fault.target, seconds=fault.seconds)
    world.network.silence(fault.source, fault.target, fault.seconds)


def _fill(world: World, fault: Full) -> None:
    world.faults += 1
    world.tell("full", name=fault.name, seconds=f"{fault.seconds:.3f}")
    world.disks[fault.name].fill(fault.seconds)


def _order(world: World, client: Client, fault: Pause | Cancel) -> None:
    ordering = client.pause(fault.query, fault.seconds) if isinstance(fault, Pause) else client.cancel(fault.query)
    world.orders.append(world.loop.spawn(client.process, ordering))


def _check(world: World, client: Client) -> None:
    if world.failures:
        raise _Failed(Check.ALIVE, "; ".join(world.failures))
    if world.errors:
        raise _Failed(Check.NO_ERROR, "; ".join(world.errors))
    for name, followed in client.followed.items():
        query = followed.query
        rows, wanted = followed.rows(), expected(name, world.plan.sites, world.plan.rows)
        if query.state == query_pb2.QUERY_STATE_CANCELLED and _cancelled(world.plan, name):
            if more := Counter(rows) - Counter(wanted):
                raise _Failed(Check.RIGHT, f"{name}, which was cancelled, has rows too many: {list(more)[:3]}")
            continue
        if query.state != query_pb2.QUERY_STATE_FINISHED:
            state = query_pb2.QueryState.Name(query.state)
            raise _Failed(Check.ENDS_WELL, f"{name} is {state}: {query.reason}")
        if rows != wanted:
            raise _Failed(Check.RIGHT, f"{name} has {len(rows)} rows, DuckDB {len(wanted)}{_difference(rows, wanted)}")
        if query.rows_late:
            raise _Failed(Check.NOTHING_LATE, f"{name} dropped {query.rows_late} rows")


def _cancelled(plan: Plan, query: str) -> bool:
    return any(isinstance(fault, Cancel) and fault.query == query for fault in plan.faults)


def _difference(rows: list[tuple[object, ...]], wanted: list[tuple[object, ...]]) -> str:
    """Some rows that only one of them has."""
    more = [row for row in rows if row not in wanted][:3]
    less = [row for row in wanted if row not in rows][:3]
    return f"; too many: {more}, missing: {less}"


async def _check_tidy(world: World) -> None:
    """Once all queries and faults are over, sites keep the results alone."""
    left_s = max(0.0, faults_end_s(world.plan) - world.loop.time())
    await asyncio.sleep(left_s + SETTLING_S)
    while len(world.running) < len(world.plan.names):
        await asyncio.sleep(1.0)
    gateway = world.plan.sites[0]
    for site in world.plan.sites:
        kept = world.stores[site].ids()
        tasks = list(world.runtimes[site].runners)
        if tasks or (kept and site != gateway):
            raise _Failed(Check.TIDY, f"{site} has tasks {tasks} and channels {kept}")
