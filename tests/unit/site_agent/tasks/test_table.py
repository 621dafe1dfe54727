from __future__ import annotations

import asyncio
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
from site_agent.base.errors import EngineError, SiteAgentError
from site_agent.channels.reuse import ReusableRows
from site_agent.connectors.sources import Split
from site_agent.engine import ArrowScan, EpochRequest, EpochResult, Field, FilesScan, MalformedRow, PythonFunction
from site_agent.tasks.context import TaskContext, TaskLimits
from site_agent.tasks.outputs import Outputs
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


class File(Numbers):
    """A table in one file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def scan(self, split: Split | None = None) -> FilesScan:  # type: ignore[override]
        return FilesScan("json", (str(self.path),), (Field("n", "BIGINT"),), ("n",))


class FileEngine(TableEngine):
    """Reads the numbers in a file; fails when it is told to."""

    fails = False

    def run(self, request: EpochRequest) -> EpochResult:
        if self.fails:
            raise EngineError("it fails")
        scan = request.scan
        assert isinstance(scan, FilesScan)
        numbers = [int(number) for number in Path(scan.paths[0]).read_text().split()]
        return super().run(replace(request, scan=ArrowScan(pa.table({"n": pa.array(numbers, pa.int64())}))))


class Queries:
    """Queries that read one file at a site, and take over what others made."""

    def __init__(self, directory: Path) -> None:
        self.engine = FileEngine({"all": lambda rows: rows, "others": lambda rows: rows})
        self.site = BatchSite(directory, self.engine)
        self.file = directory / "numbers"
        self.file.write_text("1 2 3")
        self.outputs = Outputs(ReusableRows(directory / "reuse"))
        self.number = 0

    def context(self, **changed: object) -> TaskContext:
        self.number += 1
        spec = replace(SPEC, task_id=f"q{self.number}.map.p0", split=split(0, 3), reuses=True)
        made = self.site.context(replace(spec, **changed))  # type: ignore[arg-type]
        return replace(made, outputs=self.outputs)

    async def read(self, **changed: object) -> list[int]:
        """Return the numbers that a new query reads."""
        context = self.context(**changed)
        await TableTask(context, File(self.file)).run()
        assert context.progress.state is TaskState.ENDED
        tables = [context.log.epochs.read(epoch) for epoch in range(context.log.next_epoch)]
        assert context.progress.totals.rows_out == sum(table.num_rows for table in tables if table is not None)
        return [n for table in tables if table is not None for n in table.column("n").to_pylist()]


@pytest.fixture
async def queries(tmp_path: Path) -> AsyncIterator[Queries]:
    made = Queries(tmp_path)
    yield made
    await made.site.close()


async def test_what_another_query_made_of_the_same_is_taken(queries: Queries) -> None:
    assert await queries.read() == await queries.read() == [1, 2, 3]
    assert len(queries.engine.requests) == 1
    queries.file.write_text("4 5")
    assert await queries.read() == [4, 5]
    queries.file.write_text("")
    assert await queries.read() == await queries.read() == []
    assert len(queries.engine.requests) == 3


@pytest.mark.parametrize(
    "changed",
    [
        {"reuses": False},
        {"sql": "others"},
        {"read_columns": ("n",)},
        {"functions": (PythonFunction("f", "f_1", (), "BIGINT", "f", "", "", vectorised=False),)},
    ],
    ids=lambda changed: next(iter(changed)),
)
async def test_what_is_not_the_same_is_made_anew(queries: Queries, changed: dict[str, object]) -> None:
    assert await queries.read() == await queries.read(**changed) == [1, 2, 3]
    assert len(queries.engine.requests) == 2


async def test_copies_of_other_tables_have_to_be_equal(queries: Queries) -> None:
    copies = []
    for number, rows in enumerate(([1], [1], [2])):
        queries.site.channel(f"q.t{number}", pa.table({"a": rows}))
        copies.append(InputSpec(f"q.t{number}", "hub", "t", (Field("a", "BIGINT"),)))
    for copy in copies:
        await queries.read(inputs=(copy,))
    assert len(queries.engine.requests) == 2


async def test_of_two_at_once_one_waits_for_the_other(queries: Queries) -> None:
    found = await asyncio.gather(queries.read(), queries.read(), queries.read())
    assert list(found) == [[1, 2, 3]] * 3
    assert len(queries.engine.requests) == 1


async def test_who_waits_makes_it_where_the_other_fails(queries: Queries) -> None:
    queries.engine.fails = True
    failing = queries.read(), queries.read()
    assert [type(e) for e in await asyncio.gather(*failing, return_exceptions=True)] == [EngineError] * 2
    queries.engine.fails = False
    assert await queries.read() == [1, 2, 3]


async def test_rows_that_are_gone_are_made_anew(queries: Queries, tmp_path: Path) -> None:
    await queries.read()
    for file in (tmp_path / "reuse").iterdir():
        file.unlink()
    assert await queries.read() == [1, 2, 3]
    assert len(queries.engine.requests) == 2


async def test_malformed_rows_are_found_by_each_query(queries: Queries) -> None:
    queries.engine.malformed = [[MalformedRow("/a.csv", "n: 'x' is no BIGINT", "x")]] * 2
    await queries.read()
    await queries.read()
    assert len(queries.engine.requests) == 2
