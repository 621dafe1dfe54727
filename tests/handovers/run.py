"""Plays a plan on a cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice

import selat
from selat.client.moves import MoveStep, TaskMove
from tests.e2e.cluster import left_of, wait_until
from tests.e2e.dataset import SITES
from tests.e2e.faults import Scene
from tests.e2e.pushing import PATIENCE
from tests.handovers.plan import TAKE_OVER, Kind, Plan, Role, Rows
from tests.handovers.report import Run
from tests.handovers.scenes import READER, SOURCE, Stream
from tests.handovers.strike import Strike
from tests.soak.faults import await_everything

PARTS = 30
"""The rows come in so many parts, of a window's length each. The last two come when the handover is over."""
BEFORE, MEANWHILE = 3, 12
"""So many come before it is asked for, and at most while the fault strikes; of the rest, one whenever it waits for
windows to close."""
OVER_S = 240.0
"""The longest time for a handover to be over, one way or the other, from the end of the fault on."""
LEFT_S = 60.0


def play(scene: Scene, plan: Plan) -> Run:
    """Have a handover with its fault, and compare all results with the oracle's."""
    begun_s = time.monotonic()
    await_everything(scene)
    with selat.connect(scene.cluster.address, reconnect=PATIENCE) as client:
        stream = Stream(scene, client, f"handover_{plan.seed}", plan.kind)
        for part in range(BEFORE):
            stream.push(part, PARTS)
        stream.until_rows_are_out()
        parts = iter(range(BEFORE, PARTS - 2))
        if plan.kind is Kind.TOGETHER:
            apart = _until_over(stream, plan, stream.ask(Kind.ALONE, SOURCE), parts)
            assert apart.step is MoveStep.MOVED, apart.reason
        old = stream.place()[2]
        taken = (old, SOURCE) if plan.kind is Kind.SWAP else (old,)
        new = next(site for site in reversed(SITES) if site not in taken)
        # A merge stays where it is when others combine before it.
        heir = old if plan.kind is Kind.SWAP and plan.fault.point in TAKE_OVER else new
        strike = Strike(scene, plan, {Role.OLD: old, Role.NEW: heir, Role.READER: READER, Role.SOURCE: SOURCE})
        strike.arm()
        await_everything(scene)
        move, asked_s = stream.ask(plan.kind, new), time.monotonic()
        with strike.under_way():
            for part in islice(parts, MEANWHILE if plan.rows is Rows.ALL_THE_TIME else 0):
                stream.push(part, PARTS)
                wait_until(lambda: stream.is_read() or stream.now(move).step.over)
        over = _until_over(stream, plan, move, parts)
        took_s = time.monotonic() - asked_s
        struck = strike.disarm()
        await_everything(scene)
        for part in (*parts, PARTS - 2, PARTS - 1):
            stream.push(part, PARTS)
        wrong = stream.finish()
        if not plan.fault.roles and over.step is not MoveStep.MOVED:
            wrong.append(f"{over.step.value}: {over.reason}")
        wrong += _left(client, scene)
        stream.drop()
    told = (plan.seed, plan.kind.value, str(plan.fault), plan.rows.value, struck, over.step.value)
    return Run(*told, took_s, time.monotonic() - begun_s, wrong)


def _until_over(stream: Stream, plan: Plan, move: TaskMove, parts: Iterator[int]) -> TaskMove:
    """Wait until the handover has ended or is rolled back; rows come again unless they must not."""

    def is_over() -> bool:
        now = stream.now(move)
        waits = now.step in (MoveStep.STARTED, MoveStep.SEEDING) and (plan.rows is not Rows.NONE or now.alone)
        if waits and stream.is_read() and (part := next(parts, None)) is not None:
            stream.push(part, PARTS)
        return now.step.over

    try:
        wait_until(is_over, OVER_S)
    except AssertionError:
        now = stream.now(move)
        raise AssertionError(f"{now.step.value} since {now.since}: {now.reason}") from None
    return stream.now(move)


def _left(client: selat.Client, scene: Scene) -> list[str]:
    try:
        wait_until(lambda: not left_of(client, scene.cluster), LEFT_S)
    except AssertionError:
        return [f"left: {what}" for what in left_of(client, scene.cluster)]
    return []
