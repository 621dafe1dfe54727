from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from contract.tasks import TaskState
from planner.values.splits import FilePart
from planner.values.stages import StageKind
from site_agent.base.errors import SiteAgentError
from site_agent.connectors.sources import Split
from site_agent.engine import ArrowScan, Field, MalformedRow
from site_agent.tasks.context import TaskLimits
from site_agent.tasks.spec import InputSpec, RelationSpec, TaskSpec
from site_agent.tasks.table import TableTask
from tests.unit.site_agent.fakes import TableEngine
from tests.unit.site_agent.tasks.batch import BatchSite

RELATION = RelationSpec("words", (Field("n", "BIGINT"),), "", timedelta(0), {}, datetime(2026, 1, 1, tzinfo=UTC))
SPEC = TaskSpec("q.t1.hub", "q", "t1", StageKind.TABLE, "all", timedelta(0), RELATION)


class Numbers:
    """Rows 0 to 9; a part is a range of them."""

    def scan(self, split: Split | None = None) -> ArrowScan:
        ranges = [range(p.offset, p.offset + p.length) for p in split.parts] if split else [range(10)]
        return ArrowScan(pa.table({"n": [n for numbers in ranges for n in numbers]}))

    def splits(self, split_bytes: int) -> Sequence[Split]:
        return ()


def split(offset: int, length: int) -> Split:
    return Split((FilePart("n", offset, length),), length)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[BatchSite]:
    made = BatchSite(tmp_path, TableEngine({"all": lambda rows: rows}))
    yield made
    await made.close()


async def test_a_split_is_read_and_nothing_else(site: BatchSite) -> None:
    context = site.context(replace(SPEC, split=split(3, 2)))
    await TableTask(context, Numbers()).run()

    rows = context.log.epochs.read(0)
    assert rows is not None
    assert rows.to_pydict() == {"n": [3, 4]}
    assert (context.log.next_epoch, context.log.end is not None) == (1, True)
    assert (context.progress.state, context.progress.totals.rows_in) == (TaskState.ENDED, 2)


async def test_a_table_is_read_once_the_site_is_within_its_disk_budget(site: BatchSite) -> None:
    reasons = ["too much", "too much"]
    context = replace(site.context(SPEC), disk_full=lambda: reasons.pop() if reasons else "")
    await TableTask(context, Numbers()).run()
    assert (reasons, context.log.next_epoch, context.progress.state) == ([], 1, TaskState.ENDED)


async def test_a_table_is_published_once(site: BatchSite) -> None:
    for _ in range(2):
        await TableTask(site.context(SPEC), Numbers()).run()
    assert len(site.engine.requests) == 1
    context = site.context(SPEC)
    await TableTask(context, Numbers()).run()
    assert context.progress.totals.rows_out == 10
    assert context.progress.totals.bytes_out > 0


async def test_a_large_result_is_several_epochs_in_order(site: BatchSite) -> None:
    rows = pa.table({"n": pa.array(np.arange(5_000_000))})

    class Many(Numbers):
        def scan(self, split: Split | None = None) -> ArrowScan:
            return ArrowScan(rows)

    for _ in range(2):
        context = site.context(replace(SPEC, split=split(0, 1)))
        await TableTask(context, Many()).run()
        epochs = [context.log.epochs.read(epoch) for epoch in range(context.log.next_epoch)]
        assert len(epochs) == 3
        assert pa.concat_tables([epoch for epoch in epochs if epoch is not None]).equals(rows)
        totals = context.progress.totals
        assert totals.rows_out == 5_000_000
        assert totals.bytes_out == sum(context.log.epochs.manifest(epoch).size_bytes for epoch in range(3))
    assert len(site.engine.requests) == 1


async def test_a_split_is_joined_with_copies_of_tables(site: BatchSite) -> None:
    site.channel("q.t2.hub", pa.table({"a": [1]}), pa.table({"a": [2]}))
    copy = InputSpec("q.t2.hub", "hub", "t2", (Field("a", "BIGINT"),))
    await TableTask(site.context(replace(SPEC, split=split(0, 1), inputs=(copy,))), Numbers()).run()

    (request,) = site.engine.requests
    assert request.tables == ("t2",)
    table = site.engine.tables[SPEC.task_id, "t2"]
    assert isinstance(table, pa.Table)
    assert table.to_pydict() == {"a": [1, 2]}


async def test_only_what_is_copied_for_a_join_must_be_small(site: BatchSite) -> None:
    limits = TaskLimits(table_copy_bytes=8)
    with pytest.raises(SiteAgentError, match="table words needs 80 bytes for this join, more than the 8"):
        await TableTask(site.context(SPEC, limits), Numbers()).run()
    context = site.context(replace(SPEC, split=split(0, 10)), limits)
    await TableTask(context, Numbers()).run()
    assert context.progress.state is TaskState.ENDED


async def test_malformed_rows_of_a_split_are_set_aside_once(site: BatchSite) -> None:
    site.engine.malformed = [[MalformedRow("/a.csv", "n: 'x' is no BIGINT", "x")]]
    context = site.context(replace(SPEC, split=split(0, 10)))
    await TableTask(context, Numbers()).run()
    (letters,) = (site.directory / "dead-letters").iterdir()
    assert len(letters.read_text().splitlines()) == 1
    assert context.progress.totals.rows_malformed == 1
