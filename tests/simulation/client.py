"""The client of a simulated cluster: declares relations, submits queries, and follows their results through faults."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import pyarrow as pa

from selat.v1 import handover_pb2, handover_pb2_grpc, query_pb2, query_pb2_grpc
from tests.simulation.faults import Combine, Move, Scale
from tests.simulation.loop import Process
from tests.simulation.plan import faults_end_s
from tests.simulation.producer import OPTIONS, RETRY_S, Producer
from tests.simulation.rows import DELAY_S, DISORDER_S, at_us, bursts_s, last_row_s
from tests.simulation.workload import PUSHED, WINDOW_S, Rows, declarations, query_named
from tests.simulation.world import MASTER_ADDRESS, World
from wire.channels import aio_channel
from wire.names import MASTER

CALL_TIMEOUT_S = 60.0
PATIENCE_S = 120.0
"""So long after the last row and the last fault everything is delivered."""
_OVER = frozenset(
    {query_pb2.QUERY_STATE_FINISHED, query_pb2.QUERY_STATE_FAILED, query_pb2.QUERY_STATE_CANCELLED},
)
_UNHEARD = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED})
"""The master may not have heard the call, or the client not its answer."""
_PASSING = _UNHEARD | {grpc.StatusCode.FAILED_PRECONDITION}
"""What a client tries again after: a site that a query needs may be away, too."""


@dataclass(slots=True)
class Followed:
    """What the client was given of one query."""

    name: str
    epochs: dict[tuple[str, int], bytes] = field(default_factory=dict)
    cursors: dict[str, int] = field(default_factory=dict)
    """The next epoch, by channel."""
    watermarks_us: dict[str, int] = field(default_factory=dict)
    """As the channels have told last."""
    query: Any = None
    """The query as it was told last; it is over then."""
    lost: bool = False
    """Results are damaged where they are kept: nobody has them any more."""

    def take(self, message: Any) -> None:
        """Raises AssertionError when an epoch that is known comes with another content."""
        if message.HasField("query"):
            self.query = message.query
            return
        key = message.channel, message.epoch
        known = self.epochs.setdefault(key, message.arrow_stream)
        assert known == message.arrow_stream, f"{self.name}: epoch {key} has two contents"
        self.cursors[message.channel] = message.epoch + 1
        self.watermarks_us[message.channel] = message.watermark_us

    @property
    def watermark_us(self) -> int:
        """Of the channel that is behind the others."""
        return min(self.watermarks_us.values(), default=0)

    def rows(self) -> Rows:
        """All rows, sorted."""
        tables = [pa.ipc.open_stream(data).read_all() for data in self.epochs.values() if data]
        found = [tuple(row.values()) for table in tables for row in table.to_pylist()]
        return sorted(found, key=repr)


class Client:
    """One user, at a machine that never fails."""

    def __init__(self, world: World, process: Process) -> None:
        self.process = process
        self._world = world
        self._channel = aio_channel(MASTER_ADDRESS, MASTER, world.security, OPTIONS)
        self._stub: Any = query_pb2_grpc.QueryServiceStub(self._channel)
        self._moves: Any = handover_pb2_grpc.HandoverServiceStub(self._channel)
        self._calls: list[Any] = []
        self.followed: dict[str, Followed] = {}

    async def run(self) -> None:
        """Do what the plan has the user do; returns once every query is over and its results are here."""
        plan = self._world.plan
        settings = "SET combine = on; " if plan.combine else ""
        settings += f"SET combine_tree = '{plan.tree}'; " if plan.tree else ""
        settings += f"SET merge_parallelism = {plan.parts}; " if plan.parts > 1 else ""
        settings += f"SET key_filters = '{plan.key_filters}'; " if plan.key_filters else ""
        for statement in declarations(plan.queries, plan.sites, plan.rows, plan.clicks_from_s):
            await self._until_done(lambda statement=statement: self._execute(statement))  # type: ignore[misc]
        needs = {relation for name in plan.queries for relation in query_named(name).needs}
        async with asyncio.TaskGroup() as group:
            for stream in (stream for stream in PUSHED if stream in needs):
                for site in plan.sites:
                    group.create_task(Producer(self._world, stream, site).run())
            for name in plan.queries:
                submitting = self._submit(group, settings, name)
                if plan.together:
                    group.create_task(submitting)
                else:
                    await submitting
            if "taps" in needs:
                group.create_task(self._release())

    async def _submit(self, group: asyncio.TaskGroup, settings: str, name: str) -> None:
        await self._until_done(lambda: self._execute(settings + query_named(name).sql, name))
        self._world.tell("submitted", query=name)
        group.create_task(self._follow(name))

    async def _release(self) -> None:
        """Let the bursts end once the results of all before the last one are here, though sources are idle."""
        world, plan = self._world, self._world.plan
        newest_s = bursts_s(plan.sites[0], plan.sites[0], plan.rows)[-1]
        until_us = at_us((newest_s - DELAY_S - DISORDER_S) // WINDOW_S * WINDOW_S)
        limit_s = max(last_row_s(plan.rows), faults_end_s(plan)) + PATIENCE_S
        waiting = [name for name in plan.queries if "taps" in query_named(name).needs]
        while waiting:
            if world.loop.time() > limit_s:
                world.stalled += [f"{name} tells of nothing while a source is idle" for name in waiting]
                break
            await asyncio.sleep(RETRY_S)
            waiting = [name for name in waiting if not self._has_told(name, until_us)]
        world.tell("released")
        world.released = True

    def _has_told(self, name: str, until_us: int) -> bool:
        """Whether a query's results have come up to an instant, or it is over."""
        followed = self.followed.get(name)
        return followed is not None and (followed.query is not None or followed.watermark_us >= until_us)

    def leave(self) -> None:
        """Drop what is being followed; it is taken up again."""
        for call in self._calls:
            call.cancel()

    async def pause(self, query: str, seconds: float) -> None:
        """Pause a query, if it runs, and resume it after a while."""
        await self._order("PauseQuery", query_pb2.PauseQueryRequest(query=query))
        await asyncio.sleep(seconds)
        await self._order("ResumeQuery", query_pb2.ResumeQueryRequest(query=query))

    async def cancel(self, query: str) -> None:
        """Cancel a query, if it is there and not over."""
        await self._order("CancelQuery", query_pb2.CancelQueryRequest(query=query))

    async def move(self, order: Move) -> None:
        """Have one of a query's tasks move, if one can be moved; call it off after a while, if so ordered."""
        try:
            answer = await self._stub.GetQuery(query_pb2.GetQueryRequest(query=order.query), timeout=CALL_TIMEOUT_S)
        except grpc.aio.AioRpcError:
            return
        if order.alone:
            own = answer.query.id
            shared = {task.stage_id for task in answer.query.tasks if not task.task_id.startswith(f"{own}.")}
            await self._ask_for(order, sorted(stage for stage in shared if stage[0] == "m"))
            return
        names = [task.task_id.split(".", 1)[1] for task in answer.query.tasks]
        # The COMBINEs behind the first ones read no source.
        behind = {name for name in names if name[0] == "c" and not name.startswith("c1.")}
        await self._ask_for(order, sorted(behind | {name for name in names if name[0] in "mf" or ".d" in name}))

    async def _ask_for(self, order: Move, places: Sequence[str]) -> None:
        if not places:
            return
        stage = places[int(order.place * len(places))]
        request = handover_pb2.MoveTaskRequest(
            query=order.query,
            stage=stage,
            to_site=order.site,
            without_state=order.without_state and not order.together,
            alone=order.alone,
            together=order.together,
        )
        await self._order("MoveTask", request, self._moves)
        await self._call_off(order, stage)

    async def scale(self, order: Scale) -> None:
        """Have one of a query's merges go on in other parts, if it can; call it off after a while, if so ordered."""
        try:
            answer = await self._stub.GetQuery(query_pb2.GetQueryRequest(query=order.query), timeout=CALL_TIMEOUT_S)
        except grpc.aio.AioRpcError:
            return
        merges = sorted({task.stage_id for task in answer.query.tasks if task.stage_id[0] == "m"})
        if not merges:
            return
        stage = merges[int(order.place * len(merges))]
        request = handover_pb2.ScaleStageRequest(query=order.query, stage=stage, parts=order.parts, sites=order.sites)
        await self._order("ScaleStage", request, self._moves)
        await self._call_off(order, stage)

    async def combine(self, order: Combine) -> None:
        """Have the sites of a query combine in another way, if they can; call it off after a while, if so ordered."""
        request = handover_pb2.CombineQueryRequest(query=order.query, tree=order.tree)
        await self._order("CombineQuery", request, self._moves)
        await self._call_off(order, "m1")

    async def _call_off(self, order: Move | Scale | Combine, stage: str) -> None:
        if order.called_off_s is not None:
            await asyncio.sleep(order.called_off_s)
            called_off = handover_pb2.CallOffMoveRequest(query=order.query, stage=stage)
            await self._order("CallOffMove", called_off, self._moves)

    async def declare(self, name: str, seconds: float) -> None:
        """Declare a stream and a view of it, and drop both after a while."""
        stream, view = f"extra_{name}", f"view_{name}"
        site = self._world.plan.sites[-1]
        for text in (
            f"CREATE STREAM {stream} (n BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 second') "
            f"WITH ('connector' = 'generator', 'rows_per_second' = '1') AT {site}",
            f"CREATE VIEW {view} AS SELECT n, ts FROM {stream} WHERE n > 1",
        ):
            await self._until_done(lambda text=text: self._execute(text))  # type: ignore[misc]
        await asyncio.sleep(seconds)
        for text in (f"DROP VIEW {view}", f"DROP STREAM {stream}"):
            await self._until_done(lambda text=text: self._execute(text), done=grpc.StatusCode.NOT_FOUND)  # type: ignore[misc]
        self._world.tell("declared and dropped", stream=stream)

    async def _order(self, method: str, request: Any, stub: Any = None) -> None:
        while True:
            try:
                await getattr(stub or self._stub, method)(request, timeout=CALL_TIMEOUT_S)
                self._world.tell("ordered", order=method, query=request.query)
                return
            except grpc.aio.AioRpcError as error:
                if error.code() not in _UNHEARD:
                    self._world.tell("refused", order=method, query=request.query, details=error.details())
                    return
            await asyncio.sleep(RETRY_S)

    async def _until_done(
        self, attempt: Callable[[], Awaitable[None]], *, done: grpc.StatusCode = grpc.StatusCode.ALREADY_EXISTS
    ) -> None:
        while True:
            try:
                return await attempt()
            except grpc.aio.AioRpcError as error:
                if error.code() is done:
                    # An attempt before this one was accepted, and its answer was lost.
                    return None
                if error.code() not in _PASSING:
                    raise
                self._world.tell("again", code=error.code().name, details=error.details())
            await asyncio.sleep(RETRY_S)

    async def _execute(self, text: str, query_name: str = "") -> None:
        request = query_pb2.ExecuteRequest(text=text, query_name=query_name)
        async for _ in self._stub.Execute(request, timeout=CALL_TIMEOUT_S):
            pass

    async def _follow(self, name: str) -> None:
        followed = self.followed[name] = Followed(name)
        while followed.query is None:
            try:
                unread = query_named(name).sink or followed.lost
                await self._until_done(lambda: self._watch(followed) if unread else self._fetch(followed))  # noqa: B023
            except asyncio.CancelledError:
                if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                    raise
                # The call was dropped, not this task.
                await asyncio.sleep(RETRY_S)
        self._world.tell("over", query=name, state=followed.query.state)

    async def _watch(self, followed: Followed) -> None:
        """Of a query without results: until it is over."""
        call = self._stub.WatchQuery(query_pb2.WatchQueryRequest(query=followed.name, interval_ms=5_000))
        self._calls.append(call)
        try:
            async for message in call:
                if message.query.state in _OVER:
                    followed.query = message.query
                    return
        finally:
            self._calls.remove(call)
            call.cancel()

    async def _fetch(self, followed: Followed) -> None:
        cursor = [query_pb2.ChannelCursor(channel=c, epoch=e) for c, e in sorted(followed.cursors.items())]
        request = query_pb2.FetchResultsRequest(query=followed.name, cursor=cursor, follow=True)
        call = self._stub.FetchResults(request)
        self._calls.append(call)
        try:
            async for message in call:
                followed.take(message)
        except grpc.aio.AioRpcError as error:
            followed.lost = self._world.plan.is_damaged and grpc.StatusCode.DATA_LOSS.name in (error.details() or "")
            if not followed.lost:
                raise
        finally:
            self._calls.remove(call)
