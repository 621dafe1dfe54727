"""A site that takes pushes: a real agent's service and logs, without Spark, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from machine.clock import SystemClock
from planner.values.stages import StageKind
from selat.v1 import common_pb2, site_pb2
from site_agent.agent.streams import pushed_streams
from site_agent.channels.store import ChannelStore
from site_agent.engine import Field
from site_agent.host import Guests, start_exchange
from site_agent.ingest.files import LogFiles
from site_agent.ingest.log import PushLog
from site_agent.ingest.streams import PushStreams
from site_agent.tasks.spec import Assignment, RelationSpec, TaskSpec
from tests.integration.fake_master import FakeMaster
from tests.integration.fake_sites import T0_US
from tests.unit.site_agent.fakes import TableEngine

T = TypeVar("T")

COLUMNS = (Field("id", "BIGINT"), Field("amount", "DOUBLE"), Field("name", "STRING"), Field("ts", "TIMESTAMP"))
CREATED = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=T0_US)


def orders(**options: str) -> RelationSpec:
    """The stream that is pushed to."""
    return RelationSpec("orders", COLUMNS, "ts", timedelta(0), {"connector": "push", **options}, CREATED)


def reader_task(task_id: str, relation: RelationSpec) -> TaskSpec:
    return TaskSpec(task_id, "q", "s1", StageKind.SOURCE, "all", timedelta(seconds=1), relation)


def orders_message() -> common_pb2.Relation:
    """The same, as the master tells clients."""
    return common_pb2.Relation(
        name="orders",
        kind=common_pb2.RELATION_KIND_STREAM,
        columns=[common_pb2.Column(name=c.name, type=c.type) for c in COLUMNS],
        event_time="ts",
        bindings=[
            common_pb2.Binding(site="us", options={"connector": "push"}, has_log=True),
            common_pb2.Binding(site="eu", options={"connector": "files", "path": "/data"}, has_log=False),
        ],
        created_at_us=T0_US,
    )


class IngestSite:
    """Start it, stop it, start it again: it keeps its address and its disk."""

    def __init__(self, directory: Path, *, files: LogFiles | None = None) -> None:
        self.directory = directory
        self.address = "127.0.0.1:0"
        self.assignment = Assignment("c", 1, streams=(orders(),))
        self._files = files
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._stack: AsyncExitStack | None = None
        self.streams: PushStreams | None = None

    def start(self) -> None:
        self.run(self._start())

    def stop(self) -> None:
        if self._stack is not None:
            self.run(self._stack.aclose())
            self._stack = None

    def close(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def assign(self, *streams: RelationSpec, readers: Sequence[str] = ()) -> None:
        """As if the master had sent this."""
        tasks = tuple(reader_task(task_id, stream) for task_id in readers for stream in streams)
        self.assignment = Assignment("c", self.assignment.version + 1, tasks, streams=streams)
        if self.streams is not None:
            self.run(self.streams.apply(pushed_streams(self.assignment)))

    @property
    def log(self) -> PushLog:
        assert self.streams is not None
        return self.streams.log("orders", CREATED)

    def rows(self, column: str = "id") -> list[Any]:
        """All that is kept."""
        kept = self.log.kept
        values: list[Any] = kept.read(kept.first_record, kept.next_record, [column]).column(column).to_pylist()
        return values

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> None:
        self._stack = stack = AsyncExitStack()
        self.streams = PushStreams("us", self.directory, clock=SystemClock(), files=self._files)
        stack.push_async_callback(self.streams.close)
        store = ChannelStore(self.directory / "channels")
        self.address = await start_exchange(
            self.address, store, TableEngine({}), stack, guests=Guests(streams=self.streams)
        )
        await self.streams.apply(pushed_streams(self.assignment))


def tell(master: FakeMaster, site: IngestSite) -> None:
    """Let clients of the master find the stream and the site."""
    master.relations["orders"] = orders_message()
    master.sites = [site_pb2.Site(name="us", state=site_pb2.SITE_STATE_ALIVE, address=site.address)]
