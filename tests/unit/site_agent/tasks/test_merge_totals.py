"""A merge of totals that ends cells in several steps, and is killed between them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from enum import Enum
from pathlib import Path

import pyarrow as pa
import pytest

from machine import faults
from planner.values.names import BIN_COLUMN
from planner.values.stages import StageKind
from site_agent.base.faults import FaultPoint
from site_agent.channels.log import ChannelLog
from site_agent.tasks import totals
from site_agent.tasks.context import TaskLimits
from site_agent.tasks.merge import MergeTask
from site_agent.tasks.spec import InputSpec, TaskSpec, TotalsSpec
from tests.unit.site_agent.fakes import TableEngine
from tests.unit.site_agent.tasks.place import Place
from tests.unit.site_agent.tasks.totals import CELL_US, Total, summed, table_of, told, totals_of, window_of

TOTALS = TotalsSpec(("k",))
WINDOW = window_of(TOTALS)
CHANNEL = "q.s1.us"
SPEC = TaskSpec(
    *("q.m1.hub", "q", "m1", StageKind.MERGE, "merge", timedelta(0)),
    inputs=(InputSpec(CHANNEL, "hub", "input"),),
    window=WINDOW,
)
PARTIALS = [(cell, key, 1 << (cell // CELL_US * 2 + place)) for cell in (0, 10, 20) for place, key in enumerate("ab")]
WATERMARK_US = 35


class Killed(BaseException):
    """A process does not survive this."""


class Kill:
    """Kills once, at the second passage of a point."""

    def __init__(self, point: FaultPoint) -> None:
        self.point, self.passages = point, 0

    def passed(self, point: Enum) -> bool:
        self.passages += point is self.point
        if point is self.point and self.passages == 2:
            raise Killed(point.value)
        return False


def watermark_us_of(log: ChannelLog) -> int | None:
    """Return the watermark that a log last published; None: it has published none."""
    return log.standing.watermark_us if log.standing is not None else None


@pytest.mark.parametrize("point", [FaultPoint.CLOSING_STORED, FaultPoint.RANGE_PUBLISHED, FaultPoint.WINDOW_PUBLISHED])
async def test_after_a_crash_between_steps_the_other_cells_come_out_though_nothing_new_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: FaultPoint
) -> None:
    monkeypatch.setattr(totals, "CELLS_AT_ONCE", 1)
    limits, kill = TaskLimits(rows_at_once=1), Kill(point)
    for _ in range(2):
        place = Place(tmp_path, TableEngine({"merge": lambda rows: summed(rows, "_new", "_life")}), limits)
        source, log = place.store.open(CHANNEL), place.store.open(SPEC.task_id)
        for channel in (source, log):
            channel.set_consumers(["hub"])
        if not source.next_epoch:
            rows = table_of(PARTIALS, TOTALS)
            bins = pa.array([0 if partial[1] == "a" else 40 for partial in PARTIALS], pa.int32())
            source.publish(0, rows.append_column(BIN_COLUMN, bins), watermark_us=WATERMARK_US)
        merge = MergeTask(place.context(SPEC), WINDOW)
        with faults.watched(kill):
            task = asyncio.create_task(merge.run())
            async with asyncio.timeout(10):
                while not task.done() and (kill.passages < 3 or watermark_us_of(log) != WATERMARK_US):
                    await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await merge.close()
        await place.router.close()
    found: list[Total] = []
    for epoch in range(log.next_epoch):
        rows = log.epochs.read(epoch)
        found += told(rows) if rows is not None else []
    assert sorted(found) == totals_of(PARTIALS, 0, WATERMARK_US, TOTALS)
