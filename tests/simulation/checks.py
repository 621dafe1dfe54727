"""What must hold of every world once its queries are over."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime
from enum import Enum

import pyarrow.parquet as pq

from benchmarks.tpch.answers import difference
from selat.v1 import query_pb2
from tests.simulation.client import PATIENCE_S, Client, Followed
from tests.simulation.drawntables import is_drawn, text
from tests.simulation.faults import Cancel, Combine
from tests.simulation.leases import Frameworks
from tests.simulation.paths import on
from tests.simulation.plan import Plan, faults_end_s
from tests.simulation.workload import ARCHIVE, Rows, answer_over, expected, query_named
from tests.simulation.world import World

SETTLING_S = 60.0
"""So long after the last query and fault nothing is left that nobody needs."""


class Check(Enum):
    """What must hold of every world."""

    NO_ERROR = "no part of the product raises what it does not expect"
    ENDS_WELL = "no query fails for a fault that it should survive"
    DELIVERS = "everything is delivered once faults have ended"
    RIGHT = "results are DuckDB's over all rows"
    NOTHING_LATE = "no row is dropped as late"
    ONE_CONTENT = "an epoch has one content everywhere, and no watermark goes back"
    ONE_HOLDER = "a slot has one holder at a time"
    SLOTS = "no query begins ahead of its slots"
    ALIVE = "no process ends by itself"
    TIDY = "nothing is kept that nobody needs"


class CheckFailed(Exception):  # noqa: N818 - a finding, not an error
    """Something does not hold."""

    def __init__(self, check: Check, told: str) -> None:
        super().__init__(f"{check.value}: {told}")
        self.check, self.told = check, told


def check(world: World, client: Client) -> None:
    """Raises CheckFailed."""
    for kind, problems in (
        (Check.ALIVE, world.failures),
        (Check.NO_ERROR, world.errors),
        (Check.DELIVERS, world.stalled),
        (Check.ONE_CONTENT, world.epochs.problems),
        (Check.SLOTS, world.slots),
    ):
        if problems:
            raise CheckFailed(kind, "; ".join(problems))
    for name, followed in client.followed.items():
        rows = _archived(world, followed) if query_named(name).sink else followed.rows()
        _check_query(world.plan, followed, rows)


def _check_query(plan: Plan, followed: Followed, rows: Rows) -> None:
    name, query = followed.name, followed.query
    wanted = expected(name, plan.sites, plan.rows, plan.clicks_from_s)
    finished = query.state == query_pb2.QUERY_STATE_FINISHED and not followed.lost
    if not finished and not _may_end_early(plan, followed):
        state = query_pb2.QueryState.Name(query.state)
        raise CheckFailed(Check.ENDS_WELL, f"{name} is {state}: {query.reason}")
    if query_named(name).late:
        # Rows that are late while what combines changes may be counted by nobody.
        exact = not any(isinstance(fault, Combine) and fault.query == name for fault in plan.faults)
        if query_named(name).changes:
            rows, wanted = _left(name, rows), _left(name, wanted)
        if query_named(name).own:
            wanted, rows = _counted(name, wanted), _that_follow(plan, name, rows)
        _check_with_late_rows(followed, rows, wanted, exact=exact)
        return
    if not finished:
        if more := Counter(rows) - Counter(wanted):
            raise CheckFailed(Check.RIGHT, f"{name}, which ended early, has rows too many: {list(more)[:3]}")
        return
    if is_drawn(name):
        if different := difference(rows, wanted):
            raise CheckFailed(Check.RIGHT, f"{name}: {different}\n{text(name)}")
        return
    if rows != wanted:
        raise CheckFailed(Check.RIGHT, f"{name} has {len(rows)} rows, DuckDB {len(wanted)}{_difference(rows, wanted)}")
    if query.rows_late:
        raise CheckFailed(Check.NOTHING_LATE, f"{name} dropped {query.rows_late} rows")


def _may_end_early(plan: Plan, followed: Followed) -> bool:
    if followed.query.state == query_pb2.QUERY_STATE_CANCELLED:
        return any(isinstance(fault, Cancel) and fault.query == followed.name for fault in plan.faults)
    return plan.is_damaged


def _check_with_late_rows(followed: Followed, rows: Rows, wanted: Rows, *, exact: bool) -> None:
    """Each row is counted in its window, or as late, and only once. A merge counts late groups, not their rows."""
    counts, most = Counter[object](), Counter[object]()
    for found, into in ((rows, counts), (wanted, most)):
        for *key, count in found:
            assert isinstance(count, int)
            into[tuple(key)] += count
    if more := counts - most:
        raise CheckFailed(Check.RIGHT, f"{followed.name} counts rows too many: {list(more.items())[:3]}")
    if len(rows) != len(counts):
        raise CheckFailed(Check.RIGHT, f"{followed.name} has groups twice")
    missing, late = most.total() - counts.total(), followed.query.rows_late
    untold = exact and bool(missing) != bool(late)
    if followed.query.state == query_pb2.QUERY_STATE_FINISHED and (missing < late or untold):
        told = f"{followed.name} misses {missing} rows and says that {late} were late"
        raise CheckFailed(Check.RIGHT, f"{told}: {list((most - counts).items())[:5]}")


def _counted(name: str, rows: Rows) -> Rows:
    """Return the query's own columns of each row, and that it is one."""
    return [(*row[: len(query_named(name).own)], 1) for row in rows]


def _that_follow(plan: Plan, name: str, rows: Rows) -> Rows:
    """Return these rows as `_counted` does, where their other columns follow from them. Raises CheckFailed."""
    counted = _counted(name, rows)
    wanted = answer_over([row[:-1] for row in counted], name, plan.sites, plan.rows)
    if rows != wanted:
        raise CheckFailed(Check.RIGHT, f"{name} has rows that follow from others{_difference(rows, wanted)}")
    return counted


def _told_at(change: tuple[object, ...]) -> datetime:
    assert isinstance(change[-1], datetime)
    return change[-1]


def _left(name: str, changes: Rows) -> Rows:
    """Return what changes leave of groups that only grow. Raises CheckFailed."""
    left: dict[tuple[object, ...], object] = {}
    for *key, count, operation, _ in sorted(changes, key=_told_at):
        before = left.get(tuple(key), 0)
        assert isinstance(count, int)
        assert isinstance(before, int)
        if operation != "upsert" or count <= before:
            raise CheckFailed(Check.RIGHT, f"{name} has {operation} of {key} with {count} rows after {before}")
        left[tuple(key)] = count
    return [(*key, count) for key, count in left.items()]


def _archived(world: World, followed: Followed) -> Rows:
    """The rows in a query's files, which have its id in their names."""
    directory = on(world.disks[world.plan.sites[-1]], ARCHIVE)
    found: Rows = []
    for path in directory.glob(f"{followed.query.id}-*.parquet"):
        with path.open("rb") as file:
            found += [tuple(row.values()) for row in pq.read_table(file).to_pylist()]
    return sorted(found, key=repr)


def _difference(rows: Rows, wanted: Rows) -> str:
    more, less = list(Counter(rows) - Counter(wanted))[:3], list(Counter(wanted) - Counter(rows))[:3]
    return f"; too many: {more}, missing: {less}"


async def check_tidy(world: World) -> None:
    """Once all queries and faults are over, sites keep the results alone. Raises CheckFailed."""
    left_s = max(0.0, faults_end_s(world.plan) - world.loop.time())
    await asyncio.sleep(left_s + SETTLING_S)
    while len(world.running) < len(world.plan.names):
        await asyncio.sleep(1.0)
    gateway = world.plan.sites[0]
    for site in world.plan.sites:
        kept = world.stores[site].ids()
        tasks = list(world.runtimes[site].runners)
        if tasks or (kept and site != gateway):
            raise CheckFailed(Check.TIDY, f"{site} has tasks {tasks} and channels {kept}")


async def check_orders(world: World, frameworks: Frameworks) -> None:
    """What users ordered beside their queries is done, and leases did not overlap. Raises CheckFailed."""
    _, pending = await asyncio.wait(world.orders, timeout=PATIENCE_S) if world.orders else ((), ())
    if pending:
        raise CheckFailed(Check.DELIVERS, f"{len(pending)} orders of clients are not answered")
    for order in world.orders:
        if (error := order.exception()) is not None:
            raise CheckFailed(Check.ENDS_WELL, repr(error))
    if problems := frameworks.problems():
        raise CheckFailed(Check.ONE_HOLDER, "; ".join(problems))
