"""Results that need all groups, of ranges of bins: they are those of all rows at once, and out at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from site_agent.engine import EpochResult
from site_agent.tasks.context import TaskLimits
from site_agent.tasks.merge import MergeTask
from site_agent.tasks.over_ranges import OverRanges
from site_agent.tasks.spec import RangeSpec, ViewSpec
from site_agent.tasks.views import Rows
from tests.unit.site_agent.fakes import TableEngine
from tests.unit.site_agent.tasks.test_merge import WINDOW, Site, partials, summed

KEYS = "abcdefgh"
BEST_OF_RANGES = replace(WINDOW, by_bins=True, ranges=(RangeSpec("input", "best"),), over_ranges_sql="best of all")


def binned(rows: pa.Table) -> pa.Table:
    bins = [8 * KEYS.index(key) for key in rows["k"].to_pylist()]
    return rows.append_column("_bin", pa.array(bins, pa.int64()))


def best(rows: pa.Table) -> pa.Table:
    """The two greatest groups of each window."""
    sums = summed(rows).sort_by([("n", "descending"), ("k", "ascending")])
    starts = sums["_window_start"]
    found = [sums.filter(pc.equal(starts, start)).slice(0, 2) for start in starts.unique()]
    return pa.concat_tables(found) if found else sums


def engine() -> TableEngine:
    return TableEngine({"merge": best, "best": best, "best of all": best, "combine": lambda rows: binned(summed(rows))})


@pytest.mark.parametrize("turns", [0, 30, 60, 120, 240])
@pytest.mark.parametrize("sent", [binned, lambda rows: rows], ids=["in bins", "by sites that combine"])
async def test_the_best_of_all_ranges_are_out_at_once_and_once(
    tmp_path: Path, turns: int, sent: Callable[[pa.Table], pa.Table]
) -> None:
    """Killed after so many turns of the event loop, and made again."""
    limits = TaskLimits(checkpoint_bytes=0, rows_at_once=2)
    rows = [(start, key, (7 * place) % 8 + 1) for start in (0, 10) for place, key in enumerate(KEYS)]
    spark = engine()
    for whole in (False, True) if turns else (True,):
        hub = Site(tmp_path, spark, limits)
        us, eu = hub.inputs
        if us.next_epoch == 0:
            us.publish(0, sent(partials(*rows)), watermark_us=5)
            us.publish(1, sent(partials(*rows[::2])), watermark_us=25)
            us.finish()
            eu.publish(0, sent(partials((0, "c", 90))), watermark_us=25)
            eu.finish()
        task = asyncio.create_task(MergeTask(hub.context, BEST_OF_RANGES).run())
        if whole:
            await asyncio.wait_for(task, 60)
        else:
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await hub.router.close()
    assert hub.results() == sorted(
        (int(r["_window_start"].timestamp() * 1e6), r["k"], r["n"])
        for r in best(partials(*rows, *rows[::2], (0, "c", 90))).to_pylist()
    )
    statements = [request.sql for request in spark.requests]
    assert statements.count("best") >= 4
    assert "merge" not in statements
    with_rows = [m for m in map(hub.log.epochs.manifest, range(hub.log.next_epoch)) if m.rows]
    assert len(with_rows) == len({m.watermark_us for m in with_rows})


async def test_views_that_have_rows_in_other_ranges_meet() -> None:
    """A range without rows of a view is no reason to leave out those of another; without any, there is no result."""
    views = (ViewSpec("input"), ViewSpec("t1"))
    window = replace(WINDOW, views=views, ranges=(RangeSpec("input", "one"), RangeSpec("t1", "other")))
    asked: list[tuple[str, Rows]] = []

    async def run(sql: str, rows: Rows) -> EpochResult:
        asked.append((sql, rows))
        view = {"one": "input", "other": "t1"}.get(sql, "")
        return EpochResult(rows.get(view, partials()), 0, 0, None)

    over = OverRanges(window, run)
    await over.add({"input": partials((0, "a", 1))})
    assert await over.result() is None
    await over.add({})
    await over.add({"t1": partials((0, "b", 2))})
    assert await over.result() is not None
    sql, rows = asked[-1]
    assert sql == window.over_ranges_sql
    assert {view: table.num_rows for view, table in rows.items()} == {"input": 1, "t1": 1}
