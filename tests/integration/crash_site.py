"""A site agent that may die: everything real but Spark, whose stages are Python functions over rows in memory."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from machine import faults
from machine.clock import SystemClock
from planner.failures.crashes import Ending
from planner.values.names import BINS
from site_agent.agent.loops import AgentIdentity, SiteAgent, running
from site_agent.agent.runtime import SiteRuntime, SiteServices
from site_agent.channels.store import ChannelStore
from site_agent.connectors.sources import Offset, Poll, ReadLimit, Source, SourceContext, Split, Table
from site_agent.engine import ArrowScan
from site_agent.exchange.options import connect
from site_agent.host import start_exchange
from site_agent.router import Router
from site_agent.tasks import combine
from site_agent.tasks.context import TaskLimits
from site_agent.tasks.crashes import Crashes
from site_agent.tasks.departures import Departure, Departures
from site_agent.tasks.held import HeldGroups
from tests.unit.site_agent.fakes import TIMESTAMP, ListSource, TableEngine

NO_HEAP = 70
"""Exit code of an agent whose JVM has no more heap."""
GROUPS = 12
"""Groups of input at a site, an epoch each."""
HOLD, HELD_AFTER = "hold", 3
"""While there is a file of that name beside the sites' directories, their sources yield that many groups only, or as
many as the file says."""
ROWS = 20
WINDOW_US = 100
"""Two groups."""
WHOLE_US = GROUPS * WINDOW_US
"""One window has all groups."""
SPREAD = 0x1E3779B97F4A7C15
"""Odd: numbers of groups are all over the range of their type."""
CLASSES = 8
"""Of values; more than are worked on at once."""
LIMITS = TaskLimits(
    port_batch_bytes=4000,
    checkpoint_bytes=1,
    checkpoint_interval=timedelta(seconds=0.1),
    rows_at_once=2,
    runs_alike=2,
)
"""A few epochs a batch, and a checkpoint after each. A window closes in several ranges where rows have bins."""


def events(group: int) -> pa.Table:
    """Rows of a group: 50 us of event time, values that tell a lost or doubled row in any sum."""
    at = [group * 50 + row * 2 for row in range(ROWS)]
    return pa.table({"ts": pa.array(at, TIMESTAMP), "v": [group * 1000 + row for row in range(ROWS)]})


def partials(table: pa.Table) -> pa.Table:
    starts = [t // WINDOW_US * WINDOW_US for t in table.column("ts").cast(pa.int64()).to_pylist()]
    return pa.table({"_window_start": pa.array(starts, TIMESTAMP), "n": [1] * table.num_rows, "v": table.column("v")})


def binned(table: pa.Table) -> pa.Table:
    """Partials in bins; all of a value's are in the same."""
    made = partials(table)
    return made.append_column("_bin", pa.array([7 * v % BINS for v in made.column("v").to_pylist()]))


def classes(table: pa.Table) -> pa.Table:
    """Partials of some classes of values, in bins, all in one window."""
    starts = pa.array([0] * table.num_rows, TIMESTAMP)
    keys = pc.bit_wise_and(table.column("v"), CLASSES - 1)
    columns = {"_window_start": starts, "k": keys, "n": [1] * table.num_rows, "v": table.column("v")}
    return _with_bins(pa.table(columns))


def combined_classes(table: pa.Table) -> pa.Table:
    """Fewer partials of the same."""
    sums = table.group_by(["_window_start", "k"]).aggregate([("n", "sum"), ("v", "sum")])
    return _with_bins(sums.rename_columns(["_window_start", "k", "n", "v"]))


def merged_classes(table: pa.Table) -> pa.Table:
    return combined_classes(table).select(["_window_start", "n", "v"]).rename_columns(["w", "n", "v"])


def _with_bins(table: pa.Table) -> pa.Table:
    bins = pc.multiply(table.column("k"), BINS // CLASSES)
    return table.append_column("_bin", bins)


def combined(table: pa.Table) -> pa.Table:
    """Fewer partials of the same."""
    sums = table.group_by("_window_start").aggregate([("n", "sum"), ("v", "sum")])
    return sums.select(["_window_start", "n_sum", "v_sum"]).rename_columns(["_window_start", "n", "v"])


def keyed_partials(table: pa.Table) -> pa.Table:
    return partials(table).append_column("k", pc.cast(pc.bit_wise_and(table.column("v"), 7), pa.int64()))


def keyed_combined(table: pa.Table) -> pa.Table:
    """Fewer partials of the same, each with the number of its group."""
    sums = table.group_by(["_window_start", "k"]).aggregate([("n", "sum"), ("v", "sum")])
    starts = sums.column("_window_start").cast(pa.int64())
    numbers = pc.multiply(pc.add(pc.multiply(starts, 8), sums.column("k")), SPREAD)
    columns = [sums.column(name) for name in ("_window_start", "n_sum", "v_sum", "k")]
    return pa.table([*columns, numbers], names=["_window_start", "n", "v", "k", "_group"])


class HastyDepartures(Departures):
    """Has some groups leave at each epoch."""

    def due(self, held: HeldGroups, now_s: float) -> Iterator[Departure]:
        for window in held.windows:
            numbers = np.sort(np.concatenate([window.groups.of_class(place) for place in range(3)]))[::2]
            if len(numbers):
                yield Departure(window.end_us, numbers)


def merged(table: pa.Table) -> pa.Table:
    sums = table.group_by("_window_start").aggregate([("n", "sum"), ("v", "sum")])
    return pa.table({"w": sums.column("_window_start"), "n": sums.column("n_sum"), "v": sums.column("v_sum")})


def keys(table: pa.Table) -> pa.Table:
    return table.group_by("v").aggregate([])


class HeldSource(ListSource):
    """Yields no more than the first groups while there is a file that holds it."""

    def __init__(self, groups: Sequence[pa.Table], hold: Path) -> None:
        super().__init__(groups)
        self._hold = hold

    def poll(self, start: Offset, *, now: datetime, limit: ReadLimit) -> Poll:
        if int(str(start["group"])) >= self._may_yield():
            return Poll(start, empty=True, ended=False)
        return super().poll(start, now=now, limit=limit)

    def _may_yield(self) -> int:
        try:
            return int(self._hold.read_text() or HELD_AFTER)
        except FileNotFoundError:
            return GROUPS


class GroupsConnector:
    """The same rows at every start."""

    name = "groups"

    def __init__(self, hold: Path) -> None:
        self._hold = hold

    def check(self, options: Mapping[str, str]) -> None:
        return None

    def open_source(self, context: SourceContext) -> Source:
        return HeldSource([events(group) for group in range(GROUPS)], self._hold)

    def open_table(self, context: SourceContext) -> Table:
        return GroupsTable()


class GroupsTable:
    """The same rows; a part is a range of groups."""

    def scan(self, split: Split | None = None) -> ArrowScan:
        parts = [(part.offset, part.length) for part in split.parts] if split is not None else [(0, GROUPS)]
        groups = [group for offset, length in parts for group in range(offset, offset + length)]
        return ArrowScan(pa.concat_tables(map(events, groups)))

    def splits(self, split_bytes: int) -> Sequence[Split]:
        raise AssertionError("nobody asks for this here")


async def serve(site: str, directory: Path, listen: str, master: str) -> None:
    """Until it is killed."""
    async with AsyncExitStack() as stack:
        crashes = Crashes(directory / "crashes", heap="1g")

        def without_heap(table: pa.Table) -> Never:
            crashes.told(Ending.HEAP)
            os._exit(NO_HEAP)

        functions = {"partials": partials, "binned": binned, "combined": combined, "merged": merged}
        keyed = {"keyed partials": keyed_partials, "keyed combined": keyed_combined}
        filters = {"keys": keys, "filtered keys": lambda rows: keys(filtered(rows))}
        filters["filtered partials"] = lambda rows: partials(filtered(rows))
        classed = {"classes": classes, "combined classes": combined_classes, "merged classes": merged_classes}
        engine = TableEngine({**functions, **keyed, **filters, **classed, "without heap": without_heap})

        def filtered(rows: pa.Table) -> pa.Table:
            """Those whose value is among the keys that the running task was given."""
            given = engine.tables[engine.requests[-1].task_id, "keys"]
            assert isinstance(given, pa.Table)
            return rows.filter(pc.is_in(rows.column("v"), given.column("v").combine_chunks()))

        store = ChannelStore(directory / "channels")
        router = Router(site, store, connect)
        address = await start_exchange(listen, store, engine, stack)
        runtime = SiteRuntime(
            SiteServices(
                site=site,
                directory=directory,
                engine=engine,
                store=store,
                router=router,
                executor=ThreadPoolExecutor(1),
                clock=SystemClock(),
                connectors={"groups": GroupsConnector(directory.parent / HOLD)},
                limits=LIMITS,
                crashes=crashes,
            )
        )
        identity = AgentIdentity.new(site, address, 1)
        agent = SiteAgent(identity, runtime=runtime, router=router, directory=directory)
        channel = await stack.enter_async_context(connect(master))
        await stack.enter_async_context(running(agent, channel))
        await asyncio.Event().wait()


def run(site: str, directory: Path, listen: str, master: str, *, fault: str) -> None:
    """The process: forked from one that has our modules loaded, because starting Python takes longer than the rest."""
    log = os.open(directory.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    logging.basicConfig(level=logging.INFO, force=True)
    vars(combine)["Departures"] = HastyDepartures
    faults.arm({faults.FAULT_VARIABLE: fault})
    asyncio.run(serve(site, directory, listen, master))
