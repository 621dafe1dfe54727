from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from contract.tasks import TaskState
from planner.values.stages import StageKind
from site_agent.base.errors import CorruptEpochError, EngineError, SiteAgentError
from site_agent.engine import ChunksScan, EmptyScan, Field
from site_agent.tasks.context import TaskContext
from site_agent.tasks.reduce import ReduceTask
from site_agent.tasks.spec import InputSpec, TaskSpec
from tests.unit.site_agent.fakes import TableEngine
from tests.unit.site_agent.tasks.batch import BatchSite

pytestmark = pytest.mark.timeout(20)

COLUMNS = (Field("n", "BIGINT"),)
A, B, C = (InputSpec(name, "hub", "input", COLUMNS) for name in "abc")
SPEC = TaskSpec("q.r1.hub", "q", "r1", StageKind.REDUCE, "sum", timedelta(0), inputs=(A, B))


def total(rows: pa.Table) -> pa.Table:
    return pa.table({"n": [sum(rows.column("n").to_pylist())]})


def numbers(*values: int) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[BatchSite]:
    made = BatchSite(tmp_path, TableEngine({"sum": total}))
    yield made
    await made.close()


@asynccontextmanager
async def running(context: TaskContext) -> AsyncIterator[ReduceTask]:
    """Until it ends; what it raises is raised."""
    task = ReduceTask(context)
    run = asyncio.create_task(task.run())
    try:
        yield task
        await run
    finally:
        run.cancel()


async def told(context: TaskContext, reason: str) -> None:
    while context.progress.reason != reason:
        await asyncio.sleep(0)


def result(context: TaskContext) -> object:
    assert context.log.end is not None
    assert context.log.next_epoch == 1
    rows = context.log.epochs.read(0)
    return None if rows is None else rows.column("n").to_pylist()


async def test_it_runs_once_when_every_input_is_whole(site: BatchSite) -> None:
    site.channel("a", numbers(1), numbers(2))
    late = site.channel("b", numbers(10), ends=False)
    context = site.context(SPEC)
    async with running(context):
        await told(context, "waits for 1 of 2 inputs")
        assert (context.progress.state, site.engine.requests) == (TaskState.STARTING, [])
        late.publish(1, numbers(20), watermark_us=None)
        late.finish()

    assert result(context) == [33]
    assert len(site.engine.requests) == 1
    assert (context.progress.state, context.progress.totals.rows_in, context.progress.totals.rows_out) == (
        TaskState.ENDED,
        4,
        1,
    )
    assert late.first_epoch == 0


async def test_it_waits_for_inputs_that_have_no_site_yet(site: BatchSite) -> None:
    site.channel("a", numbers(1))
    context = site.context(replace(SPEC, inputs=(A, replace(B, site=""))))
    async with running(context) as task:
        await told(context, "waits for 1 of 2 inputs")
        site.channel("b", numbers(2))
        await task.set_inputs((A, B))
    assert result(context) == [3]


async def test_inputs_that_were_replaced_do_not_count(site: BatchSite) -> None:
    site.channel("a", numbers(1))
    site.channel("b", numbers(2), ends=False)
    context = site.context(SPEC)
    async with running(context) as task:
        await told(context, "waits for 1 of 2 inputs")
        site.channel("c", numbers(4))
        await task.set_inputs((A, C))
    assert result(context) == [5]
    assert "b" not in site.router.subscriptions(SPEC.task_id)


async def test_a_channel_that_is_made_elsewhere_now_is_read_from_there(site: BatchSite) -> None:
    site.channel("a", numbers(1))
    context = site.context(replace(SPEC, inputs=(A, replace(B, site="far"))))
    async with running(context) as task:
        await told(context, "waits for 1 of 2 inputs")
        await task.set_inputs((A, replace(B, site="farther")))
        while site.router.subscriptions(SPEC.task_id).get("b") != "farther":
            await asyncio.sleep(0)
        await task.set_inputs((A, B))
        while site.router.subscriptions(SPEC.task_id).get("b") != "hub":
            await asyncio.sleep(0)
        site.channel("b", numbers(2))
    assert result(context) == [3]


async def test_inputs_that_change_during_the_job_have_it_run_again(site: BatchSite) -> None:
    for name, rows in (("a", numbers(1)), ("b", numbers(2)), ("c", numbers(4))):
        site.channel(name, rows)
    loop = asyncio.get_running_loop()

    def replaced(rows: pa.Table) -> pa.Table:
        if len(site.engine.requests) == 1:
            asyncio.run_coroutine_threadsafe(task.set_inputs((A, C)), loop).result(10)
        return total(rows)

    site.engine = TableEngine({"sum": replaced})
    context = site.context(SPEC)
    task = ReduceTask(context)
    await task.run()
    assert result(context) == [5]
    assert len(site.engine.requests) == 2


async def test_channels_of_one_view_are_read_as_one_and_views_apart(site: BatchSite) -> None:
    other = InputSpec("d", "hub", "other", (Field("x", "INT"),))
    site.channel("a", numbers(1))
    site.channel("b", numbers(2))
    site.channel("d")
    context = site.context(replace(SPEC, inputs=(A, other, B)))
    await ReduceTask(context).run()

    (request,) = site.engine.requests
    assert isinstance(request.scan, ChunksScan)
    assert [chunk.to_pydict() for chunk in request.scan.chunks()] == [{"n": [1]}, {"n": [2]}]
    assert isinstance(request.views["other"], ChunksScan)
    assert list(request.views["other"].chunks()) == []
    assert request.views["other"].columns == other.columns


async def test_without_a_view_input_there_are_the_others(site: BatchSite) -> None:
    site.channel("a", numbers(1))
    context = site.context(replace(SPEC, inputs=(replace(A, view="left"),)))
    site.engine.failures = [EngineError("enough seen")]
    with pytest.raises(EngineError):
        await ReduceTask(context).run()
    (request,) = site.engine.requests
    assert request.scan == EmptyScan(())
    assert list(request.views) == ["left"]


@pytest.mark.parametrize("ended", [False, True])
async def test_what_is_published_is_not_made_again(tmp_path: Path, ended: bool) -> None:
    first = BatchSite(tmp_path, TableEngine({"sum": total}))
    log = first.context(SPEC).log
    log.publish(0, numbers(7), watermark_us=None, commit={"totals": {"rows_in": 5, "rows_out": 1}})
    if ended:
        log.finish()
    await first.close()

    second = BatchSite(tmp_path, TableEngine({}))
    context = second.context(SPEC)
    await ReduceTask(context).run()
    assert result(context) == [7]
    assert context.progress.totals.rows_in == 5
    await second.close()


async def test_an_input_whose_beginning_is_gone_is_an_error(site: BatchSite) -> None:
    site.channel("a", numbers(1), numbers(2)).acknowledge("hub", 0)
    site.channel("b", numbers(3))
    with pytest.raises(SiteAgentError, match="channel a is no longer whole"):
        await ReduceTask(site.context(SPEC)).run()


async def test_without_sql_its_inputs_are_the_result_and_spark_is_not_asked(
    site: BatchSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("site_agent.tasks.once.SMALL_BYTES", 600)
    many = numbers(*range(100))
    site.channel("a", numbers(1), numbers(2), many)
    site.channel("b", numbers(3), numbers())
    context = site.context(replace(SPEC, sql=""))
    async with running(context):
        pass

    tables = [context.log.epochs.read(epoch) for epoch in range(context.log.next_epoch)]
    rows = [table.column("n").to_pylist() for table in tables if table is not None]
    assert rows == [[1, 2], list(range(100)), [3]]
    assert site.engine.requests == []
    totals = context.progress.totals
    assert (totals.rows_in, totals.rows_out, totals.bytes_out) == (103, 103, _payload_bytes(context))


async def test_without_sql_inputs_without_rows_give_one_epoch_without_rows(site: BatchSite) -> None:
    site.channel("a", numbers())
    site.channel("b")
    context = site.context(replace(SPEC, sql=""))
    async with running(context):
        pass
    assert result(context) is None


async def test_without_sql_a_damaged_input_leaves_nothing_of_the_result(site: BatchSite) -> None:
    site.channel("a", numbers(*range(1000)), ends=True)
    log = site.channel("b", numbers(1), numbers(2))
    file = sorted(log.directory.glob("*.epoch"))[1]
    file.write_bytes(file.read_bytes()[:-3] + b"xxx")
    context = site.context(replace(SPEC, sql=""))
    with pytest.raises(CorruptEpochError):
        async with running(context):
            pass
    assert context.log.next_epoch == 0
    assert not list(context.log.directory.glob("*.tmp"))


def _payload_bytes(context: TaskContext) -> int:
    return sum(context.log.epochs.manifest(epoch).size_bytes for epoch in range(context.log.next_epoch))
