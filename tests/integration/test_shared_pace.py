"""Two queries read one source over real gRPC, and one of them does not keep up: the other comes to its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from contract.tasks import TaskState
from machine.clock import SystemClock
from planner.values.stages import StageKind
from site_agent.agent.runtime import SiteRuntime, SiteServices
from site_agent.channels.pace import ChannelReader, QueryReaders
from site_agent.channels.store import ChannelStore
from site_agent.engine import Field
from site_agent.exchange.options import connect
from site_agent.host import start_exchange
from site_agent.router import Router
from site_agent.tasks.context import TaskLimits
from site_agent.tasks.spec import (
    Assignment,
    InputSpec,
    RelationSpec,
    ResultSpec,
    TaskSpec,
    ViewSpec,
    WindowSpec,
)
from tests.integration.crash_site import GROUPS, LIMITS, WINDOW_US, GroupsConnector, events, merged, partials
from tests.integration.exchange_sites import eventually
from tests.unit.site_agent.fakes import TableEngine

pytestmark = pytest.mark.timeout(120)

QUERIES = ("a", "b")
SOURCE = "a.s1.ewr"
SOME_EPOCHS_BYTES = 3000
"""Of the dozen that the source makes."""


class Site:
    """One site: its data plane and its tasks."""

    def __init__(self, name: str, directory: Path, limits: TaskLimits) -> None:
        self.name = name
        self.directory = directory
        self.store = ChannelStore(directory / "channels")
        self.router = Router(name, self.store, connect)
        self.engine = TableEngine({"partials": partials, "merged": merged})
        services = SiteServices(
            site=name,
            directory=directory,
            engine=self.engine,
            store=self.store,
            router=self.router,
            executor=ThreadPoolExecutor(1),
            clock=SystemClock(),
            connectors={"groups": GroupsConnector(directory / "hold")},
            limits=limits,
        )
        self.runtime = SiteRuntime(services)
        self.address = ""

    async def start(self, stack: AsyncExitStack) -> None:
        self.address = await start_exchange("127.0.0.1:0", self.store, self.engine, stack)
        stack.push_async_callback(self.router.close)
        stack.push_async_callback(self.runtime.close)


@asynccontextmanager
async def two_sites(root: Path, *, kept_behind_bytes: int) -> AsyncIterator[tuple[Site, Site]]:
    limits = replace(
        LIMITS, retained_bytes_per_channel=SOME_EPOCHS_BYTES, kept_behind_bytes_per_channel=kept_behind_bytes
    )
    async with AsyncExitStack() as stack:
        pair = Site("ewr", root / "ewr", limits), Site("jfk", root / "jfk", limits)
        for site in pair:
            await site.start(stack)
        yield pair


def source(*queries: str) -> TaskSpec:
    relation = RelationSpec(
        name="events",
        columns=(Field("ts", "TIMESTAMP"), Field("v", "BIGINT")),
        event_time="ts",
        watermark_delay=timedelta(0),
        options={"connector": "groups"},
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    readers = tuple(QueryReaders(query, (ChannelReader("jfk", merge_of(query)),)) for query in queries)
    spec = TaskSpec(SOURCE, "a", "s1", StageKind.SOURCE, "partials", timedelta(seconds=0.01), relation)
    return replace(spec, consumers=("jfk",), readers=readers)


def merge_of(query: str) -> str:
    return f"{query}.m1.jfk"


def merge(query: str, *, paused: bool = False) -> TaskSpec:
    return TaskSpec(
        merge_of(query),
        query,
        "m1",
        StageKind.MERGE,
        "merged",
        timedelta(seconds=0.01),
        inputs=(InputSpec(SOURCE, "ewr", "input"),),
        window=WindowSpec("_window_start", WINDOW_US, WINDOW_US, (ViewSpec("input", "merged"),)),
        consumers=("ewr",),
        paused=paused,
    )


def addresses(ewr: Site, jfk: Site) -> Mapping[str, str]:
    return {site.name: site.address for site in (ewr, jfk)}


async def start(ewr: Site, jfk: Site) -> None:
    """Both queries, the second of which stands still."""
    results = tuple(ResultSpec(query, (InputSpec(merge_of(query), "jfk", "input"),)) for query in QUERIES)
    await jfk.runtime.apply(Assignment("c", 1, (merge("a"), merge("b", paused=True)), (), addresses(ewr, jfk)))
    await ewr.runtime.apply(Assignment("c", 1, (source(*QUERIES),), results, addresses(ewr, jfk)))


def complete(ewr: Site, query: str) -> bool:
    return any(status.query_id == query and status.complete for status in ewr.runtime.results.statuses())


def rows(ewr: Site, query: str) -> list[tuple[object, ...]]:
    log = ewr.store.get(merge_of(query))
    tables = [log.epochs.read(epoch) for epoch in range(log.next_epoch)]
    whole = pa.concat_tables([table for table in tables if table is not None])
    return sorted(tuple(row.values()) for row in whole.to_pylist())


def expected() -> list[tuple[object, ...]]:
    whole = merged(partials(pa.concat_tables([events(group) for group in range(GROUPS)])))
    return sorted(tuple(row.values()) for row in whole.to_pylist())


async def test_a_query_that_stands_still_leaves_the_other_untouched_and_catches_up(tmp_path: Path) -> None:
    async with two_sites(tmp_path, kept_behind_bytes=10**6) as (ewr, jfk):
        await start(ewr, jfk)
        await eventually(lambda: complete(ewr, "a"))
        assert rows(ewr, "a") == expected()
        log = ewr.store.get(SOURCE)
        assert log.first_epoch == 0
        # The first has said of all that it needs it no more.
        await eventually(lambda: min(waiting.size_bytes for waiting in log.readers.waiting()) == 0)
        (behind,) = ewr.runtime.runners[SOURCE].status().behind
        assert (behind.query_id, behind.sites, behind.left) == ("b", ("jfk",), False)
        assert behind.size_bytes == log.epochs.retained_bytes > 2 * SOME_EPOCHS_BYTES
        await jfk.runtime.apply(Assignment("c", 2, (merge("a"), merge("b")), (), addresses(ewr, jfk)))
        await eventually(lambda: complete(ewr, "b"))
        assert rows(ewr, "b") == expected()
        await eventually(lambda: log.epochs.retained_bytes == 0)
        assert not ewr.runtime.runners[SOURCE].status().behind


async def test_beyond_the_second_budget_only_the_query_that_is_behind_is_in_the_way(tmp_path: Path) -> None:
    async with two_sites(tmp_path, kept_behind_bytes=SOME_EPOCHS_BYTES) as (ewr, jfk):
        await start(ewr, jfk)
        runner = ewr.runtime.runners[SOURCE]
        # Before, it may have waited for the one that reads, whose checkpoints take their time.
        await eventually(lambda: "wait for query b at jfk, which is left behind" in runner.status().reason)
        status = runner.status()
        assert status.state is TaskState.BACK_PRESSURED
        assert [(b.query_id, b.left) for b in status.behind] == [("b", True)]
        assert not complete(ewr, "a")
        # As the master has it when the query has failed.
        await jfk.runtime.apply(Assignment("c", 2, (merge("a"),), (), addresses(ewr, jfk)))
        kept = ResultSpec("a", (InputSpec(merge_of("a"), "jfk", "input"),))
        await ewr.runtime.apply(Assignment("c", 2, (source(),), (kept,), addresses(ewr, jfk)))
        await eventually(lambda: complete(ewr, "a"))
        assert rows(ewr, "a") == expected()
