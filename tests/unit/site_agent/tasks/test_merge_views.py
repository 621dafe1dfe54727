"""A merge that joins two views, stopped at any moment; the join itself is a stand-in."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.values.stages import StageKind
from site_agent.channels.store import ChannelStore
from site_agent.engine import Field
from site_agent.exchange.options import connect
from site_agent.router import Router
from site_agent.tasks.context import TaskContext, TaskLimits
from site_agent.tasks.merge import MergeTask
from site_agent.tasks.progress import Progress
from site_agent.tasks.spec import InputSpec, TaskSpec, ViewSpec, WindowSpec
from tests.unit.site_agent.fakes import TIMESTAMP, TableEngine, VirtualClock

LENGTH_US = 10
WINDOW = WindowSpec("_window_start", LENGTH_US, LENGTH_US, (ViewSpec("input"), ViewSpec("t1", required=False)))
COLUMNS = (Field("_window_start", "TIMESTAMP"), Field("k", "STRING"))
INPUTS = (
    InputSpec("q.s1.us", "hub", "input", COLUMNS),
    InputSpec("q.s2.us", "hub", "t1", COLUMNS),
    InputSpec("q.s2.eu", "hub", "t1", COLUMNS),
    InputSpec("q.t2.us", "hub", "t2", COLUMNS),
)
SPEC = TaskSpec("q.m1.hub", "q", "m1", StageKind.MERGE, "join", timedelta(0), inputs=INPUTS, window=WINDOW)

Row = tuple[int, str]
"""Start of the window and key."""


def table_of(rows: Sequence[Row]) -> pa.Table:
    return pa.table(
        {"_window_start": pa.array([r[0] for r in rows], TIMESTAMP), "k": pa.array([r[1] for r in rows], pa.string())}
    )


def rows_of(table: pa.Table | None) -> list[Row]:
    found = table.to_pylist() if table is not None else []
    return [(round(row["_window_start"].timestamp() * 1e6), row["k"]) for row in found]


class JoiningEngine(TableEngine):
    """`join` is a left join of `input` with `t1` on both columns."""

    def __init__(self) -> None:
        super().__init__({"join": self._join})

    def _join(self, rows: pa.Table) -> pa.Table:
        matches = Counter(rows_of(self.views["t1"]))
        return table_of([row for row in rows_of(rows) for _ in range(max(1, matches[row]))])


def context_of(root: Path, engine: TableEngine) -> TaskContext:
    store = ChannelStore(root / "channels")
    for channel in (SPEC.task_id, *(item.channel for item in INPUTS)):
        store.open(channel).set_consumers(["hub"])
    return TaskContext(
        site="hub",
        spec=SPEC,
        engine=engine,
        log=store.open(SPEC.task_id),
        router=Router("hub", store, connect),
        directory=root / "task",
        dead_letters=root / "dead-letters",
        executor=ThreadPoolExecutor(1),
        clock=VirtualClock(),
        limits=TaskLimits(checkpoint_bytes=0),
        progress=Progress(0.0),
    )


async def run_for(context: TaskContext, turns: int | None) -> None:
    """Run the merge until it ends, or only for so many turns of the event loop."""
    assert context.spec.window is not None
    running = asyncio.create_task(MergeTask(context, context.spec.window).run())
    try:
        if turns is None:
            await asyncio.wait_for(running, 30)
            return
        for _ in range(turns):
            await asyncio.sleep(0)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await context.router.close()
        context.executor.shutdown()


async def results_of(epochs: Sequence[Sequence[Sequence[Row]]], stops: Sequence[int], root: Path) -> list[Row]:
    """Epoch n of every channel has rows of windows from n on; the merge is stopped after some of them."""
    engine = JoiningEngine()
    for number, published in enumerate([*epochs, None]):
        context = context_of(root, engine)
        store = context.router.store
        if number == 0:
            store.open("q.t2.us").publish(0, table_of([(0, "copy")]), watermark_us=None)
            store.open("q.t2.us").finish()
        for index, item in enumerate(INPUTS[:3]):
            log = store.open(item.channel)
            if published is None:
                log.finish()
            else:
                log.publish(number, table_of(published[index]), watermark_us=(number + 1) * LENGTH_US)
        await run_for(context, stops[number] if published is not None else None)
    log = context_of(root, engine).log
    emitted = [row for epoch in range(log.next_epoch) for row in rows_of(log.epochs.read(epoch))]
    assert rows_of(engine.tables[SPEC.task_id, "t2"]) == [(0, "copy")]
    return sorted(emitted)


def epochs_of(count: int) -> st.SearchStrategy[list[list[list[Row]]]]:
    def rows(number: int) -> st.SearchStrategy[list[Row]]:
        starts = st.integers(number, number + 2).map(lambda window: window * LENGTH_US)
        return st.lists(st.tuples(starts, st.sampled_from("ab")), max_size=3)

    return st.tuples(*(st.lists(rows(n), min_size=3, max_size=3) for n in range(count))).map(list)


@settings(max_examples=15, deadline=None)
@given(epochs_of(4), st.lists(st.sampled_from([1, 5, 20, 60, 200]), min_size=4, max_size=4))
def test_stopped_at_any_moment_it_joins_every_window_once(epochs: list[list[list[Row]]], stops: list[int]) -> None:
    with TemporaryDirectory() as root:
        found = asyncio.run(results_of(epochs, stops, Path(root)))
    matches = Counter(row for published in epochs for rows in published[1:] for row in rows)
    left = [row for published in epochs for row in published[0]]
    assert found == sorted(row for row in left for _ in range(max(1, matches[row])))


def test_without_rows_of_a_required_view_no_job_is_run(tmp_path: Path) -> None:
    async def run() -> int:
        context = context_of(tmp_path, engine)
        for item in INPUTS:
            log = context.router.store.open(item.channel)
            if item.view == "t1":
                log.publish(0, table_of([(0, "a")]), watermark_us=20)
            log.finish()
        await run_for(context, None)
        # The port has taken its own channels and left the table's copy to the task.
        assert context.router.subscriptions(SPEC.task_id).keys() == {item.channel for item in INPUTS}
        return context.log.next_epoch

    engine = JoiningEngine()
    assert asyncio.run(run()) > 0
    assert engine.requests == []
