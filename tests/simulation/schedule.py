"""Plays one plan, and says what was wrong."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from site_agent.base.faults import FaultPoint as AgentPoint
from site_agent.engine import Engine
from tests.simulation import inject
from tests.simulation.checks import Check, CheckFailed, check, check_orders, check_tidy
from tests.simulation.client import PATIENCE_S, Client
from tests.simulation.guard import closed
from tests.simulation.leases import Frameworks
from tests.simulation.loop import Deadlock, Process, SimulatedLoop, run
from tests.simulation.plan import SMALL_BUDGET_BYTES, Plan, faults_end_s
from tests.simulation.rows import last_row_s
from tests.simulation.trace import Trace
from tests.simulation.workload import query_named
from tests.simulation.world import World, in_place


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
    takeovers: int = 0
    """It counts how often a task took another one's place."""


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
    except CheckFailed as failure:
        failed, told = failure.check, failure.told
    except Deadlock as error:
        failed, told = Check.DELIVERS, f"nothing happens any more, {error}"
    except Exception:  # noqa: BLE001 - a defect of the simulation, which must not hide other schedules
        failed, told = Check.NO_ERROR, traceback.format_exc()
    (world,) = worlds
    kept = tuple(trace.kept) if failed else ()
    takeovers = world.passages(AgentPoint.TAKEOVER_MARKED)
    return Outcome(plan, trace.digest, trace.lines, world.faults, world.loop.time(), failed, told, kept, takeovers)


def _limit_s(plan: Plan) -> float:
    """Return when all queries are over, at the latest."""
    limit_s = max(last_row_s(plan.rows), faults_end_s(plan)) + PATIENCE_S
    if any(query_named(name).late for name in plan.queries):
        # Its last rows come when those before them are delivered.
        limit_s += PATIENCE_S
    if plan.budget_bytes <= SMALL_BUDGET_BYTES:
        # Each merge that others read waits for a checkpoint of theirs after every few epochs.
        limit_s += PATIENCE_S
    return limit_s


async def _played(world: World) -> None:
    for name in world.plan.names:
        world.start(name)
    process = Process("client")
    client = process.context().run(Client, world, process)
    frameworks = process.context().run(Frameworks, world)
    inject.schedule(world, client, frameworks)
    using = world.loop.spawn(process, client.run())
    limit_s = _limit_s(world.plan)
    await asyncio.wait({using}, timeout=limit_s)
    if not using.done():
        missing = [
            name for name in world.plan.queries if name not in client.followed or not client.followed[name].query
        ]
        raise CheckFailed(Check.DELIVERS, f"after {limit_s:.0f} s these are not over: {', '.join(missing)}")
    if (error := using.exception()) is not None:
        raise CheckFailed(Check.ENDS_WELL, repr(error))
    check(world, client)
    await check_tidy(world)
    await check_orders(world, frameworks)
