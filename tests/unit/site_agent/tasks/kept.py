"""Helpers for tests of rows that stay when they are out: checkpoints and crashes at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from planner.values.names import BIN_COLUMN, BINS
from site_agent.tasks.checkpoint import Checkpoint
from site_agent.tasks.context import TaskLimits
from site_agent.tasks.merge_state import MergeState
from site_agent.tasks.spec import WindowSpec
from tests.unit.site_agent.fakes import TableEngine
from tests.unit.site_agent.tasks.test_merge import Site

LIMITS = TaskLimits(rows_at_once=3, compact_rows=4, runs_alike=2, runs_most=5)
KEYS = "abcdefgh"
Partial = tuple[int, str, int]


def with_bins(table: pa.Table) -> pa.Table:
    bins = [KEYS.index(key[0]) * BINS // len(KEYS) for key in table.column("k").to_pylist()]
    return table.append_column(BIN_COLUMN, pa.array(bins, pa.int64()))


async def not_combined(sql: str, rows: pa.Table) -> pa.Table:
    raise AssertionError(sql)


class KeptRows(RuleBasedStateMachine):
    """The model: all rows that ever came; those of the last checkpoint, too."""

    window: WindowSpec
    combine: Callable[[str, pa.Table], Awaitable[pa.Table]] = staticmethod(not_combined)

    def __init__(self) -> None:
        super().__init__()
        self.directory = TemporaryDirectory()
        self.runner = asyncio.Runner()

    def opened(self) -> MergeState:
        site = Site(Path(self.directory.name), TableEngine({}), LIMITS)
        return MergeState(site.context, self.window, type(self).combine)

    @initialize()
    def begin(self) -> None:
        self.rows: list[Any] = []
        self.saved: tuple[list[Any], int | None] = ([], None)
        self.number = 0
        self.state = self.opened()
        self.runner.run(self.state.restore())

    @property
    def closed_us(self) -> int | None:
        return self.state.open.closed_us

    @rule(one_of_each=st.booleans())
    def save(self, *, one_of_each: bool) -> None:
        self.number += 1
        checkpoint = Checkpoint(self.number, closed_us=self.closed_us)
        self.runner.run(self.state.save(checkpoint, one_of_each=one_of_each))
        self.saved = (list(self.rows), self.closed_us)
        assert len(self.state.open.windows["input"].runs) <= LIMITS.runs_most

    @rule()
    def compact(self) -> None:
        self.runner.run(self.state.compact())

    @rule()
    def forget(self) -> None:
        self.state.open.forget()

    @rule()
    def crash(self) -> None:
        self.state = self.opened()
        assert self.runner.run(self.state.restore()).checkpoint.number == self.number
        self.rows = list(self.saved[0])
        assert self.closed_us == self.saved[1]

    def teardown(self) -> None:
        self.runner.close()
        self.directory.cleanup()
