"""Hand-written stand-ins for the agent's ports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from site_agent.base.errors import EngineError
from site_agent.connectors.sources import Offset, Poll, ReadLimit
from site_agent.engine import (
    ArrowScan,
    ChunksScan,
    EpochRequest,
    EpochResult,
    Field,
    MalformedRow,
    PythonFunction,
    Scan,
    ScannedStatement,
)

TIMESTAMP = pa.timestamp("us", tz="UTC")


class VirtualClock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.elapsed_s = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.elapsed_s)

    def monotonic(self) -> float:
        return self.elapsed_s

    async def sleep(self, seconds: float) -> None:
        self.elapsed_s += seconds
        await asyncio.sleep(0)


class ListSource:
    """Yields given row groups, one per poll; `None` is a poll without rows."""

    def __init__(self, groups: Sequence[pa.Table | None], *, ends: bool = True) -> None:
        self._groups = groups
        self._ends = ends
        self.options: Mapping[str, str] = {}

    def initial(self) -> Offset:
        return {"group": 0}

    def poll(self, start: Offset, *, now: datetime, limit: ReadLimit) -> Poll:
        position = int(str(start["group"]))
        if position >= len(self._groups):
            return Poll(start, empty=True, ended=self._ends)
        last = self._ends and position + 1 == len(self._groups)
        return Poll({"group": position + 1}, empty=self._groups[position] is None, ended=last)

    def scan(self, start: Offset, end: Offset) -> ArrowScan:
        table = self._groups[int(str(start["group"]))]
        assert table is not None
        return ArrowScan(table)

    def reconfigure(self, options: Mapping[str, str]) -> None:
        self.options = options

    def close(self) -> None:
        return None


class TableEngine:
    """Runs `sql` by looking up a Python function of that name; admission as the real engine does it."""

    def __init__(self, functions: Mapping[str, Callable[[pa.Table], pa.Table]]) -> None:
        self._functions = functions
        self.failures: list[Exception] = []
        self.requests: list[EpochRequest] = []
        self.malformed: list[Sequence[MalformedRow]] = []
        """Malformed rows of each epoch to come; none when it is exhausted."""
        self.tables: dict[tuple[str, str], pa.Table | Sequence[Field]] = {}
        self.views: Mapping[str, pa.Table | None] = {}
        """The further views of the epoch that runs; None: without rows."""

    def run(self, request: EpochRequest) -> EpochResult:
        self.requests.append(request)
        if self.failures:
            raise self.failures.pop(0)
        scanned = _rows(request.scan)
        assert scanned is not None
        rows, late, newest = _admit(request, scanned)
        malformed = self.malformed.pop(0) if self.malformed else ()
        if malformed:
            assert request.malformed is not None
            request.malformed(iter(malformed))
        self.views = {view: _rows(scan) for view, scan in request.views.items()}
        output = self._functions[request.sql](rows)
        return EpochResult(output, scanned.num_rows, late, newest, len(malformed))

    def put_table(self, task_id: str, view: str, table: pa.Table | Sequence[Field]) -> None:
        self.tables[task_id, view] = table

    def drop_task(self, task_id: str) -> None:
        self.tables = {key: table for key, table in self.tables.items() if key[0] != task_id}

    def scans(
        self, tables: Mapping[str, Sequence[Field]], statement: str, functions: Sequence[PythonFunction] = ()
    ) -> ScannedStatement:
        raise EngineError(f"nothing to analyse {statement} with over {sorted(tables)}")

    def load(self, functions: Sequence[PythonFunction]) -> None:
        raise EngineError(f"nothing to load {len(functions)} functions with")

    def analyze(
        self, views: Mapping[str, Sequence[Field]], statement: str, functions: Sequence[PythonFunction] = ()
    ) -> tuple[Field, ...]:
        raise EngineError(f"nothing to analyse {statement} with over {sorted(views)}")


def _rows(scan: Scan) -> pa.Table | None:
    if isinstance(scan, ChunksScan):
        chunks = list(scan.chunks())
        return pa.concat_tables(chunks) if chunks else None
    return scan.table if isinstance(scan, ArrowScan) else None


def _admit(request: EpochRequest, table: pa.Table) -> tuple[pa.Table, int, int | None]:
    if request.admission is None:
        return table, 0, None
    times = table.column(request.admission.event_time).cast(pa.int64())
    newest = pc.max(times).as_py()
    floor_us = request.admission.watermark_us
    kept = table if floor_us is None else table.filter(pc.greater_equal(times, pa.scalar(floor_us, pa.int64())))
    kept = kept.slice(0, round(kept.num_rows * request.admission.share))
    return kept, table.num_rows - kept.num_rows, newest
